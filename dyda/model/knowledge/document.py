"""The catalog's copy of knowledge.toml, read over the relations that the catalog knows.

It is read entry by entry. One that cannot be read over the known relations (its source was detached) is left out with
the reason and stays in the document: it counts again when they are back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dyda.errors import DydaError, SourceUnreachable
from dyda.model.knowledge.constraints import Constraint, Knowledge
from dyda.model.knowledge.file import Document, parse_knowledge, render_knowledge
from dyda.model.knowledge.notation import Resolve

__all__ = ["Unread", "document_of", "read_document", "retirement", "single_entries"]


def single_entries(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each entry with its kind, as a document of its own."""
    for kind, entries in document.items():
        for entry in entries:
            yield kind, {kind: [entry]}


@dataclass(frozen=True)
class Unread:
    """An entry that cannot be read over the known relations; `document` holds only it."""

    document: Document
    reason: str


def read_document(document: Document, resolve: Resolve) -> tuple[Knowledge, tuple[Unread, ...]]:
    """The constraints that can be read over the relations of `resolve`, and the other entries."""
    constraints: list[Constraint] = []
    unread: list[Unread] = []
    for _, entry in single_entries(document):
        try:
            constraints += parse_knowledge(entry, resolve).constraints
        except SourceUnreachable:
            raise
        except DydaError as error:
            unread.append(Unread(entry, error.what))
    return Knowledge.of(constraints), tuple(unread)


def document_of(knowledge: Knowledge, unread: Iterable[Unread] = ()) -> dict[str, Any]:
    """What the catalog stores: the constraints, and the entries that could not be read."""
    document = render_knowledge(knowledge)
    for entry in unread:
        for kind, entries in entry.document.items():
            document[kind] = [*document.get(kind, []), *entries]
    return document


def retirement(constraint: Constraint, reason: str) -> dict[str, Any]:
    """How the catalog stores a constraint that has ended."""
    return {**render_knowledge(Knowledge.of([constraint])), "reason": reason}
