"""Planning grows with the queue, not with its square. Ratios of medians, with room for a busy machine.

The figures that count come from `python -m benchmarks planning`.
"""

from __future__ import annotations

import statistics

from benchmarks.planning import drain, planning_seconds
from scheduler import Consistency


def test_four_times_the_queue_does_not_take_sixteen_times_as_long() -> None:
    small, large = (
        statistics.median(planning_seconds(length, seed) for seed in range(3)) for length in (5_000, 20_000)
    )
    assert large / small < 9


def test_a_drain_plans_once_per_rewriting_and_not_once_per_unit() -> None:
    found = drain(2_000, Consistency.COMPLETE)
    assert found.units == 2_000
    assert found.plans < 40
    assert found.seconds < 0.1 * found.units * 0.2, "a tenth of what small units take, at 0.2 s each"
