"""What a schema change did to a relation, as primitive steps (the pathways of paper 002).

A source's event says that something happened, but not what. The descriptions of the relation before and after do: a
column's number survives a rename, a relation's oid survives rename and SET SCHEMA. So a drop plus an add is never
mistaken for a rename, and `compare` does not guess. `apply` is the other direction: a relation after the steps.

Each step knows what it means:

    columns         the columns it concerns; None: every reader (S4)
    moves_rows      rows changed that were not captured, so the relation must be read again
    is_destructive  something that a view may have used is gone
    may_move_keys   its unique constraints or its NOT NULLs may be others
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType

__all__ = [
    "AddColumn",
    "ChangeType",
    "DropColumn",
    "DropRelation",
    "Harmless",
    "RenameColumn",
    "RenameRelation",
    "ReplaceRelation",
    "Rewrite",
    "Step",
    "apply",
    "compare",
]


@dataclass(frozen=True)
class _Step:
    @property
    def columns(self) -> frozenset[str] | None:
        return None

    @property
    def moves_rows(self) -> bool:
        return False

    @property
    def is_destructive(self) -> bool:
        return False

    @property
    def may_move_keys(self) -> bool:
        return True


@dataclass(frozen=True)
class AddColumn(_Step):
    column: Column

    @property
    def may_move_keys(self) -> bool:
        """A key that it comes with is a step of its own."""
        return False

    @property
    def columns(self) -> frozenset[str]:
        return frozenset({self.column.name})

    def __str__(self) -> str:
        return f"adds column {self.column.name}"


@dataclass(frozen=True)
class DropColumn(_Step):
    column: str

    @property
    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    @property
    def is_destructive(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"drops column {self.column}"


@dataclass(frozen=True)
class RenameColumn(_Step):
    old: str
    new: str

    @property
    def may_move_keys(self) -> bool:
        return False

    @property
    def columns(self) -> frozenset[str]:
        return frozenset({self.old, self.new})

    def __str__(self) -> str:
        return f"renames column {self.old} to {self.new}"


@dataclass(frozen=True)
class ChangeType(_Step):
    """Values of the column may have changed: PostgreSQL rewrote them, or reads the old bytes as a new type."""

    column: str
    old: PgType
    new: PgType

    @property
    def columns(self) -> frozenset[str]:
        return frozenset({self.column})

    @property
    def moves_rows(self) -> bool:
        return True

    def __str__(self) -> str:
        if self.old.declared == self.new.declared:
            return f"changes the type or the expression of column {self.column}"
        return f"changes column {self.column} from {self.old.declared} to {self.new.declared}"


@dataclass(frozen=True)
class RenameRelation(_Step):
    """A new name or a new schema; the table is the same, so a view over it follows."""

    new: RelationName

    @property
    def may_move_keys(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"renames it to {self.new}"


@dataclass(frozen=True)
class DropRelation(_Step):
    @property
    def is_destructive(self) -> bool:
        return True

    def __str__(self) -> str:
        return "drops it"


@dataclass(frozen=True)
class ReplaceRelation(_Step):
    """Another table has taken the name: swapped in within one transaction, or dropped and created again.

    `name` is the name, `described` the new table's columns at that moment; None where the log does not have them.
    """

    old_oid: int
    new_oid: int
    name: RelationName | None = None
    described: tuple[Column, ...] | None = None

    @property
    def moves_rows(self) -> bool:
        return True

    def __str__(self) -> str:
        return "replaces it with another table"


@dataclass(frozen=True)
class Rewrite(_Step):
    """Rows changed without being captured: USING with the same type, an enum value renamed, a partition detached, …"""

    what: str = "rewrites its rows"

    @property
    def moves_rows(self) -> bool:
        return True

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Harmless(_Step):
    """Recorded, and without effect on any row: a default, NOT NULL, a comment, an index."""

    what: str
    keys: bool | None = field(default=None, compare=False, repr=False)
    """Whether it is about constraints, NOT NULL or the tables that the relation consists of; None: who knows."""

    @property
    def may_move_keys(self) -> bool:
        return self.keys is not False

    @property
    def columns(self) -> frozenset[str]:
        return frozenset()

    def __str__(self) -> str:
        return self.what


Step: TypeAlias = (
    AddColumn
    | DropColumn
    | RenameColumn
    | ChangeType
    | RenameRelation
    | DropRelation
    | ReplaceRelation
    | Rewrite
    | Harmless
)


def compare(before: Sequence[Column], after: Sequence[Column]) -> tuple[Step, ...]:
    """The steps from one set of columns to another, in the order of the columns' numbers.

    Drops come first, so that the name of a dropped column is free when another takes it. Renames that swap names (a to
    b, b to a) are recognised by number and need no order.
    """
    old = {column.number: column for column in before}
    new = {column.number: column for column in after}
    steps: list[Step] = [DropColumn(old[number].name) for number in sorted(old) if number not in new]
    for number in sorted(old.keys() & new.keys()):
        was, now = old[number], new[number]
        if was.name != now.name:
            steps.append(RenameColumn(was.name, now.name))
        if was.type != now.type or was.generated != now.generated:
            steps.append(ChangeType(now.name, was.type, now.type))
        if was.not_null != now.not_null:
            steps.append(Harmless(f"makes column {now.name} {'NOT NULL' if now.not_null else 'nullable'}", keys=True))
    steps += [AddColumn(new[number]) for number in sorted(new) if number not in old]
    return tuple(steps)


def apply(relation: Relation, steps: Sequence[Step]) -> Relation:
    """The relation after one command's steps, which must be complete. A dropped one stays as it was: the same
    transaction may give its name to another table, with columns that are known by their names.

    Steps do not describe keys and NOT NULL constraints exactly: where one may have moved them, the result claims none.
    """
    name, oid, succeeds = relation.name, relation.oid, relation.succeeds
    keys: tuple[tuple[str, ...], ...]
    renamed = {step.old: step.new for step in steps if isinstance(step, RenameColumn)}
    dropped = {step.column for step in steps if isinstance(step, DropColumn)}
    columns = [replace(c, name=renamed.get(c.name, c.name)) for c in relation.columns if c.name not in dropped]
    for step in steps:
        match step:
            case RenameRelation(new):
                name = new
            case ChangeType(column, _, kind):
                columns = [replace(c, type=kind) if c.name == column else c for c in columns]
            case AddColumn(column) if all(column.number != known.number for known in columns):
                columns.append(column)
            case ReplaceRelation(old, new_oid, taken, described) if old == oid and taken and described is not None:
                there = {c.name: c.number for c in described}
                to = {c.number: there[c.name] for c in columns if c.name in there}
                before = succeeds if succeeds is not None else tuple((c.number, c.number) for c in columns)
                succeeds = tuple((first, to[last]) for first, last in before if last in to)
                name, oid, columns = taken, new_oid, list(described)
            case _:
                pass
    if any(step.may_move_keys for step in steps):
        columns, keys = [replace(column, not_null=False) for column in columns], ()
    else:
        keys = tuple(tuple(renamed.get(column, column) for column in key) for key in relation.keys)
    return Relation(name, oid, tuple(columns), keys, relation.estimated_rows, succeeds)
