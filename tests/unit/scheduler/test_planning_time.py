"""Planning grows with the queue, not with its square: calls are counted, for time is the machine's.

The times come from `python -m benchmarks planning`.
"""

from __future__ import annotations

import cProfile
import pstats

from benchmarks.scenarios.planning import drain, planning_seconds
from scheduler import Consistency


def calls(length: int) -> int:
    with cProfile.Profile() as profile:
        planning_seconds(length, seed=0)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_four_times_the_queue_takes_about_four_times_as_much() -> None:
    assert calls(20_000) / calls(5_000) < 5


def test_a_drain_plans_once_per_rewriting_and_not_once_per_unit() -> None:
    found = drain(2_000, Consistency.COMPLETE)
    assert found.units == 2_000
    assert found.plans < 40
