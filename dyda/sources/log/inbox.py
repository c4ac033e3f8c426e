"""The messages of what waits in a log, kept from poll to poll: only those of new transactions are made.

What a message says depends on its transaction and on the names that its reader knows. Its place depends on the others.
So all are made again, and put in order again,

- if everything was read again, or the reader knows a table by another name, or watches others;
- while a transaction waits that gives a table's name to another table: what a name means depends on the order then;
- while the order is in doubt, and if a new transaction does not come after all that are here.
"""

from __future__ import annotations

from collections.abc import Iterable

from dyda.model.message import UpdateMessage
from dyda.sources.adapter import Inbox
from dyda.sources.log.commit_order import Moment, is_settled, latest
from dyda.sources.log.messages import Names, read_messages
from dyda.sources.log.schema_entries import SchemaEntry
from dyda.sources.log.transactions import Reading, Transaction

__all__ = ["KeptMessages"]


class KeptMessages:
    """Those of one source's log, as one reader knows its tables."""

    def __init__(self) -> None:
        self._messages: dict[int, UpdateMessage] = {}
        self._read: int | None = None
        """The number of the reading that these are of."""
        self._names: object = None
        self._replacing: set[int] = set()
        """Transactions that give a table's name to another table."""
        self._latest: Moment | None = None
        """Nothing that waits is later; None: the order is in doubt."""
        self._clock = True

    def inbox(self, source: str, reading: Reading, names: Names, *, clock: bool) -> Inbox:
        """What waits now. `names` are those that the reader begins with."""
        known = (names.known, names.watched, names.by_oid)
        went_on = reading.before is not None and reading.before == self._read
        if not went_on:
            self._replacing.clear()
        self._replacing.difference_update(reading.gone)
        self._replacing.update(_replacing(reading.new.values() if went_on else reading.waiting.values()))
        moment = latest(reading.new.values())
        added = (
            went_on
            and known == self._names
            and clock == self._clock
            and not self._replacing
            and self._latest is not None
            and self._latest.precedes(moment)
        )
        if added:
            for xid in reading.gone:
                self._messages.pop(xid, None)
            new = read_messages(source, reading.new, names, clock=clock)
            self._messages |= {message.xid: message for message in new}
            if reading.new:
                self._latest = moment if is_settled(reading.new.values(), clock=clock) else None
        else:
            new = read_messages(source, reading.waiting, names, clock=clock)
            self._messages = {message.xid: message for message in new}
            every = reading.waiting.values()
            self._latest = latest(every) if is_settled(every, clock=clock) else None
        self._read, self._names, self._clock = reading.number, known, clock
        return Inbox(dict(self._messages), new, reading.gone, reading.before if added else None, reading.number)


def _replacing(found: Iterable[Transaction]) -> set[int]:
    return {
        one.xid
        for one in found
        if one.changes_schema
        and any(
            op == "S" and SchemaEntry.read(root, image).replaces
            for (root, op, *_), image in zip(one.entries, one.images, strict=True)
        )
    }
