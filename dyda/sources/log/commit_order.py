"""The order of a source's transactions: as they committed, as long as the source's clock can be trusted.

A wall clock may be set back, and then commit timestamps are wrong. It shows in two ways:

- A transaction's commit time is after the moment at which it was already seen, or, though it began after a look at the
  source, before that look (`contradicts`).
- Two transactions of one relation cannot have overlapped if one of them changed its schema or truncated it: that takes
  a lock until the commit. The log's numbers give their order for certain.

A clock that is wrong once is not used at all: in an order that is partly the clock's and partly certain, some
transactions would precede others that had ended before they began. The log's own order (P4) never does that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from dyda.model.position import Position
from dyda.sources.log.transactions import Transaction

__all__ = ["Look", "Moment", "contradicts", "is_settled", "latest", "transactions_in_order"]

BARRIERS = ("S", "T")
"""Log entries of schema changes and truncations."""


@dataclass(frozen=True)
class Look:
    """A state of the source, and what its clock said before and after that state was fixed. `lsn`: the end of its WAL
    after that; None on a standby, which writes none."""

    position: Position
    before: datetime
    after: datetime
    lsn: int | None = None


@dataclass(frozen=True)
class Moment:
    """The last of some transactions by the log, and by the clock; and whether the clock knows none, or all of them.
    Without any transaction, the beginning."""

    first_number: int = 0
    number: int = 0
    first_time: datetime | None = None
    time: datetime | None = None
    whole: bool = True

    def precedes(self, later: Moment) -> bool:
        """Whether, by log and by clock, all that this is the latest of come before all of `later`. Then the order of
        those does not depend on these, nor the other way round."""
        if not self.number or not later.number:
            return self.whole and later.whole
        if not (self.whole and later.whole) or later.first_number <= self.number:
            return False
        if self.time is None or later.first_time is None:
            return self.time is None and later.first_time is None
        return self.time <= later.first_time


def latest(found: Iterable[Transaction]) -> Moment:
    """Where these begin and end."""
    numbers, times = [], []
    for one in found:
        numbers.append(one.last)
        if one.committed is not None:
            times.append(one.committed)
    if not numbers:
        return Moment()
    first_time, time = (min(times), max(times)) if times else (None, None)
    return Moment(min(numbers), max(numbers), first_time, time, not times or len(times) == len(numbers))


def contradicts(one: Transaction, last: Look | None, now: Look) -> bool:
    """Whether the transaction's commit timestamp cannot be, if it is visible `now` and was not at the `last` look."""
    if one.committed is None:
        return False
    if one.committed > now.after:
        return True
    return last is not None and one.xid >= last.position.xmax and one.committed < last.before


def transactions_in_order(found: Iterable[Transaction], *, clock: bool = True) -> list[Transaction]:
    """As they committed, where the source knows it and its `clock` is right; else by their last log numbers (P4)."""
    by_log = sorted(found, key=lambda one: one.last)
    if not clock or not all(one.committed is not None for one in by_log):
        return by_log
    by_clock = sorted(by_log, key=lambda one: one.committed)  # type: ignore[arg-type,return-value]
    return by_clock if by_clock == by_log or _keeps(by_clock, _certain(by_log)) else by_log


def is_settled(found: Collection[Transaction], *, clock: bool) -> bool:
    """Whether their order is that of their commits, or the source knows none of these: if later ones come, it stays."""
    times = [one.committed for one in found]
    if not any(times):
        return True
    if not all(times):
        return False
    order = [one.committed for one in transactions_in_order(found, clock=clock)]
    return all(first <= then for first, then in pairwise(order))  # type: ignore[operator]


def _certain(by_log: Sequence[Transaction]) -> list[tuple[int, int]]:
    """Pairs of transactions, the first of which committed before the other began to write."""
    found = []
    barrier: dict[int, int] = {}
    since: dict[int, list[int]] = {}
    for one in by_log:
        changed = {root for root, op, *_ in one.entries if op in BARRIERS}
        for root in {root for root, *_ in one.entries}:
            if root in barrier:
                found.append((barrier[root], one.xid))
            if root in changed:
                found += [(earlier, one.xid) for earlier in since.pop(root, ())]
                barrier[root] = one.xid
            else:
                since.setdefault(root, []).append(one.xid)
    return found


def _keeps(order: Sequence[Transaction], certain: Sequence[tuple[int, int]]) -> bool:
    place = {one.xid: number for number, one in enumerate(order)}
    return all(place[first] < place[then] for first, then in certain)
