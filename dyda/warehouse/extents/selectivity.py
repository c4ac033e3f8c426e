"""Which declared columns a bag's rows can be found by: those that few rows share.

A row is looked up by its columns and then compared, so what a look-up costs is how many rows agree in them. How many
that are is estimated from a sample: if p of all pairs of rows agree, a row has p times all rows beside it.

Columns that nobody has declared are not tried: an index on them is one that nobody wants, and the first NULL in one of
them would make a table of another form necessary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.model.layout import Layout
from dyda.warehouse.catalog.records import ViewColumn
from dyda.warehouse.connection import load
from dyda.warehouse.extents.extent import comparable

__all__ = ["MOST_KEY_COLUMNS", "declared_choices", "selective_columns"]

MOST_KEY_COLUMNS = 4
"""A unique index on more columns takes more room than digests do: the key of a DISTINCT view is all that it selects."""

SAMPLE = 5_000

MOST_BESIDE = 64
"""Rows that agree with one in the columns that it is found by."""


def declared_choices(columns: Sequence[ViewColumn], layout: Layout) -> Iterator[tuple[int, ...]]:
    """The places of the declared key, and of each declared index."""
    names = [column.name for column in columns]
    for choice in (layout.declared_key, *layout.indexes):
        if choice and len(choice) <= MOST_KEY_COLUMNS and set(choice) <= set(names):
            yield tuple(names.index(name) for name in choice)


def selective_columns(
    cursor: Cursor, columns: Sequence[ViewColumn], layout: Layout, entries: sql.Composable
) -> tuple[int, ...] | None:
    """The places of the first declared columns that few of the entries share."""
    choices = list(declared_choices(columns, layout))
    if not choices:
        return None
    described = sql.SQL(", ").join(map(_described, choices))
    cursor.execute(load("shared_columns.sql").format(entries=entries, limit=sql.Literal(SAMPLE), choices=described))
    total, sampled, *found = cursor.fetchone()
    for choice, (pairs, unknown) in zip(choices, found, strict=True):
        beside = total * pairs / max(sampled * (sampled - 1), 1)
        if not unknown and beside <= MOST_BESIDE and _ordered(cursor, columns, choice):
            return choice
    return None


def _ordered(cursor: Cursor, columns: Sequence[ViewColumn], choice: Sequence[int]) -> bool:
    """Whether an index takes the columns. Arrays have the order of their elements, which may have none."""
    return all(comparable(cursor, columns[place].type.removesuffix("[]"), "btree") for place in choice)


def _described(choice: Sequence[int]) -> sql.Composable:
    columns = sql.SQL(", ").join(sql.Identifier(f"c{place + 1}") for place in choice)
    return sql.SQL(
        "(SELECT ARRAY[coalesce(sum(rows * (rows - 1)), 0), coalesce(max(unknown), 0)]"
        " FROM (SELECT sum(n) AS rows, max((NOT ROW({0}) IS NOT NULL)::integer) AS unknown"
        " FROM sample GROUP BY {0}) AS one)"
    ).format(columns)
