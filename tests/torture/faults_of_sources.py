"""Faults of the sources: their servers, the way to them, their clocks, and what their sessions do to each other."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import Any, ClassVar

import psycopg2

from tests.torture.daemon import TortureFailed
from tests.torture.fault import AtASource, World, until
from tests.torture.places import session
from tests.torture.recording import REFUSED, Data, Writer, connect, lost_is_operational
from tests.torture.traffic import settled


class _SourceAway(AtASource):
    @property
    def words(self) -> str:  # type: ignore[override]
        return rf"source {self.place.name} cannot be reached: \S+"

    @property
    def lost(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset({self.place.name})


class BackendTerminated(AtASource):
    kind = "source connection terminated"

    def strike(self) -> None:
        for _ in range(10):
            with session(self.place.url) as cursor:
                cursor.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND application_name LIKE 'dyda%'"
                )
            time.sleep(self.random.uniform(0, 0.3))


class BackendKilled(AtASource):
    """SIGKILL to one server process of ours: PostgreSQL ends all its sessions and recovers."""

    kind = "source backend killed"
    deadly = True

    def strike(self) -> None:
        def killed() -> bool:
            with contextlib.suppress(psycopg2.OperationalError, ProcessLookupError):
                for pid in self.place.our_backends()[:1]:
                    os.kill(pid, signal.SIGKILL)
                    return True
            return False

        until(killed, f"nobody of ours is connected to {self.place.name}")


class SourceKilled(_SourceAway):
    kind = "source server killed"
    deadly = True

    def strike(self) -> None:
        self.place.server.crash()

    def heal(self) -> None:
        self.place.server.start()


class SourceRestarted(SourceKilled):
    kind = "source server restarted"

    def strike(self) -> None:
        self.place.server.stop()


class SourceFrozen(_SourceAway):
    kind = "source frozen"

    def strike(self) -> None:
        self.place.freeze()

    def heal(self) -> None:
        self.place.thaw()


class SourceRefuses(_SourceAway):
    kind = "source connection refused"

    def strike(self) -> None:
        self.place.proxy.refuse()

    def heal(self) -> None:
        self.place.proxy.heal()


class SourceCut(SourceRefuses):
    kind = "source answer cut"

    def strike(self) -> None:
        self.place.proxy.cut(3000)


class SourceSlow(AtASource):
    kind = "source slowed"

    def strike(self) -> None:
        self.place.proxy.slow(0.05)

    def heal(self) -> None:
        self.place.proxy.heal()


class SourcesClockJumps(AtASource):
    """Commit timestamps go back: the order of its transactions must not."""

    kind = "clock of a source jumps"

    @property
    def why_not(self) -> str:
        return self.places.clocks[self.place.name].why_not

    def strike(self) -> None:
        for seconds in (20, -10, 5, -20):
            self.places.clocks[self.place.name].jump(seconds)
            time.sleep(1)

    def heal(self) -> None:
        self.places.clocks[self.place.name].jump(0)


class CounterWraps(AtASource):
    """Transactions that pass by until the 32-bit counter of an old server starts again; then only more of them."""

    kind = "transaction counter wraps"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.place = world.places.sources[world.old]

    def strike(self) -> None:
        with session(self.place.url) as cursor:
            cursor.execute(
                "DO $$ BEGIN LOOP PERFORM pg_current_xact_id(); COMMIT;"
                " EXIT WHEN pg_snapshot_xmax(pg_current_snapshot())::text::bigint > 2 ^ 32 + 100; END LOOP; END $$"
            )


class TableLocked(AtASource):
    """Somebody holds a table that other sources' changes must be joined with."""

    kind = "source table locked"
    words = r"source crm is busy: \S+"
    lost = frozenset({"crm"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.place = world.places.sources["crm"]
        self._locker: Any = None

    def strike(self) -> None:
        self._locker = connect(self.place.url)
        for name in self._tables():
            self._locker.cursor().execute(f'LOCK TABLE "{name}" IN ACCESS EXCLUSIVE MODE')

    def _tables(self) -> list[str]:
        with session(self.place.url) as cursor:
            cursor.execute(
                "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
                " AND relname ~ '^(customer|city)'"
            )
            return [name for (name,) in cursor.fetchall()]

    def heal(self) -> None:
        if self._locker is not None:
            self._locker.close()


class LongTransaction(AtASource):
    """It has its number since before the last commits, and commits after many that came later."""

    kind = "long source transaction"
    seconds = 8.0

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.writer = Writer(world.history, self.place.name, self.place.url)
        self._stack = contextlib.ExitStack()

    def strike(self) -> None:
        self.under_way = self._stack.enter_context(self.writer.open())
        self.under_way.do(Data("UPDATE account SET amount = amount + 5 WHERE id = 1"))

    def heal(self) -> None:
        self.writer.history = self.world.history
        self.under_way.do(Data("INSERT INTO unwatched VALUES (1)"))
        self.under_way.commit()
        self._stack.close()
        self.writer.close()


class _Quarrel(AtASource):
    """Sessions that get into each other's way until one of them has lost."""

    sqlstate: ClassVar[type[Exception]]
    isolation: ClassVar[str]

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.lost_by_one = 0

    def strike(self) -> None:
        for _ in range(20):
            if self.lost_by_one:
                return
            meeting = threading.Barrier(2)
            pairs = [(1, 2), (2, 1)]
            threads = [threading.Thread(target=self._one, args=(meeting, *pair)) for pair in pairs]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        raise TortureFailed(f"{self.kind}: nobody lost")

    def _one(self, meeting: threading.Barrier, first: int, second: int) -> None:
        writer = Writer(self.world.history, self.place.name, self.place.url, lock_timeout="20s")
        try:
            with lost_is_operational(), writer.open(self.isolation) as under_way:
                self._quarrel(under_way, meeting, first, second)
                under_way.commit()
        except self.sqlstate:
            self.lost_by_one += 1
        except (*REFUSED, threading.BrokenBarrierError):
            meeting.abort()  # another session was in the way of one of them: once more
        except (psycopg2.OperationalError, psycopg2.InterfaceError):
            settled(writer, threading.Event())
        finally:
            writer.close()

    def _quarrel(self, under_way: Any, meeting: threading.Barrier, first: int, second: int) -> None:
        under_way.do(Data(f"UPDATE account SET amount = amount + 1 WHERE id = {first}"))
        meeting.wait(30)
        under_way.do(Data(f"UPDATE account SET amount = amount - 1 WHERE id = {second}"))


class Deadlock(_Quarrel):
    """Two writers wait for each other's rows, both with entries in our log."""

    kind = "deadlock at a source"
    sqlstate = psycopg2.errors.DeadlockDetected
    isolation = "READ COMMITTED"


class SerializationFailure(_Quarrel):
    kind = "serialization failure"
    sqlstate = psycopg2.errors.SerializationFailure
    isolation = "SERIALIZABLE"

    def _quarrel(self, under_way: Any, meeting: threading.Barrier, first: int, second: int) -> None:
        with under_way.connection.cursor() as cursor:
            cursor.execute("SELECT sum(amount) FROM account")
        meeting.wait(30)
        under_way.do(Data(f"UPDATE account SET amount = amount + 1 WHERE id = {first}"))
        meeting.wait(30)
