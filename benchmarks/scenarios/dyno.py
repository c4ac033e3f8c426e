"""Dyno (paper 001, Section 7): what detection costs, what a broken query costs, and mixtures of changes under both
strategies. What is compared with what:

    Figure 7    data updates alone: pessimistic, optimistic, and with nothing that looks for schema changes
    Figure 8    two changes in conflict: spaced out, both in the queue, and the second in the middle of the first's unit
    Figure 9    a mixture, by the interval between its schema changes; the unit is the time that following one takes
    Figure 10   the same at one interval, by the number of schema changes
    Figure 11   the same, by the number of data updates

The cost of a run is the time in which there was something to do: waiting for a writer is free, as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from benchmarks.harness.measuring import progress
from benchmarks.harness.servers import servers, spark
from benchmarks.report.report import Report
from benchmarks.scenarios.dyno_figures import STRATEGIES, Figure, Found, Mixed, report_on
from benchmarks.scenarios.mixture import Event, Landscape, Writer, data_updates, mixture
from benchmarks.scenarios.relations import SOURCES
from benchmarks.scenarios.strategies import Contender, Cost, Costs, contender, undetected
from dyda import faults

__all__ = ["run"]

AT = 1.25
"""The interval of Figures 10 and 11. Below 1, schema changes void the same units again and again, foreseen or not."""


@dataclass(frozen=True)
class Scale:
    rows: int
    rounds: int
    alone: tuple[int, ...]
    """Data updates of Figure 7."""
    intervals: tuple[float, ...]
    schema_changes: int
    """Of Figures 9 and 11."""
    data_updates: int
    """Of Figures 9 and 10."""
    numbers: tuple[int, ...]
    """Schema changes of Figure 10."""
    rows_changed: tuple[int, ...]
    """Data updates of Figure 11."""

    @property
    def figures(self) -> list[Figure]:
        """Figures 9 to 11; they share mixtures."""
        intervals = [Mixed(interval, self.schema_changes, self.data_updates) for interval in self.intervals]
        numbers = [Mixed(AT, number, self.data_updates) for number in self.numbers]
        rows = [Mixed(AT, self.schema_changes, number) for number in self.rows_changed]
        return [
            Figure("9", "interval between schema changes ÷ time to follow one", intervals, lambda one: one.interval),
            Figure("10", "number of schema changes", numbers, lambda one: one.schema_changes),
            Figure("11", "number of data updates", rows, lambda one: one.data_updates),
        ]


SCALES = {
    "tiny": Scale(100, 1, (5,), (AT,), 2, 6, (2,), (6,)),
    "quick": Scale(2_000, 3, (10, 100, 500), (0, 0.5, 1, AT), 5, 100, (5, 10), (50, 100, 200)),
    "full": Scale(10_000, 5, (10, 100, 1_000, 3_000), (0, 0.25, 0.5, 1, AT), 10, 200, (5, 10, 15, 25), (100, 200, 400)),
}


def run(profile: str) -> Report:
    scale = SCALES[profile]
    with ExitStack() as stack:
        machines = stack.enter_context(servers([*SOURCES, "warehouse"]))
        engine = stack.enter_context(spark())
        both = {name: stack.enter_context(contender(name, scale.rows, engine, machines)) for name in STRATEGIES}
        version = machines["warehouse"].version
        if profile != "tiny":  # what is compiled on first use is compiled
            _rounds(_alone(both, scale.alone[:1]), 1)
            _rounds(_conflicts(both), 1)
            _rounds(_mixed(both, [Mixed(0, 2, 10)], 0), 1)
        alone = _rounds(_alone(both, scale.alone), scale.rounds)
        conflicts = _rounds(_conflicts(both), scale.rounds)
        maintenance = conflicts["SC/SC", "spaced out"].seconds.median / 2
        points = dict.fromkeys(point for figure in scale.figures for point in figure.points)
        mixed = _rounds(_mixed(both, points, maintenance), scale.rounds)
    report = report_on(Found(alone, conflicts, mixed, maintenance), scale.figures)
    report.ran_on["postgres"] = version
    report.ran_on["rows"] = f"{scale.rows:,}"
    return report


Key = TypeVar("Key")
Turn = Callable[[int], Cost]


def _rounds(turns: Mapping[Key, Turn], rounds: int) -> dict[Key, Costs]:
    """Every turn once a round, in an order that is turned round each time."""
    found: dict[Key, list[Cost]] = {key: [] for key in turns}
    for number in range(rounds):
        progress(f"round {number + 1} of {rounds}: {len(turns)} turns")
        for key, turn in list(turns.items())[:: -1 if number % 2 else 1]:
            found[key].append(turn(number))
    return {key: Costs(tuple(costs)) for key, costs in found.items()}


def _alone(both: Mapping[str, Contender], numbers: tuple[int, ...]) -> dict[tuple[int, str], Turn]:
    """Figure 7."""

    def turn(one: Contender, number: int, detecting: bool) -> Turn:
        def follow(seed: int) -> Cost:
            writer = Writer(one.town.sources, data_updates(one.landscape, number, seed), 0)
            if detecting:
                return one.attend(writer)
            with undetected(one):
                return one.attend(writer)

        return follow

    turns = {}
    for number in numbers:
        for name, one in both.items():
            turns[number, name] = turn(one, number, True)
        turns[number, "without detection"] = turn(both["optimistic"], number, False)
    return turns


@dataclass(frozen=True)
class Conflict:
    """Two changes; processing the first reads what the second one changes. `point`: when it has just read that."""

    name: str
    first: Callable[[Landscape], Event]
    second: Callable[[Landscape], Event]
    point: str


CONFLICTS = (
    Conflict("DU/SC", lambda town: town.update("r1", 1), lambda town: town.rename_shown("r4"), "unit.swept"),
    Conflict("SC/SC", lambda town: town.retype("r1"), lambda town: town.retype("r5"), "unit.evaluated"),
)


def _conflicts(both: Mapping[str, Contender]) -> dict[tuple[str, str], Turn]:
    """Figure 8."""

    def spaced(conflict: Conflict, seed: int) -> Cost:
        one = both["pessimistic"]
        one.commit(conflict.first)
        first = one.follow()
        one.commit(conflict.second)
        return first + one.follow()

    def queued(one: Contender, conflict: Conflict, seed: int) -> Cost:
        one.commit(conflict.first)
        one.commit(conflict.second)
        return one.follow()

    def met(one: Contender, conflict: Conflict, seed: int) -> Cost:
        one.commit(conflict.first)
        with _once(conflict.point, lambda: one.commit(conflict.second)):
            return one.follow()

    turns: dict[tuple[str, str], Turn] = {}
    for conflict in CONFLICTS:
        turns[conflict.name, "spaced out"] = partial(spaced, conflict)
        turns |= {(conflict.name, name): partial(queued, one, conflict) for name, one in both.items()}
        turns |= {(conflict.name, f"{name}, in the middle"): partial(met, one, conflict) for name, one in both.items()}
    return turns


@contextmanager
def _once(point: str, act: Callable[[], None]) -> Iterator[None]:
    done: list[bool] = []

    def hook() -> None:
        if not done:
            done.append(True)
            act()

    with faults.on(point, hook):
        yield
    if not done:
        raise AssertionError(f"{point} was not passed")


def _mixed(both: Mapping[str, Contender], points: Iterable[Mixed], maintenance: float) -> dict[tuple[Mixed, str], Turn]:
    """Figures 9 to 11."""

    def turn(one: Contender, point: Mixed) -> Turn:
        def attend(seed: int) -> Cost:
            events = mixture(one.landscape, point.schema_changes, point.data_updates, seed)
            return one.attend(Writer(one.town.sources, events, point.interval * maintenance))

        return attend

    return {(point, name): turn(one, point) for point in points for name, one in both.items()}
