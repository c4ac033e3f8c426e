"""States of keyed operators: how entries combine into them, how they are installed, looked up, scanned and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from dyda import faults
from dyda.errors import DydaError, EvaluationFailed, InvariantViolated
from dyda.model.state import Accumulator, Counted, Grouped, Kept, Rule, State
from dyda.warehouse import (
    Combined,
    Installation,
    Staging,
    StateChange,
    StateTable,
    ViewChange,
    Warehouse,
    Worker,
    hold_warehouse,
)
from dyda.warehouse.combining import combine
from dyda.warehouse.state_rows import state_rows
from dyda.warehouse.states import stored_state
from tests.integration.warehouse.conftest import NEXT, START, entries, version

Query = Callable[..., list[tuple[Any, ...]]]

VIEW = "people"


def tagged(*rows: tuple[Any, ...], side: Sequence[int] | None = None, t: Sequence[int] | None = None) -> pa.Table:
    """Entries: each row is its texts and, last, its count; beside them sides and tags."""
    table = entries(*rows)
    for name, numbers in (("side", side), ("t", t)):
        if numbers is not None:
            table = table.append_column(name, pa.array(numbers, pa.int32()))
    return table


def nothing(width: int) -> pa.Table:
    return pa.table({**{f"c{i + 1}": pa.array([], pa.string()) for i in range(width)}, "n": pa.array([], pa.int64())})


def entry_width(state: State) -> int:
    return len(state.keys) + len(state.arguments) if isinstance(state, Grouped) else len(state.types)


def staged(worker: Worker, state: State, rows: pa.Table | None) -> Staging:
    """All entries of a step, as a build stages them."""
    width = entry_width(state)
    rows = nothing(width) if rows is None else rows
    columns = [rows[f"c{i + 1}"] for i in range(width)]
    if isinstance(state, Counted) and state.rule != "distinct":
        side = rows["side"] if "side" in rows.column_names else pa.array([0] * rows.num_rows)
        columns.append(side.cast(pa.string()))
    staging = worker.staging(len(columns))
    names = [*(f"c{i + 1}" for i in range(len(columns))), "n"]
    staging.sink()(pa.Table.from_arrays([*columns, rows["n"]], names=names).to_batches())
    return staging


def build(worker: Worker, state: State, rows: pa.Table | None = None, indexed: tuple[str, ...] = ()) -> None:
    """A view with this one state, built from entries."""
    first = worker.staging(1)
    made = worker.combine_staging(state, staged(worker, state, rows), view=VIEW)
    defined = version(("x", "text"), states=(StateTable(state, indexed),))
    change = ViewChange(
        VIEW,
        staging=first,
        mode="replace",
        version=defined,
        positions={"crm": (None, START)},
        states=(StateChange(0, staging=made),),
    )
    worker.install(Installation((change,)))


def install(worker: Worker, combined: Combined) -> None:
    worker.install(Installation((ViewChange(VIEW, states=(StateChange(0, combined.state),)),)))


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Entries as a bag: everything but n -> n."""
    names = [name for name in table.column_names if name != "n"]
    found: Counter[tuple[Any, ...]] = Counter()
    for row in table.to_pylist():
        key = tuple(row[name] for name in names)
        assert key not in found, "each row once"
        assert row["n"] != 0
        found[key] = row["n"]
    return found


