"""The order of a source's transactions: as they committed, as far as the source's clock tells it right.

A wall clock may be set back, and then commit timestamps lie. Two transactions of one relation cannot have overlapped if
one of them changed its schema or truncated it: that takes a lock until the commit. The log's numbers tell their order
for certain, so where the timestamps say otherwise they are not believed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from dyda.sources.received import Transaction

__all__ = ["transactions_in_order"]

BARRIERS = ("S", "T")
"""Log entries of schema changes and truncations."""


def transactions_in_order(found: Iterable[Transaction]) -> list[Transaction]:
    """As they committed, where the source knows it; else by their last log numbers (P4)."""
    by_log = sorted(found, key=lambda one: one.last)
    if not all(one.committed is not None for one in by_log):
        return by_log
    by_clock = sorted(by_log, key=lambda one: one.committed)  # type: ignore[arg-type,return-value]
    if by_clock == by_log or not any(op in BARRIERS for one in by_log for _, op, *_ in one.told):
        return by_clock
    return _merged(by_clock, _before(by_log))


def _before(by_log: Sequence[Transaction]) -> dict[int, set[int]]:
    """By transaction, those that must come before it."""
    before: dict[int, set[int]] = {one.xid: set() for one in by_log}
    barrier: dict[int, int] = {}
    since: dict[int, list[int]] = {}
    for one in by_log:
        changed = {root for root, op, *_ in one.told if op in BARRIERS}
        for root in {root for root, *_ in one.told}:
            if root in barrier:
                before[one.xid].add(barrier[root])
            if root in changed:
                before[one.xid].update(since.pop(root, ()))
                barrier[root] = one.xid
            else:
                since.setdefault(root, []).append(one.xid)
    return before


def _merged(preferred: Sequence[Transaction], before: Mapping[int, set[int]]) -> list[Transaction]:
    """The order nearest to the preferred one in which everything comes after what must precede it."""
    rank = {one.xid: place for place, one in enumerate(preferred)}
    missing = {xid: len(earlier) for xid, earlier in before.items()}
    after: dict[int, list[int]] = {xid: [] for xid in before}
    for xid, earlier in before.items():
        for one in earlier:
            after[one].append(xid)
    ready = [rank[xid] for xid, number in missing.items() if number == 0]
    heapq.heapify(ready)
    found = []
    while ready:
        next_one = preferred[heapq.heappop(ready)]
        found.append(next_one)
        for later in after[next_one.xid]:
            missing[later] -= 1
            if missing[later] == 0:
                heapq.heappush(ready, rank[later])
    return found
