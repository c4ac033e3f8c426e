"""One connection that reads a replication slot, transaction by transaction, in the order of their commits.

Whoever reads a slot has it alone. A second reader (a command beside the daemon) reads a temporary copy of it, which the
server drops with the connection. What was read is told to the server only once it was acknowledged: until then it sends
it again to whoever comes next.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import psycopg2
import psycopg2.extras

from dyda import handshake
from dyda.errors import SourceUnreachable
from dyda.sources.connection import translate
from dyda.sources.reading.session import PATIENT
from dyda.sources.settings import SourceSettings
from dyda.sources.wal.pgoutput import Begin, Commit, Described, Message, Other, RowChange, decode

__all__ = ["MARKER", "PUBLICATION", "TOLD", "Event", "Row", "Stream", "Streamed"]

PUBLICATION = "dyda_capture"
MARKER = "dyda.marker"
"""The prefix of messages up to which a reader reads."""
TOLD = "dyda"
"""The prefix of what capture says in the stream: schema changes, truncations, tables that come and go."""

PATIENCE = 5.0
"""Seconds for the server to end a connection that we have closed."""
SILENCE = 60.0
"""Seconds without a sign of life from the server."""


@dataclass(frozen=True, slots=True)
class Row:
    """A changed row, and what its table's columns were called then."""

    change: RowChange
    columns: tuple[str, ...]


Event: TypeAlias = Row | bytes
"""A row, or what capture says."""


@dataclass(slots=True)
class Streamed:
    """A transaction. `lsn` is where its commit record begins; `xid` has 32 bits."""

    xid: int
    lsn: int
    committed: datetime
    events: list[Event] = field(default_factory=list)


class ReplicationConnection(psycopg2.extras.LogicalReplicationConnection):  # type: ignore[misc]
    """Always in autocommit, which cannot be set."""

    autocommit = property(lambda self: True, lambda self, value: None)


class Stream:
    """Connects when first read, and again after a loss, where it left off."""

    def __init__(self, settings: SourceSettings, connected: Callable[[], None]) -> None:
        """`connected` is called with each new connection, before anything is read of it."""
        self._settings = settings
        self._connected = connected
        self.copied = False
        """Whether it reads a copy of the slot."""
        self._connection: Any = None
        self._cursor: Any = None
        self._tables: dict[int, Described] = {}
        self.read_to = 0
        """Every transaction whose commit record begins before this was read."""
        self.flushed = 0
        self._former = 0
        """The server process of the connection before."""

    @property
    def connected(self) -> bool:
        return self._cursor is not None

    def read_until(self, marker: str, slot: str, end_of_wal: Callable[[], int]) -> Iterator[Streamed]:
        """The transactions up to the one that has the marker, which has nothing else. `end_of_wal` tells where the WAL
        ends: a stream that goes beyond that without the marker does not have it."""
        with self._lossy():
            if self._cursor is None:
                self._connect(slot)
            bound: int | None = None
            current: Streamed | None = None
            met = False
            while True:
                found = self._next()
                if found is None:
                    bound = end_of_wal() if bound is None else bound
                    if self._cursor.wal_end > bound:
                        raise SourceUnreachable(self._settings.name, "its write-ahead log is streamed with a hole")
                    continue
                match found:
                    case Begin(lsn, committed, xid):
                        current = Streamed(xid, lsn, committed)
                    case Commit(_, end):
                        assert current is not None, "a commit without a transaction"
                        self.read_to = end
                        if current.events:
                            yield current
                        current = None
                        if met:
                            return
                    case Described(relid):
                        self._tables[relid] = found
                    case RowChange(relid):
                        assert current is not None, "a row without a transaction"
                        current.events.append(Row(found, self._tables[relid].columns))
                    case Message(True, _, prefix, content):
                        assert current is not None, "a transactional message without a transaction"
                        met = met or (prefix == MARKER and content.decode() == marker)
                        if prefix == TOLD:
                            current.events.append(content)
                    case Message() | Other():
                        pass

    def flush(self, lsn: int) -> None:
        """The server may forget every transaction whose commit record begins before this."""
        if lsn <= self.flushed or self._cursor is None:
            return
        # One less: where all is acknowledged, psycopg2 would by itself acknowledge whatever it reads next.
        with self._lossy():
            self._cursor.send_feedback(
                write_lsn=self.read_to, flush_lsn=lsn - 1, apply_lsn=lsn - 1, reply=False, force=True
            )
            self.flushed = lsn

    def restart(self) -> None:
        """Read again what is not acknowledged."""
        self.close()
        self.read_to = self.flushed = 0

    def close(self) -> None:
        connection, self._connection, self._cursor = self._connection, None, None
        self._tables = {}
        if connection is not None and not connection.closed:
            self._former = connection.info.backend_pid
        if connection is not None:
            connection.close()

    def _next(self) -> Any:
        """None: nothing came for a second."""
        while True:
            found = self._cursor.read_message()
            if found is not None:
                return decode(found.payload)
            ready, _, _ = select.select([self._connection], [], [], 1.0)
            if ready:
                continue
            if time.time() - self._cursor.io_timestamp.timestamp() > SILENCE:
                raise SourceUnreachable(self._settings.name, "the server sends nothing from its write-ahead log")
            return None

    def _connect(self, slot: str) -> None:
        self._connection = handshake.connect(
            self._settings.url,
            {"client_min_messages": "error"},
            defaults=PATIENT,
            factory=ReplicationConnection,
        )
        self._cursor = self._connection.cursor()
        self._attach(slot)
        self._connected()

    def _attach(self, slot: str) -> None:
        self.copied = False
        try:
            self._start(slot)
        except psycopg2.errors.ObjectInUse:
            if self._left(slot):
                self._start(slot)
                return
            copy = f"{slot}_{self._connection.info.backend_pid}"
            self._cursor.execute("SELECT pg_copy_logical_replication_slot(%s::name, %s::name, true)", (slot, copy))
            self._start(copy)
            self.copied = True

    def _left(self, slot: str) -> bool:
        """Whether our own last connection had the slot: the server takes a moment to see that it is gone."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            self._cursor.execute("SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s", (slot,))
            row = self._cursor.fetchone()
            if row is None or row[0] is None:
                return True
            if row[0] != self._former:
                return False
            time.sleep(0.02)
        return False

    def _start(self, slot: str) -> None:
        options = {"proto_version": "1", "publication_names": PUBLICATION, "messages": "true"}
        self._cursor.start_replication(slot_name=slot, start_lsn=self.read_to, options=options, decode=False)

    @contextmanager
    def _lossy(self) -> Iterator[None]:
        """Whatever fails leaves no half of a transaction behind: the next reader of this object connects again."""
        try:
            with translate(self._settings.name, url=self._settings.url):
                yield
        except BaseException:
            self.close()
            raise
