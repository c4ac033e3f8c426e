"""PostgreSQL's logical replication messages (pgoutput, protocol 1, text) as data. Pure: bytes in, frozen objects out.

A transaction comes whole, once it has committed: Begin, then Relation (before the first row of each shape of a table),
rows and logical messages in the order in which they were written, then Commit. Numbers are big-endian. Strings end with
a zero byte. What this module does not know is an error: nothing is skipped in silence.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

__all__ = ["UNCHANGED", "Begin", "Commit", "Described", "Message", "Other", "RowChange", "Unchanged", "decode"]

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class Unchanged:
    """A value stored out of line that an update left alone: the log does not repeat it."""


UNCHANGED = Unchanged()

Value: TypeAlias = str | Unchanged | None
Values: TypeAlias = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """`lsn`: where the commit record begins. `xid` has 32 bits."""

    lsn: int
    committed: datetime
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """`end`: the first byte after the commit record."""

    lsn: int
    end: int


@dataclass(frozen=True, slots=True)
class Described:
    """What the rows of a table look like from here on. `identity` is pg_class.relreplident."""

    relid: int
    identity: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowChange:
    """`old` or `new` is None where there is no such row, and `old` is also where the table does not log it. `whole`:
    `old` is the whole row, not its key alone."""

    relid: int
    old: Values | None
    new: Values | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Message:
    """What pg_logical_emit_message has written."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Other:
    """What says nothing about rows: a type's name, the origin of a transaction, a truncation (told by a message)."""

    kind: str


Decoded: TypeAlias = Begin | Commit | Described | RowChange | Message | Other


def decode(data: bytes) -> Decoded:
    """One message."""
    reader = _Reader(data)
    kind = chr(reader.byte())
    match kind:
        case "I":
            relid = reader.number("I")
            reader.expect("N")
            return RowChange(relid, None, reader.values(), True)
        case "U":
            relid = reader.number("I")
            tag = chr(reader.byte())
            old = None
            if tag in "OK":
                old = reader.values()
                reader.expect("N")
            elif tag != "N":
                raise ValueError(f"an update has a tuple of the unknown kind {tag}")
            return RowChange(relid, old, reader.values(), tag == "O")
        case "D":
            relid = reader.number("I")
            tag = chr(reader.byte())
            if tag not in "OK":
                raise ValueError(f"a deletion has a tuple of the unknown kind {tag}")
            return RowChange(relid, reader.values(), None, tag == "O")
        case "R":
            relid = reader.number("I")
            reader.text()
            reader.text()
            identity = chr(reader.byte())
            columns = []
            for _ in range(reader.number("H")):
                reader.byte()
                columns.append(reader.text())
                reader.number("I")
                reader.number("i")
            return Described(relid, identity, tuple(columns))
        case "B":
            lsn, micros, xid = reader.number("Q"), reader.number("q"), reader.number("I")
            return Begin(lsn, EPOCH + timedelta(microseconds=micros), xid)
        case "C":
            reader.byte()
            return Commit(reader.number("Q"), reader.number("Q"))
        case "M":
            flags, lsn, prefix = reader.byte(), reader.number("Q"), reader.text()
            return Message(flags & 1 == 1, lsn, prefix, reader.bytes(reader.number("I")))
        case "Y" | "O" | "T":
            return Other(kind)
        case _:
            raise ValueError(f"a replication message of the unknown kind {kind!r}")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def expect(self, tag: str) -> None:
        found = chr(self.byte())
        if found != tag:
            raise ValueError(f"a replication message has {found!r} where {tag!r} must be")

    def number(self, form: str) -> int:
        (found,) = struct.unpack_from(">" + form, self._data, self._at)
        self._at += struct.calcsize(">" + form)
        return int(found)

    def text(self) -> str:
        end = self._data.index(0, self._at)
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def bytes(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if len(found) != length:
            raise ValueError("a replication message ends too early")
        self._at += length
        return found

    def values(self) -> Values:
        found: list[Value] = []
        for _ in range(self.number("H")):
            match chr(self.byte()):
                case "t":
                    found.append(self.bytes(self.number("I")).decode())
                case "n":
                    found.append(None)
                case "u":
                    found.append(UNCHANGED)
                case kind:
                    raise ValueError(f"a value of the unknown kind {kind!r}: text was asked for")
        return tuple(found)
