"""Times that can be trusted on a noisy machine: contenders take turns, and what is told is a ratio of medians.

round 1   a b c      a machine that is slow for a minute is slow for all of them;
round 2   a b c      the middle half of the rounds says how far to trust the median
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType

__all__ = ["Sample", "Stopwatch", "interleaved", "progress"]


def progress(text: str) -> None:
    """A full profile takes the better part of an hour: say how far it is, beside the report."""
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Sample:
    """Seconds that one contender took, round by round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and the third quartile."""
        if len(self.seconds) < 2:
            return self.median, self.median
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high

    def __str__(self) -> str:
        low, high = self.spread
        return f"{shown(self.median)} ({shown(low)}–{shown(high)})"


def shown(seconds: float) -> str:
    """Milliseconds, with as many digits as mean something."""
    milliseconds = seconds * 1000
    return f"{milliseconds:.1f}" if milliseconds < 10 else f"{milliseconds:,.0f}"


class Stopwatch(AbstractContextManager["Stopwatch"]):
    """`with Stopwatch() as watch: …; watch.seconds`."""

    seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._begun = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._begun


def interleaved(
    contenders: Mapping[str, Callable[[], float]],
    rounds: int,
    prepare: Callable[[], None] = lambda: None,
    warm: int = 1,
) -> dict[str, Sample]:
    """Every contender once per round, after `prepare`. Each says itself how many seconds of its turn count.

    The first `warm` rounds are not counted: caches fill, and what is compiled on first use is compiled.
    """
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(warm + rounds):
        progress(f"round {number + 1} of {warm + rounds}: {', '.join(contenders)}")
        prepare()
        for name, contender in contenders.items():
            seconds = contender()
            if number >= warm:
                found[name].append(seconds)
    return {name: Sample(tuple(seconds)) for name, seconds in found.items()}
