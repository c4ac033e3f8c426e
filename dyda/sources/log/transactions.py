"""A source's transactions, as its log has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dyda.model.message import UpdateMessage

__all__ = ["Reading", "Transaction", "transactions"]


@dataclass(slots=True)
class Transaction:
    """The rows of sql/messages.sql of one transaction; `entries` are (root, op, inserted, deleted) of each."""

    xid: int
    last: int
    committed: datetime | None
    entries: tuple[tuple[int, str, int, int], ...]
    images: tuple[str | None, ...]
    changes_schema: bool
    message: UpdateMessage | None = None
    """The message that was last made of it."""


@dataclass(frozen=True)
class Reading:
    """All transactions that wait, and how that differs from an earlier reading."""

    waiting: Mapping[int, Transaction]
    new: Mapping[int, Transaction]
    gone: frozenset[int]
    before: int | None
    """The number of the reading that `new` and `gone` are counted from; None: everything was read again."""
    number: int


def transactions(rows: Iterable[Sequence[Any]]) -> dict[int, Transaction]:
    """The rows by transaction."""
    by_xid: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        by_xid.setdefault(row[0], []).append(row)
    found = {}
    shared: dict[object, Any] = {}  # most transactions do what many others do: kept once
    for xid, mine in by_xid.items():
        entries = tuple((row[1], row[2], row[3], row[4]) for row in mine)
        images = tuple(row[5] for row in mine)
        entries, images = shared.setdefault(entries, entries), shared.setdefault(images, images)
        found[xid] = Transaction(xid, mine[-1][6], mine[-1][7], entries, images, any(row[2] == "S" for row in mine))
    return found
