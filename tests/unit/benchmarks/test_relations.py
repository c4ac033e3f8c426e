"""Batches of changes are as large as they say, whatever came before."""

from __future__ import annotations

import itertools

from benchmarks.scenarios.relations import Changes


def size(statement: str) -> int:
    return statement.count("back") if statement.startswith("INSERT") else statement.count(",", statement.index("{")) + 1


def test_a_batch_has_k_changes_also_after_a_larger_one() -> None:
    changes = Changes(rows=10_000)
    for k in itertools.islice(itertools.cycle((6, 60, 600, 6_000)), 20):
        batch = changes.batch(k)
        assert sum(size(statement) for statements in batch.values() for statement in statements) == k
