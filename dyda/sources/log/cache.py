"""What was read of a source's log and is not acknowledged yet: a poll reads only what is new.

    log     ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░        ▓ visible to the last poll: kept here   ░ new: read now
            └ after ┘                      and what `after` has is forgotten

Entries of a transaction never change, so what is kept is what would be read again, with one exception: a source that
crashes may lose a transaction that was visible, and reuse its number (P2). A crash ends every session of the server, so
all that is kept here belongs to one session and is forgotten when that ends.
"""

from __future__ import annotations

from dyda.model.position import Position
from dyda.sources.connection import Sessions, load_sql, translate
from dyda.sources.log.commit_order import Look, contradicts
from dyda.sources.log.transactions import Transaction, transactions
from dyda.sources.stalled_server import PatientConnection

__all__ = ["Received"]


class Received:
    """The transactions of one source's log that one session has read and that are not acknowledged yet."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._session: PatientConnection | None = None
        self._waiting: dict[int, Transaction] = {}
        self._since: Position | None = None
        self._until: Position | None = None
        """Everything between these two is here; no `_until`: nothing is."""
        self._log: object = None
        self._look: Look | None = None
        self._doubted: set[int] = set()
        """Those read when the source's clock was found to be wrong."""
        self.rows = 0
        """How many rows were read so far: what polls cost."""

    @property
    def clock(self) -> bool:
        """Whether the source's clock can be trusted for everything that waits."""
        return not self._doubted

    def forget(self) -> None:
        """Read everything again next time."""
        self._waiting, self._doubted, self._until, self._look = {}, set(), None, None

    def acknowledged(self, position: Position) -> None:
        """The source has deleted these."""
        self._waiting = {x: found for x, found in self._waiting.items() if not position.includes(x)}

    def close(self) -> None:
        self.forget()
        if self._session is not None:
            self._session.close()
            self._session = None

    def read(self, begin: str, log: object, now: Look, after: Position | None) -> dict[int, Transaction]:
        """The transactions that `now` has and `after` does not. `begin` opens a transaction under the snapshot that
        `now` is about; `log` is equal for two snapshots if nothing has happened to the log but what is in it."""
        until = now.position
        session = self._begin(begin)
        try:
            known = self._until
            has_all = self._since is None or (after is not None and after.covers(self._since))
            if known is None or log != self._log or not until.covers(known) or not has_all:
                self.forget()
                known = after
            with translate(self._sessions.settings.name), session.cursor() as cursor:
                cursor.execute(load_sql("messages"), {"after": None if known is None else str(known)})
                self.rows += cursor.rowcount
                new = transactions(cursor.fetchall())
                cursor.execute("COMMIT")
            if any(contradicts(one, self._look, now) for one in new.values()):
                self._doubted |= new.keys()
            self._waiting |= new
        except BaseException:
            self.close()
            raise
        if after is not None:
            self._waiting = {x: found for x, found in self._waiting.items() if not after.includes(x)}
        self._doubted &= self._waiting.keys()
        self._since, self._until, self._log, self._look = after, until, log, now
        return self._waiting

    def _begin(self, begin: str) -> PatientConnection:
        if self._session is not None and not self._sessions.resume(self._session, begin):
            self.close()
        if self._session is None:
            self.forget()
            self._session = self._sessions.begin(begin)
        return self._session
