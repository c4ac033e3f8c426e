"""Plain extents: one row of the table for each row of the view, in columns of the view's names.

    KeyedExtent    dyda.extent_<number>(columns), UNIQUE (key)       rows are found by the view's proven key
    IndexedExtent  dyda.extent_<number>(columns), INDEX (key)        rows are found by columns that few of them share
    BagExtent      dyda.extent_<number>(dyda_row, columns)           rows are found by a digest of their text
    LooseExtent    dyda.extent_<number>(columns, …)                  rows can be read, not found

Readers' views select the columns and nothing more, so PostgreSQL plans a query of a view as one of a table. A row that
is there five times is stored five times: rows multiplied by a count while they are read were measured at two to three
times a table's cost, and at 300 times in look-ups from a join, which PostgreSQL cannot push into them.

A digest has 64 bits and only finds candidates: a row is the same if its canonical text is, and the text is compared.
Two rows with the same digest cost a comparison and are never taken for each other. They are in a B-tree: over 1,000,000
rows it takes 21 MB (of uuids 30, a hash index 32) and half the time of a hash index to build.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import psycopg2
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import DeclaredKeyBroken, InvariantViolated
from dyda.warehouse.connection import load, short
from dyda.warehouse.extents.extent import AS_ALWAYS, BY_INDEX, Extent, comparable

__all__ = ["DECLARED_KEY", "BagExtent", "LooseExtent", "PlainExtent"]

SYSTEM_COLUMNS = frozenset({"tableoid", "xmin", "cmin", "xmax", "cmax", "ctid"})
"""Names that a view's column may have and a table's may not."""

DIGEST = "dyda_row"

DECLARED_KEY = "dyda_declared_key_"
"""The unique constraint of a key that the view's file declares, with the table's number."""

DIGEST_OF = "hashtextextended({}, 0)"
"""Hash partitions rely on it, so it stays the same from one version of PostgreSQL to the next."""

SHARE_TO_ANALYZE = 0.1
FEWEST_TO_ANALYZE = 100
"""Statistics are taken again after a merge of more than this share of the rows, unless it is a handful."""


@dataclass(frozen=True)
class PlainExtent(Extent):
    """`names` are the view's column names."""

    names: tuple[str, ...]

    @cached_property
    def stored_names(self) -> tuple[str, ...]:
        """The table's columns: as the view's, but for names that PostgreSQL keeps for itself."""
        taken, stored = set(self.names), []
        for name in self.names:
            stored.append(_free(name + "_", taken) if name in SYSTEM_COLUMNS else name)
            taken.add(stored[-1])
        return tuple(stored)

    @cached_property
    def digest_name(self) -> str:
        return _free(DIGEST, {*self.names, *self.stored_names})

    def column(self, place: int) -> sql.Identifier:
        return sql.Identifier(self.stored_names[place])

    @property
    def multiplicity(self) -> sql.Composable:
        return sql.SQL("1")

    @property
    def shown(self) -> sql.Composable:
        return sql.SQL("{} AS e").format(self.identifier)

    @property
    def settled(self) -> bool:
        return True

    def take_names(self, cursor: Cursor, before: PlainExtent, places: Sequence[int]) -> list[str]:
        """Gives the columns of the same table, of which this has those at `places`, their new names.

        Returns the columns that are not this view's any more: they can be dropped when no reader's view has them.
        """
        after = {before.stored_names[place]: name for place, name in zip(places, self.stored_names, strict=True)}
        if isinstance(before, BagExtent):
            if isinstance(self, BagExtent):
                after[before.digest_name] = self.digest_name
            gone = [name for name in (*before.stored_names, before.digest_name) if name not in after]
        else:
            gone = [name for name in before.stored_names if name not in after]
        changed = {name: wanted for name, wanted in after.items() if name != wanted}
        # Two columns may have exchanged their names, so each one gets out of the others' way first.
        taken = {*before.stored_names, before.digest_name, *self.stored_names, self.digest_name}
        aside = {}
        for name in (*changed, *gone):
            aside[name] = _free("dyda_moving", taken)
            taken.add(aside[name])
            self._rename_column(cursor, name, aside[name])
        for name, wanted in changed.items():
            self._rename_column(cursor, aside[name], wanted)
        return [aside[name] for name in gone]

    def drop_columns(self, cursor: Cursor, names: Sequence[str]) -> None:
        for name in names:
            cursor.execute(sql.SQL("ALTER TABLE {} DROP COLUMN {}").format(self.identifier, sql.Identifier(name)))

    def _rename_column(self, cursor: Cursor, old: str, new: str) -> None:
        cursor.execute(
            sql.SQL("ALTER TABLE {} RENAME COLUMN {} TO {}").format(
                self.identifier, sql.Identifier(old), sql.Identifier(new)
            )
        )

    def fill(self, cursor: Cursor, entries: sql.Composable, order: Sequence[int] = ()) -> int:
        """Rows that are near each other in `order`, places of columns, are near each other in the table."""
        casts = [
            sql.SQL("{}::{}").format(self._columns[place], sql.SQL(self.types[place]))
            for place in order
            # Arrays sort by their elements, which may have no order.
            if not self.types[place].endswith("[]") and comparable(cursor, self.types[place], "btree")
        ]
        parts = {
            "stored": self._stored,
            "values": self._values,
            "order": sql.SQL("ORDER BY {}").format(sql.SQL(", ").join(casts)) if casts else sql.SQL(""),
        }
        grouped = self._grouped(entries, "grouped_rows.sql")
        self._execute(cursor, load("fill_plain.sql"), entries, grouped=grouped, **parts)
        inserted = cursor.rowcount
        # A row with a negative count was inserted no times: the sum over all entries is smaller then.
        cursor.execute(sql.SQL("SELECT coalesce(sum(n), 0)::bigint FROM {}").format(entries))
        if cursor.fetchone() != (inserted,):
            cursor.execute(sql.SQL("SELECT count(*), min(row_text) FROM ({}) AS entry WHERE n < 0").format(grouped))
            rows, sample = cursor.fetchone()
            raise self._below_zero(f", e.g. {sample}", rows)
        self._add_key(cursor)
        cursor.execute(sql.SQL("ANALYZE {}").format(self.identifier))
        return inserted

    def merge(self, cursor: Cursor, entries: sql.Composable) -> int:
        # A temporary table has no statistics: left alone, the planner may read the whole extent for ten entries.
        change = self._merge(cursor, entries, BY_INDEX)
        cursor.execute(AS_ALWAYS)
        return change

    def replace(self, cursor: Cursor, entries: sql.Composable) -> int:
        self._repair(cursor)
        columns = self._each("{0}")
        difference = sql.SQL(
            "(SELECT {columns}, n FROM {entries} UNION ALL SELECT {columns}, - n FROM {held}) AS difference"
        ).format(columns=columns, entries=entries, held=self.projected(range(len(self.types))))
        self._merge(cursor, difference)
        return self.count(cursor)

    def _merge(self, cursor: Cursor, entries: sql.Composable, first: str = "") -> int:
        grouped = self._grouped(entries, "grouped_rows.sql")
        name = sql.Literal(self.identifier.as_string(cursor))
        try:
            self._execute(cursor, self._merging, entries, first, grouped=grouped, name=name, **self._parts)
        except psycopg2.errors.UniqueViolation as error:
            if (error.diag.constraint_name or "").startswith(DECLARED_KEY):
                raise DeclaredKeyBroken(self.view, (), short(error)) from None
            raise self._not_unique(error) from None
        change, touched, held, wrong, sample, examined = cursor.fetchone()
        self._check_examined(int(examined), int(touched))
        if wrong:
            raise self._wrong(int(wrong), str(sample))
        if touched >= FEWEST_TO_ANALYZE and touched > held * SHARE_TO_ANALYZE:
            cursor.execute(sql.SQL("ANALYZE {}").format(self.identifier))
        return int(change)

    def _wrong(self, rows: int, sample: str) -> InvariantViolated:
        return self._below_zero(f", e.g. {sample}", rows)

    def _check_examined(self, examined: int, touched: int) -> None:
        """How many rows were looked at to find those that go away."""

    def _not_unique(self, error: psycopg2.Error) -> InvariantViolated:
        return InvariantViolated(self.view, f"this change would break the key of its rows ({short(error)})")

    def _repair(self, cursor: Cursor) -> None:
        """What must go before rows are found by their texts alone."""

    def _add_key(self, cursor: Cursor) -> None:
        """What rows are found by."""

    @property
    @abstractmethod
    def _merging(self) -> sql.SQL:
        """The statement that merges."""

    @property
    def _stored(self) -> sql.Composable:
        """The columns that an entry fills, and below the values."""
        return self._stored_columns

    @property
    def _values(self) -> sql.Composable:
        return self._each("{0}::{1}")

    @property
    def _stored_columns(self) -> sql.Composable:
        return sql.SQL(", ").join(map(sql.Identifier, self.stored_names))

    @property
    def _text(self) -> sql.Composable:
        """The canonical text of the row e."""
        columns = sql.SQL(", ").join(sql.Identifier("e", name) for name in self.stored_names)
        return sql.SQL('ROW({})::text COLLATE "C"').format(columns)

    @property
    def _parts(self) -> dict[str, sql.Composable]:
        return {"stored": self._stored, "values": self._values, "text": self._text}


