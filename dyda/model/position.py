"""Positions: which transactions of a source are already in an extent (paper 000, Section 5.6; rules P1, P3).

A position is PostgreSQL's `pg_snapshot`, read in the same transaction as the log and the tables. Where a unit leaves
visible transactions out (hold, `complete`, a batch limit) the real snapshot would claim too much, so the position is
synthetic: what was left out is listed as in progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Position"]

WRAP = 2**32
"""PostgreSQL counts transactions in 32 bits and epochs."""
FIRST = 3
"""The first number of an epoch that a transaction can have."""


@dataclass(frozen=True)
class Position:
    """A set of finished transactions: all below `xmax` that are not listed as in progress."""

    xmin: int
    xmax: int
    in_progress: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Position:
        """`100:105:100,102`, as PostgreSQL prints a pg_snapshot."""
        xmin, xmax, listed = text.split(":")
        return cls(int(xmin), int(xmax), frozenset(int(xid) for xid in listed.split(",") if xid))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(str(xid) for xid in sorted(self.in_progress))}"

    def includes(self, xid: int) -> bool:
        """Whether the transaction `xid` (a top-level one, P1) is in this state."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.in_progress)

    def without(self, xids: Iterable[int]) -> Position:
        """The same state less these transactions: they are shown as in progress (P3)."""
        missing = frozenset(xid for xid in xids if xid < self.xmax)
        if not missing:
            return self
        listed = self.in_progress | missing
        return Position(min(self.xmin, *listed), self.xmax, listed)

    def until(self, last: int) -> Position:
        """The same state less every transaction after `last`."""
        xmax = last + 1
        if xmax % WRAP < FIRST:  # no transaction has such a number, and PostgreSQL rejects a snapshot with one
            xmax += FIRST - xmax % WRAP
        if xmax >= self.xmax:
            return self
        listed = frozenset(xid for xid in self.in_progress if xid < xmax)
        return Position(min([xmax, *listed]), xmax, listed)

    def covers(self, other: Position) -> bool:
        """Whether every transaction of `other` is in this one too."""
        if other.xmax > self.xmax and any(other.includes(xid) for xid in range(max(self.xmax, other.xmin), other.xmax)):
            return False
        if other.xmin > self.xmax:
            return False
        return all(not other.includes(xid) for xid in self.in_progress)

    @classmethod
    def meet(cls, positions: Iterable[Position]) -> Position | None:
        """The state that all of these contain; None without any.

        What it includes is in all of them and may be acknowledged; the rest must be kept.
        """
        every = list(positions)
        if not every:
            return None
        xmax = min(position.xmax for position in every)
        listed = frozenset(xid for position in every for xid in position.in_progress if xid < xmax)
        return cls(min([xmax, *listed]), xmax, listed)
