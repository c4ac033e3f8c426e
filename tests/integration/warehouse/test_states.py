"""States of keyed operators: how they are installed, looked up, scanned and compared."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from dyda import faults
from dyda.errors import DydaError, InvariantViolated
from dyda.model.operator_state import Accumulator, Counted, Grouped, Kept, State
from dyda.warehouse import Installation, StateTable, ViewChange, Warehouse
from dyda.warehouse.catalog.stored_views import known_state
from dyda.warehouse.extents.exported_snapshot import hold_warehouse
from dyda.warehouse.states.combine import combine
from dyda.warehouse.states.install import StateChange
from dyda.warehouse.states.lookup import state_rows
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import NEXT, START, entries, version
from tests.integration.warehouse.state_entries import (
    EXTREMES,
    FLOATS,
    SUMS,
    VIEW,
    Query,
    build,
    entry_width,
    install,
    nothing,
    staged,
    stored,
    tagged,
)

# --- reading


def looked_up(
    writer: Writer, state: State, columns: list[str], key: list[str], *values: tuple[Any, ...]
) -> Counter[Any]:
    table = pa.table({name: pa.array([row[i] for row in values], pa.string()) for i, name in enumerate(key)})
    bag = writer.state_rows(VIEW, 0, state, columns, key, table)
    found: Counter[Any] = Counter()
    for row in bag.table.to_pylist():
        found[tuple(row[name] for name in columns)] += row["#count"]
    return found


def test_rows_are_looked_up_by_key(writer: Writer) -> None:
    state = Counted(("text", "integer", "double precision"), "except all")
    batch = tagged(("a", "1", "0", 3), ("a", "1", "0", 1), ("b", "1", None, 1), ("b", "2", "5", 1), side=[0, 1, 0, 1])
    build(writer, state, batch, indexed=("c2",))
    assert looked_up(writer, state, ["c1", "c3"], ["c2"], ("1",), ("01",), ("3000000000",)) == {
        ("a", "0"): 2,
        ("b", None): 1,
    }
    assert looked_up(writer, state, ["c1"], ["c2"], ("2",)) == {}  # it is there on the right only
    assert looked_up(writer, state, ["c1"], ["c2", "c3"], ("1", "-0"), ("1", None)) == {("a",): 2}
    assert looked_up(writer, state, ["c2"], ["c1"], ("b",), (None,)) == {("1",): 1}
    assert looked_up(writer, state, [], ["c1"], ("a",)) == {(): 2}
    assert looked_up(writer, state, ["c1"], []) == {("a",): 2, ("b",): 1}
    with pytest.raises(ValueError, match="is Counted"):
        looked_up(writer, Kept(("text",)), ["c1"], ["c1"], ("a",))


def test_groups_are_looked_up_by_their_digest(writer: Writer) -> None:
    build(writer, EXTREMES, entries(("g", "3", "x", 1), (None, "4", "y", 1)))
    found = writer.state_rows(VIEW, 0, EXTREMES, ["key", "k1", "a1"], [], pa.table({})).table.to_pylist()
    digest = next(row["key"] for row in found if row["k1"] is None)
    assert looked_up(writer, EXTREMES, ["k1", "a1"], ["key"], (digest,), ("none",)) == {(None, "4"): 1}


def test_every_column_that_is_looked_up_has_an_index(writer: Writer, query: Query) -> None:
    """Of values of any length, where the type can be compared at all."""
    state = Counted(("text", "character varying(20)", "json"), "distinct")
    build(writer, state, entries(("x" * 10_000, "b", "{}", 1)), indexed=("key", "c1", "c2", "c3"))
    indexes = query("SELECT indexdef FROM pg_indexes WHERE schemaname = 'dyda' AND tablename = 'extent_1'")
    kinds = sorted(text.split(" USING ")[1] for (text,) in indexes)
    assert kinds == ["btree (c1)", "hash (c2)", "hash (c3)"]
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
def test_what_entries_cost_does_not_grow_with_the_state(writer: Writer, state: State) -> None:
    """Every row is looked up by an index, however small the table may look to the planner."""
    name = "k1" if isinstance(state, Grouped) else "c1"
    build(writer, state, entries(*((str(i), 1) for i in range(3000))), indexed=(name,))
    count = "SELECT seq_scan, idx_scan FROM pg_stat_xact_all_tables WHERE schemaname = 'dyda' AND relname = 'extent_1'"
    with writer.computing() as cursor:

        def scans() -> tuple[int, int]:
            cursor.execute(count)
            sequential, indexed = cursor.fetchone()
            return sequential, indexed

        found, (sequential, indexed) = known_state(cursor, VIEW, 0), scans()
        assert combine(cursor, found, entries(("5", 1), ("6", -1), ("9000", 1))).state.num_rows > 2
        assert scans() == (sequential, indexed + 3)
        assert len(state_rows(cursor, found, [name], [name], pa.table({name: ["1", "2"]}))) == 2
        assert scans() == (sequential, indexed + 5)


@pytest.mark.parametrize(
    ("type_", "text", "other"),
    [
        ("character varying(9)", "ab", "abc"),
        ("character(4)", "ab", "abc"),
        ("numeric(10,2)", "1.5", "1.51"),
        ("numeric", "1.50", "1.51"),
        ("smallint", "7", "70000"),
        ("real", "0.1", "0.2"),
        ("double precision", "-0", "1e300"),
        ("boolean", "t", "f"),
        ("uuid", "00000000-0000-0000-0000-00000000000A", "00000000-0000-0000-0000-00000000000b"),
        ("date", "2020-02-29", "2020-03-01"),
        ("timestamp with time zone", "2020-01-01 02:00:00+02", "2020-01-01 02:00:00+00"),
        ("bytea", "\\x00", "\\x01"),
    ],
)
def test_keys_of_many_types_are_looked_up_through_the_index(writer: Writer, type_: str, text: str, other: str) -> None:
    state = Counted((type_,), "distinct")
    build(writer, state, entries((text, 1), (None, 1)), indexed=("c1",))
    with writer.computing() as cursor:
        cursor.execute("SELECT sum(seq_scan) FROM pg_stat_xact_all_tables WHERE relname = 'extent_1'")
        before = cursor.fetchone()
        found = state_rows(cursor, known_state(cursor, VIEW, 0), ["c1"], ["c1"], pa.table({"c1": [text, other, None]}))
        assert len(found) == 1
        cursor.execute("SELECT sum(seq_scan) FROM pg_stat_xact_all_tables WHERE relname = 'extent_1'")
        assert cursor.fetchone() == before


def scanned(query: Query, warehouse: Warehouse, pieces: list[str], snapshot: str) -> list[tuple[Any, ...]]:
    found = []
    for piece in pieces:
        found += query(
            f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SET TRANSACTION SNAPSHOT '{snapshot}'; {piece}"
        )
    return sorted(found, key=str)


def test_states_are_scanned_in_pieces(
    warehouse: Warehouse, writer: Writer, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dyda.warehouse.extents.exported_snapshot.PAGES", 2)
    state = Counted(("integer", "text"), "except all")
    many = [(str(i), "x" * 100, 2, 0) for i in range(500)] + [("0", "x" * 100, 1, 1), ("1", "x" * 100, 2, 1)]
    batch = tagged(*(row[:3] for row in many), side=[row[3] for row in many])
    build(writer, state, batch)
    made = writer.combine_staging(state, staged(writer, state, batch), view=VIEW)
    expected = sorted([(0,), *[(i,) for i in range(2, 500)] * 2], key=str)
    with hold_warehouse(warehouse.url) as held:
        install(writer, writer.combine(VIEW, 0, state, tagged(("9", "y", 1), side=[0])))
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


def test_a_kept_bag_is_scanned_as_often_as_it_is_there(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    state = Kept(("text",))
    build(writer, state, entries(("a", 2), (None, 1)))
    made = writer.combine_staging(state, staged(writer, state, entries(("a", 3))), view=VIEW)
    with hold_warehouse(warehouse.url) as held:
        assert scanned(query, warehouse, held.state(VIEW, 0).pieces(["c1"]), held.snapshot) == [("a",), ("a",), (None,)]
        assert scanned(query, warehouse, held.staging(state, made).pieces(["c1"]), held.snapshot) == [("a",)] * 3


def test_verify_compares_states(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    build(writer, EXTREMES, entries(("g", "3", "x", 1), ("h", "4", "y", 2)))
    right, wrong = entries(("h", "4", "y", 2), ("g", "3", "x", 1)), entries(("g", "3", "x", 1), ("h", "4", "y", 1))
    for batch, missing in ((right, 0), (wrong, 1)):
        with warehouse.stagings() as stagings, warehouse.frozen() as frozen:
            made = stagings.combine_staging(EXTREMES, staged(stagings, EXTREMES, batch), view=VIEW)
            found = frozen.compare_state(VIEW, 0, made)
            assert (found.missing, found.extra) == (missing, missing)
            assert found.equal == (missing == 0)
            with pytest.raises(ValueError, match="none with number 1"):
                frozen.compare_state(VIEW, 1, made)
    writer.discard_stagings()
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^staging_'") == [(0,)]


# --- installing


def change(
    writer: Writer, states: tuple[StateTable, ...] | None, changes: tuple[StateChange, ...] = (), **more: Any
) -> None:
    defined = version(("x", "text"), states=states)
    writer.install(
        Installation((ViewChange(VIEW, version=defined, states=changes, positions={"crm": (START, START)}, **more),))
    )


def whole(writer: Writer, number: int, state: State, batch: pa.Table) -> StateChange:
    return StateChange(number, staging=writer.combine_staging(state, staged(writer, state, batch), view=VIEW))


ONE, TWO = Counted(("text",), "distinct"), Kept(("integer",))


def test_the_catalog_tells_the_states(warehouse: Warehouse, writer: Writer) -> None:
    states: tuple[State, ...] = (SUMS, FLOATS, ONE, TWO, Counted((), "except all"))
    writer.create_view(VIEW)
    assert warehouse.view(VIEW).states == ()
    changes = [whole(writer, number, state, nothing(entry_width(state))) for number, state in enumerate(states)]
    defined = version(("x", "text"), states=tuple(StateTable(state) for state in states))
    first = ViewChange(VIEW, delta=nothing(1), mode="replace", version=defined, states=tuple(changes))
    writer.install(Installation((first,)))
    assert warehouse.view(VIEW).states == states


def test_a_version_with_the_same_states_keeps_their_tables(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    build(writer, ONE, entries(("a", 1)))
    change(writer, (StateTable(ONE, ("c1",)),))
    change(writer, None)
    assert query("SELECT id FROM dyda.extent ORDER BY id") == [(1,), (2,)]
    assert stored(query) == [("a", "1", "0", "1")]
    assert query("SELECT count(*) FROM pg_indexes WHERE indexdef LIKE '%%dyda.extent_1 USING hash%%'") == [(1,)]
    assert [record.version for record in warehouse.versions(VIEW)] == [1, 2, 3]
    assert warehouse.view(VIEW).states == (ONE,)


def test_a_version_with_other_states_makes_new_tables(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    build(writer, ONE, entries(("a", 1)))
    with pytest.raises(DydaError, match="view people: new states need all rows"):
        change(writer, (StateTable(ONE), StateTable(TWO)), (whole(writer, 1, TWO, entries(("1", 1))),), mode="replace")
    assert stored(query) == [("a", "1", "0", "1")]
    brought = (whole(writer, 0, TWO, entries(("1", 2))), whole(writer, 1, ONE, entries(("b", 1))))
    change(writer, (StateTable(TWO), StateTable(ONE)), brought, mode="replace")
    assert warehouse.view(VIEW).states == (TWO, ONE)
    assert stored(query) == [("1", "2")]
    assert stored(query, 1) == [("b", "1", "0", "1")]
    assert query("SELECT to_regclass('dyda.extent_1') IS NULL, count(*) FROM dyda.extent") == [(True, 3)]
    change(writer, ())
    assert query("SELECT count(*) FROM dyda.extent") == [(1,)]
    writer.discard_stagings()
    left = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^(staging|extent)_[0-9]+$'"
    assert query(left) == [(1,)]


def test_a_replacement_brings_all_states(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    build(writer, ONE, entries(("a", 1), ("b", 2)))
    before = query("SELECT c2, xmin::text FROM dyda.extent_1 WHERE c2 = 'b'")
    with pytest.raises(DydaError, match="view people: a replacement needs the rows of all its states"):
        writer.install(Installation((ViewChange(VIEW, delta=entries(("x", 1)), mode="replace"),)))
    brought = whole(writer, 0, ONE, entries(("b", 2), ("c", 1)))
    resync = ViewChange(
        VIEW, delta=entries(("x", 1)), mode="replace", states=(brought,), positions={"crm": (START, NEXT)}
    )
    writer.install(Installation((resync,)))
    assert stored(query) == [("b", "2", "0", "1"), ("c", "1", "0", "1")]
    assert query("SELECT c2, xmin::text FROM dyda.extent_1 WHERE c2 = 'b'") == before
    assert query("SELECT * FROM people") == [("x",)]
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'staging\\_%%\\_task'") == [(2,)]


def test_a_state_that_does_not_fit_undoes_the_unit(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    build(writer, ONE, entries(("a", 1)))
    combined = writer.combine(VIEW, 0, ONE, entries(("a", 1)))
    install(writer, combined)
    again = ViewChange(VIEW, delta=entries(("x", 1)), states=(StateChange(0, combined.state),))
    # The row before is not there any more: the state has moved since it was combined.
    with pytest.raises(InvariantViolated, match=r"view people: this change would give 1 row\(s\) a negative count"):
        writer.install(Installation((again,)))
    assert warehouse.view(VIEW).rows == 0
    assert stored(query) == [("a", "2", "0", "1")]
    for wrong in ((StateChange(1, combined.state),), (StateChange(0, combined.state),) * 2):
        with pytest.raises(ValueError, match="has 1 states"):
            writer.install(Installation((ViewChange(VIEW, states=wrong),)))


def test_two_views_and_two_states_in_one_installation(writer: Writer, query: Query) -> None:
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
        writer.install(
            Installation((ViewChange(view, delta=nothing(1), mode="replace", version=defined, states=parts),))
        )
    moved = [
        writer.combine(view, number, ONE, entries((f"{view}{number}", 1)))
        for view in ("one", "two")
        for number in range(2)
    ]
    changes = [
        ViewChange(view, states=(StateChange(0, moved[2 * i].state), StateChange(1, moved[2 * i + 1].state)))
        for i, view in enumerate(("one", "two"))
    ]
    writer.install(Installation(tuple(changes)))
    tables = query("SELECT e->>'extent' FROM dyda.view_version w, jsonb_array_elements(w.states) e ORDER BY w.view, 1")
    assert [query(f"SELECT c2 FROM dyda.extent_{number}") for (number,) in tables] == [
        [("one0",)], [("one1",)], [("two0",)], [("two1",)]
    ]  # fmt: skip


def test_states_go_with_their_view(writer: Writer, query: Query) -> None:
    build(writer, ONE, entries(("a", 1)))
    writer.drop_view(VIEW)
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^extent_[0-9]+$'") == [(0,)]


def test_readers_have_no_right_to_a_state(writer: Writer, query: Query) -> None:
    build(writer, ONE, entries(("a", 1)))
    assert query("SELECT has_table_privilege('pg_read_all_settings', 'dyda.extent_1', 'SELECT')") == [(False,)]


@pytest.mark.parametrize("point", ["install.begun", "install.merged", "install.before-commit"])
def test_a_crash_while_states_are_replaced_leaves_all_as_it_was(
    warehouse: Warehouse, writer: Writer, query: Query, point: str
) -> None:
    build(writer, ONE, entries(("a", 1)))

    def crash() -> None:
        raise RuntimeError("crashed")

    brought = whole(writer, 0, TWO, entries(("1", 2)))
    with faults.on(point, crash), pytest.raises(RuntimeError, match="crashed"):
        change(writer, (StateTable(TWO),), (brought,), mode="replace")
    assert stored(query) == [("a", "1", "0", "1")]
    assert warehouse.view(VIEW).states == (ONE,)
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^extent_[0-9]+$'") == [(2,)]
    change(writer, (StateTable(TWO),), (brought,), mode="replace")
    assert stored(query) == [("1", "2")]


def test_a_build_with_negative_counts_is_refused(writer: Writer, query: Query) -> None:
    for state, batch in (
        (ONE, entries(("a", -1))),
        (TWO, entries(("1", -1), ("2", 1))),
        (EXTREMES, entries(("g", "1", "x", -1), ("g", "2", "x", 1))),
    ):
        source = staged(writer, state, batch)
        with pytest.raises(
            InvariantViolated, match=r"view people: this change would give 1 row\(s\) of the operator state"
        ):
            writer.combine_staging(state, source, view=VIEW)
        writer.drop_staging(source)
    assert query("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^staging_'") == [(0,)]
