"""A PostgreSQL source: describe, attach, open a snapshot, acknowledge, detach. PostgreSQL 14 to 18."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from dyda import faults
from dyda.errors import SourceBusy
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.sources import catalog
from dyda.sources.adapter import Finding, Waiting
from dyda.sources.capture import install
from dyda.sources.capture.check import check, obstacles
from dyda.sources.capture.state import LogState, read_state
from dyda.sources.connection import FRESH, WRITING, Sessions
from dyda.sources.log.cache import Received
from dyda.sources.log.reader import LogReader
from dyda.sources.settings import Consumer, SourceSettings
from dyda.sources.wal.slot import drop_slot

if TYPE_CHECKING:
    from dyda.sources.reading.snapshot import SourceSnapshot
    from dyda.sources.wal.reader import WalReader

__all__ = ["PostgresSource"]

SHRINK = 64 * 2**20
"""An empty log larger than this is returned to the file system."""


class PostgresSource:
    """One source of one project. Connects when first needed, and again after a loss."""

    def __init__(self, settings: SourceSettings, project: str, others: Iterable[str] = ()) -> None:
        """`others` are the names of the project's other sources."""
        self.settings = settings
        self.consumer = Consumer(project, settings.name, frozenset(others) - {settings.name})
        self._registered = self.consumer.text
        self.name = settings.name
        self._sessions = Sessions(settings)
        self._received = Received(self._sessions)
        self._streamed: WalReader | None = None
        self._open: set[SourceSnapshot] = set()

    @property
    def url(self) -> str:
        return self.settings.url

    def describe(self, tables: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Relation]:
        """The relations called (schema, table), as the catalog describes them now."""
        with self._sessions.transaction(FRESH) as cursor:
            return catalog.describe(cursor, self.name, list(tables))

    def find(self, oids: Iterable[int]) -> dict[int, Relation | None]:
        """The relations with these oids, as they are and as they are called now; None: gone."""
        with self._sessions.transaction(FRESH) as cursor:
            return catalog.find(cursor, self.name, list(oids))

    def sizes(self, oids: Iterable[int]) -> dict[int, int]:
        """How many bytes the relations with these oids have now, as far as they are there."""
        with self._sessions.transaction(FRESH) as cursor:
            return catalog.sizes(cursor, list(oids))

    def relations(self) -> list[tuple[str, str]]:
        """The tables that can be watched, as (schema, table)."""
        with self._sessions.transaction(FRESH) as cursor:
            return catalog.relations(cursor)

    def attach(
        self,
        relations: Iterable[Relation],
        waiting: Waiting | None = None,
        attached: Callable[[Relation], None] = lambda relation: None,
    ) -> None:
        """Capture these relations from now on (C6: before their schema and rows are read). Idempotent.

        `waiting` is called with the sessions in the way, and raises to end the wait; `attached` with each relation.
        """
        self._forget()
        install.attach(self._sessions, self.consumer, relations, waiting, attached)

    def stand_back(self, schema: str, table: str) -> None:
        """Keep capture from making statements fail on a relation that is refused; see `describe`."""
        install.stand_back(self._sessions, self.consumer, schema, table)

    def release(self, relations: Iterable[Relation]) -> None:
        """Stop capturing these relations."""
        self._forget()
        install.release(self._sessions, relations)

    def detach(self) -> None:
        """Remove everything DyDa put into this source."""
        self._forget()
        install.detach(self._sessions, self.consumer)

    def check(self, tables: Iterable[tuple[str, str]], *, owner_known: bool = True) -> list[Finding]:
        """Connection, rights and capture, each with the statement that helps. `owner_known`: the project's number is,
        so it can be checked whose capture it is."""
        return check(self._sessions, self.consumer, list(tables), owner_known=owner_known)

    def obstacles(self, name: RelationName) -> list[Finding]:
        """What keeps one relation from being read or captured, each with the statement that helps."""
        return obstacles(self._sessions, self.consumer, name.schema, name.table)

    def state(self) -> LogState:
        with self._sessions.transaction(FRESH) as cursor:
            return read_state(cursor, self.consumer)

    def open(
        self,
        relations: Collection[RelationName] | Mapping[RelationName, int],
        lock: Collection[RelationName] = (),
        lock_limit: float = 30.0,
    ) -> SourceSnapshot:
        """Hold the source's present state still. Use it as a context manager.

        With a mapping from names to oids, log entries of a relation are reported under the name given here, whatever it
        is called now. `lock` keeps schema changes away from these relations until the snapshot is closed, for
        `lock_limit` seconds at most.
        """
        from dyda.sources.reading.snapshot import SourceSnapshot

        if self._streamed is not None and not any(held.held for held in self._open):
            self._streamed.tidy()
        snapshot = SourceSnapshot(self._sessions, self.consumer, self._reader, relations, lock, lock_limit)
        try:
            self.consumer.refuse_rival(snapshot.state.project)
        except BaseException:
            snapshot.close()
            raise
        slot = snapshot.state.slot
        if slot is not None and slot.retained > self.settings.wal_limit:
            # A disk that fills up at the source is worse than views that are built again.
            snapshot.close()
            self._forget()
            drop_slot(self._sessions)
            raise SourceBusy(self.name, f"its replication slot kept {slot.retained} bytes of WAL, and was dropped")
        older = snapshot.state.project == self.consumer.project
        self._registered = self.consumer.project if older else self.consumer.text
        self._open = {held for held in self._open if held.held} | {snapshot}
        return snapshot

    def acknowledge(self, position: Position) -> int:
        """Delete the log entries of every transaction in `position`; the number of entries.

        DELETE, not TRUNCATE: an older snapshot of ours must still see log and tables as they were (P6). Only a large
        empty log is truncated, and only while no snapshot of ours is open anywhere.
        """
        faults.point("acknowledge.before")
        with self._sessions.transaction(WRITING) as cursor:
            # If a crash undoes an acknowledgement, it is simply repeated: no need to wait for the disk.
            cursor.execute("SET LOCAL statement_timeout = 0; SET LOCAL synchronous_commit = off")
            cursor.execute("SELECT * FROM dyda.acknowledge(%s, %s::pg_snapshot)", (self._registered, str(position)))
            deleted, size = cursor.fetchone()
        self._received.acknowledged(position)
        if self._streamed is not None:
            self._streamed.acknowledged(position)
        most = min(SHRINK, self.settings.log_limit // 2)
        if size > most:
            with contextlib.suppress(SourceBusy), self._sessions.transaction(WRITING) as cursor:
                cursor.execute("SELECT dyda.shrink(%s)", (most,))
        faults.point("acknowledge.after")
        return int(deleted)

    def _reader(self, state: LogState) -> LogReader:
        """Of what is captured the way that is installed there now."""
        if not state.by_wal:
            return self._received
        if self._streamed is None:
            from dyda.sources.wal.reader import WalReader

            self._streamed = WalReader(self._sessions)
        return self._streamed

    def _forget(self) -> None:
        self._received.forget()
        if self._streamed is not None:
            self._streamed.forget()

    def close(self) -> None:
        for held in self._open:
            held.close()
        self._open = set()
        self._received.close()
        if self._streamed is not None:
            self._streamed.close()
        self._sessions.close()
