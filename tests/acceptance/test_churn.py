"""A short churn with a fixed seed; `make churn` runs for half an hour."""

from __future__ import annotations

import pytest

from tests.torture.churn import Churn
from tests.town import Town

pytestmark = pytest.mark.long


def test_random_changes_under_kill_9(town: Town) -> None:
    """Nothing lost, nothing twice: every view that is not broken is recomputed by PostgreSQL (Churn.check).

    Two rounds: a cycle that must be merged, and a unit that must be void. What a seed brings, with a daemon killed in
    the middle of it, is in test_torture.py.
    """
    summary = Churn(town, seed=1, say=print).run(rounds=2)
    print(summary)
    assert summary.kills >= 2, "one kills itself in the middle of a unit, one is killed"
    assert summary.schema_changes > 0
    assert summary.merged > 0, "changes that depend on each other in a cycle"
    assert summary.aborts > 0, "a schema that changed under a unit"
    assert summary.recoveries > 0, "a view that broke and was recovered"
    assert summary.unbroken * 2 >= summary.total
