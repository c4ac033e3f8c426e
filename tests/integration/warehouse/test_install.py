"""Installing: views come to be, rows are merged, positions move, all in one transaction."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda import faults
from dyda.errors import DydaError, InvariantViolated, PositionMoved, UnknownView, WarehouseUnreachable
from dyda.model.cause import BuildReason, Text, ToBeBuilt
from dyda.model.layout import Layout
from dyda.model.position import Position
from dyda.model.view_state import ViewState
from dyda.warehouse import Installation, UnitRecord, ViewChange, Warehouse
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import NEXT, START, add, create, entries, positions, version

Query = Callable[..., list[tuple[Any, ...]]]


def test_a_view_is_created_by_its_first_installation(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text"), ("age", "integer")), entries(("Ann", "7", 2), ("Bob", None, 1)))
    assert sorted(query("SELECT * FROM people"), key=str) == [("Ann", 7), ("Ann", 7), ("Bob", None)]
    record = warehouse.view("people")
    assert (record.version, record.rows, record.stored_state) == (1, 3, "live")
    assert record.positions == {"crm": START}
    assert [column.type for column in record.columns] == ["text", "integer"]


def test_a_delta_adds_and_removes(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 2), ("Bob", 1)))
    add(writer, "people", entries(("Ann", -1), ("Bob", -1), ("Cid", 2), ("Cid", -1), ("Dan", 1), ("Dan", -1)))
    assert sorted(query("SELECT * FROM people")) == [("Ann",), ("Cid",)]
    assert warehouse.view("people").rows == 2
    assert positions(warehouse) == {"people": {"crm": NEXT}}


def test_a_large_delta_comes_from_staging(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    staging = writer.staging(1)
    staging.sink()(entries(("Ann", -1), ("Bob", 1), ("Bob", 1)).to_batches())
    writer.install(Installation((ViewChange("people", staging=staging, positions={"crm": (START, NEXT)}),)))
    assert query("SELECT * FROM people") == [("Bob",), ("Bob",)]
    assert query("SELECT count(*) FROM pg_class WHERE relname LIKE 'staging\\_%%' AND relkind = 'r'") == [(0,)]


def test_several_views_of_one_width_in_one_installation(writer: Writer, query: Query) -> None:
    for view in ("one", "two"):
        create(writer, view, version(("name", "text")))
    moved = {"crm": (START, NEXT)}
    changes = [ViewChange(view, delta=entries((view, 1)), positions=moved) for view in ("one", "two")]
    writer.install(Installation(tuple(changes)))
    assert query("SELECT * FROM one") == [("one",)]
    assert query("SELECT * FROM two") == [("two",)]


@pytest.mark.parametrize("expected", [NEXT, None])
def test_I1_the_position_moves_by_compare_and_set(
    warehouse: Warehouse, writer: Writer, query: Query, expected: Position | None
) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    with pytest.raises(PositionMoved, match="is at 10:10: of source crm"):
        writer.install(
            Installation(
                (ViewChange("people", delta=entries(("Bob", 1)), positions={"crm": (expected, Position(30, 30))}),)
            )
        )
    assert query("SELECT * FROM people") == [("Ann",)]
    assert positions(warehouse) == {"people": {"crm": START}}


def test_a_negative_count_is_refused_and_nothing_of_the_unit_stays(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "one", version(("name", "text")), entries(("Ann", 1)))
    create(writer, "two", version(("name", "text")), entries(("Ann", 1)))
    moved = {"crm": (START, NEXT)}
    for bad in (entries(("Ann", -2)), entries(("nobody", -1))):
        with pytest.raises(InvariantViolated, match=r"view two: this change would give 1 row\(s\) a negative count"):
            writer.install(
                Installation(
                    (
                        ViewChange("one", delta=entries(("Bob", 1)), positions=moved),
                        ViewChange("two", delta=bad, positions=moved),
                    )
                )
            )
    assert query("SELECT * FROM one UNION ALL SELECT * FROM two") == [("Ann",), ("Ann",)]
    assert positions(warehouse) == {"one": {"crm": START}, "two": {"crm": START}}
    assert warehouse.view("one").rows == 1


def test_a_build_with_a_negative_count_creates_nothing(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    with pytest.raises(InvariantViolated):
        create(writer, "people", version(("name", "text")), entries(("Ann", -1)))
    assert warehouse.views() == []
    assert query("SELECT count(*) FROM pg_class WHERE relname LIKE 'extent\\_%%'  AND relkind = 'r'") == [(0,)]
    assert query("SELECT to_regclass('people') IS NULL") == [(True,)]


def test_a_replacement_writes_only_what_differs(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 2), ("Bob", 1), ("Cid", 1)))
    written = "SELECT name, array_agg(xmin::text ORDER BY xmin::text::bigint) FROM dyda.extent_1 GROUP BY name"
    before: dict[str, list[str]] = dict(query(written))
    staging = writer.staging(1)
    staging.sink()(entries(("Ann", 2), ("Bob", 3), ("Dan", 1)).to_batches())
    change = ViewChange("people", staging=staging, mode="replace", positions={"crm": (START, NEXT)})
    writer.install(Installation((change,)))
    after: dict[str, list[str]] = dict(query(written))
    assert Counter(query("SELECT * FROM people")) == Counter({("Ann",): 2, ("Bob",): 3, ("Dan",): 1})
    assert after["Ann"] == before["Ann"]
    assert after["Bob"][:1] == before["Bob"], "it is there twice more"
    assert (warehouse.view("people").rows, warehouse.view("people").version) == (6, 1)


def test_a_version_with_the_same_types_keeps_the_extent(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    renamed = version(("who", "text"), cause=Text("renamed"), file_text="SELECT 2")
    writer.install(Installation((ViewChange("people", version=renamed, positions={"crm": (START, START)}),)))
    assert query("SELECT who FROM people") == [("Ann",)]
    history = warehouse.versions("people")
    assert [(v.version, v.extent, v.cause) for v in history] == [
        (1, 1, ToBeBuilt(BuildReason.CREATED)),
        (2, 1, Text("renamed")),
    ]
    assert warehouse.view("people").file_text == "SELECT 2"


def test_a_version_with_other_types_gets_an_extent_of_its_own(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "people", version(("name", "text")), entries(("1", 1)))
    staging = writer.staging(2)
    staging.sink()(entries(("1", "x", 2)).to_batches())
    other = ViewChange(
        "people",
        staging=staging,
        mode="replace",
        version=version(("name", "integer"), ("more", "text")),
        positions={"shop": (None, START)},
    )
    writer.install(Installation((other,)))
    assert query("SELECT name, more FROM people") == [(1, "x"), (1, "x")]
    assert query("SELECT to_regclass('dyda.extent_1') IS NULL, count(*) FROM dyda.extent") == [(True, 1)]
    record = warehouse.view("people")
    assert (record.version, record.rows) == (2, 2)
    assert record.positions == {"shop": START}, "sources that the new version does not read are forgotten"


@pytest.mark.parametrize("point", ["install.begun", "install.merged", "install.before-commit"])
def test_a_crash_at_any_point_of_install_leaves_nothing(
    warehouse: Warehouse, writer: Writer, query: Query, point: str
) -> None:
    create(writer, "old", version(("name", "text")), entries(("Ann", 1)))
    before = _everything(query)

    def die() -> None:
        query("SELECT pg_terminate_backend(backend) FROM dyda.daemon")

    staging = writer.staging(1)
    staging.sink()(entries(("x", 1)).to_batches())
    with faults.on(point, die), pytest.raises(WarehouseUnreachable):
        writer.install(
            Installation(
                (
                    ViewChange("old", delta=entries(("Bob", 1)), positions={"crm": (START, NEXT)}),
                    ViewChange(
                        "new",
                        staging=staging,
                        mode="replace",
                        version=version(("name", "text")),
                        positions={"crm": (None, NEXT)},
                    ),
                )
            )
        )
    with warehouse.lock(wait=10):
        assert _everything(query) == before


def _everything(query: Query) -> list[Any]:
    relations = (
        "SELECT relname::text FROM pg_class WHERE relnamespace IN ('dyda'::regnamespace, 'public'::regnamespace)"
        " AND relkind IN ('r', 'v') ORDER BY 1"
    )
    tables = ("view", "view_version", "extent", "position", "message", "unit", "extent_1")
    return [query(relations), *(sorted(query(f"SELECT t::text FROM dyda.{table} t")) for table in tables)]


def test_rows_need_a_view(writer: Writer) -> None:
    with pytest.raises(UnknownView):
        add(writer, "nobody", entries(("Ann", 1)))
    writer.create_view("announced")
    with pytest.raises(DydaError, match="no extent yet"):
        writer.install(Installation((ViewChange("announced", delta=entries(("Ann", 1))),)))


def test_an_announced_view_is_building_until_it_is_installed(warehouse: Warehouse, writer: Writer) -> None:
    writer.create_view("people")
    assert (warehouse.view("people").state, warehouse.view("people").version) == ("building", None)
    create(writer, "people", version(("name", "text")))
    assert warehouse.view("people").stored_state == "live"


def test_a_broken_view_keeps_its_rows_and_says_why(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    writer.install(Installation((ViewChange("people", state=ViewState.BROKEN, cause=Text("column gone")),)))
    record = warehouse.view("people")
    assert (record.state, record.reason, record.rows) == ("broken", "column gone", 1)
    assert query("SELECT * FROM people") == [("Ann",)]


def test_an_unknown_type_is_refused_by_name(writer: Writer) -> None:
    for odd in ("mood", "integer); DROP TABLE dyda.view; --"):
        with pytest.raises(DydaError, match="has no type"):
            create(writer, "people", version(("name", odd)))


def test_units_are_remembered(warehouse: Warehouse, writer: Writer) -> None:
    started = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.UTC)
    writer.install(Installation(unit=UnitRecord("strong", 3, 4, 5, 1, {"sweep": 0.5}, started)))
    writer.install(Installation(unit=UnitRecord("complete")))
    last, first = warehouse.units()
    assert (first.mode, first.queries, first.phases, first.started_at) == (
        "strong",
        5,
        {"sweep": 0.5},
        started,
    )
    assert first.id is not None
    assert last.id is not None
    assert last.id > first.id
    assert last.installed_at is not None


def test_what_a_unit_took_after_its_record_was_written_is_added_later(warehouse: Warehouse, writer: Writer) -> None:
    writer.install(Installation(unit=UnitRecord("strong", phases={"sweep": 0.5})))
    first = writer.last_unit
    writer.note_phases(first, {"install": 0.25, "acknowledge": 0.125})
    assert [unit.phases for unit in warehouse.units()] == [{"sweep": 0.5}]
    writer.install(Installation(unit=UnitRecord("strong")))
    assert writer.last_unit != first
    assert [unit.phases for unit in warehouse.units()] == [{}, {"sweep": 0.5, "install": 0.25, "acknowledge": 0.125}]
    writer.note_phases(writer.last_unit, {"install": 1.0})
    writer.write_phases()
    assert warehouse.units()[0].phases == {"install": 1.0}


def test_dropping_a_view_leaves_no_trace(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    writer.drop_view("people")
    assert warehouse.views() == []
    assert query("SELECT to_regclass('people') IS NULL, to_regclass('dyda.extent_1') IS NULL") == [(True, True)]
    for table in ("extent", "view_version", "position"):
        assert query(f"SELECT count(*) FROM dyda.{table}") == [(0,)]
    with pytest.raises(UnknownView):
        writer.drop_view("people")


@pytest.mark.parametrize(
    ("layout", "name", "form"),
    [
        pytest.param(Layout(), "name {}", "bag", id="by digests"),
        pytest.param(Layout(indexes=(("name",),)), "name {}", "indexed", id="by a column that few rows share"),
        pytest.param(Layout(key=("name",)), "name {}", "keyed", id="by a proven key"),
    ],
)
def test_merging_does_not_read_the_extent(
    warehouse: Warehouse, query: Query, layout: Layout, name: str, form: str
) -> None:
    """Merge costs what the delta costs, whatever the extent's size: index look-ups only, as many as entries."""
    large = entries(*((name.format(i), 1) for i in range(20_000)))
    with warehouse.lock() as writer:
        create(writer, "people", version(("name", "text"), layout=layout), large)
    assert query("SELECT form FROM dyda.form") == [(form,)]
    seen: list[tuple[int, int, int]] = []

    def look() -> None:
        with another._connection.cursor() as cursor:
            cursor.execute(
                "SELECT seq_scan, seq_tup_read, idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'extent_1'"
            )
            seen.extend(cursor.fetchall())

    # A session of its own: its counters begin at zero.
    with warehouse.lock() as another, faults.on("install.merged", look):
        changes = [("nobody", 1), (name.format(6), -1), ("no one", 1), (name.format(7), -1)]
        add(another, "people", entries(*changes))
    ((sequential, read, fetched),) = seen
    assert (sequential, read) == (0, 0)
    assert fetched <= 2 * 4


ROWS = st.tuples(st.sampled_from([None, "", "a", "b"]), st.sampled_from([None, "1", "2"]), st.integers(-2, 2))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(ROWS, min_size=1, max_size=8), min_size=1, max_size=5))
def test_extents_follow_a_model(
    warehouse: Warehouse, writer: Writer, query: Query, deltas: list[list[tuple[Any, ...]]]
) -> None:
    """Random deltas against a plain counter: the same bag, or the same refusal."""
    for record in warehouse.views():
        writer.drop_view(record.name)
    create(writer, "model", version(("x", "text"), ("y", "integer")))
    model: Counter[tuple[Any, ...]] = Counter()
    for delta in deltas:
        after = model.copy()
        for x, y, n in delta:
            after[x, None if y is None else int(y)] += n
        if min(after.values()) < 0:
            with pytest.raises(InvariantViolated):
                add(writer, "model", entries(*delta), START, START)
        else:
            add(writer, "model", entries(*delta), START, START)
            model = +after
        assert Counter(query("SELECT * FROM model")) == model
        assert warehouse.view("model").rows == model.total()