def stored(query: Query, number: int = 0) -> list[tuple[Any, ...]]:
    """The state's table without hash, key and count, as text."""
    states = query("SELECT w.states FROM dyda.view_version w ORDER BY version DESC LIMIT 1")[0][0]
    table = f"dyda.extent_{states[number]['extent']}"
    columns = [
        name
        for (name,) in query(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
            " AND attname NOT IN ('hash', 'count') ORDER BY attnum",
            (table,),
        )
    ]
    if states[number]["state"]["kind"] != "kept":
        columns = columns[1:]
    printed = ", ".join(f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END" for name in [*columns, "count"])
    return sorted(query(f"SELECT {printed} FROM {table}"), key=str)


def delivered(combined: Combined) -> Counter[tuple[Any, ...]]:
    """Without the digest, which is no part of the expectation: (row …, t) -> n."""
    table = combined.delivered
    return rows(table.drop_columns(["key"]) if "key" in table.column_names else table)


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
def test_every_rule_delivers_what_it_says(worker: Worker, query: Query, rule: Rule) -> None:
    state = Counted(("text",), rule)
    build(worker, state)
    sides = [("a", 3, 0), ("b", 3, 0), ("b", 1, 1), ("c", 1, 0), ("c", 3, 1), ("d", 3, 1)]
    batch = tagged(*((text, n) for text, n, _ in sides), side=[side for *_, side in sides])
    combined = worker.combine(VIEW, 0, state, batch)
    expected = {(text, 1): n for text, n in zip("abcd", DELIVERED[rule], strict=True) if n}
    assert delivered(combined) == expected
    install(worker, combined)
    assert stored(query) == [("a", "3", "0", "1"), ("b", "3", "1", "1"), ("c", "1", "3", "1"), ("d", "0", "3", "1")]
    back = worker.combine(VIEW, 0, state, batch.set_column(1, "n", pa.array([-n for _, n, _ in sides])))
    assert delivered(back) == {row: -n for row, n in expected.items()}
    install(worker, back)
    assert stored(query) == []


def test_distinct_tells_of_the_first_and_of_the_last(worker: Worker, query: Query) -> None:
    state = Counted(("text", "integer"), "distinct")
    build(worker, state, entries(("a", "1", 2), ("b", None, 1)))
    combined = worker.combine(VIEW, 0, state, entries(("a", "1", -1), ("b", None, -1), ("c", "01", 1), ("c", "1", 1)))
    assert delivered(combined) == {("b", None, 1): -1, ("c", "1", 1): 1}
    assert combined.stale.num_rows == 0
    install(worker, combined)
    assert stored(query) == [("a", "1", "1", "0", "1"), ("c", "1", "2", "0", "1")]


def test_what_cancels_is_no_change(worker: Worker) -> None:
    state = Counted(("text",), "union")
    build(worker, state, tagged(("a", 1), side=[1]))
    combined = worker.combine(VIEW, 0, state, tagged(("a", 1), ("a", -1), ("b", 2), ("b", -2), side=[0, 0, 1, 1]))
    assert (combined.state.num_rows, combined.delivered.num_rows) == (0, 0)
    # One more on a side moves the state, but nothing is delivered anew.
    combined = worker.combine(VIEW, 0, state, tagged(("a", 1), side=[0]))
    assert (combined.state.num_rows, combined.delivered.num_rows) == (2, 0)


def test_equal_values_are_one_row(worker: Worker, query: Query) -> None:
    state = Counted(("double precision", "numeric", "numeric(10,2)", "real"), "distinct")
    build(worker, state, entries(("-0", "1.0", "2.5", "0.1", 1)))
    assert stored(query) == [("0", "1", "2.50", "0.1", "1", "0", "1")]
    combined = worker.combine(
        VIEW, 0, state, entries(("0", "1.00", "2.50", "0.10", 2), ("-0.0", "1", "2.500", "1e-1", 1))
    )
    assert combined.delivered.num_rows == 0
    install(worker, combined)
    assert stored(query) == [("0", "1", "2.50", "0.1", "4", "0", "1")]


def test_null_and_the_empty_text_are_two_rows(worker: Worker, query: Query) -> None:
    state = Counted(("text", "text"), "distinct")
    build(worker, state, entries((None, "", 1), ("", None, 1), (None, None, 2)))
    combined = worker.combine(VIEW, 0, state, entries((None, "", -1), (None, None, -1), (None, ",", 1), (",", None, 1)))
    assert delivered(combined) == {(None, "", 1): -1, (None, ",", 1): 1, (",", None, 1): 1}
    install(worker, combined)
    assert len(stored(query)) == 4


def test_a_row_without_columns(worker: Worker, query: Query) -> None:
    """EXISTS without a correlation keeps whether there is any row."""
    state = Counted((), "distinct")
    build(worker, state)
    some = pa.table({"n": pa.array([2, 1], pa.int64())})
    combined = worker.combine(VIEW, 0, state, some)
    assert combined.delivered.column_names == ["key", "n", "t"]
    assert delivered(combined) == {(1,): 1}
    install(worker, combined)
    assert stored(query) == [("3", "0", "1")]
    assert worker.combine(VIEW, 0, state, pa.table({"n": pa.array([-2])})).delivered.num_rows == 0
    assert delivered(worker.combine(VIEW, 0, state, pa.table({"n": pa.array([-3])}))) == {(1,): -1}


def test_W6_each_tag_is_the_difference_to_the_one_before(worker: Worker, query: Query) -> None:
    state = Counted(("text",), "except all")
    build(worker, state, tagged(("a", 1), side=[0]))
    # left, right by tag: 1,0 → (2) 1,1 → (4) 3,1 → (7) 3,3; b comes at 3 and goes at 4
    batch = tagged(
        ("a", 1), ("a", 2), ("a", 2), ("b", 1), ("b", -1), ("a", 0), side=[1, 0, 1, 0, 0, 0], t=[2, 4, 7, 3, 4, 9]
    )
    combined = worker.combine(VIEW, 0, state, batch)
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
        worker.install(Installation((ViewChange(VIEW, states=(StateChange(0, change),)),)))
    assert stored(query) == [("a", "3", "3", "1")]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (tagged(("a", -2), side=[0]), "1 row.* less than zero times, as .a.\n"),
        (tagged(("z", -1), side=[1]), "less than zero"),
        (tagged(("a", -2), ("a", 2), side=[0, 0], t=[1, 2]), "less than zero"),
    ],
)
def test_a_count_below_zero_is_refused(worker: Worker, batch: pa.Table, message: str) -> None:
    state = Counted(("text",), "union")
    build(worker, state, tagged(("a", 1), side=[0]))
    with pytest.raises(InvariantViolated, match=f"view people: .*{message}"):
        worker.combine(VIEW, 0, state, batch)
    # The session goes on.
    assert delivered(worker.combine(VIEW, 0, state, tagged(("a", -1), side=[0]))) == {("a", 1): -1}


