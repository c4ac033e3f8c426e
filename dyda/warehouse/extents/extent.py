"""Extents: a view's rows in dyda.extent_<number>, whatever the form of that table, and how they are read.

plain_extent    one row of the table for each row of the view; a bag with digests
keyed_extent    the same, found by a proven key or by columns that few rows share
counted_extent  one row for each distinct row, with its count: operators' states, and extents of older versions
forms           which form a table has, and which one a new table gets
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import psycopg2
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import DydaError, EvaluationFailed, InvariantViolated
from dyda.warehouse.catalog.schema import SCHEMA
from dyda.warehouse.connection import load, short

__all__ = ["AS_ALWAYS", "BY_INDEX", "Comparison", "Extent", "check_types", "comparable", "extent_table", "lookups_only"]

BY_INDEX = "SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; "
AS_ALWAYS = "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on"


@contextmanager
def lookups_only(cursor: Cursor) -> Iterator[None]:
    """Makes the planner look rows up by index: temporary tables have no statistics to tell it so."""
    cursor.execute(BY_INDEX)
    yield
    cursor.execute(AS_ALWAYS)


def extent_table(number: int) -> sql.Identifier:
    return sql.Identifier(SCHEMA, f"extent_{number}")


@dataclass(frozen=True)
class Comparison:
    """What `verify` finds: missing rows, extra rows, and a few of them.

    `forged` rows are right but have a wrong digest: later changes would miss them.
    A sample is (difference, canonical texts): +1 is missing once, -2 is there twice too often.
    """

    missing: int
    extra: int
    samples: tuple[tuple[int, tuple[str | None, ...]], ...] = ()
    forged: int = 0

    @property
    def equal(self) -> bool:
        return self.missing == 0 and self.extra == 0 and self.forged == 0


@dataclass(frozen=True)
class Extent(ABC):
    """One extent table, known by its number; `types` are the warehouse types of the view's columns."""

    number: int
    view: str
    types: tuple[str, ...]

    @property
    def identifier(self) -> sql.Identifier:
        return extent_table(self.number)

    @abstractmethod
    def column(self, place: int) -> sql.Identifier:
        """The table's column that is the view's column at `place`, from 0."""

    @property
    @abstractmethod
    def multiplicity(self) -> sql.Composable:
        """How often a row of the table is in the view; e is the table."""

    @property
    @abstractmethod
    def shown(self) -> sql.Composable:
        """What readers' views select from; e is the table."""

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether rows can be merged into the table as it is."""

    @abstractmethod
    def create(self, cursor: Cursor, collation: str | None = None) -> None:
        """The table, without its key: that is added when the first rows are in. `collation` is for what has one."""

    @abstractmethod
    def fill(self, cursor: Cursor, entries: sql.Composable) -> int:
        """The first rows of a new table, then its key, then statistics; returns the rows."""

    @abstractmethod
    def merge(self, cursor: Cursor, entries: sql.Composable) -> int:
        """Adds a signed bag; costs what the bag costs, whatever the extent's size. Returns the change in rows."""

    @abstractmethod
    def replace(self, cursor: Cursor, entries: sql.Composable) -> int:
        """Makes the extent equal to the bag by writing only what differs. Returns its number of rows."""

    @abstractmethod
    def forged(self, cursor: Cursor) -> int:
        """How many rows do not have their own digest: changed by hand."""

    @property
    def table(self) -> sql.Composable:
        """The table's contents, as (c1 … cn, count) of the view's columns; an alias must follow."""
        columns = sql.SQL("").join(
            sql.SQL("e.{} AS {}, ").format(self.column(place), name) for place, name in enumerate(self._columns)
        )
        return sql.SQL("(SELECT {}{} AS count FROM {} AS e)").format(columns, self.multiplicity, self.identifier)

    def count(self, cursor: Cursor) -> int:
        """The view's rows, counted."""
        cursor.execute(
            sql.SQL("SELECT coalesce(sum({}), 0)::bigint FROM {} AS e").format(self.multiplicity, self.identifier)
        )
        return int(cursor.fetchone()[0])

    def rename(self, cursor: Cursor, number: int) -> None:
        cursor.execute(
            sql.SQL("ALTER TABLE {} RENAME TO {}").format(self.identifier, sql.Identifier(f"extent_{number}"))
        )

    def compare(self, cursor: Cursor, entries: sql.Composable, samples: int) -> Comparison:
        """How the extent differs from the bag it should be."""
        # format() prints by the type's output function; a cast to text would turn 't' into 'true' and cut blanks.
        shown = sql.SQL(", ").join(
            sql.SQL(
                "CASE WHEN e.hash IS NULL THEN CASE WHEN entry.{0} IS NOT NULL THEN format('%s', entry.{0}::{1}) END"
                " WHEN e.{0} IS NOT NULL THEN format('%s', e.{0}) END AS {0}"
            ).format(column, sql.SQL(type_))
            for column, type_ in zip(self._columns, self.types, strict=True)
        )
        minima = self._each("(array_agg({0}))[1] AS {0}")  # of one digest they are all the same
        parts = {"held": self.table, "shown": shown, "limit": sql.Literal(samples), "minima": minima}
        self._execute(cursor, load("compare.sql"), entries, **parts)
        found = cursor.fetchall()
        missing, extra = found[0][:2]
        shown_rows = tuple((row[2], tuple(row[3:])) for row in found if row[2] is not None)
        return Comparison(missing, extra, shown_rows, self.forged(cursor))

    def projected(self, places: Sequence[int]) -> sql.Composable:
        """Entries (c1 … cn text, n) of these columns, as a subquery: rows that fall together are not added up yet."""
        columns = [
            sql.SQL("{} AS {}").format(self.printed(place), sql.Identifier(f"c{i}"))
            for i, place in enumerate(places, start=1)
        ]
        return sql.SQL("(SELECT {}, {} AS n FROM {} AS e) AS projected").format(
            sql.SQL(", ").join(columns), self.multiplicity, self.identifier
        )

    def printed(self, place: int) -> sql.Composable:
        """The text of a column, as its type's output function prints it; e is the extent."""
        column = self.column(place)
        return sql.SQL("CASE WHEN e.{0} IS NOT NULL THEN format('%s', e.{0}) END").format(column)

    def drop(self, cursor: Cursor) -> None:
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self.identifier))

    @cached_property
    def _columns(self) -> tuple[sql.Identifier, ...]:
        """The columns of entries."""
        return tuple(sql.Identifier(f"c{i}") for i in range(1, len(self.types) + 1))

    def _each(self, template: str) -> sql.Composable:
        pairs = zip(self._columns, self.types, strict=True)
        return sql.SQL(", ").join(sql.SQL(template).format(column, sql.SQL(type_)) for column, type_ in pairs)

    def _definitions(self, cursor: Cursor, collation: str | None) -> sql.Composable:
        """The view's columns, for CREATE TABLE."""
        return sql.SQL(", ").join(
            sql.SQL("{} {}{}").format(self.column(place), sql.SQL(type_), _collated(cursor, type_, collation))
            for place, type_ in enumerate(self.types)
        )

    def _grouped(self, entries: sql.Composable, template: str = "grouped.sql") -> sql.Composable:
        return load(template).format(
            # The smallest by its bytes; an index of the table has the database's collation.
            minima=self._each('min({0} COLLATE "C") COLLATE "default" AS {0}'),
            casts=self._each("{0}::{1}"),
            columns=self._each("{0}"),
            entries=entries,
        )

    def _execute(
        self, cursor: Cursor, template: sql.SQL, entries: sql.Composable, first: str = "", **parts: sql.Composable
    ) -> None:
        """The statement, after the settings in `first`, in one round trip."""
        statement = sql.SQL(first) + template.format(
            **{
                "extent": self.identifier,
                "grouped": self._grouped(entries),
                "columns": self._each("{0}"),
                "casts": self._each("{0}::{1}"),
                **parts,
            }
        )
        try:
            cursor.execute(statement)
        except psycopg2.errors.CheckViolation as error:
            raise self._below_zero(f" ({short(error)})") from None
        except psycopg2.DataError as error:
            raise EvaluationFailed(f"view {self.view}: the warehouse cannot hold a value: {short(error)}") from None

    def _below_zero(self, more: str = "", rows: int | None = None) -> InvariantViolated:
        which = "a row" if rows is None else f"{rows} row(s)"
        shown = more if len(more) <= 200 else more[:200] + "…"
        return InvariantViolated(self.view, f"this change would give {which} a negative count{shown}")


