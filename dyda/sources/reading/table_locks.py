"""Locks that let a unit that was broken too often finish (paper 001, Section 5; termination).

    holder ─── BEGIN; LOCK TABLE … IN ACCESS SHARE MODE ─────── (idle, at most `limit` seconds) ─────── ROLLBACK
    reader ─── BEGIN; LOCK TABLE … IN ACCESS SHARE MODE; SET TRANSACTION SNAPSHOT …; lookups, scans ─── ROLLBACK

Each query of the reader ends with ROLLBACK TO SAVEPOINT: what reading a table has set must not affect the next.

Readers and writers at the source notice nothing; a schema change waits until the unit is done or the limit is reached,
which the server itself enforces, whatever happens to us. After that a schema change may slip in again, and the
fingerprint after the last read shows it.

A lock requested behind a waiting schema change waits too, and the schema change waits for us. So everything is read in
one session that has the locks already, including what Spark's tasks would read: it is kept in files for them.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import BrokenUnit, SourceBusy
from dyda.model.relation import RelationName
from dyda.rows import copy_out
from dyda.sources import catalog
from dyda.sources.connection import FRESH, WRITING, Sessions, translate
from dyda.sources.reading.copy import keep_rows
from dyda.sources.stalled_server import PatientConnection

__all__ = ["TableLocks"]

PATIENCE = "400ms"
"""How long one attempt may hold some of the locks and wait for the others: less than PostgreSQL's deadlock_timeout, so
that a deadlock with us never ends a transaction of the source's."""


class TableLocks:
    """ACCESS SHARE locks on these relations and everything below them, and a session that reads under them."""

    def __init__(self, sessions: Sessions, relations: Mapping[RelationName, int | None], limit: float) -> None:
        self._sessions = sessions
        self._relations = relations
        self._holder: PatientConnection | None = None
        self._reader: PatientConnection | None = None
        self._turn = threading.Lock()
        self._until = 0.0
        self._files: tempfile.TemporaryDirectory[str] | None = None
        deadline = time.monotonic() + limit
        pause = 0.02
        while self._holder is None:
            try:
                self._take(limit)
            except SourceBusy:
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 0.5)

    def release(self) -> None:
        for session in (self._holder, self._reader):
            if session is not None:
                self._give_back(session)
        self._holder = self._reader = None
        if self._files is not None:
            self._files.cleanup()
            self._files = None

    def on(self, relations: Collection[RelationName]) -> bool:
        """Whether all of these are locked, as far as we know."""
        return self._reader is not None and time.monotonic() < self._until and self._relations.keys() >= set(relations)

    def show(self, exported: str) -> None:
        """Read under this snapshot from now on."""
        with self._asking(()) as cursor:
            cursor.execute("SET TRANSACTION SNAPSHOT %s", (exported,))
            cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{self._left()}ms'")

    @contextlib.contextmanager
    def reading(self, relations: Collection[RelationName]) -> Iterator[Cursor]:
        """A cursor for one query under locks and snapshot; one at a time, and none beyond the limit."""
        with self._asking(relations) as cursor:
            longest = min(self._left(), int(self._sessions.settings.statement_timeout * 1000) or self._left())
            cursor.execute(f"SET LOCAL statement_timeout = '{longest}ms'; SAVEPOINT question")
            yield cursor
            cursor.execute("ROLLBACK TO SAVEPOINT question; RELEASE SAVEPOINT question")
            cursor.execute(f"SET LOCAL idle_in_transaction_session_timeout = '{self._left()}ms'")

    def _left(self) -> int:
        """Milliseconds; at least one, since 0 would mean no limit."""
        return max(1, int((self._until - time.monotonic()) * 1000))

    def keep(self, relation: RelationName, query: str, columns: Sequence[str]) -> str | None:
        """The query's rows, in a file of this machine until the locks are released; None if there is no time or no
        space for it."""
        if not self.on([relation]):
            return None
        try:
            with self.reading([relation]) as cursor:
                rows = copy_out(cursor, query, columns)
        except SourceBusy:
            if self._left() > 1:
                raise
            return None
        try:
            if self._files is None:
                self._files = tempfile.TemporaryDirectory(prefix="dyda-")
            with tempfile.NamedTemporaryFile(dir=self._files.name, delete=False) as file:
                keep_rows(Path(file.name), rows)
        except OSError:
            return None
        return file.name

    @contextlib.contextmanager
    def _asking(self, relations: Collection[RelationName]) -> Iterator[Cursor]:
        with self._turn, translate(self._sessions.settings.name, relations):
            if self._reader is None:
                raise SourceBusy(self._sessions.settings.name, "the locks on its tables have expired")
            try:
                with self._reader.cursor() as cursor:
                    yield cursor
            except BaseException:
                reader, self._reader = self._reader, None
                self._give_back(reader)
                raise

    def _give_back(self, session: PatientConnection) -> None:
        """A session that reads tables does nothing else, ever (`Sessions`)."""
        (self._sessions if session is self._holder else self._sessions.tables).give_back(session)

    def _take(self, limit: float) -> None:
        """All or none. Names are resolved twice: another table might take one before its lock is granted."""
        source = self._sessions.settings.name
        patience = f"SET LOCAL statement_timeout = '{PATIENCE}'; SET LOCAL lock_timeout = '{PATIENCE}'"
        last = f"SET LOCAL idle_in_transaction_session_timeout = '{int(limit * 1000)}ms'"
        usual = f"SET LOCAL lock_timeout = '{int(self._sessions.settings.lock_timeout * 1000)}ms'"
        holder = reader = None
        try:
            holder = self._sessions.begin(WRITING)
            reader = self._sessions.tables.begin(FRESH)
            with translate(source, self._relations), holder.cursor() as cursor, reader.cursor() as beside:
                wanted = self._present(cursor)
                tables = sql.SQL(", ").join(sql.Identifier(schema, table) for schema, table in wanted.values())
                locking = sql.SQL("{}; LOCK TABLE {} IN ACCESS SHARE MODE").format(sql.SQL(patience), tables)
                cursor.execute(locking)
                # No query yet: its snapshot is set later. Every statement and every pause has a time limit.
                beside.execute(sql.SQL("{}; {}; {}").format(locking, sql.SQL(usual), sql.SQL(last)))
                if self._present(cursor) != wanted:
                    raise SourceBusy(source, "tables were renamed while they were being locked")
                # The limit counts from here: this session executes nothing more.
                cursor.execute(last)
        except BaseException:
            for pool, session in ((self._sessions, holder), (self._sessions.tables, reader)):
                if session is not None:
                    pool.give_back(session)
            raise
        self._holder, self._reader = holder, reader
        self._until = time.monotonic() + limit

    def _present(self, cursor: Cursor) -> dict[int, tuple[str, str]]:
        """The relations by oid with the names they have now."""
        unknown = [name for name, oid in self._relations.items() if oid is None]
        named = catalog.oids_of(cursor, [(name.schema, name.table) for name in unknown])
        oids = {oid for oid in (*self._relations.values(), *named) if oid is not None}
        present = {oid: (tree.schema, tree.table) for oid, tree in catalog.hierarchies(cursor, oids).items()}
        if len(present) < len(self._relations):
            raise BrokenUnit(self._sessions.settings.name, frozenset(map(str, self._relations)), "a table was dropped")
        return present
