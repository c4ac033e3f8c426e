"""Source states out of a history: the rows and the shape of every table at any position."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from tests.torture.history import History, Position, Shape, Transaction

__all__ = ["Key", "SourceStates", "States", "Table"]

Key = tuple[int, tuple[int, ...]]
"""Which of a list of transactions, ordered by number, are in a state: the first so many, and these places later."""


def key_of(xids: list[int], position: Position) -> Key:
    first = bisect_left(xids, position.xmin)
    last = bisect_left(xids, position.xmax, lo=first)
    later = [place for place in range(first, last) if xids[place] not in position.in_progress]
    taken = 0
    while taken < len(later) and later[taken] == first:
        first, taken = first + 1, taken + 1
    return first, tuple(later[taken:])


@dataclass
class Table:
    """One table, known by its oid: what each transaction did to it. It stands at one state and moves cheaply."""

    oid: int
    transactions: list[Transaction] = field(default_factory=list)
    xids: list[int] = field(default_factory=list)
    _shaping: list[int] = field(default_factory=list)
    _at: frozenset[int] = frozenset()
    _first: int = 0
    _rows: Counter[str] = field(default_factory=Counter)
    _negative: set[str] = field(default_factory=set)

    def add(self, transaction: Transaction) -> None:
        """The next one, in the order of their numbers."""
        if self.oid in transaction.shapes:
            self._shaping.append(len(self.transactions))
        self.transactions.append(transaction)
        self.xids.append(transaction.xid)

    def key(self, position: Position) -> Key:
        return key_of(self.xids, position)

    def rows(self, key: Key) -> Counter[str]:
        """The rows in that state. The bag is the table's own: do not change it, and copy what is to last."""
        first, later = key
        wanted = frozenset(later)
        for place in range(self._first, first):
            if place not in self._at:
                self._apply(place, 1)
        for place in range(first, self._first):
            if place not in wanted:
                self._apply(place, -1)
        for place in self._at - wanted:
            if place >= first and place >= self._first:
                self._apply(place, -1)
        for place in wanted - self._at:
            if place >= self._first:
                self._apply(place, 1)
        self._first, self._at = first, wanted
        return self._rows

    def impossible(self, key: Key) -> str | None:
        """A row that would be there less than zero times: the source never was in this state."""
        self.rows(key)
        return min(self._negative) if self._negative else None

    def shape(self, key: Key) -> Shape | None:
        """The table as the last of these transactions left it; None: it is not there."""
        first, later = key
        there = [self.transactions[place] for place in self._shaping if place < first or place in later]
        return max(there, key=lambda one: one.order).shapes[self.oid] if there else None

    def _apply(self, place: int, sign: int) -> None:
        for row, count in self.transactions[place].effects.get(self.oid, {}).items():
            now = self._rows[row] + sign * count
            if now:
                self._rows[row] = now
            else:
                del self._rows[row]
            (self._negative.add if now < 0 else self._negative.discard)(row)


class SourceStates:
    """All states of one source."""

    def __init__(self, name: str, transactions: Iterable[Transaction]) -> None:
        self.name = name
        self.transactions = sorted(transactions, key=lambda one: one.xid)
        self.xids = [one.xid for one in self.transactions]
        self.tables: dict[int, Table] = {}
        for one in self.transactions:
            for oid in one.tables:
                self.tables.setdefault(oid, Table(oid)).add(one)
        # Shapes are asked for often and change rarely: a table of the transactions that changed any.
        self._changes = [one for one in self.transactions if one.shapes]
        self._change_xids = [one.xid for one in self._changes]
        self._catalogs: dict[Key, dict[tuple[str, str], tuple[int, Shape]]] = {}
        self._parts: dict[frozenset[int], SourceStates] = {}
        self._began = list(accumulate((one.began for one in self.transactions), max))
        self._ended = list(accumulate((one.ended for one in reversed(self.transactions)), min))[::-1]

    def catalog(self, position: Position) -> dict[tuple[str, str], tuple[int, Shape]]:
        """(schema, name) → (oid, shape) at that position."""
        key = key_of(self._change_xids, position)
        if key not in self._catalogs:
            first, later = key
            shapes: dict[int, Shape | None] = {}
            for one in sorted((self._changes[place] for place in (*range(first), *later)), key=lambda one: one.order):
                shapes.update(one.shapes)
            found = {(shape.schema, shape.name): (oid, shape) for oid, shape in shapes.items() if shape is not None}
            self._catalogs[key] = found
        return self._catalogs[key]

    def transaction(self, xid: int) -> Transaction | None:
        """The one of this number, if it is known."""
        place = bisect_left(self.xids, xid)
        return self.transactions[place] if place < len(self.xids) and self.xids[place] == xid else None

    def between(self, low: int, high: int) -> Iterator[Transaction]:
        """The transactions numbered from `low` to below `high`."""
        for place in range(bisect_left(self.xids, low), bisect_left(self.xids, high)):
            yield self.transactions[place]

    def added(self, old: Position, new: Position) -> list[Transaction]:
        """What is in `new` and not in `old`."""
        return [one for one in self.between(old.xmin, new.xmax) if new.includes(one.xid) and not old.includes(one.xid)]

    def outside(self, position: Position) -> Iterator[Transaction]:
        """What is not in that state."""
        for one in self.between(position.xmin, self.xids[-1] + 1 if self.xids else 0):
            if not position.includes(one.xid):
                yield one

    def only(self, oids: frozenset[int]) -> SourceStates:
        """The same with those transactions alone that touch one of these tables."""
        if oids not in self._parts:
            self._parts[oids] = SourceStates(self.name, (one for one in self.transactions if oids & one.tables))
        return self._parts[oids]

    def out_of_order(self, position: Position) -> tuple[Transaction, Transaction] | None:
        """A transaction that is missing, and one that is there although it began after the missing one had ended."""
        first, last = bisect_left(self.xids, position.xmin), bisect_left(self.xids, position.xmax)
        middle = self.transactions[first:last]
        missing = [one for one in middle if not position.includes(one.xid)]
        there = [one for one in middle if position.includes(one.xid)]
        ended = min(
            [one.ended for one in missing] + ([self._ended[last]] if last < len(self.xids) else []), default=None
        )
        began = max([one.began for one in there] + ([self._began[first - 1]] if first else []), default=None)
        if ended is None or began is None or ended >= began:
            return None
        early = next(one for one in (*missing, *self.transactions[last:]) if one.ended == ended)
        late = next(one for one in (*self.transactions[:first], *there) if one.began == began)
        return early, late


class States:
    """The states of all sources of a history."""

    def __init__(self, history: History) -> None:
        by_source: dict[str, list[Transaction]] = {}
        for one in history.transactions:
            by_source.setdefault(one.source, []).append(one)
        self.sources = {name: SourceStates(name, transactions) for name, transactions in by_source.items()}

    def __getitem__(self, source: str) -> SourceStates:
        if source not in self.sources:
            self.sources[source] = SourceStates(source, ())
        return self.sources[source]
