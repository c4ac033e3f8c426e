"""What the applications at the sources do meanwhile: a thread per source that runs what the workload draws.

Besides the workload's tables each source has two of fixed shape: `beacon`, one row whose number tells how far a view
is, alone or joined with another source's, and `account`, where faults let sessions get into each other's way.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Collection

import psycopg2

from tests.torture.history import History
from tests.torture.places import Place, session
from tests.torture.recording import Data, Writer, settle
from tests.torture.workload import SOURCES, VIEWS, Drawn, Workload

__all__ = ["PAIRS", "SOURCES", "Pace", "Traffic", "all_views", "beacon_view", "fixed_tables", "settled"]

ACCOUNTS = 6
QUEUE = 25
"""Messages that may wait before the sources are asked to slow down."""


def beacon_view(*sources: str) -> str:
    """The view of one source's beacon, or of two, joined."""
    return "_".join(["beacon", *sources])


PAIRS = list(zip(SOURCES, [*SOURCES][1:] + [*SOURCES][:1], strict=True))
"""Sources whose beacons are joined: each with the next one."""


def all_views(names: Collection[str] = ()) -> dict[str, str]:
    """The workload's views, or those of these names, those that read nothing but beacons, and one that a reader
    holds."""
    beacons = {beacon_view(source): f"SELECT b.number FROM {source}.beacon b" for source in SOURCES}
    beacons |= {
        beacon_view(a, b): f"SELECT a.number, b.number AS other FROM {a}.beacon a JOIN {b}.beacon b ON a.one = b.one"
        for a, b in PAIRS
    }
    held = {"accounts_people": "SELECT a.id, a.amount FROM people.account a WHERE a.amount > 0"}
    return {**{name: text for name, text in VIEWS.items() if not names or name in names}, **beacons, **held}


def fixed_tables() -> list[str]:
    return [
        "CREATE TABLE account (id int PRIMARY KEY, amount int NOT NULL)",
        f"INSERT INTO account SELECT i, 100 FROM generate_series(1, {ACCOUNTS}) i",
        "CREATE TABLE beacon (number bigint, one int)",
        "INSERT INTO beacon VALUES (0, 1)",
        "CREATE TABLE unwatched (number bigint)",
    ]


def settled(writer: Writer, ending: threading.Event) -> None:
    """Wait for the server and let it say what became of the transactions whose COMMIT it did not answer."""
    while writer.unsettled and not ending.is_set():
        with contextlib.suppress(psycopg2.OperationalError, psycopg2.InterfaceError):
            settle(writer, writer.url)
        time.sleep(0.05)


class Pace(threading.Thread):
    """Looks at the warehouse's queue: when it is long, the sources are to do less and leave their schemas alone.

    A machine that is busy with something else would otherwise be given more changes than it can follow.
    """

    def __init__(self, url: str) -> None:
        super().__init__(name="pace", daemon=True)
        self.url = url
        self.hurried = False
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.wait(1.0):
            with contextlib.suppress(psycopg2.OperationalError, psycopg2.InterfaceError), session(self.url) as cursor:
                cursor.execute("SELECT count(*) > %s FROM dyda.message", (QUEUE,))
                (self.hurried,) = cursor.fetchone()

    def end(self) -> None:
        self._ending.set()


class Traffic(threading.Thread):
    """The application of one source; it rests between `rest` and `go_on`."""

    def __init__(
        self,
        history: History,
        place: Place,
        workload: Workload,
        pace: Pace,
        pause: float,
        schema_changes: float,
    ) -> None:
        super().__init__(name=f"traffic of {place.name}", daemon=True)
        self.place = place
        self.workload = workload.child(place.name)
        self.random = self.workload.random
        self.pace = pace
        self.pause = pause
        self.schema_changes = schema_changes
        self.writer = Writer(history, place.name, place.url)
        self.failure: BaseException | None = None
        self._flowing = threading.Event()
        self._flowing.set()
        self._resting = threading.Event()
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            while not self._ending.is_set():
                if not self._flowing.is_set():
                    self._resting.set()
                    self._flowing.wait()
                    continue
                self._step()
                self._ending.wait(self.random.uniform(0, 2 * self.pause) * (6 if self.pace.hurried else 1))
        except BaseException as error:
            self.failure = error
        finally:
            self._resting.set()
            self.writer.close()

    def rest(self) -> None:
        """No transaction is under way when this returns."""
        self._flowing.clear()
        if not self._resting.wait(300):
            raise AssertionError(f"{self.name} does not come to rest")
        self.check()

    def go_on(self, history: History) -> None:
        self.writer.history = history
        self._resting.clear()
        self._flowing.set()

    def end(self) -> None:
        self._ending.set()
        self._flowing.set()
        self.join(300)
        self.check()

    def check(self) -> None:
        """What the thread died of, if it did."""
        if self.failure is not None:
            raise self.failure

    def _step(self) -> None:
        source = self.place.name
        if self.random.random() >= self.schema_changes or self.pace.hurried:
            self._run(self._data(source))
            return
        tables = self.workload.tables[source]
        with tables.turn:
            drawn = self.workload.schema(source, breaking=self.random.random() < 0.3)
            if self._run(drawn):
                tables.done(drawn)

    def _data(self, source: str) -> Drawn:
        if self.random.random() >= 0.15:
            return self.workload.data(source)
        one, other = self.random.sample(range(1, ACCOUNTS + 1), 2)
        steps = [
            Data(f"UPDATE account SET amount = amount + {by} WHERE id = {id}") for id, by in ((one, 1), (other, -1))
        ]
        return Drawn(source, tuple(steps), isolation=self.random.choice(["READ COMMITTED", "SERIALIZABLE"]))

    def _run(self, drawn: Drawn) -> bool:
        """Whether it has committed."""
        if self.writer.transaction(drawn.steps, isolation=drawn.isolation, commit=drawn.commit) is not None:
            return True
        asked = list(self.writer.unsettled)
        settled(self.writer, self._ending)
        committed = self.writer.history.transactions[-100:]
        return any(asked and one is asked[-1] for one in committed)