@dataclass(frozen=True)
class BagExtent(PlainExtent):
    """Any rows, any number of times."""

    def create(self, cursor: Cursor, collation: str | None = None) -> None:
        cursor.execute(
            sql.SQL("CREATE TABLE {} ({} bigint NOT NULL, {})").format(
                self.identifier, sql.Identifier(self.digest_name), self._definitions(cursor, collation)
            )
        )

    def forged(self, cursor: Cursor) -> int:
        cursor.execute(sql.SQL("SELECT count(*) FROM {} AS e WHERE {}").format(self.identifier, self._is_forged))
        return int(cursor.fetchone()[0])

    def _repair(self, cursor: Cursor) -> None:
        # A row that was changed by hand still has the digest of the old row, and would not be found by its own.
        cursor.execute(sql.SQL("DELETE FROM {} AS e WHERE {}").format(self.identifier, self._is_forged))

    @property
    def _is_forged(self) -> sql.Composable:
        digest = sql.SQL(DIGEST_OF).format(self._text)
        return sql.SQL("{} <> {}").format(sql.Identifier("e", self.digest_name), digest)

    def _add_key(self, cursor: Cursor) -> None:
        name = sql.Identifier(f"dyda_row_{self.number}")
        cursor.execute(
            sql.SQL("CREATE INDEX {} ON {} ({})").format(name, self.identifier, sql.Identifier(self.digest_name))
        )

    @property
    def _merging(self) -> sql.SQL:
        return load("merge_bag.sql")

    @property
    def _stored(self) -> sql.Composable:
        return sql.SQL("{}, {}").format(sql.Identifier(self.digest_name), self._stored_columns)

    @property
    def _values(self) -> sql.Composable:
        return sql.SQL("{}, {}").format(sql.SQL(DIGEST_OF).format(sql.SQL("row_text")), self._each("{0}::{1}"))

    @property
    def _parts(self) -> dict[str, sql.Composable]:
        digest = sql.SQL(DIGEST_OF).format(sql.SQL("entry.row_text"))
        return {**super()._parts, "digest": sql.Identifier(self.digest_name), "entry_digest": digest}


@dataclass(frozen=True)
class LooseExtent(PlainExtent):
    """What is left of a table after a column was dropped that its rows were found by. It is read as it is; before
    anything is merged, the view gets a new table."""

    @property
    def settled(self) -> bool:
        return False

    def create(self, cursor: Cursor, collation: str | None = None) -> None:
        raise AssertionError("a new table has a key or digests")

    def forged(self, cursor: Cursor) -> int:
        return 0

    @property
    def _merging(self) -> sql.SQL:
        raise AssertionError("there is nothing to find rows by")


def _free(name: str, taken: set[str]) -> str:
    """`name`, or the first one with underscores added that is not taken."""
    while name in taken:
        name += "_"
    return name
