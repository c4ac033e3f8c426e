"""Tables as they would be after some schema changes, told in the same primitive steps that a source's log tells.

Starts from relations as a catalog describes them. A table keeps its identity under every name; one that is created has
an identity that no source gives. All changes count as one transaction: where another table stands under a known name
at the end, the name is meant, otherwise the table is followed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from dyda.errors import DydaError
from dyda.model.message import SchemaChange, Truncation, UpdateMessage
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.schema_change import (
    AddColumn,
    ChangeType,
    DropColumn,
    DropRelation,
    Harmless,
    RenameColumn,
    RenameRelation,
    ReplaceRelation,
    Rewrite,
    Step,
)
from dyda.model.types import PgType

__all__ = ["CORRECT", "Schemas", "Unforeseeable"]

CORRECT = "Correct the text, or leave this statement out if it has already run."


class Unforeseeable(DydaError):
    """What the tables would be after it cannot be told from the catalog."""


@dataclass
class _Table:
    """`relation` is the table as it is by now; None: of a table that was created only the name is known."""

    name: RelationName
    relation: Relation | None
    known_as: RelationName | None = None
    columns_ever: int = 0
    steps: list[Step] = field(default_factory=list)

    @property
    def described(self) -> Relation:
        assert self.relation is not None
        return self.relation

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.described.columns

    def put(self, columns: Sequence[Column], keys: Sequence[tuple[str, ...]] | None = None) -> None:
        kept = self.described.keys if keys is None else tuple(keys)
        self.relation = replace(self.described, columns=tuple(columns), keys=kept)


class Schemas:
    """What some DDL, or a message, makes of the relations that a catalog knows."""

    def __init__(self, relations: Mapping[RelationName, Relation]) -> None:
        self.before = dict(relations)
        self.unknown: dict[RelationName, None] = {}
        """Tables that the changes speak of and that the catalog does not know: no view or constraint uses them."""
        self._tables: dict[RelationName, _Table] = {
            name: _Table(name, relation, name, max((c.number for c in relation.columns), default=0))
            for name, relation in relations.items()
        }
        self._dropped: list[_Table] = []
        self._truncated: dict[RelationName, None] = {}
        self.written: dict[RelationName, None] = {}
        """Tables that the catalog knows and whose rows the text itself changes."""
        self._created = 0

    # --- the outcome

    @property
    def now(self) -> dict[RelationName, Relation | None]:
        """The relations that are not as they were, by the names known before; None: gone."""
        found: dict[RelationName, Relation | None] = {}
        for name, (table, _) in self._outcome().items():
            if table is None:
                found[name] = None
            elif table.relation is not None and table.relation != self.before[name]:
                found[name] = table.relation
        return found

    @property
    def changes(self) -> list[SchemaChange | Truncation]:
        """What happened to each known relation, in its steps."""
        changes: list[SchemaChange | Truncation] = [
            SchemaChange(name, "ALTER TABLE", "", tuple(steps)) for name, (_, steps) in self._outcome().items() if steps
        ]
        return changes + [Truncation(name) for name in self._truncated]

    def _outcome(self) -> dict[RelationName, tuple[_Table | None, list[Step]]]:
        """What is meant by each known name at the end, and the steps to it."""
        alive = {table.known_as: table for table in self._tables.values() if table.known_as is not None}
        gone = {table.known_as: table for table in self._dropped if table.known_as is not None}
        found: dict[RelationName, tuple[_Table | None, list[Step]]] = {}
        for name, relation in self.before.items():
            table = alive.get(name)
            holder = self._tables.get(name)
            if holder is not None and holder is not table:
                if holder.relation is None:
                    raise Unforeseeable(
                        f"another table takes the name {name}, and what it looks like is not in the catalog",
                        "Create it in the same text, with its columns.",
                    )
                found[name] = (holder, [ReplaceRelation(relation.oid, holder.relation.oid)])
            elif table is None:
                found[name] = (None, [*gone[name].steps, DropRelation()])
            else:
                found[name] = (table, table.steps)
        return found

    # --- changes

    def apply(self, message: UpdateMessage, standing: Callable[[RelationName], Relation | None] | None = None) -> None:
        """What one message did; Unforeseeable if its steps do not tell all.

        A message speaks of a relation by the name that the catalog knows it by, whatever it is called by then.
        `standing` describes the table that stands under a name now, for one that was put there.
        """
        for change in message.changes:
            if isinstance(change, Truncation):
                self.truncate(self._called(change.relation))
            elif isinstance(change, SchemaChange):
                if not change.steps:
                    raise Unforeseeable(f"{change.relation}: what {change.command} did was not logged in steps")
                self._apply(change, standing or (lambda name: None))

    def _apply(self, change: SchemaChange, standing: Callable[[RelationName], Relation | None]) -> None:
        name = self._called(change.relation)
        # Names may be passed around (a to b, b to a): all columns are renamed at once.
        renamed = {step.old: step.new for step in change.steps if isinstance(step, RenameColumn)}
        for step in change.steps:
            match step:
                case AddColumn(column):
                    self.add_column(
                        name, column.name, column.type, not_null=column.not_null, generated=column.generated
                    )
                case DropColumn(column):
                    self.drop_column(name, column)
                case RenameColumn():
                    if renamed:
                        self.rename_columns(name, renamed)
                    renamed = {}
                case ChangeType(column, _, new):
                    self.change_type(name, column, new)
                case RenameRelation(new_name):
                    self.rename(name, new_name)
                    name = new_name
                case DropRelation():
                    self.drop(name)
                case ReplaceRelation():
                    self._replace(change.relation, standing(change.relation))
                case Rewrite() | Harmless():
                    self.note(name, step)
                case _:
                    assert_never(step)

    def _called(self, known_as: RelationName) -> RelationName:
        """What the table is called by now that the catalog knows by this name."""
        return next((table.name for table in self._tables.values() if table.known_as == known_as), known_as)

    def _replace(self, name: RelationName, relation: Relation | None) -> None:
        if relation is None:
            raise Unforeseeable(f"another table stands under the name {name}, and the message does not describe it")
        old = self._tables.pop(name, None)
        if old is not None:
            self._dropped.append(old)
        self._tables[name] = _Table(name, relation, None, max((c.number for c in relation.columns), default=0))

    def add_column(
        self, name: RelationName, column: str, type_: PgType, *, not_null: bool = False, generated: str = ""
    ) -> None:
        table = self._described(name)
        if table is None:
            return
        if column in (found.name for found in table.columns):
            raise DydaError(f"{name} already has a column {column!r}", CORRECT)
        table.columns_ever += 1
        added = Column(column, type_, table.columns_ever, not_null, generated)
        table.put([*table.columns, added])
        table.steps.append(AddColumn(added))

    def drop_column(self, name: RelationName, column: str) -> None:
        table = self._described(name)
        if table is None:
            return
        table.described.column(column)
        keys = [key for key in table.described.keys if column not in key]
        table.put([found for found in table.columns if found.name != column], keys)
        table.steps.append(DropColumn(column))

    def rename_columns(self, name: RelationName, renamed: Mapping[str, str]) -> None:
        """All at once: one may take a name that another gives up."""
        table = self._described(name)
        if table is None:
            return
        for old, new in renamed.items():
            table.described.column(old)
            if new in table.described.by_name and new not in renamed:
                raise DydaError(f"{name} already has a column {new!r}", CORRECT)
        keys = [tuple(renamed.get(part, part) for part in key) for key in table.described.keys]
        table.put([replace(c, name=renamed.get(c.name, c.name)) for c in table.columns], keys)
        table.steps += [RenameColumn(old, new) for old, new in renamed.items()]

    def change_type(self, name: RelationName, column: str, type_: PgType) -> None:
        table = self._described(name)
        if table is None:
            return
        old = table.described.column(column).type
        table.put([replace(c, type=type_) if c.name == column else c for c in table.columns])
        table.steps.append(ChangeType(column, old, type_))

    def set_not_null(self, name: RelationName, column: str, not_null: bool) -> None:
        table = self._described(name)
        if table is None:
            return
        table.described.column(column)
        keys = [key for key in table.described.keys if not_null or column not in key]
        table.put([replace(c, not_null=not_null) if c.name == column else c for c in table.columns], keys)
        table.steps.append(Harmless(f"column {column} {'may not be' if not_null else 'may be'} NULL now"))

    def drop_expression(self, name: RelationName, column: str) -> None:
        """A generated column becomes a plain one."""
        table = self._described(name)
        if table is None:
            return
        type_ = table.described.column(column).type
        table.put([replace(c, generated="") if c.name == column else c for c in table.columns])
        table.steps.append(ChangeType(column, type_, type_))

    def add_key(self, name: RelationName, columns: Sequence[str]) -> None:
        table = self._described(name)
        if table is None:
            return
        nullable = [column for column in columns if not table.described.column(column).not_null]
        if not nullable:  # NULLs repeat in a unique column
            table.put(table.columns, [*table.described.keys, tuple(columns)])
        table.steps.append(Harmless(f"makes {', '.join(columns)} a key"))

    def drop_constraint(self, name: RelationName, constraint: str) -> None:
        """Which key or NOT NULL it was only its name may tell: what might be gone is not relied on."""
        table = self._described(name)
        if table is None:
            return
        is_key = re.fullmatch(r".*_(pkey|key\d*|fkey\d*|check\d*|excl\d*)", constraint)
        every = {column.name for column in table.columns}
        told = {column for column in every if constraint.endswith(f"_{column}_not_null")}
        nullable = set() if is_key else told or every
        table.put([replace(c, not_null=c.not_null and c.name not in nullable) for c in table.columns], [])
        table.steps.append(Harmless("drops a constraint"))

    def note(self, name: RelationName, step: Rewrite | Harmless) -> None:
        table = self._described(name)
        if table is not None:
            table.steps.append(step)

    def truncate(self, name: RelationName) -> None:
        table = self._described(name)
        if table is not None and table.known_as is not None:
            self._truncated[table.known_as] = None

    def write_rows(self, name: RelationName) -> None:
        table = self._described(name)
        if table is not None and table.known_as is not None:
            self.written[table.known_as] = None

    def rename(self, name: RelationName, new: RelationName) -> None:
        if new in self._tables:
            raise DydaError(f"there already is a table {new}", CORRECT)
        table = self._tables.pop(name, None)
        if table is None:
            self.unknown[name] = None
            table = _Table(name, None)
        table.name = new
        if table.relation is not None:
            table.relation = replace(table.relation, name=new)
        table.steps.append(RenameRelation(new))
        self._tables[new] = table

    def drop(self, name: RelationName) -> None:
        table = self._tables.pop(name, None)
        if table is None:
            self.unknown[name] = None
        else:
            self._dropped.append(table)

    def create(self, name: RelationName, columns: Sequence[Column] | None, keys: Sequence[tuple[str, ...]]) -> None:
        """A new table; `columns` None: it is made of something that the catalog does not know."""
        if name in self._tables:
            raise DydaError(f"there already is a table {name}", CORRECT)
        self._created += 1
        relation = None
        if columns is not None:
            filled = {column.name for column in columns if column.not_null}
            held = tuple(key for key in keys if filled.issuperset(key))
            relation = Relation(name, -self._created, tuple(columns), held)
        self._tables[name] = _Table(name, relation, None, len(columns or ()))

    def has(self, name: RelationName) -> bool:
        return name in self._tables

    def relation(self, name: RelationName) -> Relation | None:
        """The table as it is by now, if that is known."""
        table = self._tables.get(name)
        return None if table is None else table.relation

    def _described(self, name: RelationName) -> _Table | None:
        """The table, if its columns are known; otherwise nobody uses it."""
        table = self._tables.get(name)
        if table is None:
            self.unknown[name] = None
            return None
        return table if table.relation is not None else None
