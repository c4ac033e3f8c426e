"""Counted extents: each distinct row once, with its count. dyda.extent_<number>(hash, c1 … cn, count).

hash   digest of the row's canonical text: two rows are the same if their texts are
count  how many times the row is there; never zero, never negative

Operators' states are stored so, where nobody but DyDa reads; the extents of views were, by older versions. A view that
loses a column shows the others and leaves such a table alone: as a bag, that is right. The table is then *narrowed*:
its digests are those of the old rows, and rows that are equal now are still separate. Before anything is merged, the
view gets a new table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.warehouse.connection import load
from dyda.warehouse.extents.extent import AS_ALWAYS, BY_INDEX, Extent

__all__ = ["CountedExtent"]


@dataclass(frozen=True)
class CountedExtent(Extent):
    """`places`: the places of the view's columns in a narrowed table, from 0."""

    places: tuple[int, ...] | None = None

    def column(self, place: int) -> sql.Identifier:
        return sql.Identifier(f"c{(place if self.places is None else self.places[place]) + 1}")

    @property
    def multiplicity(self) -> sql.Composable:
        return sql.SQL("e.count")

    @property
    def shown(self) -> sql.Composable:
        return sql.SQL("{} AS e CROSS JOIN LATERAL generate_series(1, e.count) AS copies").format(self.identifier)

    @property
    def settled(self) -> bool:
        return self.places is None

    def narrowed(self, number: int, places: Sequence[int]) -> CountedExtent:
        """The table under another number (`rename`), of which only the columns at `places` are the view's."""
        kept = tuple(place if self.places is None else self.places[place] for place in places)
        return CountedExtent(number, self.view, tuple(self.types[place] for place in places), kept)

    def create(self, cursor: Cursor, collation: str | None = None) -> None:
        cursor.execute(
            # Some room in each page lets counts move without touching the index.
            sql.SQL(
                "CREATE TABLE {} (hash bytea NOT NULL, {}, count bigint NOT NULL CHECK (count > 0))"
                " WITH (fillfactor = 90)"
            ).format(self.identifier, self._definitions(cursor, collation))
        )

    def fill(self, cursor: Cursor, entries: sql.Composable) -> int:
        self._execute(cursor, load("fill.sql"), entries)
        cursor.execute(sql.SQL("ALTER TABLE {} ADD PRIMARY KEY (hash)").format(self.identifier))
        cursor.execute(sql.SQL("ANALYZE {}").format(self.identifier))
        return self.count(cursor)

    def merge(self, cursor: Cursor, entries: sql.Composable) -> int:
        # A temporary table has no statistics: left alone, the planner may read the whole extent for ten entries.
        change = self._merge(cursor, "found_for_delta.sql", entries, first=BY_INDEX)
        cursor.execute(AS_ALWAYS)
        return change

    def replace(self, cursor: Cursor, entries: sql.Composable) -> int:
        # A row that was changed by hand still has the digest of the old row, and would be taken for it.
        forged = self._forged(len(self.types))
        cursor.execute(sql.SQL("DELETE FROM {} AS e WHERE {}").format(self.identifier, forged))
        self._merge(cursor, "found_for_replace.sql", entries)
        return self.count(cursor)

    def forged(self, cursor: Cursor) -> int:
        width = len(self.types)
        if self.places is not None:
            cursor.execute(
                "SELECT count(*) - 2 FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0",
                (self.identifier.as_string(cursor),),
            )
            (width,) = cursor.fetchone()
        forged = self._forged(width)
        cursor.execute(sql.SQL("SELECT count(*) FROM {} AS e WHERE {}").format(self.identifier, forged))
        return int(cursor.fetchone()[0])

    def _forged(self, width: int) -> sql.Composable:
        columns = sql.SQL(", ").join(sql.SQL("e.{}").format(sql.Identifier(f"c{i + 1}")) for i in range(width))
        return sql.SQL("e.hash <> sha256(convert_to(ROW({})::text, 'UTF8'))").format(columns)

    def _merge(self, cursor: Cursor, found: str, entries: sql.Composable, first: str = "") -> int:
        assert self.settled, "a narrowed extent has no digests to find rows by"
        part = load(found).format(entry_columns=self._each("entry.{0}"), extent=self.identifier)
        self._execute(cursor, load("merge.sql"), entries, first, found=part)
        change, negative, sample = cursor.fetchone()
        if negative:
            raise self._below_zero(f", e.g. {sample}", negative)
        return int(change)
