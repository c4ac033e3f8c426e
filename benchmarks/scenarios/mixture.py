"""Mixtures of data updates and schema changes over the six relations, and a writer that commits them by the clock.

    interval   0         1         2          data updates, a row and a transaction each, and right behind them
               dddS      dddS      dddS       a schema change; the first ones before maintenance begins

The view survives every change, and each can be undone, so that one town lasts for a whole benchmark: a relation or a
shown attribute is renamed and named back, a shown number is made wider and narrow again. Following a rename asks no
source; a changed type makes the view be computed anew, so it reads all relations: that is the change whose abort costs.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace

import psycopg2

from benchmarks.scenarios.relations import SOURCES, TABLES

__all__ = ["Event", "Landscape", "Writer", "data_updates", "mixture"]

SHOWN = {"r1": "b", "r2": "c", "r3": "c", "r4": "b", "r5": "b", "r6": "c"}
"""What the view shows of each relation, besides the first one's id."""
NUMBERS = ("r1", "r4", "r5")
RETYPED_EVERY = 5
"""Of so many schema changes, the first changes a type."""
LONGEST = 600.0
"""Seconds. No script takes so long; a writer that waits longer than this waits for nothing."""


@dataclass(frozen=True)
class Event:
    """A transaction at a source, due so many intervals after the beginning."""

    source: str
    statement: str
    due: float = 0


@dataclass
class Landscape:
    """What the relations and their shown attributes are called in one town by now. Every method returns an event and
    takes it as done."""

    rows: int
    _names: dict[str, str] = field(default_factory=lambda: {table: table for table in TABLES})
    _shown: dict[str, str] = field(default_factory=lambda: dict(SHOWN))
    _wide: set[str] = field(default_factory=set)

    def update(self, table: str, number: int) -> Event:
        shown = self._shown[table]
        value = f"{shown} + 1" if table in NUMBERS else f"'w{number}' || left({shown}, 9)"
        return _at(table, f"UPDATE {self._names[table]} SET {shown} = {value} WHERE id = {number % self.rows}")

    def rename(self, table: str) -> Event:
        old = self._names[table]
        self._names[table] = new = table if old != table else f"{table}_renamed"
        return _at(table, f"ALTER TABLE {old} RENAME TO {new}")

    def rename_shown(self, table: str) -> Event:
        old, first = self._shown[table], SHOWN[table]
        self._shown[table] = new = first if old != first else f"{first}_renamed"
        return _at(table, f"ALTER TABLE {self._names[table]} RENAME COLUMN {old} TO {new}")

    def retype(self, table: str) -> Event:
        self._wide ^= {table}
        kind = "bigint" if table in self._wide else "int"
        return _at(table, f"ALTER TABLE {self._names[table]} ALTER COLUMN {self._shown[table]} TYPE {kind}")


def _at(table: str, statement: str) -> Event:
    return Event(next(source for source, tables in SOURCES.items() if table in tables), statement)


def data_updates(landscape: Landscape, number: int, seed: int) -> list[Event]:
    """Of one row each, over all relations."""
    chance = random.Random(seed)
    return [landscape.update(chance.choice(TABLES), chance.randrange(landscape.rows)) for _ in range(number)]


def mixture(landscape: Landscape, schema_changes: int, data_updates: int, seed: int) -> list[Event]:
    """The events in order. The same seed asks for the same changes wherever they are made."""
    chance = random.Random(seed)
    events = []
    for step in range(schema_changes):
        for _ in range(data_updates // schema_changes + (step < data_updates % schema_changes)):
            update = landscape.update(chance.choice(TABLES), chance.randrange(landscape.rows))
            events.append(replace(update, due=step))
        if step % RETYPED_EVERY == 0:
            change = landscape.retype(chance.choice(NUMBERS))
        else:
            change = chance.choice((landscape.rename, landscape.rename_shown))(chance.choice(TABLES))
        events.append(replace(change, due=step))
    return events


class Writer:
    """Commits events in their order, each when it is due; the first ones before `at_work` begins."""

    def __init__(self, urls: Mapping[str, str], events: Sequence[Event], interval: float) -> None:
        self._urls = urls
        self._events = events
        self._interval = interval
        self._moved = threading.Condition()
        self._committed = 0
        self._error: BaseException | None = None

    @contextmanager
    def at_work(self) -> Iterator[None]:
        with ExitStack() as stack:
            cursors = {}
            for source, url in self._urls.items():
                connection = stack.enter_context(closing(psycopg2.connect(url)))
                connection.autocommit = True
                cursors[source] = connection.cursor()
            early = sum(event.due * self._interval == 0 for event in self._events)
            for event in self._events[:early]:
                cursors[event.source].execute(event.statement)
            self._committed = early
            thread = threading.Thread(target=self._write, args=(cursors, early), name="writer")
            thread.start()
            try:
                yield
            finally:
                thread.join()
        if self._error is not None:
            raise self._error

    @property
    def committed(self) -> int:
        return self._committed

    @property
    def over(self) -> bool:
        return self._error is not None or self._committed == len(self._events)

    def wait(self, seen: int) -> None:
        """Until all that is due with the next event after the `seen` ones is committed, or no more will be."""
        following = self._events[seen].due
        end = sum(event.due <= following for event in self._events)
        with self._moved:
            if not self._moved.wait_for(lambda: self.over or self._committed >= end, LONGEST):
                raise AssertionError(f"the writer has committed {self._committed} events, and no more")

    def _write(self, cursors: Mapping[str, psycopg2.extensions.cursor], first: int) -> None:
        begun = time.monotonic()
        try:
            for event in self._events[first:]:
                time.sleep(max(0.0, begun + event.due * self._interval - time.monotonic()))
                cursors[event.source].execute(event.statement)
                self._tell(None)
        except BaseException as error:
            self._tell(error)

    def _tell(self, error: BaseException | None) -> None:
        with self._moved:
            self._committed += error is None
            self._error = error
            self._moved.notify_all()
