"""A queue that waits at real sources, drained by real units: how much of it is planning, and whether five times as many
messages take about five times as long.

One transaction in a hundred is a schema change that the view must follow, so that the queue is planned again and again.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.measuring import Stopwatch, shown
from benchmarks.harness.servers import servers, spark
from dyda.maintenance.cycle import Outcome
from dyda.warehouse import UnitRecord
from tests.town import Town

__all__ = ["Drained", "growth", "measured"]

VIEW = "SELECT c.name, c.city, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name"
LENGTHS = {"tiny": (100,), "quick": (2_000, 10_000), "full": (2_000, 10_000, 50_000)}
ALL = 1_000_000_000
"""More units than any drain has."""


@dataclass(frozen=True)
class Drained:
    """A drain by wall clock: seconds by phase and in all, and the kinds of units."""

    messages: int
    seconds: float
    phases: dict[str, float]
    kinds: dict[str, int]

    @property
    def share(self) -> float:
        return self.phases["plan"] / self.seconds

    @property
    def told(self) -> str:
        spent = ", ".join(f"{name} {shown(seconds)}" for name, seconds in sorted(self.phases.items()))
        units = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        return f"{self.messages:,} messages drained in {self.seconds:.1f} s, units: {units}; ms by phase: {spent}"


def growth(drains: Sequence[Drained]) -> tuple[str, float]:
    """How many times as long the longest drain took as the one before it, and what these two are."""
    shorter, longer = drains[-2:]
    return f"draining {longer.messages:,} messages ÷ {shorter.messages:,}", longer.seconds / shorter.seconds


def measured(profile: str) -> tuple[list[Drained], str]:
    """A drain of each length, and the servers' version."""
    with ExitStack() as stack:
        server = stack.enter_context(servers(["all"]))["all"]
        engine = stack.enter_context(spark())
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        town = Town(Path(folder), server.database, engine)
        stack.callback(town.close)
        _furnish(town)
        if profile != "tiny":
            _drain(town, 100)  # what is compiled on first use is compiled
        return [_drain(town, length) for length in LENGTHS[profile]], server.version


def _furnish(town: Town) -> None:
    town.source("crm", "CREATE TABLE customer (name text, city text)")
    town.execute("crm", "INSERT INTO customer SELECT 'n' || i, 'c' || i FROM generate_series(1, 1000) i")
    town.source("booking", "CREATE TABLE flight (name text, no int)", "CREATE INDEX ON flight (name)")
    town.execute("booking", "INSERT INTO flight SELECT 'n' || i % 1000, i FROM generate_series(1, 10000) i")
    town.view("joined", VIEW)
    town.apply()


def _drain(town: Town, messages: int) -> Drained:
    """From a full queue to an empty one."""
    with closing(town.connect("crm")) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        for number in range(messages):
            if number % 100 == 50:
                old, new = ("city", "town") if number % 200 < 100 else ("town", "city")
                cursor.execute(f"ALTER TABLE customer RENAME COLUMN {old} TO {new}")
            else:
                cursor.execute(f"INSERT INTO customer VALUES ('n{number % 1000}', 'there')")
        if messages // 100 % 2:  # the next drain begins with `city`
            cursor.execute("ALTER TABLE customer RENAME COLUMN town TO city")
    with town.maintainer() as maintainer:
        before = len(maintainer.opened.warehouse.units(ALL))
        with Stopwatch() as watch:
            while (outcome := maintainer.cycle()) is not Outcome.IDLE:
                if outcome is Outcome.BLOCKED:
                    raise maintainer.obstacle or AssertionError("blocked")
        records = maintainer.opened.warehouse.units(ALL)[:-before]
    town.check_definitions("joined")
    return Drained(messages, watch.seconds, _spent(records), dict(Counter(record.kind for record in records)))


def _spent(records: Sequence[UnitRecord]) -> dict[str, float]:
    found: dict[str, float] = {}
    for record in records:
        for phase, seconds in record.phases.items():
            found[phase] = found.get(phase, 0.0) + seconds
    return found
