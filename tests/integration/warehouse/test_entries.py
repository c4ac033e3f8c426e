"""Entries that a statement reads: a few are part of it, many are in a table that ends with the transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import sql

from dyda.warehouse.extents import entries
from dyda.warehouse.extents.entries import selectable_entries

TEXTS = [
    "a",
    "",
    None,
    "NULL",
    "null",
    "\\",
    '"',
    '\\"',
    "{}",
    "{a,b}",
    "a,b",
    " a ",
    "'",
    "''",
    "%s",
    "\n\t",
    "\ufeff",
    "ä€𝄞",
]
ROWS = pa.table(
    {
        "c1": pa.array(TEXTS, pa.string()),
        "c2": pa.array(TEXTS[::-1], pa.string()),
        "n": pa.array(range(-9, 9), pa.int64()),
        "t": pa.array(range(18), pa.int32()),
    }
)


@pytest.mark.parametrize("few", [True, False], ids=["in the statement", "in a table"])
@pytest.mark.parametrize("rows", [ROWS, ROWS.slice(0, 0), ROWS.slice(2, 1)], ids=["many", "none", "one"])
def test_every_text_arrives_as_it_is(
    database: Callable[..., str], monkeypatch: pytest.MonkeyPatch, few: bool, rows: pa.Table
) -> None:
    monkeypatch.setattr(entries, "FEW_VALUES", 10_000 if few else -1)
    with closing(psycopg2.connect(database("warehouse"))) as connection, connection.cursor() as cursor:
        table = selectable_entries(cursor, "some", 2, rows, ("t",))
        cursor.execute(sql.SQL("SELECT changes.c1, c2, n, t FROM {} ORDER BY t").format(table))
        assert cursor.fetchall() == list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
        cursor.execute("SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()")
        assert (cursor.fetchone() == (0,)) is few


def test_no_table_is_left_to_be_emptied_at_each_commit(
    database: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "FEW_VALUES", -1)
    with closing(psycopg2.connect(database("warehouse"))) as connection, connection.cursor() as cursor:
        for name in ("one", "other", "one"):
            selectable_entries(cursor, name, 2, ROWS, ("t",))
            connection.commit()
        cursor.execute("SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()")
        assert cursor.fetchone() == (0,)