# --- groups

SUMS = Grouped(
    ("text", "integer"),
    ("integer", "numeric(10,2)"),
    (
        Accumulator("count", None, "bigint"),
        Accumulator("count", 0, "bigint"),
        Accumulator("sum", 0, "numeric"),
        Accumulator("sum", 1, "numeric(38,2)"),
        Accumulator("squares", 1, "numeric"),
    ),
)


def test_counts_sums_and_squares_are_added_up(worker: Worker, query: Query) -> None:
    build(worker, SUMS, entries(("a", "1", "5", "1.50", 2), ("a", "1", None, "-0.5", 1), ("b", None, None, None, 1)))
    # keys, rows, count(*), count(x), sum(x), sum(y), squares(y)
    assert stored(query) == [
        ("a", "1", "3", "3", "2", "10", "2.50", "4.75", "1"),
        ("b", None, "1", "1", "0", "0", "0.00", "0", "1"),
    ]
    combined = worker.combine(
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
    install(worker, combined)
    assert stored(query) == [
        ("a", "1", "2", "2", "1", "5", "1.00", "2.5", "1"),
        ("c", "2", "3", "3", "3", "-21", "0.30", "0.03", "1"),
    ]


def test_R5_a_group_of_nulls_is_found_again(worker: Worker, query: Query) -> None:
    build(worker, SUMS, entries((None, None, "1", None, 1)))
    install(worker, worker.combine(VIEW, 0, SUMS, entries((None, None, "2", None, 1))))
    assert stored(query) == [(None, None, "2", "2", "2", "3", "0.00", "0", "1")]


def test_groups_by_value(worker: Worker, query: Query) -> None:
    state = Grouped(("double precision", "numeric"), (), (Accumulator("count", None, "bigint"),))
    build(worker, state, entries(("-0", "1.10", 1), ("0", "1.1", 1)))
    install(worker, worker.combine(VIEW, 0, state, entries(("0.0", "1.100", 1))))
    assert stored(query) == [("0", "1.1", "3", "3", "1")]


def test_sums_are_exact(worker: Worker, query: Query) -> None:
    state = Grouped(("text",), ("numeric",), (Accumulator("sum", 0, "numeric"), Accumulator("squares", 0, "numeric")))
    build(worker, state, entries(("a", "10000000000000000000000000", 1), ("a", "0.00000000000000001", 1)))
    install(worker, worker.combine(VIEW, 0, state, entries(("a", "10000000000000000000000000", -1))))
    assert stored(query) == [("a", "1", "0.00000000000000001", "0.0000000000000000000000000000000001", "1")]


def test_K3_the_group_without_keys_always_exists(worker: Worker, query: Query) -> None:
    state = Grouped(
        (),
        ("integer",),
        (Accumulator("count", 0, "bigint"), Accumulator("sum", 0, "numeric"), Accumulator("min", 0, "integer")),
    )
    build(worker, state)
    assert stored(query) == [("0", "0", "0", None, "1")]
    combined = worker.combine(VIEW, 0, state, entries(("4", 2), (None, 1)))
    assert delivered(combined) == {("0", "0", "0", None, 1): -1, ("3", "2", "8", "4", 1): 1}
    install(worker, combined)
    combined = worker.combine(VIEW, 0, state, entries(("4", -2), (None, -1)))
    assert delivered(combined) == {("3", "2", "8", "4", 1): -1, ("0", "0", "0", None, 1): 1}
    assert combined.stale.num_rows == 0
    install(worker, combined)
    assert stored(query) == [("0", "0", "0", None, "1")]
    assert worker.combine(VIEW, 0, state, nothing(1)).state.num_rows == 0


EXTREMES = Grouped(("text",), ("integer", "text"), (Accumulator("min", 0, "integer"), Accumulator("max", 1, "text")))


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
    worker: Worker, batch: list[tuple[Any, ...]], expected: tuple[str, ...] | None
) -> None:
    build(worker, EXTREMES, entries(("g", "3", "x", 1), ("g", "3", "y", 1), ("g", "5", "y", 1), ("g", None, None, 1)))
    combined = worker.combine(VIEW, 0, EXTREMES, entries(*batch, ("h", "1", "b", 1)))
    moved = Counter({("g", "4", "3", "y", 1): -1})
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


