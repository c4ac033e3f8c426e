"""What was read of a source's log and is not acknowledged yet: a poll reads only what is new.

    log     ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓░░░░░░        ▓ visible to the last poll: kept here   ░ new: read now
            └ after ┘                      and what `after` has is forgotten

Entries of a transaction never change, so what is kept is what would be read again, with one exception: a source that
crashes may lose a transaction that was visible, and reuse its number (P2). A crash ends every session of the server, so
all that is kept here belongs to one session and is forgotten when that ends.

All is read again if `after` has gone back, as when a held view is let go, if the log is another one or has a new gap,
and after capture was attached again. Then the reading says so (`before` is None).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.model.position import Position
from dyda.model.xids import Xids
from dyda.sources.connection import Sessions, load_sql, translate
from dyda.sources.log.commit_order import Look, contradicts
from dyda.sources.log.inbox import KeptMessages
from dyda.sources.log.reader import FIELDS, HeldState
from dyda.sources.log.transactions import Reading, Transaction, transactions
from dyda.sources.stalled_server import PatientConnection

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Received"]

IMAGES = (
    "SELECT seq, xid, op, root, shape, image FROM dyda.entries({after}::pg_snapshot) WHERE op IN ('I', 'D')"
    " AND root = ANY ({roots}::oid[]) AND ({xids}::text[] IS NULL OR xid::text = ANY ({xids}::text[]))"
    " ORDER BY xid, seq"
)
IMAGES_OF = (
    "SELECT seq, xid, op, root, shape, image FROM dyda.images_of({xids}::xid8[])"
    " WHERE root = ANY ({roots}::oid[]) ORDER BY xid, seq"
)

_NUMBERS = itertools.count(1)


class Received:
    """The transactions of one source's log that one session has read and that are not acknowledged yet."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._session: PatientConnection | None = None
        self._waiting: dict[int, Transaction] = {}
        self._xids = Xids()
        self._of_table: dict[int, dict[int, None]] = {}
        """By the table's oid, the transactions that wrote to it."""
        self._gone: set[int] = set()
        """Those acknowledged since the last reading."""
        self._reading = 0
        """The number of the last reading. No other has it, of whatever source."""
        self._since: Position | None = None
        self._until: Position | None = None
        """Everything between these two is here; no `_until`: nothing is."""
        self._log: object = None
        self._look: Look | None = None
        self._doubted: set[int] = set()
        """Those read when the source's clock was found to be wrong."""
        self._finds_images = False
        self.messages = KeptMessages()
        self.rows = 0
        """How many rows were read so far: what polls cost."""

    @property
    def clock(self) -> bool:
        """Whether the source's clock can be trusted for everything that waits."""
        return not self._doubted

    def images(
        self, now: HeldState, roots: Collection[int], after: Position | None, xids: Collection[int] | None
    ) -> pa.Table:
        """The entries about rows of these relations that the state has and `after` does not."""
        from dyda.rows import copy_out

        with self._sessions.transaction(now.begin) as cursor:
            direct = xids is not None and self.finds_images(cursor)
            query = sql.SQL(IMAGES_OF if direct else IMAGES).format(
                after=sql.Literal(str(after) if after else None),
                roots=sql.Literal(list(roots)),
                xids=sql.Literal(None if xids is None else [str(xid) for xid in xids]),
            )
            return copy_out(cursor, query.as_string(cursor), FIELDS)

    def finds_images(self, cursor: Cursor) -> bool:
        """Whether the source can be asked for the images of some transactions alone: an older DyDa's cannot, nor one
        where the role was given no right to that yet."""
        if not self._finds_images:
            cursor.execute(
                "SELECT coalesce(has_function_privilege(to_regprocedure('dyda.images_of(xid8[])'), 'EXECUTE'), false)"
            )
            self._finds_images = bool(cursor.fetchone()[0])
        return self._finds_images

    def forget(self) -> None:
        """Read everything again next time."""
        self._finds_images = False
        self._waiting, self._xids, self._of_table, self._gone = {}, Xids(), {}, set()
        self._doubted, self._until, self._look = set(), None, None

    def acknowledged(self, position: Position) -> None:
        """The source has deleted these."""
        self._gone.update(self._remove(position))

    def writers(self, table: int) -> Collection[int]:
        """The transactions that wait and have entries about the table with this oid."""
        return self._of_table.get(table, {}).keys()

    def close(self) -> None:
        self.forget()
        if self._session is not None:
            self._session.close()
            self._session = None

    def read(self, state: HeldState, after: Position | None) -> Reading:
        """The transactions that the state has and `after` does not."""
        now, log = state.look, state.log
        until = now.position
        session = self._begin(state.begin)
        try:
            known = self._until
            has_all = self._since is None or (after is not None and after.covers(self._since))
            if known is None or log != self._log or not until.covers(known) or not has_all:
                self.forget()
                known = after
            before = None if self._until is None else self._reading
            with translate(self._sessions.settings.name), session.cursor() as cursor:
                cursor.execute(load_sql("messages"), {"after": None if known is None else str(known)})
                self.rows += cursor.rowcount
                new = transactions(cursor.fetchall())
                cursor.execute("COMMIT")
            if any(contradicts(one, self._look, now) for one in new.values()):
                self._doubted |= new.keys()
            self._add(new)
        except BaseException:
            self.close()
            raise
        if after is not None:
            self.acknowledged(after)
        gone, self._gone = frozenset(self._gone), set()
        self._reading = next(_NUMBERS)
        self._since, self._until, self._log, self._look = after, until, log, now
        new = {xid: one for xid, one in new.items() if xid not in gone}
        return Reading(self._waiting, new, gone, before, self._reading)

    def _add(self, new: Mapping[int, Transaction]) -> None:
        self._waiting |= new
        self._xids.add(new)
        for xid, one in new.items():
            for table, *_ in one.entries:
                self._of_table.setdefault(table, {})[xid] = None

    def _remove(self, position: Position) -> list[int]:
        found = self._xids.take(position)
        for xid in found:
            for table, *_ in self._waiting.pop(xid).entries:
                self._of_table[table].pop(xid, None)
        self._doubted.difference_update(found)
        return found

    def _begin(self, begin: str) -> PatientConnection:
        if self._session is not None and not self._sessions.resume(self._session, begin):
            self.close()
        if self._session is None:
            self.forget()
            self._session = self._sessions.begin(begin)
        return self._session
