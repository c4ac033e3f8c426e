"""Looking up what a state delivers, as committed: what the steps above it ask in a sweep, of the warehouse."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from dyda.model.bag import COUNT, Bag
from dyda.warehouse.combining import lookups_only
from dyda.warehouse.connection import load
from dyda.warehouse.fetch import fetch_texts
from dyda.warehouse.sink import copy_batches
from dyda.warehouse.states import StoredState, multiplicity, places

__all__ = ["state_rows"]

WIDEST = {"smallint": "bigint", "integer": "bigint", "character varying": "text", "character": "bpchar"}
"""What a key's text is cast to: the widest type of its family, so that no key is out of range."""


def state_rows(cursor: Any, stored: StoredState, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
    """The delivered rows whose `key` columns equal a tuple of `values` (columns of these names, texts).

    Tuples with a NULL equal nothing (R5).
    """
    state, extent = stored.state, stored.extent
    wanted = pa.Table.from_arrays([values.column(name) for name in key], names=[f"c{i + 1}" for i in range(len(key))])
    wanted = wanted.drop_null().group_by(wanted.column_names, use_threads=False).aggregate([])
    if wanted.num_rows == 0:
        return Bag.empty(columns)
    table = _bring(cursor, wanted)
    query = load("state_rows.sql").format(
        columns=sql.SQL("").join(sql.SQL("{}, ").format(extent.printed(place)) for place in places(state, columns)),
        multiplicity=multiplicity(state, "e"),
        key=sql.SQL(", ").join(sql.Identifier("e", f"c{place + 1}") for place in places(state, key)),
        casts=sql.SQL(", ").join(
            sql.SQL("v.{}::{}").format(sql.Identifier(f"c{i}"), sql.SQL(_widest(extent.types[place])))
            for i, place in enumerate(places(state, key), start=1)
        ),
        values=table,
        extent=extent.identifier,
    )
    names = [*columns, COUNT]
    if {"key", *stored.table.indexed} & set(key):
        with lookups_only(cursor):
            found = fetch_texts(cursor, query, names)
    else:
        found = fetch_texts(cursor, query, names)
    return Bag(found.set_column(len(columns), COUNT, pc.cast(found[COUNT], pa.int64())))


def _bring(cursor: Any, values: pa.Table) -> sql.Identifier:
    width = values.num_columns
    table = sql.Identifier("pg_temp", f"dyda_values_{width}")
    columns = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in values.column_names)
    cursor.execute(
        sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} ({}, n bigint) ON COMMIT DELETE ROWS").format(table, columns)
    )
    counted = values.append_column("n", pa.repeat(pa.scalar(1, pa.int64()), values.num_rows))
    copy_batches(cursor, table, width, counted.to_batches())
    return table


def _widest(type_: str) -> str:
    base = re.sub(r"\(.*\)", "", type_).strip()
    return WIDEST.get(base, base if base in ("numeric", "decimal") else type_)
