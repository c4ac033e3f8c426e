"""Results of a query as Arrow text columns, by COPY: no Python loop sees a row."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
from psycopg2 import sql

__all__ = ["fetch_texts"]


def fetch_texts(cursor: Any, query: sql.Composable, columns: Sequence[str]) -> pa.Table:
    """The query's columns under these names. An unquoted nothing is NULL, a quoted one the empty text."""
    buffer = io.BytesIO()
    cursor.copy_expert(sql.SQL("COPY ({}) TO STDOUT (FORMAT csv)").format(query).as_string(cursor), buffer)
    data = pa.py_buffer(buffer.getbuffer())
    if data.size == 0:
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    return pa_csv.read_csv(
        pa.BufferReader(data),
        read_options=pa_csv.ReadOptions(
            column_names=list(columns), use_threads=False, block_size=min(data.size + 1, 2**31 - 1)
        ),
        parse_options=pa_csv.ParseOptions(
            quote_char='"', double_quote=True, escape_char=False, newlines_in_values=True, ignore_empty_lines=False
        ),
        convert_options=pa_csv.ConvertOptions(
            column_types={name: pa.string() for name in columns},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
