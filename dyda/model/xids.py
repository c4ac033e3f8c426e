"""Transactions of one source by number, so that what a position has of them is found without looking at all of them."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Iterator

from dyda.model.position import Position

__all__ = ["Xids"]


class Xids:
    """A set in ascending order. A position ends at its `xmax`, so only what comes before that is looked at."""

    def __init__(self, xids: Iterable[int] = ()) -> None:
        self._sorted = sorted(set(xids))

    def __len__(self) -> int:
        return len(self._sorted)

    def __iter__(self) -> Iterator[int]:
        return iter(self._sorted)

    def copy(self) -> Xids:
        found = Xids()
        found._sorted = self._sorted.copy()
        return found

    def add(self, xids: Iterable[int]) -> None:
        """Most are newer than all that are here."""
        new = sorted(set(xids))
        if not new or not self._sorted or new[0] > self._sorted[-1]:
            self._sorted += new
        else:
            self._sorted = sorted({*self._sorted, *new})

    def remove(self, xids: Collection[int]) -> None:
        """Those that go are mostly the oldest."""
        if xids:
            gone, end = set(xids), bisect.bisect_right(self._sorted, max(xids))
            self._sorted[:end] = [xid for xid in self._sorted[:end] if xid not in gone]

    def between(self, first: int, end: int) -> list[int]:
        """Those from `first` on that are less than `end`."""
        return self._sorted[bisect.bisect_left(self._sorted, first) : bisect.bisect_left(self._sorted, end)]

    def included(self, position: Position) -> list[int]:
        """Those that the position has."""
        return list(filter(position.includes, self._sorted[: bisect.bisect_left(self._sorted, position.xmax)]))

    def take(self, position: Position) -> list[int]:
        """Those that the position has; they are here no longer."""
        found = self.included(position)
        self.remove(found)
        return found
