"""The entries that an installation adds to one table: a small delta, a staging table, part of an old extent, or all."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.warehouse.extents.copy_in import copy_batches
from dyda.warehouse.extents.staging import Staging, text_columns

__all__ = ["all_entries", "sum_of_entries", "temporary_entries"]


def all_entries(
    cursor: Cursor,
    what: str,
    width: int,
    place: str,
    delta: pa.Table | None,
    staging: Staging | None,
    projected: sql.Composable | None = None,
) -> sql.Composable:
    """A table or a subquery with all entries (c1 … cn text, n); `what` has `width` columns.

    `place` tells the tables of one installation apart.
    """
    parts: list[sql.Composable] = []
    if staging is not None:
        if staging.width != width:
            raise ValueError(f"{what} has {width} columns, not {staging.width}")
        parts.append(staging.identifier)
    if delta is not None:
        parts.append(temporary_entries(cursor, f"delta_{place}", width, delta))
    if projected is not None:
        parts.append(projected)
    return parts[0] if len(parts) == 1 else sum_of_entries(width, parts)


def sum_of_entries(width: int, parts: Sequence[sql.Composable]) -> sql.Composable:
    """A subquery with the entries of all parts."""
    columns = sql.SQL(", ").join(sql.Identifier(f"c{i}") for i in range(1, width + 1))
    each = [sql.SQL("SELECT {}, n FROM {}").format(columns, part) for part in parts]
    return sql.SQL("({}) AS parts").format(sql.SQL(" UNION ALL ").join(each))


def temporary_entries(
    cursor: Cursor, name: str, width: int, entries: pa.Table, more: Sequence[str] = ()
) -> sql.Identifier:
    """Entries (c1 … cn, n, and the integers `more`) in a temporary table of the session."""
    # Made once in a session and emptied at each commit: no catalog rows come and go.
    table = sql.Identifier("pg_temp", f"dyda_{name}_{width}")
    numbers = sql.SQL("".join(f", {number} integer NOT NULL" for number in more))
    cursor.execute(
        sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}n bigint NOT NULL{}) ON COMMIT DELETE ROWS").format(
            table, text_columns(width), numbers
        )
    )
    copy_batches(cursor, table, width, entries.to_batches(), more)
    return table
