"""The warehouse at one moment, for `verify`: positions and extents that belong together while a daemon works.

    frozen ── positions ──▶ recompute at them ──▶ staging ──▶ compare with the extent as it was when frozen

Staged rows are younger than the frozen snapshot and invisible to it, so they are piped into it from a second session.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator

import psycopg2
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import DydaError
from dyda.model.position import Position
from dyda.warehouse.catalog.stored_views import known_extent, known_state
from dyda.warehouse.connection import connect, session
from dyda.warehouse.extents.extent import Comparison, Extent
from dyda.warehouse.extents.published_view import Reader
from dyda.warehouse.extents.staging import Staging, text_columns

__all__ = ["FrozenWarehouse", "frozen"]


@contextlib.contextmanager
def frozen(url: str) -> Iterator[FrozenWarehouse]:
    with session(url, "dyda verify") as connection:
        connection.set_session(isolation_level="REPEATABLE READ")
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM dyda.project")  # the first statement takes the snapshot
            yield FrozenWarehouse(cursor, url)


class FrozenWarehouse:
    """Made by `Warehouse.frozen()`."""

    def __init__(self, cursor: Cursor, url: str) -> None:
        self._cursor = cursor
        self._url = url

    def positions(self, view: str) -> dict[str, Position]:
        self._cursor.execute("SELECT source, position FROM dyda.position WHERE view = %s", (view,))
        return {source: Position.parse(text) for source, text in self._cursor.fetchall()}

    def version(self, view: str) -> int | None:
        """The version whose rows the extent holds."""
        return known_extent(self._cursor, view)[0].version

    def rows(self, view: str) -> int:
        """The extent's rows, counted; the catalog's own number must be the same."""
        return known_extent(self._cursor, view)[1].count(self._cursor)

    def shows(self, view: str, schema: str) -> bool:
        """Whether readers see the extent as it was published."""
        known, extent = known_extent(self._cursor, view)
        return Reader(schema, view).shows(self._cursor, extent, [column.name for column in known.columns])

    def compare(self, view: str, staging: Staging, samples: int = 10) -> Comparison:
        """How the extent differs from the rows in `staging`."""
        return self._compare(known_extent(self._cursor, view)[1], staging, samples)

    def compare_state(self, view: str, number: int, staging: Staging, samples: int = 10) -> Comparison:
        """How state `number` of the view, from 0, differs from the state rows in `staging`."""
        return self._compare(known_state(self._cursor, view, number).extent, staging, samples)

    def _compare(self, extent: Extent, staging: Staging, samples: int) -> Comparison:
        view = extent.view
        if staging.width != len(extent.types):
            raise ValueError(f"view {view} has {len(extent.types)} columns, not {staging.width}")
        try:
            table = self._bring(staging)
            self._cursor.execute(sql.SQL("ANALYZE {}").format(table))
            found = extent.compare(self._cursor, table, samples)
            self._cursor.execute(sql.SQL("DROP TABLE {}").format(table))
        except (psycopg2.errors.UndefinedTable, psycopg2.errors.UndefinedColumn):
            raise DydaError(f"view {view} was redefined during the check", "Run verify again.") from None
        return found

    def _bring(self, staging: Staging) -> sql.Identifier:
        """Copies the staged rows into a temporary table of this transaction; they do not pass through Python."""
        table = sql.Identifier("pg_temp", staging.table)
        columns = text_columns(staging.width)
        self._cursor.execute(sql.SQL("CREATE TEMPORARY TABLE {} ({}n bigint NOT NULL)").format(table, columns))
        reader, writer = os.pipe()
        other = connect(self._url, "dyda verify")
        failures: list[BaseException] = []

        def pump() -> None:
            with contextlib.closing(other), os.fdopen(writer, "wb") as output, other.cursor() as cursor:
                try:
                    cursor.copy_expert(
                        sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(staging.identifier).as_string(cursor),
                        output,
                    )
                except (psycopg2.Error, OSError) as error:
                    failures.append(error)

        thread = threading.Thread(target=pump, daemon=True)
        thread.start()
        try:
            with os.fdopen(reader, "rb") as source:
                self._cursor.copy_expert(
                    sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(table).as_string(self._cursor), source
                )
        finally:
            thread.join()
        if failures:
            raise failures[0]
        return table
