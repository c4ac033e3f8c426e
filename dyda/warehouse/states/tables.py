"""The tables of a view's states: extents like any other, of the same view, that no reader is shown.

A state's row is one row of its table; `key` is looked up through an index, and so is every column by which other steps
look rows up. Texts compare by their bytes, as they do on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, assert_never

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.model.operator_state import Counted, Grouped, Kept, State
from dyda.warehouse.catalog.codec import states_from_json
from dyda.warehouse.catalog.records import StateTable
from dyda.warehouse.extents.counted_extent import CountedExtent
from dyda.warehouse.extents.extent import Extent, comparable
from dyda.warehouse.extents.forms import COUNTED, KEYED
from dyda.warehouse.extents.keyed_extent import KeyedExtent

__all__ = ["MULTIPLICITIES", "StoredState", "multiplicity", "places", "stored_states", "two_sided"]

COLLATION = "C"

MULTIPLICITIES = {
    "distinct": "CASE WHEN {l} > 0 THEN 1 ELSE 0 END",
    "union": "CASE WHEN {l} > 0 OR {r} > 0 THEN 1 ELSE 0 END",
    "except": "CASE WHEN {l} > 0 AND {r} = 0 THEN 1 ELSE 0 END",
    "except all": "greatest({l} - {r}, 0)",
    "intersect": "CASE WHEN {l} > 0 AND {r} > 0 THEN 1 ELSE 0 END",
    "intersect all": "least({l}, {r})",
}
"""How often a row is delivered that is there {l} times on the left and {r} times on the right, by rule."""


def two_sided(state: State) -> bool:
    """Whether entries say on which side they are."""
    return isinstance(state, Counted) and state.rule != "distinct"


def stored_states(view: str, entries: Iterable[dict[str, Any]], forms: Mapping[str, str]) -> tuple[StoredState, ...]:
    """From the catalog's JSON; `forms` of tables by their numbers."""
    return tuple(
        StoredState(number, view, table, forms.get(str(number), COUNTED)) for number, table in states_from_json(entries)
    )


@dataclass(frozen=True)
class StoredState:
    """One state table: its extent's number, and what it holds."""

    number: int
    view: str
    table: StateTable
    form: str

    @classmethod
    def new(cls, number: int, view: str, table: StateTable) -> StoredState:
        """Where each row has a key of its own, a table that is to be made needs neither digests nor counts."""
        return cls(number, view, table, COUNTED if isinstance(table.state, Kept) else KEYED)

    @property
    def state(self) -> State:
        return self.table.state

    @cached_property
    def extent(self) -> Extent:
        types = tuple(type_ for _, type_ in self.state.columns)
        if self.form == COUNTED:
            return CountedExtent(self.number, self.view, types)
        names = tuple(f"c{place}" for place in range(1, len(types) + 1))
        return KeyedExtent(self.number, self.view, types, names, (0,), COLLATION)

    def create(self, cursor: Cursor, entries: sql.Composable) -> None:
        """The table, filled, with its indexes."""
        self.extent.create(cursor, COLLATION)
        self.extent.fill(cursor, entries)
        self.index(cursor)

    def index(self, cursor: Cursor) -> None:
        """The indexes that are not there yet."""
        names = [name for name, _ in self.state.columns]
        if not isinstance(self.state, Kept) and self.form == COUNTED:
            self._index(cursor, "c1", "btree")
        for name in self.table.indexed:
            place = names.index(name)
            if name != "key" and comparable(cursor, self.extent.types[place], "hash"):
                # A value may be longer than a B-tree takes.
                self._index(cursor, f"c{place + 1}", "hash")

    def _index(self, cursor: Cursor, column: str, method: str) -> None:
        cursor.execute(
            sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING {} ({})").format(
                sql.Identifier(f"extent_{self.number}_{column}_idx"),
                self.extent.identifier,
                sql.SQL(method),
                sql.Identifier(column),
            )
        )

    def drop(self, cursor: Cursor) -> None:
        self.extent.drop(cursor)
        cursor.execute("DELETE FROM dyda.extent WHERE id = %s", (self.number,))


def places(state: State, columns: Sequence[str]) -> list[int]:
    """The places of these delivered columns in a state row, from 0."""
    names = [name for name, _ in state.delivered]
    return [names.index(name) for name in columns]


def multiplicity(state: State, row: str, count: str = "count") -> sql.Composable:
    """How often a state row is delivered; `row` is the alias of an extent, or of a staging table with `count` "n".

    Sides have their own counts, and a group is there once: only the table of a kept bag has a count.
    """
    match state:
        case Counted():
            left, right = (
                sql.SQL("{}::bigint").format(sql.Identifier(row, f"c{len(state.types) + place}")) for place in (2, 3)
            )
            return sql.SQL(MULTIPLICITIES[state.rule]).format(l=left, r=right)
        case Grouped():
            return sql.SQL("1")
        case Kept():
            return sql.Identifier(row, count)
        case _:
            assert_never(state)
