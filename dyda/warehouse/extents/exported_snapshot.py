"""Extents and states held still while Spark reads them: queries that deliver them in pieces, under one snapshot.

Only the process that holds the project's lock writes extents, so the snapshot says what the committed positions say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.model.operator_state import State
from dyda.warehouse.catalog.stored_views import known_extent, known_state
from dyda.warehouse.connection import session
from dyda.warehouse.extents.extent import Extent
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.tables import multiplicity, places

__all__ = ["HeldExtent", "HeldState", "HeldWarehouse", "hold_extent", "hold_warehouse"]

PAGES = 8192
"""Pages of one piece: 64 MB."""
FEW_PAGES = 128
"""Up to so many pages, the copies of a table's rows are counted."""


@dataclass(frozen=True)
class HeldExtent:
    """The extent of one view. `snapshot` can be imported by other sessions at `url` as long as it is held."""

    url: str = field(repr=False)
    snapshot: str
    extent: Extent
    pages: int
    _cursor: Cursor = field(repr=False)

    def pieces(self, places: Sequence[int]) -> list[str]:
        """Queries that together deliver every row as often as it is there; the columns at `places`."""
        columns = [self.extent.column(place) for place in places]
        return _pieces(self._cursor, self.extent.identifier, columns, self.extent.multiplicity, self.pages)

    @property
    def size(self) -> int | None:
        """About how many bytes the pieces deliver; None if there may be many."""
        return _size(self._cursor, self.extent.identifier, self.extent.multiplicity, self.pages)

    def distinct(self, places: Sequence[int], shown: Sequence[int]) -> str:
        """A query for the distinct rows over `places`, of which the columns at `shown` are delivered, as text."""
        printed = sql.SQL(", ").join(
            sql.SQL('{} COLLATE "C" AS {}').format(self.extent.printed(place), sql.Identifier(f"c{place + 1}"))
            for place in places
        )
        columns = sql.SQL(", ").join(sql.Identifier(f"c{place + 1}") for place in shown)
        query = sql.SQL("SELECT {} FROM (SELECT DISTINCT {} FROM {} AS e) AS found")
        return str(query.format(columns, printed, self.extent.identifier).as_string(self._cursor))


@dataclass(frozen=True)
class HeldState:
    """What a state delivers: of a view's current version, or of a staging table with the state rows of a build."""

    url: str = field(repr=False)
    snapshot: str
    state: State
    table: sql.Identifier
    count: str
    pages: int
    _cursor: Cursor = field(repr=False)

    def pieces(self, columns: Sequence[str]) -> list[str]:
        """Queries that together deliver every row as often as its rule says; `columns` are names of delivered ones."""
        wanted = [sql.Identifier(f"c{place + 1}") for place in places(self.state, columns)]
        return _pieces(self._cursor, self.table, wanted, self._often, self.pages)

    @property
    def size(self) -> int | None:
        """As of an extent."""
        return _size(self._cursor, self.table, self._often, self.pages)

    @property
    def _often(self) -> sql.Composable:
        return multiplicity(self.state, "e", self.count)


@dataclass(frozen=True)
class HeldWarehouse:
    """The warehouse at one moment; staging tables are in it if they were filled before."""

    url: str = field(repr=False)
    snapshot: str
    _cursor: Cursor = field(repr=False)

    def extent(self, view: str) -> HeldExtent:
        _, extent = known_extent(self._cursor, view)
        return HeldExtent(self.url, self.snapshot, extent, self._pages(extent.identifier), self._cursor)

    def state(self, view: str, number: int) -> HeldState:
        """State `number`, from 0, of the view's current version."""
        stored = known_state(self._cursor, view, number)
        return self._state(stored.state, stored.extent.identifier, "count")

    def staging(self, state: State, staging: Staging) -> HeldState:
        """State rows that were staged, as `combine_staging` makes them."""
        return self._state(state, staging.identifier, "n")

    def _state(self, state: State, table: sql.Identifier, count: str) -> HeldState:
        return HeldState(self.url, self.snapshot, state, table, count, self._pages(table), self._cursor)

    def _pages(self, table: sql.Identifier) -> int:
        self._cursor.execute(
            "SELECT pg_relation_size(%s::regclass) / current_setting('block_size')::bigint",
            (table.as_string(self._cursor),),
        )
        (pages,) = self._cursor.fetchone()
        return int(pages)


@contextmanager
def hold_warehouse(url: str) -> Iterator[HeldWarehouse]:
    """Holds everything that is committed."""
    with session(url, "dyda extent") as connection, connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute("SELECT pg_export_snapshot()")
        (snapshot,) = cursor.fetchone()
        yield HeldWarehouse(url, snapshot, cursor)


@contextmanager
def hold_extent(url: str, view: str) -> Iterator[HeldExtent]:
    """Holds the view's extent."""
    with hold_warehouse(url) as held:
        yield held.extent(view)


def _size(cursor: Cursor, table: sql.Identifier, multiplicity: sql.Composable, pages: int) -> int | None:
    """A few rows may be delivered very often, so copies count."""
    if pages > FEW_PAGES:
        return None
    query = sql.SQL(
        "SELECT pg_table_size({}::regclass) * coalesce(sum(greatest({}, 0)), 0) / greatest(count(*), 1) FROM {} AS e"
    )
    cursor.execute(query.format(sql.Literal(table.as_string(cursor)), multiplicity, table))
    (size,) = cursor.fetchone()
    return int(size)


def _pieces(
    cursor: Cursor, table: sql.Identifier, wanted: Sequence[sql.Identifier], multiplicity: sql.Composable, pages: int
) -> list[str]:
    """Page ranges of a table; without columns a constant is delivered, so that rows can be counted."""
    columns = sql.SQL(", ").join(sql.SQL("e.{}").format(column) for column in wanted) if wanted else sql.SQL("1")
    select = sql.SQL("SELECT {} FROM {} AS e CROSS JOIN LATERAL generate_series(1, {}) AS copies WHERE {}")
    queries = []
    starts = range(0, max(pages, 1), PAGES)
    for start in starts:
        # Rows do not move: the last piece has no end, in case the table has grown since its pages were counted.
        bounds = [sql.SQL("e.ctid >= {}::tid").format(sql.Literal(f"({start},0)"))]
        if start != starts[-1]:
            bounds.append(sql.SQL("e.ctid < {}::tid").format(sql.Literal(f"({start + PAGES},0)")))
        queries.append(select.format(columns, table, multiplicity, sql.SQL(" AND ").join(bounds)).as_string(cursor))
    return queries
