"""A short torture with a fixed seed; `make torture` knows all kinds of faults and runs as long as it is told to."""

from __future__ import annotations

import pytest

from tests.torture.report import table
from tests.torture.schedule import Torture

pytestmark = pytest.mark.long

KINDS = (
    "source frozen",
    "source answer cut",
    "source table locked",
    "serialization failure",
    "daemon killed at a point",
    "warehouse server killed",
)

VIEWS = ("passengers", "totals", "idle")


def test_complete_consistency_under_faults() -> None:
    """No transaction is skipped, and every one has a state of its own, in the order of its source."""
    kinds = ("daemon killed at a point",)
    torture = Torture(seed=4, kinds=kinds, say=print, command="", consistency="complete", views=VIEWS)
    summary = torture.run(seconds=0)
    print(table(summary))
    assert not summary.violations, "\n\n".join(map(str, summary.violations))
    assert set(summary.faults) >= set(kinds)
    assert summary.commits > 0


def test_every_state_is_right_under_faults() -> None:
    """During each fault `status` has words for it and the other views go on; after it all catch up (Torture.suffer).

    The history of transactions, commits and reads is then judged by PostgreSQL (Torture.judge).
    """
    torture = Torture(seed=3, kinds=KINDS, say=print, command="pytest tests/acceptance/test_torture.py", views=VIEWS)
    summary = torture.run(seconds=0)
    print(table(summary))
    assert not summary.violations, "\n\n".join(map(str, summary.violations))
    assert set(summary.faults) >= set(KINDS)
    assert summary.transactions > 0
    assert summary.states > 0
    assert summary.reads > 0
