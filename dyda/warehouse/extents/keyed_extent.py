"""Plain extents whose rows are found by columns: by the view's proven key, or by an index that few rows share.

A row that replaces another one with the same columns is an update in its place. No index has a new entry then, unless
one of its own columns changes: of 1,000 changes of 1,000,000 rows with two indexes, a third of the WAL that deleting,
inserting and a digest take.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import InvariantViolated
from dyda.warehouse.connection import load, short
from dyda.warehouse.extents.plain_extent import PlainExtent

__all__ = ["FoundByColumns", "IndexedExtent", "KeyUnusable", "KeyedExtent"]

UNUSABLE = (
    psycopg2.errors.NotNullViolation,
    psycopg2.errors.ProgramLimitExceeded,
    psycopg2.errors.UndefinedObject,
)
"""A NULL, a value that is too long for an index, a type that has no order."""

MOST_EXAMINED = 100
"""For each row of a change, before its columns count as shared by too many."""

FEWEST_EXAMINED = 20_000
"""What is looked at in a moment, however few rows a change has."""


class KeyUnusable(Exception):
    """Rows cannot be found by these columns, right as they are. The transaction can be rolled back to `SAVEPOINT`."""

    SAVEPOINT = "dyda_by_key"


@dataclass(frozen=True)
class FoundByColumns(PlainExtent):
    """Rows are found by the columns at `key`.

    `merge` and `replace` raise KeyUnusable after its savepoint; for `create` and `fill` the caller sets it.
    """

    key: tuple[int, ...]
    collation: str | None = None
    """That of a key which is a text, if not the database's."""

    def create(self, cursor: Cursor, collation: str | None = None) -> None:
        # Some room in each page lets rows change without touching the indexes.
        definitions = self._definitions(cursor, collation)
        cursor.execute(sql.SQL("CREATE TABLE {} ({}) WITH (fillfactor = 90)").format(self.identifier, definitions))
        for place in self.key:
            statement = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET NOT NULL")
            cursor.execute(statement.format(self.identifier, self.column(place)))

    def fill(self, cursor: Cursor, entries: sql.Composable, order: Sequence[int] = ()) -> int:
        try:
            return super().fill(cursor, entries, order or self.key)
        except UNUSABLE as error:
            raise KeyUnusable(short(error)) from None
        except psycopg2.errors.UniqueViolation as error:
            raise self._not_unique(error) from None

    def forged(self, cursor: Cursor) -> int:
        return 0

    @property
    @abstractmethod
    def _index(self) -> sql.Composable:
        """The index that finds rows, as `CREATE` names it."""

    def _add_key(self, cursor: Cursor) -> None:
        # A constant is unique if there is one row.
        columns = sql.SQL(", ").join(self.column(place) for place in self.key) if self.key else sql.SQL("(true)")
        cursor.execute(sql.SQL("CREATE {} ON {} ({})").format(self._index, self.identifier, columns))

    def _merge(self, cursor: Cursor, entries: sql.Composable, first: str = "") -> int:
        try:
            return super()._merge(cursor, entries, f"SAVEPOINT {KeyUnusable.SAVEPOINT}; {first}")
        except UNUSABLE as error:
            raise KeyUnusable(short(error)) from None

    @property
    def _parts(self) -> dict[str, sql.Composable]:
        keys = [sql.Identifier(f"k{place + 1}") for place in self.key]
        pairs = [
            sql.SQL("{} = found.{}::{}").format(sql.Identifier(name), column, sql.SQL(type_))
            for name, column, type_ in zip(self.stored_names, self._columns, self.types, strict=True)
        ]
        collation = sql.SQL("")
        if self.collation is not None:
            collation = sql.SQL(" COLLATE {}").format(sql.Identifier(self.collation))
        return {
            **super()._parts,
            "keys": sql.SQL("").join(
                sql.SQL(", {}::{} AS {}").format(self._columns[place], sql.SQL(self.types[place]), key)
                for place, key in zip(self.key, keys, strict=True)
            ),
            "by_key": sql.SQL(", ").join(keys) if keys else sql.SQL("()"),
            "key_names": sql.SQL("").join(sql.SQL("{}, ").format(key) for key in keys),
            "matched": sql.SQL(" AND ").join(
                sql.SQL("e.{} = entry.{}{}").format(self.column(place), key, collation)
                for place, key in zip(self.key, keys, strict=True)
            )
            if keys
            else sql.SQL("true"),
            "assigned": sql.SQL(", ").join(pairs),
        }


@dataclass(frozen=True)
class KeyedExtent(FoundByColumns):
    """Rows of which no two agree in the columns at `key`; without such columns there is one row at the most."""

    @property
    def _index(self) -> sql.Composable:
        return sql.SQL("UNIQUE INDEX {}").format(sql.Identifier(f"dyda_key_{self.number}"))

    def _wrong(self, rows: int, sample: str) -> InvariantViolated:
        shown = sample if len(sample) <= 200 else sample[:200] + "…"
        what = f"this change would give {rows} row(s) a negative count or a key that another row has, e.g. {shown}"
        return InvariantViolated(self.view, what)

    @property
    def _merging(self) -> sql.SQL:
        return load("merge_keyed.sql")

    @property
    def _parts(self) -> dict[str, sql.Composable]:
        added = self._each("(array_agg({0}) FILTER (WHERE n > 0))[1] AS {0}")
        return {**super()._parts, "added": added}


@dataclass(frozen=True)
class IndexedExtent(FoundByColumns):
    """Any rows, any number of times; few of them agree in the columns at `key`, and none is NULL there."""

    @property
    def key_names(self) -> tuple[str, ...]:
        """The view's names of the columns that rows are found by."""
        return tuple(self.names[place] for place in self.key)

    @property
    def index_name(self) -> str:
        return f"dyda_row_{self.number}"

    def add_index(self, cursor: Cursor) -> None:
        """For a table that has lost the index that it shared with a declared key."""
        self._add_key(cursor)

    @property
    def _index(self) -> sql.Composable:
        return sql.SQL("INDEX {}").format(sql.Identifier(self.index_name))

    @property
    def _merging(self) -> sql.SQL:
        return load("merge_indexed.sql")

    def _check_examined(self, examined: int, touched: int) -> None:
        if examined > max(touched * MOST_EXAMINED, FEWEST_EXAMINED):
            raise KeyUnusable(f"{examined} rows were looked at for {touched}")
