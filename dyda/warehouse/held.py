"""An extent held still while Spark reads it: the queries that deliver it in pieces, under a snapshot for all of them.

Only the process that holds the project's lock writes extents, so the snapshot says what the committed positions say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg2 import sql

from dyda.errors import UnknownView
from dyda.warehouse.codec import view_columns_from_json
from dyda.warehouse.connection import connect, load, translated
from dyda.warehouse.extents import Extent

__all__ = ["HeldExtent", "hold_extent"]

PAGES = 8192
"""Pages of one piece: 64 MB."""


@dataclass(frozen=True)
class HeldExtent:
    """The extent of one view. `snapshot` may be taken over by other sessions at `url` as long as it is held."""

    url: str = field(repr=False)
    snapshot: str
    extent: Extent
    pages: int
    _cursor: Any = field(repr=False)

    def pieces(self, places: Sequence[int]) -> list[str]:
        """Queries that together deliver every row as often as it is there; the columns at `places`."""
        columns = sql.SQL(", ").join(sql.SQL("e.{}").format(sql.Identifier(f"c{place + 1}")) for place in places)
        starts = range(0, max(self.pages, 1), PAGES)
        queries = []
        for start in starts:
            # Rows do not move: the last piece has no end, in case the table has grown since its pages were counted.
            bounds = [sql.SQL("e.ctid >= {}::tid").format(sql.Literal(f"({start},0)"))]
            if start != starts[-1]:
                bounds.append(sql.SQL("e.ctid < {}::tid").format(sql.Literal(f"({start + PAGES},0)")))
            query = sql.SQL("SELECT {} FROM {} AS e CROSS JOIN LATERAL generate_series(1, e.count) AS copies WHERE {}")
            queries.append(query.format(columns, self.extent.identifier, sql.SQL(" AND ").join(bounds)))
        return [query.as_string(self._cursor) for query in queries]

    def distinct(self, places: Sequence[int], shown: Sequence[int]) -> str:
        """A query for the distinct rows over `places`, of which the columns at `shown` are delivered, as text."""
        printed = sql.SQL(", ").join(
            sql.SQL('{} COLLATE "C" AS {}').format(self.extent.printed(place), sql.Identifier(f"c{place + 1}"))
            for place in places
        )
        columns = sql.SQL(", ").join(sql.Identifier(f"c{place + 1}") for place in shown)
        query = sql.SQL("SELECT {} FROM (SELECT DISTINCT {} FROM {} AS e) AS found")
        return str(query.format(columns, printed, self.extent.identifier).as_string(self._cursor))


@contextmanager
def hold_extent(url: str, view: str) -> Iterator[HeldExtent]:
    """Hold the view's extent as it stands."""
    with translated(url):
        connection = connect(url, "dyda extent")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                cursor.execute(load("known_view.sql"), (view,))
                row = cursor.fetchone()
                if row is None or row[1] is None:
                    raise UnknownView(f"view {view} has no extent")
                extent = Extent(row[1], view, tuple(column.type for column in view_columns_from_json(row[2])))
                cursor.execute(
                    "SELECT pg_export_snapshot(), pg_relation_size(%s::regclass)"
                    " / current_setting('block_size')::bigint",
                    (f"dyda.extent_{extent.number}",),
                )
                snapshot, pages = cursor.fetchone()
                yield HeldExtent(url, snapshot, extent, pages, cursor)
        finally:
            connection.close()
