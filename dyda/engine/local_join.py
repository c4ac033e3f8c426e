"""Combinations: rows in memory are joined here, by Arrow, and Spark evaluates the result.

    a (x, y)   b (x, z)                    a.y │ b.x │ b.z │ n
    equality a.y = b.x         ──▶           7 │   7 │ 'q' │ 1        what Spark gets

A join of a few rows costs Spark a plan and a stage for every relation, whatever the rows. Nothing is decided here: an
equality of two columns of one type limits which rows can meet, conditions that are plain enough (vm/limits.py) limit
which rows and combinations are left, and Spark then evaluates every condition, those too. Combinations whose count does
not change are left out. Where there would be too many, Spark joins them itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dyda.engine.typed_columns import arrow_type, typed_table
from dyda.model.algebra.nodes import ColumnRef
from vm.careful import may_fail
from vm.evaluation import Evaluation, frame_columns, join_order
from vm.limits import possible

__all__ = ["combinations", "one_of_nulls"]

Keys = npt.NDArray[np.int64]

LIMIT = 200_000
"""More combinations than this are left to Spark: beside so many rows, its plan costs little."""
LARGEST = 32 * 2**20
"""More bytes of them, too: they are in memory here and in Spark's driver at once."""


def combinations(evaluation: Evaluation) -> pa.Table | None:
    """What the select list and the conditions read, typed, for each combination, and what it counts (n, maybe t).

    None if rows are missing that Spark has to scan, or if the combinations would be too many or too large.
    """
    if evaluation.scanned:
        return None
    frames = {frame.occurrence.alias: frame for frame in evaluation.frames}
    typed = {
        alias: typed_table(frame.table, frame.occurrence.frame, str(frame.occurrence.relation.name))
        for alias, frame in frames.items()
    }
    single = {alias: _limited(evaluation, typed, {alias: _all(table)}, alias)[alias] for alias, table in typed.items()}
    first, *others = join_order(evaluation)
    picked = {first.alias: single[first.alias]}
    for occurrence in others:
        left, right = [], []
        mine = single[occurrence.alias]
        for here, there in _equalities(evaluation, set(picked), occurrence.alias):
            keys = _comparable(_values(evaluation, typed, here), _values(evaluation, typed, there))
            if keys is not None:
                left.append(keys[0].take(picked[here.alias]))
                right.append(keys[1].take(mine))
        pairs = _pairs(left, right, len(picked[first.alias]), len(mine))
        if pairs is None:
            return None
        theirs, met = pairs
        picked = {alias: rows.take(theirs) for alias, rows in picked.items()} | {occurrence.alias: mine.take(met)}
        picked = _limited(evaluation, typed, picked, occurrence.alias)
    numbers = _numbers(evaluation, picked)
    if numbers is None:
        return None
    kept, counts = numbers
    picked = {alias: rows.filter(kept) for alias, rows in picked.items()}
    read = _read(evaluation)
    if sum(_bytes(typed[alias].column(name), picked[alias]) for name, alias in read.items()) > LARGEST:
        return None
    columns = {name: typed[alias].column(name).take(picked[alias]) for name, alias in read.items()}
    return pa.table(columns | {name: numbers.filter(kept) for name, numbers in counts.items()})


def one_of_nulls(evaluation: Evaluation) -> pa.Table:
    """One combination whose values are all NULL, of an evaluation without tags."""
    types = {column.name: column.spark_type for one in evaluation.block.occurrences for column in one.frame}
    columns = {name: pa.nulls(1, arrow_type(types[name])) for name in _read(evaluation)}
    return pa.table(columns | {"n": pa.array([1], pa.int64())})


def _all(table: pa.Table) -> pa.Array:
    return pa.array(np.arange(table.num_rows))


def _limited(
    evaluation: Evaluation, typed: dict[str, pa.Table], picked: dict[str, pa.Array], newest: str
) -> dict[str, pa.Array]:
    """The combinations for which the conditions that can be asked now may be true.

    A build of the view fails on a row over which one condition cannot be computed, though another excludes it, unless
    it is done carefully (vm/careful.py); of one relation it is not, and then a unit fails on that row, too.
    """
    conjuncts = evaluation.block.conjuncts
    if len(typed) == 1 and any(map(may_fail, conjuncts)):
        return picked
    for conjunct in conjuncts:
        if newest not in conjunct.aliases or not conjunct.aliases <= picked.keys():
            continue
        if conjunct.equality is not None or (len(picked) > 1 and len(conjunct.aliases) == 1):
            continue  # asked already
        mask = possible(conjunct, partial(_picked_values, evaluation, typed, picked))
        if mask is not None:
            picked = {alias: rows.filter(mask) for alias, rows in picked.items()}
    return picked


