"""Update messages: what one source transaction did, in its order (paper 001, Definition 1; paper 003, Section 2).

A message is a header. The changed rows stay in the source's log until the message is installed and acknowledged, so a
header is small even if the transaction is large.
"""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from functools import lru_cache

from dyda.model.cached import once
from dyda.model.relation import RelationName
from dyda.model.schema_change import RenameRelation, ReplaceRelation, Step

__all__ = ["HOLDING", "Change", "DataUpdate", "MessageState", "SchemaChange", "Truncation", "UpdateMessage"]


class MessageState(enum.StrEnum):
    """The state of a message in the queue."""

    WAITING = "waiting"
    """It is processed in its turn."""
    RUNNING = "running"
    HELD = "held"
    """An operator holds it, and with it everything that depends on it."""
    APPROVAL = "approval"
    """Its effect on a view waits for an operator's approval, and so does everything that depends on it."""
    QUARANTINED = "quarantined"
    """It cannot be computed; the views that need it are held."""
    BROKEN = "broken"
    """It cannot be processed; an operator must decide."""
    SKIPPED = "skipped"
    """An operator has removed it; the views that it concerns are rebuilt."""


HOLDING = (MessageState.HELD, MessageState.APPROVAL)
"""States in the catalog that hold a message until an operator decides. What quarantine holds is the views that need
the message; other views go on."""


@dataclass(frozen=True)
class DataUpdate:
    """Rows inserted into and deleted from a relation; an UPDATE is both."""

    relation: RelationName
    inserted: int
    deleted: int


@dataclass(frozen=True)
class Truncation:
    """The relation, or part of its hierarchy, became empty; not a list of deletes (rule C4).

    `whole`: none of its rows was left, in any table of its hierarchy, and its later images begin after this change.
    """

    relation: RelationName
    whole: bool = False


@dataclass(frozen=True)
class SchemaChange:
    """The relation's definition changed. `command` is PostgreSQL's tag, `ddl` the text if the source has it.

    `steps` is what the command did, in primitive steps. Without any it is unknown: every reader is concerned.
    """

    relation: RelationName
    command: str
    ddl: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns it concerns; None if every reader is concerned (S4: also if it moves rows)."""
        columns = [step.columns for step in self.steps]
        if self.moves_rows or None in columns:
            return None
        return frozenset(name for names in columns for name in names or ())

    @property
    def moves_rows(self) -> bool:
        """Whether rows changed that were not captured."""
        return not self.steps or any(step.moves_rows for step in self.steps)

    @property
    def is_destructive(self) -> bool:
        return not self.steps or any(step.is_destructive for step in self.steps)

    @property
    def may_move_keys(self) -> bool:
        """Whether the relation's keys or NOT NULLs may be others after it."""
        return not self.steps or any(step.may_move_keys for step in self.steps)

    @property
    def may_replace(self) -> bool:
        """Whether the name may mean another table after it."""
        return not self.steps or any(isinstance(step, ReplaceRelation) for step in self.steps)

    @property
    def new_name(self) -> RelationName:
        """What the relation is called after it."""
        name = self.relation
        for step in self.steps:
            if isinstance(step, RenameRelation):
                name = step.new
        return name

    def __str__(self) -> str:
        return f"{self.relation}: {self.command} {', '.join(map(str, self.steps)) or 'changes it'}"


Change = DataUpdate | Truncation | SchemaChange


@dataclass(frozen=True)
class UpdateMessage:
    """One transaction of one source. `last_sequence` orders transactions that one poll finds together (P4).

    Its properties are asked for many times, so each is computed once.
    """

    source: str
    xid: int
    last_sequence: int
    changes: tuple[Change, ...]
    committed_at: datetime.datetime | None = None

    @once
    def kind(self) -> str:
        """`data`, `schema` or `mixed`, as `dyda pending` shows it."""
        data = any(isinstance(change, DataUpdate) for change in self.changes)
        schema = any(not isinstance(change, DataUpdate) for change in self.changes)
        return "mixed" if data and schema else "schema" if schema else "data"

    @once
    def relations(self) -> frozenset[RelationName]:
        return _relations(self.changes)

    @once
    def rows(self) -> int:
        return sum(c.inserted + c.deleted for c in self.changes if isinstance(c, DataUpdate))

    @once
    def moved_without_rows(self) -> frozenset[RelationName]:
        """Relations whose rows or columns changed without captured rows."""
        return frozenset(c.relation for c in self.changes if not isinstance(c, DataUpdate))

    @once
    def schema_changes(self) -> tuple[SchemaChange, ...]:
        return tuple(change for change in self.changes if isinstance(change, SchemaChange))


@lru_cache(4096)
def _relations(changes: tuple[Change, ...]) -> frozenset[RelationName]:
    """One object for the many messages with the same changes."""
    return frozenset(change.relation for change in changes)
