"""The queue of received messages: which transactions are in it, and under which numbers."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from dyda.model.message import Change, UpdateMessage
from dyda.model.position import Position
from dyda.warehouse.catalog.codec import changes_to_json, name_to_text
from dyda.warehouse.connection import load
from dyda.warehouse.fenced_session import FencedSession

__all__ = ["MessageQueue"]


class MessageQueue:
    """Only the process with this session writes the queue, so what it knows of it is true."""

    def __init__(self, session: FencedSession) -> None:
        self._session = session
        self._numbers: dict[str, dict[int, tuple[int, _Identity]]] = {}
        """By source and transaction: its number in the queue, and its identity."""
        self._places: dict[int, tuple[str, int]] = {}
        """By number, the source and the transaction."""
        self._eras: Counter[str] = Counter()
        """By source, how often a transaction that is in the queue has got another number."""

    def era(self, source: str) -> int:
        """As long as this stays, numbers do."""
        return self._eras[source]

    def has(self, source: str, xids: AbstractSet[int]) -> bool:
        """Whether all of these are in the queue."""
        return xids <= self._numbers.get(source, {}).keys()

    def receive(self, source: str, messages: Sequence[UpdateMessage]) -> dict[int, int]:
        """Puts messages into the queue in this order, except those that are there already or in every extent.

        Returns the queue's number of each transaction in it.
        """
        with self._session.turn:
            if source not in self._numbers:
                self._numbers[source] = self._stored(source)
                self._places |= {number: (source, xid) for xid, (number, _) in self._numbers[source].items()}
            known = self._numbers[source]
            # A crash at the source may have undone a transaction that was seen, and another may have got its id.
            undone = {m.xid for m in messages if m.xid in known and not _is_same(m, known[m.xid][1])}
            new = [message for message in messages if message.xid not in known or message.xid in undone]
            if new:
                numbers = self._receive(source, new, undone)
                for xid in undone:
                    self._places.pop(known.pop(xid)[0], None)
                    self._eras[source] += 1
                known |= {m.xid: (numbers[m.xid], (m.last_sequence, m.committed_at)) for m in new if m.xid in numbers}
                self._places |= {number: (source, xid) for xid, number in numbers.items()}
            return {message.xid: known[message.xid][0] for message in messages if message.xid in known}

    def _receive(self, source: str, messages: Sequence[UpdateMessage], undone: Collection[int]) -> dict[int, int]:
        with self._session.writing() as cursor:
            # Lost in a crash, they are received again; what is decided about them is written after them.
            cursor.execute("SET LOCAL synchronous_commit = off")
            if undone:
                cursor.execute("DELETE FROM dyda.message WHERE source = %s AND xid = ANY(%s)", (source, list(undone)))
            cursor.execute("SELECT position FROM dyda.position WHERE source = %s", (source,))
            common = Position.meet(Position.parse(text) for (text,) in cursor.fetchall())
            lacking = [message for message in messages if common is None or not common.includes(message.xid)]
            if not lacking:
                return {}
            cursor.execute(load("receive.sql"), _rows(source, lacking))
            return dict(cursor.fetchall())

    def _stored(self, source: str) -> dict[int, tuple[int, _Identity]]:
        with self._session.reading() as cursor:
            cursor.execute("SELECT xid, id, last_sequence, committed_at FROM dyda.message WHERE source = %s", (source,))
            return {xid: (number, (sequence, at)) for xid, number, sequence, at in cursor.fetchall()}

    def forget(self, done: Collection[int]) -> None:
        """These numbers are not in the queue any more."""
        for number in done:
            if number in self._places:
                source, xid = self._places.pop(number)
                self._numbers[source].pop(xid, None)

    def forget_source(self, source: str) -> None:
        for number, _ in self._numbers.pop(source, {}).values():
            self._places.pop(number, None)
        self._eras[source] += 1


_Identity = tuple[int, datetime.datetime | None]
"""A transaction's last place in its source's log, and when it was committed, if that is known."""


def _is_same(message: UpdateMessage, stored: _Identity) -> bool:
    """Whether it is the transaction that the queue has under its id."""
    sequence, at = stored
    known = message.committed_at is not None and at is not None
    return message.last_sequence == sequence and (message.committed_at == at or not known)


def _rows(source: str, messages: Sequence[UpdateMessage]) -> dict[str, Any]:
    """The messages column by column, and what they did, once each."""
    shapes: dict[tuple[Change, ...], int] = {}
    first: list[UpdateMessage] = []
    numbers = []
    for message in messages:
        number = shapes.setdefault(message.changes, len(first) + 1)
        if number > len(first):
            first.append(message)
        numbers.append(number)
    return {
        "source": source,
        "xids": [message.xid for message in messages],
        "sequences": [message.last_sequence for message in messages],
        "shapes": numbers,
        "committed": [message.committed_at and message.committed_at.isoformat() for message in messages],
        "kinds": [message.kind for message in first],
        "changes": [json.dumps(changes_to_json(message)) for message in first],
        "relations": [json.dumps(sorted(map(name_to_text, message.relations))) for message in first],
        "counts": [message.rows for message in first],
    }
