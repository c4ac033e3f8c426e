"""DyDa as a contender: a maintainer that stays up, as the daemon's does, and follows when it is told to."""

from __future__ import annotations

import statistics
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from benchmarks.harness.measuring import Stopwatch
from dyda.maintenance.cycle import Outcome
from tests.town import Town

__all__ = ["Follower"]


class Follower(AbstractContextManager["Follower"]):
    """`follow()` takes in what is pending; the seconds from the first poll to the last installation."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self._stack = ExitStack()
        self._phases: dict[str, list[dict[str, float]]] = {}

    def __enter__(self) -> Follower:
        self.maintainer = self._stack.enter_context(self.town.maintainer())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def follow(self, label: str | None = None) -> float:
        """With a label, what the units record about their phases is kept under it."""
        seconds = 0.0
        units = 0
        while True:
            with Stopwatch() as watch:
                outcome = self.maintainer.cycle()
            if outcome is Outcome.IDLE:
                break
            seconds += watch.seconds
            units += 1
            if outcome is Outcome.BLOCKED:
                raise self.maintainer.obstacle or AssertionError("blocked")
        if label is not None and units:
            spent: dict[str, float] = {}
            for record in self.maintainer.opened.warehouse.units(units):
                for phase, taken in record.phases.items():
                    spent[phase] = spent.get(phase, 0.0) + taken
            self._phases.setdefault(label, []).append(spent)
        return seconds

    @property
    def phases(self) -> dict[str, dict[str, float]]:
        """By label, the median seconds of each phase."""
        return {
            label: {name: statistics.median(one.get(name, 0.0) for one in records) for name in records[0]}
            for label, records in self._phases.items()
        }
