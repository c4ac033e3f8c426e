"""The replication messages that PostgreSQL sends, byte by byte, and what becomes of their values."""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pytest

from dyda.sources.wal.pgoutput import UNCHANGED, Begin, Commit, Described, Message, Other, RowChange, decode


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _tuple(*values: str | bytes | None) -> bytes:
    """A value of bytes is a kind alone."""
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif isinstance(value, bytes):
            parts.append(value)
        else:
            parts.append(b"t" + struct.pack(">I", len(value.encode())) + value.encode())
    return b"".join(parts)


def test_a_transaction_has_its_place_its_time_and_its_number() -> None:
    begin = b"B" + struct.pack(">QqI", 0x16B374D848, 1_000_000, 4294967295)
    assert decode(begin) == Begin(0x16B374D848, datetime(2000, 1, 1, 0, 0, 1, tzinfo=UTC), 4294967295)
    assert decode(b"C\0" + struct.pack(">QQq", 10, 20, 0)) == Commit(10, 20)


def test_a_table_is_described_by_the_names_of_its_columns() -> None:
    columns = b"".join(bytes([1]) + _text(name) + struct.pack(">Ii", 23, -1) for name in ("a", "größe"))
    found = decode(
        b"R" + struct.pack(">I", 4000000000) + _text("public") + _text("t") + b"f" + struct.pack(">H", 2) + columns
    )
    assert found == Described(4000000000, "f", ("a", "größe"))


def test_rows_have_values_nulls_and_what_was_left_alone() -> None:
    relid = struct.pack(">I", 7)
    assert decode(b"I" + relid + b"N" + _tuple("1", None, "")) == RowChange(7, None, ("1", None, ""), True)
    update = b"U" + relid + b"O" + _tuple("1", "long") + b"N" + _tuple("2", b"u")
    assert decode(update) == RowChange(7, ("1", "long"), ("2", UNCHANGED), True)
    assert decode(b"D" + relid + b"O" + _tuple("ä", None)) == RowChange(7, ("ä", None), None, True)


def test_an_old_row_that_is_not_whole_is_known_to_be_none() -> None:
    relid = struct.pack(">I", 7)
    assert decode(b"U" + relid + b"N" + _tuple("2")) == RowChange(7, None, ("2",), False)
    assert decode(b"U" + relid + b"K" + _tuple("1") + b"N" + _tuple("2")) == RowChange(7, ("1",), ("2",), False)
    assert decode(b"D" + relid + b"K" + _tuple("1")) == RowChange(7, ("1",), None, False)


def test_messages_are_transactional_or_not() -> None:
    rest = struct.pack(">Q", 99) + _text("dyda") + struct.pack(">I", 3) + b"a\0b"
    assert decode(b"M\x01" + rest) == Message(True, 99, "dyda", b"a\0b")
    assert decode(b"M\x00" + rest) == Message(False, 99, "dyda", b"a\0b")
    assert decode(b"O" + struct.pack(">Q", 1) + _text("elsewhere")) == Other("O")


@pytest.mark.parametrize(
    "data",
    [
        b"S" + struct.pack(">I", 1),  # a stream of protocol 2
        b"I" + struct.pack(">I", 7) + b"X",
        b"U" + struct.pack(">I", 7) + b"X",
        b"D" + struct.pack(">I", 7) + b"N" + _tuple("1"),
        b"I" + struct.pack(">I", 7) + b"N" + _tuple(b"b"),  # binary
        b"M\x01" + struct.pack(">Q", 1) + _text("p") + struct.pack(">I", 3) + b"a",
    ],
)
def test_what_is_not_known_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"unknown kind|must be|too early"):
        decode(data)
