"""What an installation brings to one table: a small delta, a staging table, part of an old extent, or all of them."""

from __future__ import annotations

import pyarrow as pa
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.warehouse.extents.copy_in import copy_batches
from dyda.warehouse.extents.staging import Staging

__all__ = ["brought", "temporary_entries"]


def brought(
    cursor: Cursor,
    what: str,
    width: int,
    place: str,
    delta: pa.Table | None,
    staging: Staging | None,
    projected: sql.Composable | None = None,
) -> sql.Composable:
    """A table or a subquery of entries (c1 … cn text, n) with everything; `what` has `width` columns.

    `place` tells the tables of one installation apart.
    """
    parts: list[sql.Composable] = []
    if staging is not None:
        if staging.width != width:
            raise ValueError(f"{what} has {width} columns, not {staging.width}")
        parts.append(staging.identifier)
    if delta is not None:
        parts.append(temporary_entries(cursor, width, place, delta))
    if projected is not None:
        parts.append(projected)
    if len(parts) == 1:
        return parts[0]
    columns = sql.SQL(", ").join(sql.Identifier(f"c{i}") for i in range(1, width + 1))
    each = [sql.SQL("SELECT {}, n FROM {}").format(columns, part) for part in parts]
    return sql.SQL("({}) AS parts").format(sql.SQL(" UNION ALL ").join(each))


def temporary_entries(cursor: Cursor, width: int, place: str, entries: pa.Table) -> sql.Composable:
    """Entries in a temporary table of the session."""
    # One per width and place: made once in a session, emptied at each commit. No catalog rows come and go.
    table = sql.Identifier("pg_temp", f"dyda_delta_{width}_{place}")
    columns = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(f"c{i}")) for i in range(1, width + 1))
    cursor.execute(
        sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}, n bigint NOT NULL) ON COMMIT DELETE ROWS").format(
            table, columns
        )
    )
    copy_batches(cursor, table, width, entries.to_batches())
    return table
