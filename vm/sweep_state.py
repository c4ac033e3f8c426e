"""What is known of one occurrence while keys travel, and the worlds that follow from it.

A row's counts are exact once a hop has covered it (W4). A changed row that no key of another changed row reached is the
only changed one in every combination that it joins, and there its change alone counts: it needs no counts from before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from dyda.model.bag import Bag
from vm.join_block import Occurrence
from vm.keys import KeyPredicate
from vm.worlds import TAG, TAGGED, TWO_WORLDS, Counting, Whole, Worlds, before

__all__ = ["Learned"]


class Learned:
    """Ours, not ours, and the rows that hops have fetched, by the neighbour whose keys they have. `only_covered`:
    changed rows that no key reached do not count, because not all that changed is asked for."""

    def __init__(
        self,
        occurrence: Occurrence,
        deltas: Mapping[str, Bag],
        pending: Mapping[str, Bag],
        counting: Counting = TWO_WORLDS,
        *,
        only_covered: bool = False,
    ) -> None:
        self.occurrence = occurrence
        self.columns = list(occurrence.columns)
        self._counting = counting
        self._only_covered = only_covered
        none = Bag.empty(self.columns)
        changes = deltas.get(occurrence.alias, none)
        # W6: nothing is condensed across transactions. A row inserted by one and deleted by the next is in a state.
        self.ours = _tagged(changes, self.columns) if counting is TAGGED else changes.select(self.columns)
        self.ours = self.ours.consolidate()
        self._pending = pending
        self._hops: dict[str, tuple[KeyPredicate, Bag]] = {}

    @cached_property
    def pending(self) -> Bag:
        """Not ours, of this occurrence. Asked for where rows were read; it may have to be fetched."""
        found = self._pending.get(self.occurrence.alias, Bag.empty(self.columns))
        return found.select(self.columns).consolidate()

    def learn(self, neighbour: str, predicate: KeyPredicate, answer: Bag) -> None:
        rows = answer.select(self.columns)
        self._hops[neighbour] = (predicate, rows.filter(predicate(rows.table)))

    def known_from_others(self, neighbour: str) -> list[pa.Table]:
        """Our changed rows, and what other neighbours' keys reached, compensated before it travels on (W3): a row that
        a not-ours update inserted is gone by then; one that it deleted is back, and its key travels."""
        rows = [self._changes.table]
        for sender, (predicate, fetched) in self._hops.items():
            if sender != neighbour:
                beyond = self.pending.filter(predicate(self.pending.table))
                rows.append(before(fetched, beyond).consolidate().table if len(beyond) else fetched.table)
        return rows

    def worlds(self) -> Worlds:
        """Rows as read, less what is not ours, less what is; and what is."""
        read = Bag.empty(self.columns)
        seen: list[KeyPredicate] = []
        for _, (predicate, fetched) in sorted(self._hops.items()):
            # W5: two hops may fetch the same row. Unite them by predicate; adding would count it twice.
            for earlier in seen:
                fetched = fetched.filter(pc.invert(earlier(fetched.table)))
            read += fetched
            seen.append(predicate)
        pending = self.pending if self._hops else Bag.empty(self.columns)
        old = before(read, self._covered(pending), self._covered(self.ours))
        return Worlds(self._counting.table(old, self._changes), self._counting)

    def whole(self, reason: str) -> Whole:
        """A scan covers every row."""
        old = before(Bag.empty(self.columns), self.pending, self.ours)
        return Whole(self._counting.table(old, self.ours), reason, self._counting)

    @property
    def _changes(self) -> Bag:
        return self._covered(self.ours) if self._only_covered else self.ours

    def _covered(self, bag: Bag) -> Bag:
        if not len(bag):
            return bag
        mask = pc.not_equal(bag.counts, bag.counts)
        for predicate, _ in self._hops.values():
            mask = pc.or_(mask, predicate(bag.table))
        return bag.filter(mask)


def _tagged(changes: Bag, columns: list[str]) -> Bag:
    if TAG not in changes.columns:
        first = pa.repeat(pa.scalar(1, pa.int64()), len(changes))
        changes = Bag(changes.table.add_column(len(changes.columns), TAG, first))
    return changes.select([*columns, TAG])
