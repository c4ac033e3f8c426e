"""A short churn with a fixed seed; `make churn` runs for half an hour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.torture.churn import Churn
from tests.town import Town

pytestmark = pytest.mark.long


def test_random_changes_under_kill_9(tmp_path: Path, database: Callable[[str], str]) -> None:
    """Nothing lost, nothing twice: every view that is not broken is recomputed by PostgreSQL (Churn.check).

    Three rounds: a cycle that must be merged, a unit that must be void, and whatever the seed brings.
    """
    town = Town(tmp_path / "town", database, None)  # type: ignore[arg-type]
    try:
        summary = Churn(town, seed=1, say=print).run(rounds=3)
    finally:
        town.close()
    print(summary)
    assert summary.kills >= 3
    assert summary.schema_changes > 0
    assert summary.merged > 0, "changes that depend on each other in a cycle"
    assert summary.aborts > 0, "a schema that changed under a unit"
    assert summary.recoveries > 0, "a view that broke and was recovered"
    assert summary.unbroken * 2 >= summary.total