def test_an_extreme_of_nulls_alone(worker: Worker) -> None:
    build(worker, EXTREMES, entries(("g", None, None, 2)))
    combined = worker.combine(VIEW, 0, EXTREMES, entries(("g", None, None, -1), ("g", "7", "é", 1), ("g", "8", "z", 1)))
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
    worker: Worker, query: Query, type_: str, values: tuple[str, str], low: str | None, high: str | None
) -> None:
    state = Grouped((), (type_,), (Accumulator("min", 0, type_), Accumulator("max", 0, type_)))
    build(worker, state, entries((values[0], 1)))
    install(worker, worker.combine(VIEW, 0, state, entries((values[1], 1), (None, 1))))
    if type_ == "uuid":
        low, high = values[1], values[0].lower()
    if type_.startswith("timestamp"):
        low, high = "2019-12-31 22:00:00+00", "2019-12-31 23:00:00+00"
    assert stored(query) == [("3", low, high, "1")]


FLOATS = Grouped(
    ("text",),
    ("double precision",),
    (Accumulator("sum", 0, "double precision", True), Accumulator("count", 0, "bigint")),
)


def test_K4_what_is_recomputed_is_stale_when_touched(worker: Worker, query: Query) -> None:
    build(worker, FLOATS, entries(("a", "1e16", 1), ("a", "1", 2), ("b", None, 1), ("c", "0.1", 3)))
    # In the order of the texts: 1 + 1 + 1e16.
    assert stored(query) == [
        ("a", "3", "1.0000000000000002e+16", "3", "1"),
        ("b", "1", None, "0", "1"),
        ("c", "3", "0.30000000000000004", "3", "1"),
    ]
    combined = worker.combine(
        VIEW, 0, FLOATS, entries(("a", "1e16", -1), ("b", "2", 1), ("b", "2", -1), ("c", "0.1", -3), ("d", "-0", 1))
    )
    assert sorted(row["k1"] for row in combined.stale.to_pylist()) == ["a", "d"]
    assert delivered(combined) == {("c", "3", "0.30000000000000004", "3", 1): -1}
    again = worker.recombine(VIEW, 0, FLOATS, entries(("a", "1", 2), ("d", "-0", 1), ("b", "99", 1)), combined.stale)
    assert delivered(again) == {
        ("a", "3", "1.0000000000000002e+16", "3", 1): -1,
        ("a", "2", "2", "2", 1): 1,
        ("d", "1", "0", "1", 1): 1,
    }
    assert again.stale.num_rows == 0
    both = pa.concat_tables([combined.state, again.state])
    worker.install(Installation((ViewChange(VIEW, states=(StateChange(0, both),)),)))
    assert [row[0] for row in stored(query)] == ["a", "b", "d"]


