"""What the sources mean to each other, as the catalog has it: read over the relations that it knows.

The catalog's document is read entry by entry. One that means nothing over the relations as they are known (its source
was detached) is left out with its reason and stays in the document: it means something again when they are back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dyda.errors import DydaError, SourceUnreachable
from dyda.model.knowledge.constraints import Constraint, Containment, FunctionConstraint, JoinConstraint, Knowledge
from dyda.model.knowledge.file import parse_knowledge, render_knowledge
from dyda.model.relation import Relation

__all__ = ["Unread", "document_of", "read_document", "retirement", "single_entries"]

Resolve = Callable[[str, str | None, str], Relation]
Document = Mapping[str, Any]


def single_entries(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each entry with its kind, as a document of its own."""
    for kind, entries in document.items():
        for entry in entries:
            yield kind, {kind: [entry]}


@dataclass(frozen=True)
class Unread:
    """An entry that means nothing over the relations as they are known; `document` is it alone."""

    document: Document
    reason: str


def read_document(document: Document, resolve: Resolve) -> tuple[Knowledge, tuple[Unread, ...]]:
    """The constraints that mean something over what `resolve` finds, and the other entries."""
    joins: list[JoinConstraint] = []
    containments: list[Containment] = []
    functions: list[FunctionConstraint] = []
    unread: list[Unread] = []
    for _, entry in single_entries(document):
        try:
            read = parse_knowledge(entry, resolve)
        except SourceUnreachable:
            raise
        except DydaError as error:
            unread.append(Unread(entry, error.what))
            continue
        joins += read.joins
        containments += read.containments
        functions += read.functions
    return Knowledge(tuple(joins), tuple(containments), tuple(functions)), tuple(unread)


def document_of(knowledge: Knowledge, unread: Iterable[Unread] = ()) -> dict[str, Any]:
    """What the catalog is to keep: the constraints, and the entries that could not be read."""
    document = render_knowledge(knowledge)
    for entry in unread:
        for kind, entries in entry.document.items():
            document[kind] = [*document.get(kind, []), *entries]
    return document


def retirement(constraint: Constraint, reason: str) -> dict[str, Any]:
    """How the catalog remembers a constraint that has ended."""
    match constraint:
        case JoinConstraint():
            knowledge = Knowledge(joins=(constraint,))
        case Containment():
            knowledge = Knowledge(containments=(constraint,))
        case FunctionConstraint():
            knowledge = Knowledge(functions=(constraint,))
    return {**render_knowledge(knowledge), "reason": reason}
