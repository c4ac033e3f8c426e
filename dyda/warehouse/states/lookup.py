"""Looking up what a state delivers, as committed: what the steps above it ask in a sweep, of the warehouse."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.model.bag import COUNT, Bag
from dyda.rows import copy_out
from dyda.warehouse.connection import load
from dyda.warehouse.extents.entries import selectable_entries
from dyda.warehouse.extents.extent import lookups_only
from dyda.warehouse.states.tables import StoredState, multiplicity, places

__all__ = ["state_rows"]

WIDEST = {"smallint": "bigint", "integer": "bigint", "character varying": "text", "character": "bpchar"}
"""What a key's text is cast to: the widest type of its family, so that no key is out of range."""


def state_rows(
    cursor: Cursor, stored: StoredState, columns: Sequence[str], key: Sequence[str], values: pa.Table
) -> Bag:
    """The delivered rows whose `key` columns equal a tuple of `values` (columns of these names, texts).

    Tuples with a NULL equal nothing (R5). Without key columns every row is meant.
    """
    state, extent = stored.state, stored.extent
    shown = sql.SQL("").join(sql.SQL("{}, ").format(extent.printed(place)) for place in places(state, columns))
    parts = {"columns": shown, "multiplicity": multiplicity(state, "e"), "extent": extent.identifier}
    if not key:
        return _fetch(cursor, load("state_rows.sql").format(condition=sql.SQL("true"), **parts), columns)
    wanted = pa.Table.from_arrays([values.column(name) for name in key], names=[f"c{i + 1}" for i in range(len(key))])
    wanted = wanted.drop_null().group_by(wanted.column_names, use_threads=False).aggregate([])
    if wanted.num_rows == 0:
        return Bag.empty(columns)
    wanted = wanted.append_column("n", pa.repeat(pa.scalar(1, pa.int64()), wanted.num_rows))
    table = selectable_entries(cursor, "values", len(key), wanted)
    condition = sql.SQL("({}) IN (SELECT {} FROM {})").format(
        sql.SQL(", ").join(sql.Identifier("e", f"c{place + 1}") for place in places(state, key)),
        sql.SQL(", ").join(
            sql.SQL("changes.{}::{}").format(sql.Identifier(f"c{i}"), sql.SQL(_widest(extent.types[place])))
            for i, place in enumerate(places(state, key), start=1)
        ),
        table,
    )
    query = load("state_rows.sql").format(condition=condition, **parts)
    if {"key", *stored.table.indexed} & set(key):
        with lookups_only(cursor):
            return _fetch(cursor, query, columns)
    return _fetch(cursor, query, columns)


def _fetch(cursor: Cursor, query: sql.Composable, columns: Sequence[str]) -> Bag:
    found = copy_out(cursor, query.as_string(cursor), [*columns, COUNT])
    return Bag(found.set_column(len(columns), COUNT, pc.cast(found[COUNT], pa.int64())))


def _widest(type_: str) -> str:
    base = re.sub(r"\(.*\)", "", type_).strip()
    return WIDEST.get(base, base if base in ("numeric", "decimal") else type_)
