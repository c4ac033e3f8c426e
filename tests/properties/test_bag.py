"""The laws of signed bags, against an independent model: a Python dictionary of counts."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dyda.model.bag import COUNT, Bag

COLUMNS = ["n", "n_sum", "c0"]
"""Names that the grouping inside could trip over."""

law = settings(deadline=None)
"""A law holds however slow the machine is: only failures of the law count, not of the clock."""

Row = tuple[str | None, ...]

values = st.sampled_from([None, "", "a", "b", "1.0", "1.00", "NULL", "é", " "])
rows: st.SearchStrategy[Row] = st.tuples(values, values, values)
entries = st.lists(st.tuples(rows, st.integers(-3, 3)), max_size=12)


@st.composite
def bags(draw: st.DrawFn) -> Bag:
    """A bag as maintenance makes them: rows repeated over entries, zeros among them, in several chunks."""
    return bag_of(draw(entries)) + bag_of(draw(entries))


def bag_of(entries: list[tuple[Row, int]]) -> Bag:
    columns = [pa.array([row[i] for row, _ in entries], pa.string()) for i in range(3)]
    counts = pa.array([count for _, count in entries], pa.int64())
    return Bag(pa.Table.from_arrays([*columns, counts], names=[*COLUMNS, COUNT]))


def meaning(bag: Bag) -> dict[Row, int]:
    """The bag as a dictionary, computed without any code of ours."""
    total: Counter[Row] = Counter()
    for row in zip(*(column.to_pylist() for column in bag.table.columns), strict=True):
        total[row[:-1]] += row[-1]
    return {row: count for row, count in total.items() if count}


def added(one: dict[Row, int], other: dict[Row, int], sign: int = 1) -> dict[Row, int]:
    keys = one.keys() | other.keys()
    sums = {key: one.get(key, 0) + sign * other.get(key, 0) for key in keys}
    return {key: count for key, count in sums.items() if count}


@law
@given(bags(), bags())
def test_sum_and_difference_are_those_of_the_counts(a: Bag, b: Bag) -> None:
    assert meaning(a + b) == added(meaning(a), meaning(b))
    assert meaning(a - b) == added(meaning(a), meaning(b), -1)
    assert meaning(-a) == {row: -count for row, count in meaning(a).items()}


@law
@given(bags(), bags(), bags())
def test_addition_is_a_commutative_group(a: Bag, b: Bag, c: Bag) -> None:
    zero = Bag.empty(COLUMNS)
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a + zero == a
    assert a - a == zero
    assert a - b == -(b - a)


@law
@given(bags(), bags())
def test_equality_is_equality_of_meaning(a: Bag, b: Bag) -> None:
    assert (a == b) == (meaning(a) == meaning(b))
    assert a != "a bag"


@law
@given(bags())
def test_consolidate_keeps_the_meaning_and_has_each_row_once_with_a_count(a: Bag) -> None:
    consolidated = a.consolidate()
    assert consolidated == a
    assert meaning(consolidated) == meaning(a) == consolidated.to_dict() == a.to_dict()
    assert len(consolidated) == len(meaning(a))
    assert 0 not in consolidated.counts.to_pylist()
    assert consolidated.columns == a.columns
    assert consolidated.table.schema.types == a.table.schema.types
    assert len(consolidated.consolidate()) == len(consolidated)


@law
@given(bags(), bags(), st.permutations(COLUMNS), st.integers(0, 3))
def test_projection_is_linear(a: Bag, b: Bag, order: list[str], width: int) -> None:
    kept = order[:width]
    assert (a + b).select(kept) == a.select(kept) + b.select(kept)
    places = [COLUMNS.index(name) for name in kept]
    expected: Counter[Row] = Counter()
    for row, count in meaning(a).items():
        expected[tuple(row[place] for place in places)] += count
    assert meaning(a.select(kept).consolidate()) == {row: count for row, count in expected.items() if count}


@law
@given(bags(), bags(), values)
def test_selection_is_linear(a: Bag, b: Bag, value: str | None) -> None:
    def chosen(bag: Bag) -> Bag:
        column = bag.table.column(0)
        mask = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
        return bag.filter(mask)

    assert chosen(a + b) == chosen(a) + chosen(b)
    assert meaning(chosen(a)) == {row: count for row, count in meaning(a).items() if row[0] == value}


@law
@given(bags())
def test_NULL_and_the_empty_text_and_1_0_and_1_00_are_told_apart(a: Bag) -> None:
    both = a + Bag.of(
        COLUMNS, {(None, "1.0", "x"): 1, ("", "1.0", "x"): 1, ("", "1.00", "x"): 1, (None, None, None): 1}
    )
    found = both.to_dict()
    for row in [(None, "1.0", "x"), ("", "1.0", "x"), ("", "1.00", "x")]:
        assert found[row] == 1


@law
@given(st.dictionaries(rows, st.integers(-3, 3), max_size=8))
def test_of_and_to_dict_are_inverse_up_to_zeros(counts: dict[Row, int]) -> None:
    assert Bag.of(COLUMNS, counts).to_dict() == {row: count for row, count in counts.items() if count}


def test_a_bag_without_columns_is_a_number() -> None:
    two = Bag.of([], {(): 2})
    assert (two + two).to_dict() == {(): 4}
    assert (two - two).to_dict() == {}
    assert len((two - two).consolidate()) == 0
    assert Bag.empty([]) == two - two


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="a bag's last column is '#count'"):
        Bag(pa.table({"a": ["x"]}))
    with pytest.raises(ValueError, match="cannot be added"):
        Bag.empty(["a"]) + Bag.empty(["b"])
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        -Bag.of(["a"], {("x",): -(2**63)})


@law
@given(bags(), bags(), st.sampled_from(COLUMNS), values)
def test_what_was_consolidated_is_consolidated_again_after_any_operation(
    a: Bag, b: Bag, column: str, value: str | None
) -> None:
    once = a.consolidate()
    kept = pc.fill_null(pc.not_equal(a.table.column(column), value), True)
    kept_once = pc.fill_null(pc.not_equal(once.table.column(column), value), True)
    pairs = [
        (once + b, a + b),
        (once - b, a - b),
        (-once, -a),
        (once.select([column]), a.select([column])),
        (once.select(COLUMNS), a.select(COLUMNS)),
        (once.filter(kept_once), a.filter(kept)),
        (once.with_counts(pc.multiply(once.counts, 0)), a.with_counts(pc.multiply(a.counts, 0))),
    ]
    for of_consolidated, as_it_was in pairs:
        found = of_consolidated.consolidate()
        entries = list(zip(*(one.to_pylist() for one in found.table.columns), strict=True))
        assert meaning(found) == meaning(as_it_was)
        assert len({entry[:-1] for entry in entries}) == len(entries)
        assert all(entry[-1] for entry in entries)
