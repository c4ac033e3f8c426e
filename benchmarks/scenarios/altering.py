"""How long a schema change at a source waits for our lookups.

    events ──(inserts, all the time)──▶ daemon ──(lookups)──▶ towns ◀── BEGIN; LOCK …; ALTER TABLE …; COMMIT

The lock is asked for by itself, in the mode that ALTER TABLE asks for: what that takes is the wait and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2

from benchmarks.harness.checking import require_right
from benchmarks.harness.measuring import Sample, Stopwatch
from benchmarks.harness.servers import Server, lent_engine
from tests.torture.daemon import Daemon
from tests.town import Town

__all__ = ["Altered", "altering"]

ROWS = 100_000
VIEW = "SELECT e.id, t.name, t.size FROM diary.event e JOIN atlas.town t ON e.town = t.id"


@dataclass(frozen=True)
class Altered:
    """Changes of one kind of company: the seconds that each waited for its lock, and took with it."""

    waits: Sample
    altering: Sample
    units: int
    """Installed by the daemon meanwhile."""


class _Writer(threading.Thread):
    """Inserts an event every `pause` seconds: each is a lookup."""

    def __init__(self, url: str, pause: float) -> None:
        super().__init__(daemon=True)
        self.url, self.pause = url, pause
        self.error: BaseException | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            with closing(psycopg2.connect(self.url)) as connection, connection.cursor() as cursor:
                connection.autocommit = True
                while not self._ended.wait(self.pause):
                    cursor.execute(f"INSERT INTO event (town) SELECT (random() * {ROWS})::int")
        except BaseException as error:
            self.error = error

    def end(self) -> None:
        self._ended.set()
        self.join()
        if self.error is not None:
            raise self.error


def _alter(url: str, seconds: float, pause: float) -> tuple[Sample, Sample]:
    """ADD COLUMN and DROP COLUMN in turn."""
    waits: list[float] = []
    took: list[float] = []
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        ended = time.monotonic() + seconds
        while time.monotonic() < ended or len(waits) % 2:
            time.sleep(pause)
            what = "DROP COLUMN extra" if len(waits) % 2 else "ADD COLUMN extra int"
            with Stopwatch() as wait:
                cursor.execute("LOCK TABLE town IN ACCESS EXCLUSIVE MODE")
            with Stopwatch() as rest:
                cursor.execute(f"ALTER TABLE town {what}")
                connection.commit()
            waits.append(wait.seconds)
            took.append(rest.seconds)
    return Sample(tuple(waits)), Sample(tuple(took))


def _tables(name: str) -> list[str]:
    if name == "diary":
        return [
            "CREATE TABLE event (id bigserial PRIMARY KEY, town int)",
            "INSERT INTO event (town) SELECT i FROM generate_series(1, 1000) AS i",
        ]
    return [
        "CREATE TABLE town (id int PRIMARY KEY, name text, size int)",
        f"INSERT INTO town SELECT i, 'town ' || i, i % 100 FROM generate_series(0, {ROWS}) AS i",
        "ANALYZE town",
    ]


def altering(
    machines: dict[str, Server], folder: Path, seconds: float, pauses: tuple[float, ...]
) -> dict[str, Altered]:
    """Changes with a pause before each, for `seconds`: of a table that nobody captures, captured, and looked up."""
    found = {}
    plain = machines["source"].database("plain_atlas")
    with closing(psycopg2.connect(plain)) as connection, connection, connection.cursor() as cursor:
        for statement in _tables("atlas"):
            cursor.execute(statement)
    town = Town(folder / "atlas", lambda hint: machines["warehouse"].database(f"atlas_{hint}"), lent_engine())
    for name in ("diary", "atlas"):
        town.source(name, *_tables(name), url=machines["source"].database(name))
    town.view("located", VIEW)
    town.apply_somewhere()
    told = {pause: f"with pauses of {pause:g} s" for pause in pauses}
    for pause in pauses:
        found[f"no capture, {told[pause]}"] = Altered(*_alter(plain, seconds, pause), 0)
        found[f"captured, {told[pause]}"] = Altered(*_alter(town.sources["atlas"], seconds, pause), 0)
    with _followed(town, folder) as units:
        for pause in pauses:
            before = units()
            waits, took = _alter(town.sources["atlas"], seconds, pause)
            found[f"looked up, {told[pause]}"] = Altered(waits, took, units() - before)
    town.settle_somewhere()
    require_right(town, "located")
    town.close()
    return found


@contextmanager
def _followed(town: Town, folder: Path) -> Iterator[Any]:
    """A daemon that has lookups to make all the time; how many units it has installed."""
    daemon = Daemon(town.folder, folder / "daemon.log")
    writer = _Writer(town.sources["diary"], 0.02)
    try:
        if not daemon.up():
            raise AssertionError(f"the daemon does not come up:\n{daemon.text()[-4000:]}")
        writer.start()
        with closing(psycopg2.connect(town.warehouse)) as connection:
            connection.autocommit = True

            def units() -> int:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT count(*) FROM dyda.unit")
                    return int(cursor.fetchone()[0])

            first = units()
            while units() < first + 3:  # it is warm, and behind nothing that was there before
                time.sleep(0.05)
            yield units
        writer.end()
    finally:
        daemon.kill(children=True)