def test_groups_read_again_may_be_gone_or_the_same(worker: Worker, query: Query) -> None:
    build(worker, EXTREMES, entries(("g", "3", "x", 1), ("h", "1", "y", 1), (None, "2", "z", 2)))
    groups = pa.table({"k1": ["g", "h", None, "i"]})
    again = worker.recombine(
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
    install(worker, again)
    assert stored(query) == [("g", "1", "3", "x", "1"), (None, "1", "9", "z", "1")]
    with pytest.raises(InvariantViolated, match="view people"):
        worker.recombine(VIEW, 0, EXTREMES, entries(("g", "3", "x", -1), ("g", "4", "x", 2)), groups)


def test_the_group_without_keys_is_read_again(worker: Worker, query: Query) -> None:
    state = Grouped((), ("double precision",), (Accumulator("sum", 0, "double precision", True),))
    build(worker, state, entries(("2.5", 1)))
    combined = worker.combine(VIEW, 0, state, entries(("2.5", -1)))
    assert (combined.stale.column_names, combined.stale.num_rows) == (["key"], 1)
    again = worker.recombine(VIEW, 0, state, nothing(1), combined.stale)
    assert delivered(again) == {("1", "2.5", 1): -1, ("0", None, 1): 1}
    install(worker, again)
    assert stored(query) == [("0", None, "1")]


def test_W6_groups_through_several_tags(worker: Worker, query: Query) -> None:
    state = Grouped(("text",), ("integer",), (Accumulator("sum", 0, "numeric"), Accumulator("count", 0, "bigint")))
    build(worker, state, entries(("a", "5", 1)))
    batch = tagged(
        ("a", "1", 2),
        ("a", "5", -1),
        ("a", "1", -2),
        ("b", "0", 1),
        ("b", "0", -1),
        ("a", "9", 1),
        t=[1, 2, 2, 1, 2, 3],
    )
    combined = worker.combine(VIEW, 0, state, batch)
    assert delivered(combined) == {
        ("a", "1", "5", "1", 1): -1, ("a", "3", "7", "3", 1): 1,
        ("a", "3", "7", "3", 2): -1,
        ("a", "1", "9", "1", 3): 1,
        ("b", "1", "0", "1", 1): 1, ("b", "1", "0", "1", 2): -1,
    }  # fmt: skip
    with pytest.raises(InvariantViolated):
        worker.combine(VIEW, 0, state, tagged(("a", "5", -2), ("a", "5", 2), t=[1, 2]))


@pytest.mark.parametrize("state", [EXTREMES, FLOATS], ids=["extremes", "recomputed"])
def test_extremes_go_tag_by_tag(worker: Worker, state: Grouped) -> None:
    build(worker, state)
    texts = ("g", *(["1"] * len(state.arguments)))
    with pytest.raises(ValueError, match="one tag at a time"):
        worker.combine(VIEW, 0, state, tagged((*texts, 1), (*texts, 1), t=[1, 2]))
    assert worker.combine(VIEW, 0, state, tagged((*texts, 1), (*texts, 1), t=[5, 5])).stale.num_rows == (
        state is FLOATS
    )


def test_counts_of_a_group_below_zero_are_refused(worker: Worker) -> None:
    build(worker, SUMS, entries(("a", "1", None, None, 3)))
    for batch in (
        entries(("a", "1", "5", None, -1)),
        entries(("z", "1", None, None, -1)),
        entries(("a", "1", None, None, -4)),
    ):
        with pytest.raises(InvariantViolated, match="view people: 1 row"):
            worker.combine(VIEW, 0, SUMS, batch)


def test_a_value_that_does_not_fit_names_the_view(worker: Worker) -> None:
    build(worker, SUMS)
    with pytest.raises(EvaluationFailed, match=r"view people.*integer"):
        worker.combine(VIEW, 0, SUMS, entries(("a", "x", "5", None, 1)))
    assert worker.combine(VIEW, 0, SUMS, entries(("a", "1", "5", None, 1))).state.num_rows == 1


# --- kept bags


def test_a_kept_bag_is_added_to(worker: Worker, query: Query) -> None:
    state = Kept(("text", "numeric"))
    build(worker, state, entries(("a", "1.0", 2), ("a", "1.0", -1), ("b", None, 1)))
    # A bag keeps its rows as they are: 1.0 and 1.00 are two of them.
    combined = worker.combine(
        VIEW,
        0,
        state,
        tagged(("a", "1.0", 1), ("a", "1.00", 1), ("b", None, -1), ("c", "1", 1), ("c", "1", -1), t=[1, 1, 2, 1, 1]),
    )
    assert rows(combined.delivered) == {("a", "1.0", 1): 1, ("a", "1.00", 1): 1, ("b", None, 2): -1}
    assert combined.state.column_names == ["c1", "c2", "n", "t"]
    install(worker, combined)
    assert stored(query) == [("a", "1.0", "2"), ("a", "1.00", "1")]
    with pytest.raises(InvariantViolated, match="view people: 1 row"):
        worker.combine(VIEW, 0, state, tagged(("a", "1.00", -2), ("a", "1.00", 1), t=[3, 4]))


# --- reading


def looked_up(
    worker: Worker, state: State, columns: list[str], key: list[str], *values: tuple[Any, ...]
) -> Counter[Any]:
    table = pa.table({name: pa.array([row[i] for row in values], pa.string()) for i, name in enumerate(key)})
    bag = worker.state_rows(VIEW, 0, state, columns, key, table)
    found: Counter[Any] = Counter()
    for row in bag.table.to_pylist():
        found[tuple(row[name] for name in columns)] += row["#count"]
    return found


def test_rows_are_looked_up_by_key(worker: Worker) -> None:
    state = Counted(("text", "integer", "double precision"), "except all")
    batch = tagged(("a", "1", "0", 3), ("a", "1", "0", 1), ("b", "1", None, 1), ("b", "2", "5", 1), side=[0, 1, 0, 1])
    build(worker, state, batch, indexed=("c2",))
    assert looked_up(worker, state, ["c1", "c3"], ["c2"], ("1",), ("01",), ("3000000000",)) == {
        ("a", "0"): 2,
        ("b", None): 1,
    }
    assert looked_up(worker, state, ["c1"], ["c2"], ("2",)) == {}  # it is there on the right only
    assert looked_up(worker, state, ["c1"], ["c2", "c3"], ("1", "-0"), ("1", None)) == {("a",): 2}
    assert looked_up(worker, state, ["c2"], ["c1"], ("b",), (None,)) == {("1",): 1}
    assert looked_up(worker, state, [], ["c1"], ("a",)) == {(): 2}
    assert looked_up(worker, state, ["c1"], []) == {("a",): 2, ("b",): 1}
    with pytest.raises(ValueError, match="is Counted"):
        looked_up(worker, Kept(("text",)), ["c1"], ["c1"], ("a",))


def test_groups_are_looked_up_by_their_digest(worker: Worker) -> None:
    build(worker, EXTREMES, entries(("g", "3", "x", 1), (None, "4", "y", 1)))
    found = worker.state_rows(VIEW, 0, EXTREMES, ["key", "k1", "a1"], [], pa.table({})).table.to_pylist()
    digest = next(row["key"] for row in found if row["k1"] is None)
    assert looked_up(worker, EXTREMES, ["k1", "a1"], ["key"], (digest,), ("none",)) == {(None, "4"): 1}


def test_every_column_that_is_looked_up_has_an_index(worker: Worker, query: Query) -> None:
    """Of values of any length, where the type can be compared at all."""
    state = Counted(("text", "character varying(20)", "json"), "distinct")
    build(worker, state, entries(("x" * 10_000, "b", "{}", 1)), indexed=("key", "c1", "c2", "c3"))
    indexes = query("SELECT indexdef FROM pg_indexes WHERE schemaname = 'dyda' AND tablename = 'extent_1'")
    kinds = sorted(text.split(" USING ")[1] for (text,) in indexes)
    assert kinds == ["btree (c1)", "btree (hash)", "hash (c2)", "hash (c3)"]
    collated = (
        "SELECT attname FROM pg_attribute a JOIN pg_collation c ON c.oid = a.attcollation"
        " WHERE attrelid = 'dyda.extent_1'::regclass AND collname = 'C' ORDER BY 1"
    )
    assert query(collated) == [("c1",), ("c2",), ("c3",)]


@pytest.mark.parametrize(
    "state",
    [
        Counted(("integer",), "except"),
        Grouped(("integer",), (), (Accumulator("count", None, "bigint"),)),
        Kept(("integer",)),
    ],
    ids=["counted", "grouped", "kept"],
)
def test_what_entries_cost_does_not_grow_with_the_state(worker: Worker, state: State) -> None:
    """Every row is looked up by an index, however small the table may look to the planner."""
    name = "k1" if isinstance(state, Grouped) else "c1"
    build(worker, state, entries(*((str(i), 1) for i in range(3000))), indexed=(name,))
    count = "SELECT seq_scan, idx_scan FROM pg_stat_xact_all_tables WHERE schemaname = 'dyda' AND relname = 'extent_1'"
    with worker._computing() as cursor:

        def scans() -> tuple[int, int]:
            cursor.execute(count)
            sequential, indexed = cursor.fetchone()
            return sequential, indexed

        found, (sequential, indexed) = stored_state(cursor, VIEW, 0), scans()
        assert combine(cursor, found, entries(("5", 1), ("6", -1), ("9000", 1))).state.num_rows > 2
        assert scans() == (sequential, indexed + 3)
        assert len(state_rows(cursor, found, [name], [name], pa.table({name: ["1", "2"]}))) == 2
        assert scans() == (sequential, indexed + 5)


def scanned(query: Query, warehouse: Warehouse, pieces: list[str], snapshot: str) -> list[tuple[Any, ...]]:
    found = []
    for piece in pieces:
        found += query(
            f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{snapshot}'; {piece}"
        )
    return sorted(found, key=str)


def test_states_are_scanned_in_pieces(
    warehouse: Warehouse, worker: Worker, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dyda.warehouse.held.PAGES", 2)
    state = Counted(("integer", "text"), "except all")
    many = [(str(i), "x" * 100, 2, 0) for i in range(500)] + [("0", "x" * 100, 1, 1), ("1", "x" * 100, 2, 1)]
    batch = tagged(*(row[:3] for row in many), side=[row[3] for row in many])
    build(worker, state, batch)
    made = worker.combine_staging(state, staged(worker, state, batch), view=VIEW)
    expected = sorted([(0,), *[(i,) for i in range(2, 500)] * 2], key=str)
    with hold_warehouse(warehouse.url) as held:
        install(worker, worker.combine(VIEW, 0, state, tagged(("9", "y", 1), side=[0])))
        pieces = held.state(VIEW, 0).pieces(["c1"])
        assert len(pieces) > 3
        assert scanned(query, warehouse, pieces, held.snapshot) == expected
        staging = held.staging(state, made).pieces(["c1"])
        assert len(staging) > 3
        assert sorted(int(i) for (i,) in scanned(query, warehouse, staging, held.snapshot)) == sorted(
            i for (i,) in expected
        )
        assert len(scanned(query, warehouse, held.state(VIEW, 0).pieces([]), held.snapshot)) == 997
        assert held.extent(VIEW).pieces([0])


def test_a_kept_bag_is_scanned_as_often_as_it_is_there(warehouse: Warehouse, worker: Worker, query: Query) -> None:
    state = Kept(("text",))
    build(worker, state, entries(("a", 2), (None, 1)))
    made = worker.combine_staging(state, staged(worker, state, entries(("a", 3))), view=VIEW)
    with hold_warehouse(warehouse.url) as held:
        assert scanned(query, warehouse, held.state(VIEW, 0).pieces(["c1"]), held.snapshot) == [("a",), ("a",), (None,)]
        assert scanned(query, warehouse, held.staging(state, made).pieces(["c1"]), held.snapshot) == [("a",)] * 3


def test_verify_compares_states(warehouse: Warehouse, worker: Worker) -> None:
    build(worker, EXTREMES, entries(("g", "3", "x", 1), ("h", "4", "y", 2)))
    right, wrong = entries(("h", "4", "y", 2), ("g", "3", "x", 1)), entries(("g", "3", "x", 1), ("h", "4", "y", 1))
    for batch, missing in ((right, 0), (wrong, 1)):
        recomputed = staged(worker, EXTREMES, batch)
        with warehouse.combined(EXTREMES, recomputed, view=VIEW) as made, warehouse.frozen() as frozen:
            found = frozen.compare_state(VIEW, 0, made)
            assert (found.missing, found.extra) == (missing, missing)
            assert found.equal == (missing == 0)
            with pytest.raises(ValueError, match="none with number 1"):
                frozen.compare_state(VIEW, 1, made)


# --- installing


def change(worker: Worker, states: Sequence[StateTable], changes: Sequence[StateChange], **more: Any) -> None:
    defined = version(("x", "text"), states=tuple(states))
    worker.install(
        Installation(
            (ViewChange(VIEW, version=defined, states=tuple(changes), positions={"crm": (START, START)}, **more),)
        )
    )


def whole(worker: Worker, number: int, state: State, batch: pa.Table) -> StateChange:
    return StateChange(number, staging=worker.combine_staging(state, staged(worker, state, batch), view=VIEW))


ONE, TWO = Counted(("text",), "distinct"), Kept(("integer",))


def test_the_catalog_tells_the_states(warehouse: Warehouse, worker: Worker) -> None:
    states = (SUMS, FLOATS, ONE, TWO, Counted((), "except all"))
    worker.create_view(VIEW)
    assert warehouse.view(VIEW).states == ()
    changes = [whole(worker, number, state, nothing(entry_width(state))) for number, state in enumerate(states)]
    defined = version(("x", "text"), states=tuple(StateTable(state) for state in states))
    first = ViewChange(VIEW, delta=nothing(1), mode="replace", version=defined, states=tuple(changes))
    worker.install(Installation((first,)))
    assert warehouse.view(VIEW).states == states


def test_a_version_with_the_same_states_keeps_their_tables(warehouse: Warehouse, worker: Worker, query: Query) -> None:
    build(worker, ONE, entries(("a", 1)))
    change(worker, [StateTable(ONE, ("c1",))], [])
    assert query("SELECT id FROM dyda.extent ORDER BY id") == [(1,), (2,)]
    assert stored(query) == [("a", "1", "0", "1")]
    assert query("SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%%dyda.extent_1 USING hash%%'") == [(1,)]
    assert [record.version for record in warehouse.versions(VIEW)] == [1, 2]


def test_a_version_with_other_states_makes_new_tables(warehouse: Warehouse, worker: Worker, query: Query) -> None:
    build(worker, ONE, entries(("a", 1)))
    with pytest.raises(DydaError, match="view people: new states need all rows"):
        change(worker, [StateTable(ONE), StateTable(TWO)], [whole(worker, 1, TWO, entries(("1", 1)))], mode="replace")
    assert stored(query) == [("a", "1", "0", "1")]
    brought = [whole(worker, 0, TWO, entries(("1", 2))), whole(worker, 1, ONE, entries(("b", 1)))]
    change(worker, [StateTable(TWO), StateTable(ONE)], brought, mode="replace")
    assert warehouse.view(VIEW).states == (TWO, ONE)
    assert stored(query) == [("1", "2")]
    assert stored(query, 1) == [("b", "1", "0", "1")]
    assert query("SELECT to_regclass('dyda.extent_1') IS NULL, count(*) FROM dyda.extent") == [(True, 3)]
    change(worker, [], [])
    assert query("SELECT count(*) FROM dyda.extent") == [(1,)]
    worker.discard_stagings()
    left = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^(staging|extent)_[0-9]+$'"
    assert query(left) == [(1,)]


def test_a_replacement_brings_all_states(warehouse: Warehouse, worker: Worker, query: Query) -> None:
    build(worker, ONE, entries(("a", 1), ("b", 2)))
    before = query("SELECT c2, xmin::text FROM dyda.extent_1 WHERE c2 = 'b'")
    with pytest.raises(DydaError, match="view people: all its rows without all of its states"):
        worker.install(Installation((ViewChange(VIEW, delta=entries(("x", 1)), mode="replace"),)))
    brought = whole(worker, 0, ONE, entries(("b", 2), ("c", 1)))
    resync = ViewChange(
        VIEW, delta=entries(("x", 1)), mode="replace", states=(brought,), positions={"crm": (START, NEXT)}
    )
    worker.install(Installation((resync,)))
    assert stored(query) == [("b", "2", "0", "1"), ("c", "1", "0", "1")]
    assert query("SELECT c2, xmin::text FROM dyda.extent_1 WHERE c2 = 'b'") == before
    assert query("SELECT * FROM people") == [("x",)]
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'staging\\_%%\\_task'") == [(2,)]


def test_a_state_that_does_not_fit_undoes_the_unit(warehouse: Warehouse, worker: Worker, query: Query) -> None:
    build(worker, ONE, entries(("a", 1)))
    combined = worker.combine(VIEW, 0, ONE, entries(("a", 1)))
    install(worker, combined)
    again = ViewChange(VIEW, delta=entries(("x", 1)), states=(StateChange(0, combined.state),))
    # The row before is not there any more: the state has moved since it was combined.
    with pytest.raises(InvariantViolated, match="view people: 1 row"):
        worker.install(Installation((again,)))
    assert warehouse.view(VIEW).rows == 0
    assert stored(query) == [("a", "2", "0", "1")]
    for wrong in ((StateChange(1, combined.state),), (StateChange(0, combined.state),) * 2):
        with pytest.raises(ValueError, match="has 1 states"):
            worker.install(Installation((ViewChange(VIEW, states=wrong),)))


def test_two_views_and_two_states_in_one_installation(worker: Worker, query: Query) -> None:
    for view in ("one", "two"):
        defined = version(("x", "text"), states=(StateTable(ONE), StateTable(ONE)))
        parts = tuple(
            StateChange(
                number,
                pa.table({name: pa.array([], pa.string()) for name in ("c1", "c2", "c3", "c4")}).append_column(
                    "n", pa.array([], pa.int64())
                ),
            )
            for number in range(2)
        )
        worker.install(
            Installation((ViewChange(view, delta=nothing(1), mode="replace", version=defined, states=parts),))
        )
    moved = [
        worker.combine(view, number, ONE, entries((f"{view}{number}", 1)))
        for view in ("one", "two")
        for number in range(2)
    ]
    changes = [
        ViewChange(view, states=(StateChange(0, moved[2 * i].state), StateChange(1, moved[2 * i + 1].state)))
        for i, view in enumerate(("one", "two"))
    ]
    worker.install(Installation(tuple(changes)))
    tables = query("SELECT e->>'extent' FROM dyda.view_version w, jsonb_array_elements(w.states) e ORDER BY w.view, 1")
    assert [query(f"SELECT c2 FROM dyda.extent_{number}") for (number,) in tables] == [
        [("one0",)], [("one1",)], [("two0",)], [("two1",)]
    ]  # fmt: skip


def test_states_go_with_their_view(worker: Worker, query: Query) -> None:
    build(worker, ONE, entries(("a", 1)))
    worker.drop_view(VIEW)
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^extent_[0-9]+$'") == [(0,)]


def test_readers_have_no_right_to_a_state(worker: Worker, query: Query) -> None:
    build(worker, ONE, entries(("a", 1)))
    assert query("SELECT has_table_privilege('pg_read_all_settings', 'dyda.extent_1', 'SELECT')") == [(False,)]


@pytest.mark.parametrize("point", ["install.begun", "install.merged", "install.before-commit"])
def test_a_crash_while_states_are_replaced_leaves_all_as_it_was(
    warehouse: Warehouse, worker: Worker, query: Query, point: str
) -> None:
    build(worker, ONE, entries(("a", 1)))

    def crash() -> None:
        raise RuntimeError("crashed")

    brought = whole(worker, 0, TWO, entries(("1", 2)))
    with faults.on(point, crash), pytest.raises(RuntimeError, match="crashed"):
        change(worker, [StateTable(TWO)], [brought], mode="replace")
    assert stored(query) == [("a", "1", "0", "1")]
    assert warehouse.view(VIEW).states == (ONE,)
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^extent_[0-9]+$'") == [(2,)]
    change(worker, [StateTable(TWO)], [brought], mode="replace")
    assert stored(query) == [("1", "2")]


def test_a_build_with_negative_counts_is_refused(worker: Worker, query: Query) -> None:
    for state, batch in (
        (ONE, entries(("a", -1))),
        (TWO, entries(("1", -1), ("2", 1))),
        (EXTREMES, entries(("g", "1", "x", -1), ("g", "2", "x", 1))),
    ):
        source = staged(worker, state, batch)
        with pytest.raises(InvariantViolated, match="view people: 1 row"):
            worker.combine_staging(state, source, view=VIEW)
        worker.drop_staging(source)
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^staging_'") == [(0,)]