def _picked_values(
    evaluation: Evaluation, typed: dict[str, pa.Table], picked: dict[str, pa.Array], ref: ColumnRef
) -> pa.ChunkedArray:
    return _values(evaluation, typed, ref).take(picked[ref.alias])


def _read(evaluation: Evaluation) -> dict[str, str]:
    """The columns that the select list and the conditions read, each with its occurrence."""
    return {
        name: occurrence.alias
        for occurrence in evaluation.block.occurrences
        for name in frame_columns(evaluation, {occurrence.alias}, evaluation.block.conjuncts)
    }


def _bytes(values: pa.ChunkedArray, rows: pa.Array) -> int:
    """About how many the values of these rows take."""
    if not pa.types.is_string(values.type) and not pa.types.is_binary(values.type):
        return 16 * len(rows)
    return int(pc.sum(pc.binary_length(values).take(rows)).as_py() or 0)


def _equalities(evaluation: Evaluation, placed: set[str], alias: str) -> list[tuple[ColumnRef, ColumnRef]]:
    """Between what is placed and the next occurrence."""
    found = []
    for conjunct in evaluation.block.conjuncts:
        if conjunct.equality is not None:
            one, other = conjunct.equality
            if one.alias in placed and other.alias == alias:
                found.append((one, other))
            elif other.alias in placed and one.alias == alias:
                found.append((other, one))
    return found


def _values(evaluation: Evaluation, typed: dict[str, pa.Table], ref: ColumnRef) -> pa.ChunkedArray:
    name = evaluation.block.carried(ref).value
    assert name is not None  # a condition computes with it
    return typed[ref.alias].column(name)


def _comparable(one: pa.ChunkedArray, other: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray] | None:
    """Both as values that are equal for Arrow exactly where they are for Spark; None if there is no such form."""
    if pa.types.is_integer(one.type) and pa.types.is_integer(other.type):
        return pc.cast(one, pa.int64()), pc.cast(other, pa.int64())
    if pa.types.is_decimal(one.type) and pa.types.is_decimal(other.type):
        common = pa.decimal256(76, max(one.type.scale, other.type.scale))
        return pc.cast(one, common), pc.cast(other, common)
    if one.type != other.type or pa.types.is_floating(one.type):  # NaN and the two zeros; casts between types
        return None
    return one, other


def _pairs(
    left: Sequence[pa.ChunkedArray], right: Sequence[pa.ChunkedArray], here: int, there: int
) -> tuple[pa.Array, pa.Array] | None:
    """Row numbers of matching rows, of all rows if there are no keys; None if there are too many."""
    keys = np.zeros(here + there, np.int64)
    for one, other in zip(left, right, strict=True):
        keys = _paired(keys, _numbered(one, other))
    mine, theirs = keys[:here], keys[here:]
    valid = np.flatnonzero(theirs >= 0)
    ordered = valid[np.argsort(theirs[valid], kind="stable")]
    having = np.bincount(theirs[valid], minlength=keys.max(initial=0) + 2)  # the last is what NULL, -1, finds: nothing
    meeting = having[mine]
    if (total := int(meeting.sum())) > LIMIT:
        return None
    start = (np.cumsum(having) - having)[mine] - (np.cumsum(meeting) - meeting)
    met = ordered[np.arange(total) + np.repeat(start, meeting)]
    return pa.array(np.repeat(np.arange(here), meeting)), pa.array(met)


def _numbered(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Keys:
    """Small numbers for the values of both, equal where these are; -1 for NULL."""
    both = pa.chunked_array([*one.chunks, *other.chunks], one.type).combine_chunks().dictionary_encode()
    numbers: Keys = both.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _paired(keys: Keys, more: Keys) -> Keys:
    """The numbers of pairs: equal where both are, -1 where one is."""
    if not keys.any():
        return more
    pairs = keys * (more.max(initial=0) + 1) + more
    numbers: Keys = np.unique(pairs, return_inverse=True)[1]
    return np.where((keys < 0) | (more < 0), -1, numbers)


def _numbers(evaluation: Evaluation, picked: dict[str, pa.Array]) -> tuple[pa.Array, dict[str, pa.Array]] | None:
    """Which combinations are in the result, and what all of them count; None if a number is beyond 64 bits."""
    counting = evaluation.counting
    product: tuple[pa.Array, pa.Array] | None = None
    try:
        for frame in evaluation.frames:
            width = frame.table.num_columns
            rows = picked[frame.occurrence.alias]
            one, other = (frame.table.column(place).combine_chunks().take(rows) for place in (width - 2, width - 1))
            product = (one, other) if product is None else counting.multiplied(product, (one, other))
        assert product is not None
        kept, count, tag = counting.counted(*product)
        if evaluation.sign < 0:
            count = pc.negate_checked(count)
    except pa.ArrowInvalid:
        return None  # Spark raises the error
    return kept, {"n": count} | ({"t": tag} if tag is not None else {})
