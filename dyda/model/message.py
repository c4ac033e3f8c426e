"""Update messages: what one source transaction did, in its order (paper 001, Definition 1; paper 003, Section 2).

A message is a header. The row images stay in the source's log until the message is installed and acknowledged, so
a header is small, whatever the transaction moved.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from dyda.model.relation import RelationName

__all__ = ["Change", "DataUpdate", "SchemaChange", "Truncation", "UpdateMessage"]


@dataclass(frozen=True)
class DataUpdate:
    """Rows inserted into and deleted from a relation; an UPDATE is both."""

    relation: RelationName
    inserted: int
    deleted: int


@dataclass(frozen=True)
class Truncation:
    """The relation (or part of its hierarchy) became empty. Not a list of deletes (rule C4)."""

    relation: RelationName


@dataclass(frozen=True)
class SchemaChange:
    """The relation's definition moved. `command` is PostgreSQL's tag, `ddl` the text if the source could tell."""

    relation: RelationName
    command: str
    ddl: str = ""


Change = DataUpdate | Truncation | SchemaChange


@dataclass(frozen=True)
class UpdateMessage:
    """One transaction of one source. `last_sequence` orders transactions that one poll finds together (P4)."""

    source: str
    xid: int
    last_sequence: int
    changes: tuple[Change, ...]
    committed_at: datetime.datetime | None = None

    @property
    def kind(self) -> str:
        """`data`, `schema` or `mixed`, as `dyda pending` shows it."""
        data = any(isinstance(change, DataUpdate) for change in self.changes)
        schema = any(not isinstance(change, DataUpdate) for change in self.changes)
        return "mixed" if data and schema else "schema" if schema else "data"

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset(change.relation for change in self.changes)

    @property
    def rows(self) -> int:
        return sum(c.inserted + c.deleted for c in self.changes if isinstance(c, DataUpdate))

    @property
    def moved_without_rows(self) -> frozenset[RelationName]:
        """Relations whose rows or columns moved in a way that no row image shows: they must be read again."""
        return frozenset(c.relation for c in self.changes if not isinstance(c, DataUpdate))
