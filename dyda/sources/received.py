"""What was read of a source's log and is still waiting: a poll reads only what came since the one before.

    log     ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░        ▓ visible to the last poll: kept here   ░ new: read now
            └ after ┘                      and what `after` has is forgotten

Entries of a transaction never change, so what is kept is what would be read again, with one exception: a source that
crashes may lose a transaction that was visible, and give its number to another one (P2). Every session of a server ends
with a crash, and so all that is kept here belongs to one session and is forgotten when that ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dyda.model.message import UpdateMessage
from dyda.model.position import Position
from dyda.sources.connection import Sessions, load_sql, translate

__all__ = ["Received", "Transaction", "transactions"]


@dataclass(slots=True)
class Transaction:
    """The rows of sql/messages.sql of one transaction; `told` are (root, op, inserted, deleted) of each."""

    xid: int
    last: int
    committed: datetime | None
    told: tuple[tuple[int, str, int, int], ...]
    images: tuple[str | None, ...]
    changes_schema: bool
    message: UpdateMessage | None = None
    """What was last made of it."""


def transactions(rows: Iterable[Sequence[Any]]) -> dict[int, Transaction]:
    """The rows by transaction."""
    entries: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        entries.setdefault(row[0], []).append(row)
    found = {}
    alike: dict[object, Any] = {}  # most transactions do what many others do: that is kept once
    for xid, mine in entries.items():
        told = tuple((row[1], row[2], row[3], row[4]) for row in mine)
        images = tuple(row[5] for row in mine)
        told, images = alike.setdefault(told, told), alike.setdefault(images, images)
        found[xid] = Transaction(xid, mine[-1][6], mine[-1][7], told, images, any(row[2] == "S" for row in mine))
    return found


class Received:
    """The transactions of one source's log that were read by one session and that nobody has yet."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._session: Any = None
        self._waiting: dict[int, Transaction] = {}
        self._since: Position | None = None
        self._until: Position | None = None
        """Everything between these two is here; no `_until`: nothing is."""
        self._log: object = None
        self.rows = 0
        """How many rows were read so far: what polls cost."""

    def forget(self) -> None:
        """Read everything again next time."""
        self._waiting, self._until = {}, None

    def acknowledged(self, position: Position) -> None:
        """The source has forgotten these."""
        self._waiting = {x: found for x, found in self._waiting.items() if not position.includes(x)}

    def close(self) -> None:
        self.forget()
        if self._session is not None:
            self._session.close()
            self._session = None

    def read(self, begin: str, log: object, until: Position, after: Position | None) -> dict[int, Transaction]:
        """The transactions that `until` has and `after` does not. `begin` opens a transaction under the snapshot that
        `until` names; `log` is equal for two snapshots if nothing has happened to the log but what is in it."""
        self._begin(begin)
        try:
            known = self._until
            if known is None or log != self._log or not until.covers(known) or not self._has_all_since(after):
                self.forget()
                known = after
            with translate(self._sessions.settings.name), self._session.cursor() as cursor:
                cursor.execute(load_sql("messages"), {"after": None if known is None else str(known)})
                self.rows += cursor.rowcount
                self._waiting |= transactions(cursor.fetchall())
                cursor.execute("COMMIT")
        except BaseException:
            self.close()
            raise
        if after is not None:
            self._waiting = {x: found for x, found in self._waiting.items() if not after.includes(x)}
        self._since, self._until, self._log = after, until, log
        return self._waiting

    def _has_all_since(self, after: Position | None) -> bool:
        if self._since is None:
            return True
        return after is not None and after.covers(self._since)

    def _begin(self, begin: str) -> None:
        if self._session is not None and not self._sessions.resume(self._session, begin):
            self.close()
        if self._session is None:
            self.forget()
            self._session = self._sessions.begin(begin)