def _collated(cursor: Cursor, type_: str, collation: str | None) -> sql.Composable:
    if collation is None:
        return sql.SQL("")
    cursor.execute("SELECT typcollation <> 0 FROM pg_type WHERE oid = to_regtype(%s)", (type_,))
    (collatable,) = cursor.fetchone()
    return sql.SQL(" COLLATE {}").format(sql.Identifier(collation)) if collatable else sql.SQL("")


def comparable(cursor: Cursor, type_: str, method: str) -> bool:
    """Whether PostgreSQL can compare the type in an index of this kind: hash, or btree, and so sort by it."""
    cursor.execute(load("comparable.sql"), {"type": type_, "method": method})
    (found,) = cursor.fetchone()
    return bool(found)


def check_types(cursor: Cursor, view: str, types: Sequence[str]) -> None:
    """Refuses what is not the name of a type: the names are used in DDL as they are."""
    for type_ in types:
        try:
            # The parser must take the whole text for one type name.
            cursor.execute("SELECT to_regtype(%s) IS NOT NULL", (type_,))
            (known,) = cursor.fetchone()
        except psycopg2.ProgrammingError:
            known = False
            cursor.connection.rollback()
        if not known:
            raise DydaError(
                f"view {view}: the warehouse has no type {type_!r}", "Cast the column to STRING in the view."
            )
    if any(type_.removesuffix("[]") == "xml" for type_ in types) and not _reads_xml(cursor):
        raise DydaError(
            f"view {view}: the warehouse cannot hold xml: its PostgreSQL was built without libxml",
            "Cast the column to STRING in the view, or use a warehouse whose PostgreSQL has libxml.",
        )


def _reads_xml(cursor: Cursor) -> bool:
    """The type always exists; only a value shows whether it can be used."""
    cursor.execute("SAVEPOINT trying")
    try:
        cursor.execute("SELECT ''::xml")
    except psycopg2.errors.FeatureNotSupported:
        cursor.execute("ROLLBACK TO SAVEPOINT trying")
        return False
    return True
