"""Which columns a bag's rows can be found by: those that few rows share.

A row is looked up by its columns and then compared, so what a look-up costs is how many rows agree in them. How many
that are is estimated from a sample: if p of all pairs of rows agree, a row has p times all rows beside it.
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
ENOUGH = 1_000
"""Entries that say something about a column that nobody has declared."""

MOST_BESIDE = 64
"""Rows that agree with one in the columns that it is found by."""

LONGEST = 24
"""Characters of a column that nobody has declared: an index on longer ones takes more room than digests."""


def declared_choices(columns: Sequence[ViewColumn], layout: Layout) -> Iterator[tuple[int, ...]]:
    """The places of the declared key, and of each declared index."""
    names = [column.name for column in columns]
    for choice in (layout.declared_key, *layout.indexes):
        if choice and len(choice) <= MOST_KEY_COLUMNS and set(choice) <= set(names):
            yield tuple(names.index(name) for name in choice)


def selective_columns(
    cursor: Cursor, columns: Sequence[ViewColumn], layout: Layout, entries: sql.Composable
) -> tuple[int, ...] | None:
    """The places of columns that few of the entries share: what is declared comes first, then each column."""
    declared = list(declared_choices(columns, layout))
    others = [(place,) for place in range(len(columns)) if (place,) not in declared]
    choices = [*declared, *others]
    described = sql.SQL(", ").join(map(_described, choices))
    cursor.execute(load("shared_columns.sql").format(entries=entries, limit=sql.Literal(SAMPLE), choices=described))
    total, sampled, *found = cursor.fetchone()
    for choice, (pairs, unknown, length) in zip(choices, found, strict=True):
        beside = total * pairs / max(sampled * (sampled - 1), 1)
        trusted = choice in declared or (sampled >= ENOUGH and length <= LONGEST)
        if trusted and not unknown and beside <= MOST_BESIDE and _ordered(cursor, columns, choice):
            return choice
    return None


def _ordered(cursor: Cursor, columns: Sequence[ViewColumn], choice: Sequence[int]) -> bool:
    """Whether an index takes the columns. Arrays have the order of their elements, which may have none."""
    return all(comparable(cursor, columns[place].type.removesuffix("[]"), "btree") for place in choice)


def _described(choice: Sequence[int]) -> sql.Composable:
    columns = sql.SQL(", ").join(sql.Identifier(f"c{place + 1}") for place in choice)
    return sql.SQL(
        "(SELECT ARRAY[coalesce(sum(rows * (rows - 1)), 0), coalesce(max(unknown), 0), coalesce(max(length), 0)]"
        " FROM (SELECT count(*) AS rows, max((NOT ROW({0}) IS NOT NULL)::integer) AS unknown,"
        " avg(length(concat({0}))) AS length FROM sample GROUP BY {0}) AS one)"
    ).format(columns)
