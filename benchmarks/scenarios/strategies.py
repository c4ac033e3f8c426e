"""Pessimistic and optimistic detection side by side: a town each, alike in all else, and what their runs cost."""

from __future__ import annotations

import functools
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.harness.checking import require_right
from benchmarks.harness.dyda_contender import Follower
from benchmarks.harness.measuring import Sample, Stopwatch
from benchmarks.harness.servers import Server
from benchmarks.scenarios.mixture import Event, Landscape, Writer
from benchmarks.scenarios.relations import SOURCES, VIEW, created
from dyda.engine import Engine
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.next_unit import Planner
from dyda.maintenance.observe.poll import Poll
from dyda.warehouse import UnitRecord
from scheduler import Schedule
from scheduler.deco import Plan
from tests.town import Town

__all__ = ["Contender", "Cost", "Costs", "contender", "undetected"]

PATIENCE = 60.0
"""Seconds that one mixture may be blocked, in all."""


@dataclass(frozen=True)
class Cost:
    """Of one run: the seconds in which there was something to do, the units that were given up and the seconds that
    had gone into them, the units that were installed, and the seconds that the scheduler looked for dependencies."""

    seconds: float
    aborts: int
    lost: float
    units: tuple[UnitRecord, ...] = ()
    detecting: float = 0.0

    def share(self, phase: str) -> float:
        """The phase's part of the time that the installed units took."""
        return sum(unit.phases.get(phase, 0.0) for unit in self.units) / self.in_units

    @property
    def in_units(self) -> float:
        return sum(sum(unit.phases.values()) for unit in self.units)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds,
            self.aborts + other.aborts,
            self.lost + other.lost,
            self.units + other.units,
            self.detecting + other.detecting,
        )


@dataclass(frozen=True)
class Costs:
    """Of several runs of the same, round by round."""

    each: tuple[Cost, ...]

    @property
    def seconds(self) -> Sample:
        return Sample(tuple(cost.seconds for cost in self.each))

    @property
    def lost(self) -> Sample:
        return Sample(tuple(cost.lost for cost in self.each))

    @property
    def aborts(self) -> float:
        return statistics.median(cost.aborts for cost in self.each)

    @property
    def units(self) -> float:
        return statistics.median(len(cost.units) for cost in self.each)

    def share(self, phase: str) -> float:
        return statistics.median(cost.share(phase) for cost in self.each)

    @property
    def detection(self) -> float:
        """Detection's own part of the time that the installed units took."""
        return statistics.median(cost.detecting / cost.in_units for cost in self.each)

    def against(self, others: Costs) -> float:
        """The median of the rounds' own ratios: what slows a round down slows both of its runs down."""
        return statistics.median(
            mine.seconds / other.seconds for mine, other in zip(self.each, others.each, strict=True)
        )


@dataclass
class Contender:
    """One strategy, at work."""

    town: Town
    follower: Follower
    landscape: Landscape

    def commit(self, change: Callable[[Landscape], Event]) -> None:
        event = change(self.landscape)
        self.town.execute(event.source, event.statement)

    def follow(self) -> Cost:
        """What waits, to the end; then PostgreSQL says whether it is right."""
        return self.attend(Writer(self.town.sources, (), 0))

    def attend(self, writer: Writer) -> Cost:
        """What the writer commits, while it does, to the end; then PostgreSQL says whether it is right."""
        maintainer, warehouse = self.follower.maintainer, self.follower.maintainer.opened.warehouse
        installed = warehouse.units(1)[0].id or 0
        aborts, lost = warehouse.aborts()
        seconds = blocked = 0.0
        with writer.at_work(), _timed_detection(maintainer.planner) as detecting:
            while True:
                seen, over = writer.committed, writer.over
                with Stopwatch() as watch:
                    outcome = maintainer.cycle()
                if outcome is Outcome.BLOCKED:
                    # A schema change that waits for a table keeps us waiting, too. It is tried again, as daemons do.
                    blocked += watch.seconds
                    if blocked > PATIENCE:
                        raise maintainer.obstacle or AssertionError("blocked")
                if outcome is not Outcome.IDLE:
                    seconds += watch.seconds
                elif over:
                    break
                else:
                    writer.wait(seen)
        now, gone = warehouse.aborts()
        units = tuple(unit for unit in warehouse.units(10_000) if (unit.id or 0) > installed)
        require_right(self.town, "six")
        return Cost(seconds, now - aborts, gone - lost, units, detecting.seconds)


@contextmanager
def contender(detection: str, rows: int, engine: Engine, machines: dict[str, Server]) -> Iterator[Contender]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        town = Town(
            folder,
            lambda hint: machines["warehouse"].database(f"{hint}_{detection}"),
            engine,
            f'detection = "{detection}"',
        )
        stack.callback(town.close)
        for name, tables in SOURCES.items():
            statements = [text for table in tables for text in created(table, rows)]
            town.source(name, *statements, url=machines[name].database(f"{name}_{detection}"))
        town.view("six", VIEW)
        town.apply()
        yield Contender(town, stack.enter_context(Follower(town)), Landscape(rows))


@dataclass
class _Timed:
    """What calls of some functions took, calls from inside such calls not counted twice."""

    seconds: float = 0.0
    _since: float | None = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            if self._since is not None:
                return function(*arguments, **keywords)
            self._since = time.perf_counter()
            try:
                return function(*arguments, **keywords)
            finally:
                self.seconds += time.perf_counter() - self._since
                self._since = None

        return timed


@contextmanager
def _timed_detection(planner: Planner) -> Iterator[_Timed]:
    """What a scheduler does that is never told of a schema change would not do: ask for the flag, draw the graph, merge
    what is cyclic, foresee an interruption."""
    timed = _Timed()
    with (
        patch.object(planner, "foresee", timed(planner.foresee)),
        patch.object(Schedule, "_planned", timed(Schedule._planned)),
        patch.object(Schedule, "_fresh", timed(Schedule._fresh)),
        patch.object(Plan, "__next__", timed(Plan.__next__)),
    ):
        yield timed


@contextmanager
def undetected(one: Contender) -> Iterator[None]:
    """Nothing looks for schema changes: not the planner, and no schema is compared after the reads. Right as long as
    there are none."""
    planner = one.follower.maintainer.planner
    with patch.object(planner, "foresee", lambda unit: None), patch.object(Poll, "compare", lambda *a, **k: None):
        yield
