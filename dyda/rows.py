"""Rows from PostgreSQL's text formats: CSV as COPY writes it, and the inside of a row's text, without a Python loop.

Imports only pyarrow and the standard library, so that Spark can ship it to executors without DyDa.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pa_csv

if TYPE_CHECKING:
    from dyda.cursor import Cursor

__all__ = ["copy_out", "no_columns", "parse_rows"]


def copy_out(cursor: Cursor, query: str, columns: Sequence[str]) -> pa.Table:
    """The result of `query` as text columns named `columns`, whatever the query calls them.

    Without columns, `query` must still return one column (it is dropped, the number of rows stays).
    """
    buffer = io.BytesIO()
    cursor.copy_expert(f"COPY ({query}) TO STDOUT (FORMAT csv)", buffer)
    return parse_rows(pa.py_buffer(buffer.getbuffer()), columns, escape=False)


def parse_rows(data: pa.Buffer, columns: Sequence[str], *, escape: bool) -> pa.Table:
    """CSV as PostgreSQL writes it (COPY, or with `escape` the inside of a row's text) as text columns.

    An unquoted empty value is NULL, a quoted one the empty text; an empty line is one NULL.
    """
    width = max(len(columns), 1)
    places = [f"c{place}" for place in range(width)]
    if data.size == 0:
        table = pa.table({place: pa.array([], pa.string()) for place in places})
    else:
        table = pa_csv.read_csv(
            _whole(data),
            read_options=pa_csv.ReadOptions(
                column_names=places, use_threads=False, block_size=min(data.size + 4, 2**31 - 1)
            ),
            parse_options=pa_csv.ParseOptions(
                quote_char='"',
                double_quote=True,
                escape_char="\\" if escape else False,
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types={place: pa.string() for place in places},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    # A table's column names may repeat; Arrow's may not, so they are renamed last.
    return table.select(places[: len(columns)]).rename_columns(list(columns)) if columns else no_columns(table.num_rows)


def no_columns(number: int) -> pa.Table:
    """`number` rows without a column."""
    return pa.table({"none": pa.nulls(number)}).select([])


def _whole(data: pa.Buffer) -> pa.NativeFile:
    """The data to read from. Arrow takes a U+FEFF at the very start for a byte order mark and drops it; here it is part
    of a value, so another one is put before it."""
    if data.slice(0, min(data.size, 3)).to_pybytes() == codecs.BOM_UTF8:
        return pa.BufferReader(codecs.BOM_UTF8 + data.to_pybytes())
    return pa.BufferReader(data)
