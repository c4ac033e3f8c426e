"""A short soak at a low rate; `make soak` runs for twenty minutes at 500 transactions per second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torture.soak import Bounds, Soak

pytestmark = pytest.mark.long


def test_a_load_with_schema_changes_is_followed_with_bounded_memory_and_logs(
    tmp_path: Path, database: Callable[[str], str]
) -> None:
    """PostgreSQL recomputes every view at rest; memory and log tables stay within their bounds. Times prove nothing on
    a machine that others use too, so none is asked for."""
    soak = Soak(tmp_path, database, {}, seed=3)
    try:
        report = soak.run(12, 40, 2.0, Bounds(rate=0.0, lag=float("inf"), catching_up=600.0), every=4.0)
    finally:
        soak.town.close()
    print(report)
    assert report.holds, str(report)
    last = soak.samples[-1]
    assert last.transactions > 0
    assert last.schema_changes > 0
    assert last.units > 1
    assert (last.pending, last.queue) == (0, 0)
