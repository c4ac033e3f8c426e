"""Tables as they would be after some schema changes, in the same primitive steps as a source's log.

Starts from relations as a catalog describes them. A table keeps its identity under every name; a created one has an
identity that no source assigns. All changes count as one transaction: if another table has a known name at the end,
the name is followed, otherwise the table.
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

CORRECT = "Correct the text, or remove this statement if it has already run."


class Unforeseeable(DydaError):
    """What the tables would be after it does not follow from the catalog."""


@dataclass
class _Table:
    """`relation` is the table after the changes so far; None: only the name of a created table is known."""

    name: RelationName
    relation: Relation | None
    known_as: RelationName | None = None
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.highest_number = max((c.number for c in self.relation.columns), default=0) if self.relation else 0
        """The highest number that a column has had; dropped columns keep theirs."""

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
    """The relations of a catalog after some DDL or a message."""

    def __init__(self, relations: Mapping[RelationName, Relation]) -> None:
        self.before = dict(relations)
        self.unknown: dict[RelationName, None] = {}
        """Tables in the changes that the catalog does not know: no view or constraint uses them."""
        self._tables = {name: _Table(name, relation, name) for name, relation in relations.items()}
        self._dropped: list[_Table] = []
        self._truncated: dict[RelationName, bool] = {}
        """By name, whether nothing is left."""
        self.written: dict[RelationName, None] = {}
        """Tables of the catalog whose rows the text itself changes."""
        self._created = 0

    # --- the outcome

    @property
    def now(self) -> dict[RelationName, Relation | None]:
        """The relations that have changed, by their names before; None: gone."""
        now = {name: None if table is None else table.described for name, (table, _) in self._outcome().items()}
        return {name: relation for name, relation in now.items() if relation != self.before[name]}

    @property
    def changes(self) -> list[SchemaChange | Truncation]:
        """What happened to each known relation, in its steps."""
        changes: list[SchemaChange | Truncation] = [
            SchemaChange(name, "ALTER TABLE", "", tuple(steps)) for name, (_, steps) in self._outcome().items() if steps
        ]
        return changes + [Truncation(name, whole) for name, whole in self._truncated.items()]

    def _outcome(self) -> dict[RelationName, tuple[_Table | None, list[Step]]]:
        """The table that each known name refers to at the end, and the steps to it."""
        alive = {table.known_as: table for table in self._tables.values() if table.known_as is not None}
        gone = {table.known_as: table for table in self._dropped if table.known_as is not None}
        found: dict[RelationName, tuple[_Table | None, list[Step]]] = {}
        for name, relation in self.before.items():
            table = alive.get(name)
            holder = self._tables.get(name)
            if holder is not None and holder is not table:
                if holder.relation is None:
                    what = f"another table takes the name {name}, and its columns are not in the catalog"
                    raise Unforeseeable(what, "Create it in the same text, with its columns.")
                found[name] = (holder, [ReplaceRelation(relation.oid, holder.relation.oid)])
            elif table is None:
                found[name] = (None, [*gone[name].steps, DropRelation()])
            else:
                found[name] = (table, table.steps)
        return found

    # --- changes

    def apply(self, message: UpdateMessage, current: Callable[[RelationName], Relation | None] | None = None) -> None:
        """What one message did; Unforeseeable if its steps are not complete.

        A message has the name by which the catalog knows a relation, whatever its name is by then. `current` describes
        the table that has a name now, for one that took the name of another.
        """
        for change in message.changes:
            if isinstance(change, Truncation):
                self.truncate(self._called(change.relation), whole=change.whole)
            elif isinstance(change, SchemaChange):
                if not change.steps:
                    raise Unforeseeable(f"{change.relation}: the log does not describe what {change.command} did")
                self._apply(change, current or (lambda name: None))

    def _apply(self, change: SchemaChange, current: Callable[[RelationName], Relation | None]) -> None:
        name = self._called(change.relation)
        # Names may be swapped (a to b, b to a): all columns are renamed at once.
        renamed = {step.old: step.new for step in change.steps if isinstance(step, RenameColumn)}
        for step in change.steps:
            match step:
                case AddColumn(column):
                    self.add_column(name, column)
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
                    self._replace(change.relation, current(change.relation))
                case Rewrite() | Harmless():
                    self.note(name, step)
                case _:
                    assert_never(step)

    def _called(self, known_as: RelationName) -> RelationName:
        """The current name of the table that the catalog knows by this name."""
        return next((table.name for table in self._tables.values() if table.known_as == known_as), known_as)

    def _replace(self, name: RelationName, relation: Relation | None) -> None:
        if relation is None:
            raise Unforeseeable(f"another table has taken the name {name}, and the message does not describe it")
        if name in self._tables:
            self._dropped.append(self._tables[name])
        self._tables[name] = _Table(name, relation)

    def add_column(self, name: RelationName, column: Column) -> None:
        """The column gets the next number of the table."""
        table = self._described(name)
        if table is None:
            return
        if column.name in table.described.by_name:
            raise DydaError(f"{name} already has a column {column.name!r}", CORRECT)
        table.highest_number += 1
        added = replace(column, number=table.highest_number)
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
        """All at once: one may take the name that another had."""
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
        self._change_column(name, column, lambda old: replace(old, type=type_))

    def drop_expression(self, name: RelationName, column: str) -> None:
        """A generated column becomes a plain one."""
        self._change_column(name, column, lambda old: replace(old, generated=""))

    def _change_column(self, name: RelationName, column: str, change: Callable[[Column], Column]) -> None:
        table = self._described(name)
        if table is not None:
            old = table.described.column(column)
            new = change(old)
            table.put([new if c.name == column else c for c in table.columns])
            table.steps.append(ChangeType(column, old.type, new.type))

    def set_not_null(self, name: RelationName, column: str, not_null: bool) -> None:
        table = self._described(name)
        if table is None:
            return
        table.described.column(column)
        keys = [key for key in table.described.keys if not_null or column not in key]
        table.put([replace(c, not_null=not_null) if c.name == column else c for c in table.columns], keys)
        table.steps.append(Harmless(f"makes column {column} {'NOT NULL' if not_null else 'nullable'}"))

    def add_key(self, name: RelationName, columns: Sequence[str]) -> None:
        table = self._described(name)
        if table is None:
            return
        nullable = [column for column in columns if not table.described.column(column).not_null]
        if not nullable:  # NULLs repeat in a unique column
            table.put(table.columns, [*table.described.keys, tuple(columns)])
        table.steps.append(Harmless(f"makes {', '.join(columns)} a key"))

    def drop_constraint(self, name: RelationName, constraint: str) -> None:
        """Only its name may tell which key or NOT NULL it was: what might be gone is not relied on."""
        table = self._described(name)
        if table is None:
            return
        is_key = re.fullmatch(r".*_(pkey|key\d*|fkey\d*|check\d*|excl\d*)", constraint)
        every = {column.name for column in table.columns}
        named = {column for column in every if constraint.endswith(f"_{column}_not_null")}
        nullable = set() if is_key else named or every
        table.put([replace(c, not_null=c.not_null and c.name not in nullable) for c in table.columns], [])
        table.steps.append(Harmless("drops a constraint"))

    def note(self, name: RelationName, step: Rewrite | Harmless) -> None:
        table = self._described(name)
        if table is not None:
            table.steps.append(step)

    def truncate(self, name: RelationName, *, whole: bool) -> None:
        table = self._described(name)
        if table is not None and table.known_as is not None:
            self._truncated[table.known_as] = whole or self._truncated.get(table.known_as, False)

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
        """A new table; `columns` None: they depend on something that the catalog does not know."""
        if name in self._tables:
            raise DydaError(f"there already is a table {name}", CORRECT)
        self._created += 1
        relation = None
        if columns is not None:
            filled = {column.name for column in columns if column.not_null}
            held = tuple(key for key in keys if filled.issuperset(key))
            relation = Relation(name, -self._created, tuple(columns), held)
        self._tables[name] = _Table(name, relation)

    def has(self, name: RelationName) -> bool:
        return name in self._tables

    def relation(self, name: RelationName) -> Relation | None:
        """The table after the changes so far, if it is known."""
        table = self._tables.get(name)
        return None if table is None else table.relation

    def _described(self, name: RelationName) -> _Table | None:
        """The table, if its columns are known; otherwise no view uses it."""
        table = self._tables.get(name)
        if table is None:
            self.unknown[name] = None
        return table if table is not None and table.relation is not None else None
