"""The entries that an installation adds to one table: a small delta, a staging table, part of an old extent, or all."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.warehouse.extents.copy_in import copy_batches
from dyda.warehouse.extents.staging import Staging, text_columns

__all__ = ["all_entries", "selectable_entries", "sum_of_entries"]

FEW_VALUES, FEW_BYTES = 4_000, 1 << 17
"""Up to so many values, entries are part of the statement that reads them."""


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
        parts.append(selectable_entries(cursor, f"delta_{place}", width, delta))
    if projected is not None:
        parts.append(projected)
    return parts[0] if len(parts) == 1 else sum_of_entries(width, parts)


def sum_of_entries(width: int, parts: Sequence[sql.Composable]) -> sql.Composable:
    """A subquery with the entries of all parts."""
    columns = sql.SQL(", ").join(sql.Identifier(f"c{i}") for i in range(1, width + 1))
    each = [sql.SQL("SELECT {}, n FROM {}").format(columns, part) for part in parts]
    return sql.SQL("({}) AS parts").format(sql.SQL(" UNION ALL ").join(each))


def selectable_entries(
    cursor: Cursor, name: str, width: int, entries: pa.Table, more: Sequence[str] = ()
) -> sql.Composable:
    """Entries (c1 … cn, n, and the integers `more`) as something to select from, called `changes`.

    A few are part of the statement. Many are in a temporary table, `name` in this transaction, that ends with it: one
    that is kept would be emptied at every commit that touches any, which takes longer than most units.
    """
    columns = [*(f"c{i}" for i in range(1, width + 1)), "n", *more]
    few = entries.num_rows * len(columns) <= FEW_VALUES and entries.nbytes <= FEW_BYTES
    if few and not any(map(_has_nul, entries.columns[:width])):
        types = [*(["text"] * width), "bigint", *(["integer"] * len(more))]
        arrays = [
            sql.SQL("{}::{}[]").format(sql.Literal(_array(column)), sql.SQL(type_))
            for column, type_ in zip(entries.columns, types, strict=True)
        ]
        return sql.SQL("(SELECT * FROM unnest({}) AS listed ({})) AS changes").format(
            sql.SQL(", ").join(arrays), sql.SQL(", ".join(columns))
        )
    table = sql.Identifier("pg_temp", f"dyda_{name}")
    numbers = sql.SQL("".join(f", {number} integer NOT NULL" for number in more))
    cursor.execute(
        sql.SQL("CREATE TEMPORARY TABLE {} ({}n bigint NOT NULL{}) ON COMMIT DROP").format(
            table, text_columns(width), numbers
        )
    )
    copy_batches(cursor, table, width, entries.to_batches(), more)
    return sql.SQL("{} AS changes").format(table)


def _has_nul(texts: pa.ChunkedArray) -> bool:
    """No statement can have one. COPY takes it to the warehouse, which refuses it as a value."""
    return bool(pc.any(pc.match_substring(texts, "\0")).as_py())


def _array(column: pa.ChunkedArray) -> str:
    """An array's text: one constant, however many values, so that PostgreSQL's statistics see one statement."""
    texts = pc.cast(column, pa.string())
    for special in ("\\", '"'):
        texts = pc.replace_substring(texts, special, "\\" + special)
    quoted = pc.fill_null(pc.binary_join_element_wise('"', texts, '"', ""), "NULL")
    return "{" + ",".join(quoted.to_pylist()) + "}"
