"""Canonical text to typed Arrow columns: exactly, or not at all.

Runs on the driver and inside Spark tasks; needs pyarrow only. No Python code sees a single row, except to find
the one that does not fit. PostgreSQL's values that Spark has no counterpart for (infinity, dates before Christ, NaN
in a numeric, digits beyond the precision) raise ValueDoesNotFit; nothing is rounded, wrapped or replaced.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dyda.errors import ValueDoesNotFit, ValueTooLarge

if TYPE_CHECKING:
    from vm.join_block import FrameColumn

__all__ = ["arrow_type", "typed_column", "typed_table"]

_TYPES = {
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "BINARY": pa.binary(),
}

LARGEST_VALUE = 64 * 2**20
"""Bytes of one value's text. Spark has it in memory several times at once: at its default of 1 GB the driver ends with
one of 110 MB, whichever view it is for, and again at each attempt."""


def arrow_type(spark_type: str | None) -> pa.DataType:
    """The Arrow type in which values of a Spark type travel."""
    if spark_type is None:
        return pa.string()
    decimal = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", spark_type.replace(" ", "").upper())
    if decimal:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return _TYPES[spark_type.upper()]


def typed_table(texts: pa.Table, frame: Sequence[FrameColumn], relation: str) -> pa.Table:
    """The frame's columns from a table of canonical texts, found by position."""
    arrays = [
        typed_column(texts.column(column.position), column.spark_type, relation, column.source_column)
        for column in frame
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in frame])


def typed_column(texts: pa.ChunkedArray, spark_type: str | None, relation: str, column: str) -> pa.ChunkedArray:
    """One column; `relation` and `column` are for the error."""
    target = arrow_type(spark_type)
    if texts.nbytes > LARGEST_VALUE and (largest := pc.max(pc.binary_length(texts)).as_py() or 0) > LARGEST_VALUE:
        raise ValueTooLarge(relation, column, largest, LARGEST_VALUE)
    if pa.types.is_string(target):
        return texts
    try:
        return _converted(texts, target)
    except (pa.ArrowInvalid, ValueError, OverflowError):
        raise ValueDoesNotFit(relation, column, _culprit(texts, target), str(spark_type)) from None


def _converted(texts: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_boolean(target):
        known = pc.fill_null(pc.is_in(texts, value_set=pa.array(["t", "f"])), True)
        if not pc.all(pc.or_(known, pc.is_null(texts)), min_count=0).as_py():
            raise ValueError("neither t nor f")
        return pc.equal(texts, "t")
    if pa.types.is_binary(target):
        chunks = [_unhexed(chunk) for chunk in texts.chunks]
        return pa.chunked_array(chunks, pa.binary())
    if pa.types.is_decimal(target):
        return _decimal(texts, target)
    if pa.types.is_date(target):
        _require(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
        return pc.cast(texts, target)
    if pa.types.is_timestamp(target):
        _require(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(\+00)?$")
        if target.tz is None:
            return pc.cast(texts, target)
        # The session that produced the text was pinned to UTC, so the offset is always +00.
        return pc.cast(pc.replace_substring_regex(texts, r"\+00$", "Z"), target)
    return pc.cast(texts, target)


def _require(texts: pa.ChunkedArray, pattern: str) -> None:
    """Four-digit years only: `infinity`, `44-03-15 BC` and the year 10000 have no counterpart in Spark."""
    if not pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py():
        raise ValueError("outside of years 1 to 9999")


def _decimal(texts: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    try:
        return pc.cast(texts, target)
    except pa.ArrowInvalid:
        # More digits written than the type holds is no loss where the rest is zeros: 1.5000000000000000000000.
        trimmed = pc.replace_substring_regex(texts, r"^(-?[0-9]+\.[0-9]*?)0+$", r"\1")
        return pc.cast(pc.replace_substring_regex(trimmed, r"\.$", ""), target)


def _unhexed(texts: pa.Array) -> pa.Array:
    r"""`\x0aff` to bytes: all rows in one call, then offsets are halved."""
    if len(texts) == 0:
        return pa.array([], pa.binary())
    filled = pc.fill_null(texts, "\\x")
    if not pc.all(pc.starts_with(filled, "\\x")).as_py():
        raise ValueError("not in bytea_output = hex")
    digits = pc.utf8_slice_codeunits(filled, 2)
    lengths = pc.divide(pc.binary_length(digits), 2)
    if not pc.all(pc.equal(pc.multiply(lengths, 2), pc.binary_length(digits))).as_py():
        raise ValueError("half a byte")
    ends = pc.cast(pc.cumulative_sum(lengths), pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    content = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(digits)], pa.int32()), digits), "")[0].as_py()
    raw = pa.py_buffer(bytes.fromhex(content))
    unpacked = pa.Array.from_buffers(pa.binary(), len(texts), [None, offsets.buffers()[1], raw])
    return pc.if_else(pc.is_valid(texts), unpacked, pa.scalar(None, pa.binary()))


def _culprit(texts: pa.ChunkedArray, target: pa.DataType) -> str:
    """The first value that does not convert, by halving."""
    rest = texts
    while len(rest) > 1:
        middle = len(rest) // 2
        try:
            _converted(rest.slice(0, middle), target)
            rest = rest.slice(middle)
        except (pa.ArrowInvalid, ValueError, OverflowError):
            rest = rest.slice(0, middle)
    return str(rest[0].as_py())
