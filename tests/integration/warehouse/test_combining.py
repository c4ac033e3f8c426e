"""Entries combined into states: set operations, groups, kept bags; by value, by tag, exactly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.errors import EvaluationFailed, InvariantViolated
from dyda.model.operator_state import Accumulator, Counted, Grouped, Kept, Rule, State
from dyda.warehouse import Installation, ViewChange, Warehouse
from dyda.warehouse.states.grouping_sql import needs_single_tag
from dyda.warehouse.states.install import StateChange
from dyda.warehouse.states.tables import two_sided
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import entries
from tests.integration.warehouse.state_entries import (
    EXTREMES,
    FLOATS,
    SUMS,
    VIEW,
    Query,
    build,
    delivered,
    entry_width,
    install,
    nothing,
    rows,
    staged,
    stored,
    tagged,
)
from tests.older_extents import make_older_state

# --- set operations

DELIVERED: dict[Rule, tuple[int, int, int, int]] = {
    # how often a row is delivered that is there (left, right) = (3, 0), (3, 1), (1, 3), (0, 3) times
    "distinct": (1, 1, 1, 0),
    "union": (1, 1, 1, 1),
    "except": (1, 0, 0, 0),
    "except all": (3, 2, 0, 0),
    "intersect": (0, 1, 1, 0),
    "intersect all": (0, 1, 1, 0),
}


@pytest.mark.parametrize("rule", [rule for rule in DELIVERED if rule != "distinct"])
def test_every_rule_delivers_what_it_says(writer: Writer, query: Query, rule: Rule) -> None:
    state = Counted(("text",), rule)
    build(writer, state)
    sides = [("a", 3, 0), ("b", 3, 0), ("b", 1, 1), ("c", 1, 0), ("c", 3, 1), ("d", 3, 1)]
    batch = tagged(*((text, n) for text, n, _ in sides), side=[side for *_, side in sides])
    combined = writer.combine(VIEW, 0, state, batch)
    expected = {(text, 1): n for text, n in zip("abcd", DELIVERED[rule], strict=True) if n}
    assert delivered(combined) == expected
    install(writer, combined)
    assert stored(query) == [("a", "3", "0", "1"), ("b", "3", "1", "1"), ("c", "1", "3", "1"), ("d", "0", "3", "1")]
    back = writer.combine(VIEW, 0, state, batch.set_column(1, "n", pa.array([-n for _, n, _ in sides])))
    assert delivered(back) == {row: -n for row, n in expected.items()}
    install(writer, back)
    assert stored(query) == []


def test_distinct_tells_of_the_first_and_of_the_last(writer: Writer, query: Query) -> None:
    state = Counted(("text", "integer"), "distinct")
    build(writer, state, entries(("a", "1", 2), ("b", None, 1)))
    combined = writer.combine(VIEW, 0, state, entries(("a", "1", -1), ("b", None, -1), ("c", "01", 1), ("c", "1", 1)))
    assert delivered(combined) == {("b", None, 1): -1, ("c", "1", 1): 1}
    assert combined.stale.num_rows == 0
    install(writer, combined)
    assert stored(query) == [("a", "1", "1", "0", "1"), ("c", "1", "2", "0", "1")]


def test_what_cancels_is_no_change(writer: Writer) -> None:
    state = Counted(("text",), "union")
    build(writer, state, tagged(("a", 1), side=[1]))
    combined = writer.combine(VIEW, 0, state, tagged(("a", 1), ("a", -1), ("b", 2), ("b", -2), side=[0, 0, 1, 1]))
    assert (combined.state.num_rows, combined.delivered.num_rows) == (0, 0)
    # One more on a side moves the state, but nothing is delivered anew.
    combined = writer.combine(VIEW, 0, state, tagged(("a", 1), side=[0]))
    assert (combined.state.num_rows, combined.delivered.num_rows) == (2, 0)


def test_equal_values_are_one_row(writer: Writer, query: Query) -> None:
    state = Counted(("double precision", "numeric", "numeric(10,2)", "real"), "distinct")
    build(writer, state, entries(("-0", "1.0", "2.5", "0.1", 1)))
    assert stored(query) == [("0", "1", "2.50", "0.1", "1", "0", "1")]
    combined = writer.combine(
        VIEW, 0, state, entries(("0", "1.00", "2.50", "0.10", 2), ("-0.0", "1", "2.500", "1e-1", 1))
    )
    assert combined.delivered.num_rows == 0
    install(writer, combined)
    assert stored(query) == [("0", "1", "2.50", "0.1", "4", "0", "1")]


def test_null_and_the_empty_text_are_two_rows(writer: Writer, query: Query) -> None:
    state = Counted(("text", "text"), "distinct")
    build(writer, state, entries((None, "", 1), ("", None, 1), (None, None, 2)))
    combined = writer.combine(VIEW, 0, state, entries((None, "", -1), (None, None, -1), (None, ",", 1), (",", None, 1)))
    assert delivered(combined) == {(None, "", 1): -1, (None, ",", 1): 1, (",", None, 1): 1}
    install(writer, combined)
    assert len(stored(query)) == 4


def test_a_row_without_columns(writer: Writer, query: Query) -> None:
    """EXISTS without a correlation keeps whether there is any row."""
    state = Counted((), "distinct")
    build(writer, state)
    some = pa.table({"n": pa.array([2, 1], pa.int64())})
    combined = writer.combine(VIEW, 0, state, some)
    assert combined.delivered.column_names == ["key", "n", "t"]
    assert delivered(combined) == {(1,): 1}
    install(writer, combined)
    assert stored(query) == [("3", "0", "1")]
    assert writer.combine(VIEW, 0, state, pa.table({"n": pa.array([-2])})).delivered.num_rows == 0
    assert delivered(writer.combine(VIEW, 0, state, pa.table({"n": pa.array([-3])}))) == {(1,): -1}


def test_W6_each_tag_is_the_difference_to_the_one_before(writer: Writer, query: Query) -> None:
    state = Counted(("text",), "except all")
    build(writer, state, tagged(("a", 1), side=[0]))
    # left, right by tag: 1,0 → (2) 1,1 → (4) 3,1 → (7) 3,3; b comes at 3 and goes at 4
    batch = tagged(
        ("a", 1), ("a", 2), ("a", 2), ("b", 1), ("b", -1), ("a", 0), side=[1, 0, 1, 0, 0, 0], t=[2, 4, 7, 3, 4, 9]
    )
    combined = writer.combine(VIEW, 0, state, batch)
    assert delivered(combined) == {("a", 2): -1, ("a", 4): 2, ("a", 7): -2, ("b", 3): 1, ("b", 4): -1}
    states = combined.state.drop_columns(["c1"])
    assert rows(states) == {
        ("a", "1", "0", 2): -1, ("a", "1", "1", 2): 1,
        ("a", "1", "1", 4): -1, ("a", "3", "1", 4): 1,
        ("a", "3", "1", 7): -1, ("a", "3", "3", 7): 1,
        ("b", "1", "0", 3): 1, ("b", "1", "0", 4): -1,
    }  # fmt: skip
    for tag in (2, 3, 4, 7):
        change = combined.state.filter(pa.compute.equal(combined.state["t"], tag))
        writer.install(Installation((ViewChange(VIEW, states=(StateChange(0, change),)),)))
    assert stored(query) == [("a", "3", "3", "1")]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (tagged(("a", -2), side=[0]), "1 row.* a negative count, e.g. .a.\n"),
        (tagged(("z", -1), side=[1]), "negative count"),
        (tagged(("a", -2), ("a", 2), side=[0, 0], t=[1, 2]), "negative count"),
    ],
)
def test_a_count_below_zero_is_refused(writer: Writer, batch: pa.Table, message: str) -> None:
    state = Counted(("text",), "union")
    build(writer, state, tagged(("a", 1), side=[0]))
    with pytest.raises(InvariantViolated, match=f"view people: .*{message}"):
        writer.combine(VIEW, 0, state, batch)
    # The session goes on.
    assert delivered(writer.combine(VIEW, 0, state, tagged(("a", -1), side=[0]))) == {("a", 1): -1}


# --- groups


def test_counts_sums_and_squares_are_added_up(writer: Writer, query: Query) -> None:
    build(writer, SUMS, entries(("a", "1", "5", "1.50", 2), ("a", "1", None, "-0.5", 1), ("b", None, None, None, 1)))
    # keys, rows, count(*), count(x), sum(x), sum(y), squares(y)
    assert stored(query) == [
        ("a", "1", "3", "3", "2", "10", "2.50", "4.75", "1"),
        ("b", None, "1", "1", "0", "0", "0.00", "0", "1"),
    ]
    combined = writer.combine(
        VIEW,
        0,
        SUMS,
        entries(
            ("a", "1", "5", "1.50", -1),
            ("b", None, None, None, -1),
            ("c", "2", "-7", "0.1", 3),
            ("d", "1", "1", None, 0),
        ),
    )
    assert combined.delivered.column_names == ["key", "k1", "k2", "rows", "a1", "a2", "a3", "a4", "a5", "n", "t"]
    assert delivered(combined) == {
        ("a", "1", "3", "3", "2", "10", "2.50", "4.75", 1): -1,
        ("a", "1", "2", "2", "1", "5", "1.00", "2.5", 1): 1,
        ("b", None, "1", "1", "0", "0", "0.00", "0", 1): -1,
        ("c", "2", "3", "3", "3", "-21", "0.30", "0.03", 1): 1,
    }
    assert combined.stale.num_rows == 0
    install(writer, combined)
    assert stored(query) == [
        ("a", "1", "2", "2", "1", "5", "1.00", "2.5", "1"),
        ("c", "2", "3", "3", "3", "-21", "0.30", "0.03", "1"),
    ]


def test_R5_a_group_of_nulls_is_found_again(writer: Writer, query: Query) -> None:
    build(writer, SUMS, entries((None, None, "1", None, 1)))
    install(writer, writer.combine(VIEW, 0, SUMS, entries((None, None, "2", None, 1))))
    assert stored(query) == [(None, None, "2", "2", "2", "3", "0.00", "0", "1")]


def test_groups_by_value(writer: Writer, query: Query) -> None:
    state = Grouped(("double precision", "numeric"), (), (Accumulator("count", None, "bigint"),))
    build(writer, state, entries(("-0", "1.10", 1), ("0", "1.1", 1)))
    install(writer, writer.combine(VIEW, 0, state, entries(("0.0", "1.100", 1))))
    assert stored(query) == [("0", "1.1", "3", "3", "1")]


def test_sums_are_exact(writer: Writer, query: Query) -> None:
    state = Grouped(("text",), ("numeric",), (Accumulator("sum", 0, "numeric"), Accumulator("squares", 0, "numeric")))
    build(writer, state, entries(("a", "10000000000000000000000000", 1), ("a", "0.00000000000000001", 1)))
    install(writer, writer.combine(VIEW, 0, state, entries(("a", "10000000000000000000000000", -1))))
    assert stored(query) == [("a", "1", "0.00000000000000001", "0.0000000000000000000000000000000001", "1")]


def test_K3_the_group_without_keys_always_exists(writer: Writer, query: Query) -> None:
    state = Grouped(
        (),
        ("integer",),
        (Accumulator("count", 0, "bigint"), Accumulator("sum", 0, "numeric"), Accumulator("min", 0, "integer")),
    )
    build(writer, state)
    assert stored(query) == [("0", "0", "0", None, "1")]
    combined = writer.combine(VIEW, 0, state, entries(("4", 2), (None, 1)))
    assert delivered(combined) == {("0", "0", "0", None, 1): -1, ("3", "2", "8", "4", 1): 1}
    install(writer, combined)
    combined = writer.combine(VIEW, 0, state, entries(("4", -2), (None, -1)))
    assert delivered(combined) == {("3", "2", "8", "4", 1): -1, ("0", "0", "0", None, 1): 1}
    assert combined.stale.num_rows == 0
    install(writer, combined)
    assert stored(query) == [("0", "0", "0", None, "1")]
    assert writer.combine(VIEW, 0, state, nothing(1)).state.num_rows == 0


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        # The group has (3, x), (3, y), (5, y), (NULL, NULL): min 3, max y.
        ([("g", "4", "x", 1)], ("5", "3", "y")),
        ([("g", "2", "z", 1)], ("5", "2", "z")),
        ([("g", "5", "y", -1)], None),  # a y goes; there is another, but entries cannot know
        ([("g", "3", "x", -1)], None),
        ([("g", "3", "x", -1), ("g", "2", "a", 1)], ("4", "2", "y")),
        ([("g", "3", "x", -1), ("g", "4", "a", 1)], None),
        ([("g", "3", "x", -1), ("g", "3", "w", 1)], ("4", "3", "y")),  # the same 3 in other company
        ([("g", "5", "y", -1), ("g", "6", "z", 1)], ("4", "3", "z")),
        ([("g", None, None, -1)], ("3", "3", "y")),
        ([("g", None, None, 1)], ("5", "3", "y")),
        ([("g", "3", "x", -1), ("g", "3", "y", -1), ("g", "5", "y", -1), ("g", None, None, -1)], ()),
        ([("g", "3", "y", -1), ("g", "5", "y", -1), ("g", "5", "Z", 1)], None),
    ],
)
def test_an_extreme_that_may_be_gone_makes_the_group_stale(
    writer: Writer, batch: list[tuple[Any, ...]], expected: tuple[str, ...] | None
) -> None:
    build(writer, EXTREMES, entries(("g", "3", "x", 1), ("g", "3", "y", 1), ("g", "5", "y", 1), ("g", None, None, 1)))
    combined = writer.combine(VIEW, 0, EXTREMES, entries(*batch, ("h", "1", "b", 1)))
    moved: Counter[tuple[Any, ...]] = Counter({("g", "4", "3", "y", 1): -1})
    if expected is None:
        assert combined.stale.drop_columns(["key"]).to_pylist() == [{"k1": "g"}]
        moved = Counter()
    else:
        assert combined.stale.num_rows == 0
        if expected:
            moved[("g", *expected, 1)] += 1
    moved[("h", "1", "1", "b", 1)] = 1
    assert delivered(combined) == moved
    assert combined.state.num_rows == combined.delivered.num_rows


def test_an_extreme_of_nulls_alone(writer: Writer) -> None:
    build(writer, EXTREMES, entries(("g", None, None, 2)))
    combined = writer.combine(VIEW, 0, EXTREMES, entries(("g", None, None, -1), ("g", "7", "é", 1), ("g", "8", "z", 1)))
    # Texts compare by their bytes: é is beyond z.
    assert delivered(combined) == {("g", "2", None, None, 1): -1, ("g", "3", "7", "é", 1): 1}


@pytest.mark.parametrize(
    ("type_", "values", "low", "high"),
    [
        ("boolean", ("t", "f"), "f", "t"),
        ("uuid", ("A0000000-0000-0000-0000-000000000000", "9fffffff-0000-0000-0000-000000000000"), None, None),
        ("bytea", ("\\x00ff", "\\x01"), "\\x00ff", "\\x01"),
        ("double precision", ("NaN", "-0"), "0", "NaN"),
        ("timestamp with time zone", ("2020-01-01 00:00:00+02", "2019-12-31 23:00:00+00"), None, None),
        ("character varying(3)", ("b", "C"), "C", "b"),
    ],
)
def test_extremes_of_many_types(
    writer: Writer, query: Query, type_: str, values: tuple[str, str], low: str | None, high: str | None
) -> None:
    state = Grouped((), (type_,), (Accumulator("min", 0, type_), Accumulator("max", 0, type_)))
    build(writer, state, entries((values[0], 1)))
    install(writer, writer.combine(VIEW, 0, state, entries((values[1], 1), (None, 1))))
    if type_ == "uuid":
        low, high = values[1], values[0].lower()
    if type_.startswith("timestamp"):
        low, high = "2019-12-31 22:00:00+00", "2019-12-31 23:00:00+00"
    assert stored(query) == [("3", low, high, "1")]


def test_K4_what_is_recomputed_is_stale_when_touched(writer: Writer, query: Query) -> None:
    build(writer, FLOATS, entries(("a", "1e16", 1), ("a", "1", 2), ("b", None, 1), ("c", "0.1", 3)))
    # In the order of the texts: 1 + 1 + 1e16.
    assert stored(query) == [
        ("a", "3", "1.0000000000000002e+16", "3", "1"),
        ("b", "1", None, "0", "1"),
        ("c", "3", "0.30000000000000004", "3", "1"),
    ]
    combined = writer.combine(
        VIEW, 0, FLOATS, entries(("a", "1e16", -1), ("b", "2", 1), ("b", "2", -1), ("c", "0.1", -3), ("d", "-0", 1))
    )
    assert sorted(row["k1"] for row in combined.stale.to_pylist()) == ["a", "d"]
    assert delivered(combined) == {("c", "3", "0.30000000000000004", "3", 1): -1}
    again = writer.recombine(VIEW, 0, FLOATS, entries(("a", "1", 2), ("d", "-0", 1), ("b", "99", 1)), combined.stale)
    assert delivered(again) == {
        ("a", "3", "1.0000000000000002e+16", "3", 1): -1,
        ("a", "2", "2", "2", 1): 1,
        ("d", "1", "0", "1", 1): 1,
    }
    assert again.stale.num_rows == 0
    both = pa.concat_tables([combined.state, again.state])
    writer.install(Installation((ViewChange(VIEW, states=(StateChange(0, both),)),)))
    assert [row[0] for row in stored(query)] == ["a", "b", "d"]


def test_groups_read_again_may_be_gone_or_the_same(writer: Writer, query: Query) -> None:
    build(writer, EXTREMES, entries(("g", "3", "x", 1), ("h", "1", "y", 1), (None, "2", "z", 2)))
    groups = pa.table({"k1": ["g", "h", None, "i"]})
    again = writer.recombine(
        VIEW,
        0,
        EXTREMES,
        entries(("g", "3", "x", 2), ("g", "3", "x", -1), (None, "9", "z", 1), ("q", "1", "q", 1)),
        groups,
    )
    assert delivered(again) == {
        ("h", "1", "1", "y", 1): -1,
        (None, "2", "2", "z", 1): -1,
        (None, "1", "9", "z", 1): 1,
    }
    install(writer, again)
    assert stored(query) == [("g", "1", "3", "x", "1"), (None, "1", "9", "z", "1")]
    with pytest.raises(InvariantViolated, match="view people"):
        writer.recombine(VIEW, 0, EXTREMES, entries(("g", "3", "x", -1), ("g", "4", "x", 2)), groups)


def test_the_group_without_keys_is_read_again(writer: Writer, query: Query) -> None:
    state = Grouped((), ("double precision",), (Accumulator("sum", 0, "double precision", True),))
    build(writer, state, entries(("2.5", 1)))
    combined = writer.combine(VIEW, 0, state, entries(("2.5", -1)))
    assert (combined.stale.column_names, combined.stale.num_rows) == (["key"], 1)
    again = writer.recombine(VIEW, 0, state, nothing(1), combined.stale)
    assert delivered(again) == {("1", "2.5", 1): -1, ("0", None, 1): 1}
    install(writer, again)
    assert stored(query) == [("0", None, "1")]


def test_W6_groups_through_several_tags(writer: Writer, query: Query) -> None:
    state = Grouped(("text",), ("integer",), (Accumulator("sum", 0, "numeric"), Accumulator("count", 0, "bigint")))
    build(writer, state, entries(("a", "5", 1)))
    batch = tagged(
        ("a", "1", 2),
        ("a", "5", -1),
        ("a", "1", -2),
        ("b", "0", 1),
        ("b", "0", -1),
        ("a", "9", 1),
        t=[1, 2, 2, 1, 2, 3],
    )
    combined = writer.combine(VIEW, 0, state, batch)
    assert delivered(combined) == {
        ("a", "1", "5", "1", 1): -1, ("a", "3", "7", "3", 1): 1,
        ("a", "3", "7", "3", 2): -1,
        ("a", "1", "9", "1", 3): 1,
        ("b", "1", "0", "1", 1): 1, ("b", "1", "0", "1", 2): -1,
    }  # fmt: skip
    with pytest.raises(InvariantViolated):
        writer.combine(VIEW, 0, state, tagged(("a", "5", -2), ("a", "5", 2), t=[1, 2]))


@pytest.mark.parametrize("state", [EXTREMES, FLOATS], ids=["extremes", "recomputed"])
def test_extremes_go_tag_by_tag(writer: Writer, state: Grouped) -> None:
    build(writer, state)
    texts = ("g", *(["1"] * len(state.arguments)))
    with pytest.raises(ValueError, match="one tag at a time"):
        writer.combine(VIEW, 0, state, tagged((*texts, 1), (*texts, 1), t=[1, 2]))
    assert writer.combine(VIEW, 0, state, tagged((*texts, 1), (*texts, 1), t=[5, 5])).stale.num_rows == (
        state is FLOATS
    )


def test_counts_of_a_group_below_zero_are_refused(writer: Writer) -> None:
    build(writer, SUMS, entries(("a", "1", None, None, 3)))
    for batch in (
        entries(("a", "1", "5", None, -1)),
        entries(("z", "1", None, None, -1)),
        entries(("a", "1", None, None, -4)),
    ):
        with pytest.raises(
            InvariantViolated, match=r"view people: this change would give 1 row\(s\) of the operator state"
        ):
            writer.combine(VIEW, 0, SUMS, batch)


def test_a_value_that_does_not_fit_names_the_view(writer: Writer) -> None:
    build(writer, SUMS)
    with pytest.raises(EvaluationFailed, match=r"view people.*integer"):
        writer.combine(VIEW, 0, SUMS, entries(("a", "x", "5", None, 1)))
    assert writer.combine(VIEW, 0, SUMS, entries(("a", "1", "5", None, 1))).state.num_rows == 1


# --- kept bags


def test_a_kept_bag_is_added_to(writer: Writer, query: Query) -> None:
    state = Kept(("text", "numeric"))
    build(writer, state, entries(("a", "1.0", 2), ("a", "1.0", -1), ("b", None, 1)))
    # A bag keeps its rows as they are: 1.0 and 1.00 are two of them.
    combined = writer.combine(
        VIEW,
        0,
        state,
        tagged(("a", "1.0", 1), ("a", "1.00", 1), ("b", None, -1), ("c", "1", 1), ("c", "1", -1), t=[1, 1, 2, 1, 1]),
    )
    assert rows(combined.delivered) == {("a", "1.0", 1): 1, ("a", "1.00", 1): 1, ("b", None, 2): -1}
    assert combined.state.column_names == ["c1", "c2", "n", "t"]
    install(writer, combined)
    assert stored(query) == [("a", "1.0", "2"), ("a", "1.00", "1")]
    with pytest.raises(
        InvariantViolated, match=r"view people: this change would give 1 row\(s\) of the operator state"
    ):
        writer.combine(VIEW, 0, state, tagged(("a", "1.00", -2), ("a", "1.00", 1), t=[3, 4]))


# --- any entries

ROWS = st.tuples(st.sampled_from([None, "a"]), st.sampled_from([None, "-0", "1.5", "1.50", "-2"]))
COUNTS = st.sampled_from([-3, -1, 1, 2])
STEPS = st.lists(
    st.lists(st.tuples(ROWS, COUNTS, st.integers(0, 1), st.integers(1, 3)), min_size=2, max_size=6),
    min_size=2,
    max_size=4,
)
STATES: dict[str, tuple[State, ...]] = {
    "counted": tuple(Counted(("text", "numeric"), rule) for rule in DELIVERED),
    "added": (
        Grouped(
            ("text",),
            ("numeric",),
            (Accumulator("count", 0, "bigint"), Accumulator("sum", 0, "numeric"), Accumulator("squares", 0, "numeric")),
        ),
        Grouped((), ("numeric",), (Accumulator("sum", 0, "numeric(20,3)"),)),
        Kept(("text", "numeric")),
    ),
    "read again": (
        Grouped(
            ("text",),
            ("double precision",),
            (Accumulator("min", 0, "double precision"), Accumulator("max", 0, "double precision")),
        ),
        Grouped(("text",), ("double precision",), (Accumulator("sum", 0, "double precision", True),)),
    ),
}


class Bags:
    """The entries so far, so that a test takes away only what is there; in the order of their tags."""

    def __init__(self) -> None:
        self.all: Counter[tuple[tuple[str | None, ...], int]] = Counter()

    def add(self, row: tuple[str | None, ...], n: int, side: int) -> int:
        n = max(n, -self.all[row, side])
        self.all[row, side] += n
        return n


@pytest.mark.parametrize("kind", STATES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), steps=STEPS)
def test_step_by_step_is_the_same_as_all_at_once(
    writer: Writer, query: Query, kind: str, data: st.DataObject, steps: list[Any]
) -> None:
    """States installed after each batch, the same deliveries added up, groups read again where they are stale."""
    state = data.draw(st.sampled_from(STATES[kind]))
    if query("SELECT count(*) FROM dyda.view") == [(1,)]:
        writer.drop_view(VIEW)
    build(writer, state)
    bags, sent = Bags(), Counter[tuple[Any, ...]]()
    tags = not (isinstance(state, Grouped) and needs_single_tag(state))
    for step in steps:
        batch = []
        for row, n, side, tag in sorted(step, key=lambda entry: entry[3]):
            cells = row[1:] if isinstance(state, Grouped) and not state.keys else row
            side = side if two_sided(state) else 0
            batch.append((cells, bags.add(cells, n, side), side, tag if tags else 1))
        entered = table(state, [(*cells, n) for cells, n, _, _ in batch])
        for place, name in ((2, "side"), (3, "t")):
            entered = entered.append_column(name, pa.array([entry[place] for entry in batch], pa.int32()))
        combined = writer.combine(VIEW, 0, state, entered)
        changes, told = [combined.state], [combined.delivered]
        if combined.stale.num_rows:
            again = writer.recombine(VIEW, 0, state, table(state, bag_rows(bags)), combined.stale)
            changes.append(again.state)
            told.append(again.delivered)
        writer.install(Installation((ViewChange(VIEW, states=(StateChange(0, pa.concat_tables(changes)),)),)))
        for entry in pa.concat_tables(told).drop_columns(["t"]).to_pylist():
            sent[tuple(entry.values())[:-1]] += entry["n"]
    final = stored(query)
    everything = writer.state_rows(VIEW, 0, state, [name for name, _ in state.delivered], [], pa.table({}))
    delivered_now = Counter({tuple(row.values())[:-1]: row["#count"] for row in everything.table.to_pylist()})
    empty = {row: n for row, n in sent.items() if n}
    if isinstance(state, Grouped) and not state.keys:
        # The group without keys was there before the first batch.
        first = next(row for row in [*empty, *delivered_now])
        empty[first[0], "0", "0.000"] = empty.get((first[0], "0", "0.000"), 0) + 1
        empty = {row: n for row, n in empty.items() if n}
    assert empty == delivered_now
    writer.drop_view(VIEW)
    whole = table(state, bag_rows(bags))
    sides = [side for (_, side), n in bags.all.items() if n]
    build(writer, state, whole.append_column("side", pa.array(sides, pa.int32())))
    assert stored(query) == final


def bag_rows(bags: Bags) -> list[tuple[Any, ...]]:
    return [(*row, n) for (row, _), n in bags.all.items() if n]


def table(state: State, batch: list[tuple[Any, ...]]) -> pa.Table:
    return entries(*batch) if batch else nothing(entry_width(state))


@pytest.mark.parametrize("older", [False, True])
def test_states_with_keys_of_their_own_have_neither_digests_nor_counts(
    url: str, warehouse: Warehouse, writer: Writer, query: Query, older: bool
) -> None:
    """Those of an older version have both, and are combined as ever."""
    state = Grouped(("text",), ("integer",), (Accumulator("sum", 0, "numeric"),))
    build(writer, state, entries(("a", "1", 1), ("a", "2", 1), (None, "3", 1)))
    names = (
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attnum > 0 AND attrelid = %s::regclass"
    )
    if older:
        make_older_state(url, 1)
    ((columns,),) = query(names, ("dyda.extent_1",))
    assert columns == (["hash"] if older else []) + ["c1", "c2", "c3", "c4"] + (["count"] if older else [])
    combined = writer.combine(VIEW, 0, state, entries(("a", "1", -1), (None, "3", -1), ("b", "5", 2)))
    install(writer, combined)
    assert stored(query) == [("a", "1", "2", "1"), ("b", "2", "10", "1")]
    again = StateChange(0, combined.state)
    with pytest.raises(InvariantViolated, match="view people: this change would give"):
        writer.install(Installation((ViewChange(VIEW, states=(again,)),)))
    with warehouse.stagings() as stagings:
        whole = stagings.combine_staging(
            state, staged(stagings, state, entries(("a", "2", 1), ("b", "5", 2))), view=VIEW
        )
        with warehouse.frozen() as frozen:
            assert frozen.compare_state(VIEW, 0, whole).equal
