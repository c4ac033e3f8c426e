"""Combinations: rows that are at hand are joined here, by Arrow, and Spark is asked about what comes out.

    a (x, y)   b (x, z)                    a.y │ b.x │ b.z │ n
    equality a.y = b.x         ──▶           7 │   7 │ 'q' │ 1        what Spark gets

A join of a few rows costs Spark a plan and a stage for every relation, whatever the rows. Nothing is decided here: an
equality of two columns of one type tells which rows can meet at all, and Spark then evaluates every condition, that one
too. Combinations whose count does not change are left out. Where there would be too many, Spark joins them itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dyda.engine.columns import typed_table
from dyda.model.algebra import ColumnRef
from vm.evaluation import Evaluation, frame_columns, join_order

__all__ = ["COUNT", "TRANSACTION", "combinations"]

COUNT = "n"
TRANSACTION = "t"

LIMIT = 200_000
"""More combinations than this are Spark's: they are many rows, and its plan costs little beside them."""


def combinations(evaluation: Evaluation) -> pa.Table | None:
    """What the select list and the conditions read, typed, for each combination, and what it counts (n, maybe t).

    None if rows are missing that Spark has to scan, or if there would be too many combinations.
    """
    if evaluation.scanned:
        return None
    frames = {frame.occurrence.alias: frame for frame in evaluation.frames}
    typed = {
        alias: typed_table(frame.table, frame.occurrence.frame, str(frame.occurrence.relation.name))
        for alias, frame in frames.items()
    }
    first, *others = join_order(evaluation)
    picked = {first.alias: pa.array(range(typed[first.alias].num_rows), pa.int64())}
    for occurrence in others:
        left, right = [], []
        for here, there in _equalities(evaluation, set(picked), occurrence.alias):
            keys = _comparable(_values(evaluation, typed, here), _values(evaluation, typed, there))
            if keys is not None:
                left.append(keys[0].take(picked[here.alias]))
                right.append(keys[1])
        count = len(picked[first.alias])
        pairs = _pairs(left, right, count, typed[occurrence.alias].num_rows)
        if pairs is None:
            return None
        mine, theirs = pairs
        picked = {alias: rows.take(mine) for alias, rows in picked.items()} | {occurrence.alias: theirs}
    numbers = _numbers(evaluation, picked)
    if numbers is None:
        return None
    kept, counts = numbers
    picked = {alias: rows.filter(kept) for alias, rows in picked.items()}
    columns = {
        name: typed[occurrence.alias].column(name).take(picked[occurrence.alias])
        for occurrence in evaluation.block.occurrences
        for name in frame_columns(evaluation, {occurrence.alias}, evaluation.block.conjuncts)
    }
    return pa.table(columns | {name: numbers.filter(kept) for name, numbers in counts.items()})


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
    """Both as values that are equal for Arrow exactly where they are for Spark; None if Spark has its own idea."""
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
    """Row numbers of what meets; None if that is too much."""
    if not left:
        if here * there > LIMIT:
            return None
        mine, theirs = pa.array(range(here), pa.int64()), pa.array(range(there), pa.int64())
        return _repeated(mine, there), pa.concat_arrays([theirs] * here) if here else theirs.slice(0, 0)
    if len(left) == 1 and _told_apart(right[0]):
        found = pc.index_in(left[0], value_set=right[0], skip_nulls=True).combine_chunks()
        return pc.indices_nonzero(pc.is_valid(found)).cast(pa.int64()), found.drop_null().cast(pa.int64())
    names = [f"k{place}" for place in range(len(left))]
    rows = pa.table([*left, pa.array(range(here), pa.int64())], names=[*names, "mine"])
    others = pa.table([*right, pa.array(range(there), pa.int64())], names=[*names, "theirs"])
    if here * there > LIMIT:
        meeting = others.group_by(names, use_threads=False).aggregate([([], "count_all")])
        sizes = rows.select(names).join(meeting, names, join_type="inner", use_threads=False).column("count_all")
        if (pc.sum(sizes).as_py() or 0) > LIMIT:
            return None
    met = rows.join(others, names, join_type="inner", use_threads=False)
    return met.column("mine").combine_chunks(), met.column("theirs").combine_chunks()


def _told_apart(keys: pa.ChunkedArray) -> bool:
    """Whether each key is of one row only: then a look into an index does, for a fraction of what a join costs."""
    kind = keys.type
    simple = pa.types.is_integer(kind) or pa.types.is_string(kind)
    return simple and bool(pc.count_distinct(keys, mode="all").as_py() == len(keys))


def _repeated(numbers: pa.Array, times: int) -> pa.Array:
    """Each number so many times in a row."""
    places = pc.divide(pa.array(range(len(numbers) * times), pa.int64()), max(times, 1))
    return numbers.take(places)


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
        return None  # Spark says so in its own words
    return kept, {COUNT: count} | ({TRANSACTION: tag} if tag is not None else {})
