"""Worlds: what a relation was, became, and became in between, as entries that Spark multiplies through the joins.

    S as read in the snapshot, P captured but not ours yet, D ours:
        new = S − P              old = S − P − D

The sources are read after their updates, so every earlier state is `before(rows, changes)` and nothing else (paper 004,
Equation 12; paper 000, Equation 3): formulas for the state before, over the state after, are the state bug (paper 004,
Section 4.2). Each row has two numbers, and `Counting` says what they mean:

    two worlds     (count before, count after)       an unchanged row (m, m), a change (0, d)     ΔV = ⋈ new − ⋈ old
    tagged         (count, transaction)              a row of old (m, 0), a change (d, tag)       one ΔV per tag (W6)

Entries are additive. Two worlds ship each row once, whatever happened to it; a run of transactions, each of which gets
a state of its own, needs the tags: counts multiply, and a combination belongs to the latest of its transactions.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dyda.model.bag import Bag

__all__ = ["NEW", "NEW_WORLD", "OLD", "TAG", "TAGGED", "TWO_WORLDS", "Counting", "Whole", "Worlds", "before"]

OLD = "#old"
NEW = "#new"
TAG = "#tag"
"""An int64 column of changes: the transaction of the run, from 1. Without it all changes are one transaction."""

Numbers = tuple[pa.Array, pa.Array]


def before(rows: Bag, *changes: Bag) -> Bag:
    """The state from before changes that `rows` already show. Signed, and not added up: what was deleted is back."""
    for change in changes:
        if len(change):
            rows = rows - change.select(rows.columns)
    return rows


@dataclass(frozen=True)
class Counting:
    """The meaning of an entry's two numbers, here and on Spark, where those of the rows joined so far are o and n."""

    scanned: tuple[int, int]
    """The numbers of a row that a scan delivers."""
    product: tuple[str, str]
    """Those of a combination with one more row, whose numbers are {0} and {1}."""
    count: str
    """What a combination counts in the result."""
    kept: str
    """Whether it is in the result."""
    tag: str | None = None
    """The transaction it belongs to; None if all belong to one."""
    difference: bool = True
    """Whether only what changes counts, or the new world as it is."""

    def table(self, old: Bag, changes: Bag) -> pa.Table:
        """Entries, each row once (per transaction), and none that counts nothing: Spark must not fail on it."""
        columns = old.columns
        rows, moved = old.table.select(columns), changes.table.select(columns)
        if self.tag is None:
            numbers = [(old.counts, old.counts), (_zeros(changes), changes.counts)]
        else:
            numbers = [(old.counts, _zeros(old)), (changes.counts, changes.table.column(TAG))]
        parts = [
            part.append_column(OLD, pc.cast(one, pa.int64())).append_column(NEW, pc.cast(other, pa.int64()))
            for part, (one, other) in zip((rows, moved), numbers, strict=True)
        ]
        return self.consolidated(pa.concat_tables(parts))

    def multiplied(self, one: Numbers, other: Numbers) -> Numbers:
        """`product`, of numbers that are here and not on Spark; ArrowInvalid beyond 64 bits."""
        if self.tag is None:
            return pc.multiply_checked(one[0], other[0]), pc.multiply_checked(one[1], other[1])
        return pc.multiply_checked(one[0], other[0]), pc.max_element_wise(one[1], other[1])

    def counted(self, one: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array | None]:
        """`kept`, `count` and `tag`, likewise."""
        if self.tag is not None:
            return pc.and_(pc.greater(other, 0), pc.not_equal(one, 0)), one, other
        count = pc.subtract_checked(other, one) if self.difference else other
        return pc.not_equal(count, 0), count, None

    def changed(self, entries: pa.Table) -> bool:
        """Whether any entry differs from the old world."""
        width = entries.num_columns
        one, other = entries.column(width - 2), entries.column(width - 1)
        return bool(pc.any(pc.greater(other, 0) if self.tag else pc.not_equal(one, other)).as_py())

    def consolidated(self, entries: pa.Table) -> pa.Table:
        width = entries.num_columns - 2
        names = [f"c{i}" for i in range(width)]
        renamed = entries.rename_columns([*names, "o", "n"])
        if self.tag is None:
            summed = renamed.group_by(names, use_threads=False).aggregate([("o", "sum"), ("n", "sum")])
            summed = summed.select([*names, "o_sum", "n_sum"])
            there = pc.or_(pc.not_equal(summed.column(width), 0), pc.not_equal(summed.column(width + 1), 0))
        else:
            summed = renamed.group_by([*names, "n"], use_threads=False).aggregate([("o", "sum")])
            summed = summed.select([*names, "o_sum", "n"])
            there = pc.not_equal(summed.column(width), 0)
        return summed.filter(there).rename_columns(entries.column_names)


TWO_WORLDS = Counting((1, 1), ("o * {0}", "n * {1}"), "n - o", "n <> o")
NEW_WORLD = Counting((1, 1), ("o * {0}", "n * {1}"), "n", "n <> 0", difference=False)
TAGGED = Counting((1, 0), ("o * {0}", "greatest(n, {1})"), "o", "n > 0 AND o <> 0", "n")


@dataclass(frozen=True)
class Worlds:
    """Everything of one occurrence that matters: its columns as text, then the entry's two numbers (by position)."""

    table: pa.Table
    counting: Counting = TWO_WORLDS


@dataclass(frozen=True)
class Whole:
    """This occurrence must be scanned, each row counted as `counting` says; `table` are the entries to add to that."""

    table: pa.Table
    reason: str
    counting: Counting = TWO_WORLDS

    def with_rows(self, rows: Bag) -> Worlds:
        """The same with all rows of the occurrence at hand: nothing is left to scan."""
        one, other = (pc.multiply(rows.counts, number) for number in self.counting.scanned)
        entries = rows.table.select(rows.columns).append_column(OLD, one).append_column(NEW, other)
        return Worlds(self.counting.consolidated(pa.concat_tables([self.table, entries])), self.counting)


def _zeros(bag: Bag) -> pa.ChunkedArray:
    return pc.multiply(bag.counts, 0)
