"""Indexes of a view: declared in its file, made by hand; what keeps them and what is said of those that go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg2
import pytest

from dyda.errors import DeclaredKeyBroken, InstallBlocked, NotInstallable
from dyda.model.cause import (
    BuildReason,
    DeclaredIndexLost,
    DeclaredKeyRepeated,
    Followed,
    HandmadeIndexLost,
    Text,
    ToBeBuilt,
)
from dyda.model.layout import Layout
from dyda.warehouse import Installation, ViewChange, Warehouse
from dyda.warehouse.writer import Writer
from dyda.wording import lost_index, sentence
from tests.integration.warehouse.conftest import START, add, create, entries, version
from tests.older_extents import make_older

Query = Callable[..., list[tuple[Any, ...]]]

COLUMNS = (("id", "integer"), ("name", "text"), ("day", "date"))
DECLARED = Layout(declared_key=("id",), indexes=(("name", "day"), ("day",)))
ROWS = entries(("1", "Ann", "2026-01-01", 1), ("2", "Bob", None, 1))


def install(writer: Writer, **change: Any) -> None:
    writer.install(Installation((ViewChange("v", positions={"crm": (START, START)}, **change),)))


def found(warehouse: Warehouse) -> set[tuple[Any, ...]]:
    """(purpose, columns, unique) of every index but the one that finds rows."""
    known = warehouse.indexes("v")
    return {(index.purpose, index.columns, index.unique) for index in known if index.purpose not in ("rows", "key")}


def lost(warehouse: Warehouse) -> list[str]:
    return [lost_index(cause) for cause in warehouse.versions("v")[-1].lost_indexes]


ALL = {("declared key", ("id",), True), ("declared", ("name", "day"), False), ("declared", ("day",), False)}


@pytest.mark.parametrize("key", [None, ("name",)])
def test_declared_indexes_are_there_when_the_view_is(
    warehouse: Warehouse, writer: Writer, key: tuple[str, ...] | None
) -> None:
    layout = Layout(key, DECLARED.declared_key, DECLARED.indexes)
    create(writer, "v", version(*COLUMNS, layout=layout), ROWS)
    assert found(warehouse) == ALL
    (one, *_) = warehouse.indexes("v")
    assert one.bytes > 0
    assert one.scans == 0


def test_a_proven_key_needs_no_second_index(warehouse: Warehouse, writer: Writer) -> None:
    layout = Layout(key=("id",), declared_key=("id",), indexes=(("id",),))
    create(writer, "v", version(*COLUMNS, layout=layout), ROWS)
    assert [(index.purpose, index.columns) for index in warehouse.indexes("v")] == [("key", ("id",))]


def test_the_use_of_an_index_is_counted(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "v", version(*COLUMNS, layout=DECLARED), ROWS)
    query("SET enable_seqscan = off; SELECT * FROM v WHERE id = 1; SELECT pg_stat_force_next_flush()")
    assert [index.scans for index in warehouse.indexes("v") if index.purpose == "declared key"] == [1]


def test_a_declared_key_that_does_not_hold_is_refused_with_rows(warehouse: Warehouse, writer: Writer) -> None:
    rows = entries(("1", "Ann", None, 2), ("2", "Bob", None, 1), ("2", "Cid", None, 2))
    defined = version(*COLUMNS, layout=DECLARED, file_text="…")
    with pytest.raises(
        DeclaredKeyBroken, match=r"\(id\) is not a key of its rows: 3 rows have \(2\), 2 rows have \(1\)"
    ):
        create(writer, "v", defined, rows)
    assert warehouse.views() == []
    odd = version(("id", "json"), layout=Layout(indexes=(("id",),)), file_text="…")
    with pytest.raises(NotInstallable, match=r"there can be no index on \(id\): .*json"):
        create(writer, "v", odd)


def test_a_view_that_is_built_again_is_shown_whether_its_key_holds_or_not(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "v", version(*COLUMNS, layout=DECLARED), entries(("1", "Ann", None, 2)))
    assert query("SELECT count(*) FROM v") == [(2,)]
    assert found(warehouse) == ALL - {("declared key", ("id",), True)} | {("declared", ("id",), False)}
    assert lost(warehouse) == ["key (id): 2 rows have (1)"]


@pytest.mark.parametrize("key", [None, ("name",)])
def test_rows_that_replace_others_are_no_violation(
    warehouse: Warehouse, writer: Writer, query: Query, key: tuple[str, ...] | None
) -> None:
    create(writer, "v", version(*COLUMNS, layout=Layout(key, ("id",))), ROWS)
    add(writer, "v", entries(("1", "Ann", "2026-01-01", -1), ("1", "Eve", None, 1)), START, START)
    add(
        writer,
        "v",
        entries(("1", "Eve", None, -1), ("2", "Bob", None, -1), ("2", "Eve", None, 1), ("1", "Bob", None, 1)),
        START,
        START,
    )
    assert Counter(query("SELECT id, name FROM v")) == Counter([(2, "Eve"), (1, "Bob")])
    assert ("declared key", ("id",), True) in found(warehouse)


@pytest.mark.parametrize("key", [None, ("name",)])
def test_rows_that_break_a_declared_key_are_shown_and_the_key_is_given_up(
    url: str, warehouse: Warehouse, writer: Writer, query: Query, key: tuple[str, ...] | None
) -> None:
    """A view is a bag first."""
    create(writer, "v", version(*COLUMNS, layout=Layout(key, ("id",))), ROWS)
    delta = entries(("1", "Ann", "2026-01-01", -1), ("2", "Cid", None, 1))
    with closing(psycopg2.connect(url)) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT * FROM v")
        writer.patience = 0
        with pytest.raises(InstallBlocked):
            add(writer, "v", delta, START, START)
    add(writer, "v", delta, START, START)
    assert Counter(query("SELECT id, name FROM v")) == Counter([(2, "Bob"), (2, "Cid")])
    assert found(warehouse) == {("declared", ("id",), False)}
    assert lost(warehouse) == ["key (id): two rows have come that agree in it"]
    assert warehouse.view("v").rows == 2


def test_other_declarations(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    """No row is written, and readers are not in the way of what is added."""
    create(writer, "v", version(*COLUMNS, layout=DECLARED), ROWS)
    before = query("SELECT min(xmin::text) FROM dyda.extent_1")
    layout = Layout(declared_key=("name",), indexes=(("day",), ("id", "day")))
    install(writer, version=version(*COLUMNS, layout=layout, file_text="…"))
    assert found(warehouse) == {
        ("declared key", ("name",), True),
        ("declared", ("day",), False),
        ("declared", ("id", "day"), False),
    }
    assert query("SELECT min(xmin::text) FROM dyda.extent_1") == before
    install(writer, version=version(*COLUMNS))
    assert found(warehouse) == set()
    assert lost(warehouse) == [], "as asked for"


def test_indexes_follow_a_redefinition(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    """Another type, another order, a new column: a new table, with everything that its columns allow."""
    create(writer, "v", version(*COLUMNS, layout=DECLARED), ROWS)
    query("CREATE INDEX mine ON dyda.extent_1 (lower(name)) WHERE id > 0")
    query('CREATE UNIQUE INDEX "My Own" ON dyda.extent_1 (id DESC) INCLUDE (name)')
    query("CREATE INDEX gone ON dyda.extent_1 (day, id)")
    query("CREATE INDEX extent_1_id_idx ON dyda.extent_1 USING hash (id)")
    columns = (("name", "text"), ("id", "bigint"), ("more", "text"))
    layout = Layout(declared_key=("id",), indexes=(("name",),))
    rows = entries(("Ann", "1", None, 1), ("Bob", "2", None, 1))
    install(writer, delta=rows, mode="replace", version=version(*columns, layout=layout))
    definitions = {index.name: index.definition for index in warehouse.indexes("v") if index.purpose == "by hand"}
    assert definitions == {
        "mine": "CREATE INDEX mine ON dyda.extent_2 USING btree (lower(name)) WHERE (id > 0)",
        "My Own": 'CREATE UNIQUE INDEX "My Own" ON dyda.extent_2 USING btree (id DESC) INCLUDE (name)',
        "extent_1_id_idx": "CREATE INDEX extent_1_id_idx ON dyda.extent_2 USING hash (id)",
    }
    declared = {place for place in found(warehouse) if place[0] != "by hand"}
    assert declared == {("declared key", ("id",), True), ("declared", ("name",), False)}
    assert lost(warehouse) == ["gone: CREATE INDEX gone ON dyda.extent_1 USING btree (day, id): its columns are gone"]


def test_indexes_of_a_table_of_an_older_version_are_made_again_under_the_views_names(
    url: str, warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "v", version(*COLUMNS, layout=DECLARED), ROWS)
    number = make_older(url, "v")
    query(f"CREATE INDEX mine ON dyda.extent_{number} (c2, (c1 + 1))")
    query(f"CREATE INDEX counts ON dyda.extent_{number} (count)")
    writer.renew_extent("v")
    assert found(warehouse) == ALL | {("by hand", ("name",), False)}
    assert [index.definition.split(" USING ")[1] for index in warehouse.indexes("v") if index.name == "mine"] == [
        "btree (name, ((id + 1)))"
    ]
    definition = f"CREATE INDEX counts ON dyda.extent_{number} USING btree (count)"
    assert lost(warehouse) == [f"counts: {definition}: its columns are gone"]


def test_a_dropped_column_takes_its_indexes_along_and_the_history_says_so(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "v", version(*COLUMNS, layout=DECLARED), ROWS)
    query("CREATE INDEX mine ON dyda.extent_1 (id) WHERE day IS NULL; CREATE INDEX stays ON dyda.extent_1 (name)")
    layout = Layout(declared_key=("id",), indexes=())
    install(writer, projection=(0, 1), mode="replace", version=version(*COLUMNS[:2], layout=layout))
    assert found(warehouse) == {("declared key", ("id",), True), ("by hand", ("name",), False)}
    said = lost(warehouse)
    assert [what.split(":")[0] for what in said] == ["index (name, day)", "index (day)", "mine"]
    add(writer, "v", entries(("3", "Cid", 1)), START, START)
    assert found(warehouse) == {("declared key", ("id",), True), ("by hand", ("name",), False)}
    assert lost(warehouse) == said


def test_a_key_is_added_beside_readers_and_not_waited_for(url: str, warehouse: Warehouse, writer: Writer) -> None:
    create(writer, "v", version(*COLUMNS), ROWS)
    declared = version(*COLUMNS, layout=Layout(declared_key=("id",)))
    with closing(psycopg2.connect(url)) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT * FROM v")
        writer.patience = 0
        with pytest.raises(InstallBlocked):
            install(writer, version=declared)
    install(writer, version=declared)
    assert ("declared key", ("id",), True) in found(warehouse)


# --- what is said of those that go


@pytest.fixture
def said(writer: Writer) -> list[str]:
    lines: list[str] = []
    writer.outlet = lambda event: lines.append(event.text) if event.kind == "view.index_lost" else None
    return lines


def held(warehouse: Warehouse) -> list[Any]:
    return list(warehouse.lost_indexes().get("v", ()))


def test_a_broken_key_is_said_until_the_rows_allow_it_again(
    warehouse: Warehouse, writer: Writer, said: list[str]
) -> None:
    create(writer, "v", version(*COLUMNS, layout=Layout(declared_key=("id",))), ROWS)
    assert (said, held(warehouse)) == ([], [])
    add(writer, "v", entries(("1", "Eve", None, 1)), START, START)
    broken = DeclaredKeyRepeated("v", ("id",), "two rows have come that agree in it")
    assert (said, held(warehouse)) == ([f"view v: {sentence(broken)}"], [broken])
    assert "dyda views resync v" in said[0]
    add(writer, "v", entries(("1", "Eve", None, -1), ("1", "Zoe", None, 1)), START, START)
    assert len(said) == 1, "once"
    now = [("1", "Ann", "2026-01-01", 1), ("1", "Zoe", None, 2), ("2", "Bob", None, 1)]
    install(writer, delta=entries(*now), mode="replace")
    broken = replace(broken, detail="3 rows have (1)")
    assert (said[1:], held(warehouse)) == ([f"view v: {sentence(broken)}"], [broken])
    assert lost(warehouse) == ["key (id): 3 rows have (1)"], "the last is said"
    install(writer, delta=entries(now[0], now[2]), mode="replace")
    assert (len(said), held(warehouse)) == (2, [])
    assert found(warehouse) == {("declared key", ("id",), True)}


def test_an_index_made_by_hand_is_said_to_be_lost_until_it_is_there_again(
    warehouse: Warehouse, writer: Writer, query: Query, said: list[str]
) -> None:
    create(writer, "v", version(*COLUMNS), ROWS)
    query("CREATE INDEX mine ON dyda.extent_1 (day)")
    rows = entries(("1", "Ann", 1), ("2", "Bob", 1))
    followed = Followed(("day is gone",))
    narrow = version(("id", "bigint"), ("name", "text"), cause=followed)
    install(writer, delta=rows, mode="replace", version=narrow)
    gone = HandmadeIndexLost(
        "v", "mine", "CREATE INDEX mine ON dyda.extent_1 USING btree (day)", "its columns are gone"
    )
    assert (said, held(warehouse)) == ([f"view v: {sentence(gone)}"], [gone])
    install(writer, version=version(("number", "bigint"), ("name", "text"), cause=followed))
    assert held(warehouse) == [gone], "also with later versions"
    query("CREATE INDEX mine ON dyda.extent_2 (name)")
    assert held(warehouse) == []
    query("DROP INDEX dyda.mine")
    assert held(warehouse) == [gone]
    applied = ToBeBuilt(BuildReason.FILE_CHANGED)
    install(writer, version=version(("id", "bigint"), ("name", "text"), file_text="…", cause=applied))
    assert held(warehouse) == [], "its author has seen it"


@pytest.mark.parametrize("narrowed", [True, False])
def test_a_declared_index_whose_column_goes_is_said_to_be_lost(
    warehouse: Warehouse, writer: Writer, said: list[str], narrowed: bool
) -> None:
    create(writer, "v", version(*COLUMNS, layout=DECLARED), ROWS)
    events = [("index_lost", ["name", "day"]), ("index_lost", ["day"])]
    details = {"layout": [{"event": event, "columns": columns} for event, columns in events]}
    after = version(*COLUMNS[:2], layout=Layout(declared_key=("id",)), details=details)
    rows = {"projection": (0, 1)} if narrowed else {"delta": entries(("1", "Ann", 1), ("2", "Bob", 1))}
    install(writer, mode="replace", version=after, **rows)
    gone = [DeclaredIndexLost("v", columns, "its columns are gone") for columns in (("name", "day"), ("day",))]
    assert (said, held(warehouse)) == ([f"view v: {sentence(one)}" for one in gone], gone)


def test_a_declared_index_under_another_name_is_not_lost(warehouse: Warehouse, writer: Writer, said: list[str]) -> None:
    create(writer, "v", version(*COLUMNS, layout=Layout(indexes=(("day",),))), ROWS)
    events = [("index_lost", ["day"]), ("index_declared", ["date"])]
    details = {"layout": [{"event": event, "columns": columns} for event, columns in events]}
    renamed = version(*COLUMNS[:2], ("date", "date"), layout=Layout(indexes=(("date",),)), details=details)
    install(writer, version=renamed)
    assert (said, held(warehouse)) == ([], [])


def test_what_an_older_version_wrote_of_a_lost_index_is_shown(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "v", version(*COLUMNS), ROWS)
    query('UPDATE dyda.view_version SET details = details || \'{"lost_indexes": ["mine: CREATE INDEX …"]}\'')
    assert (lost(warehouse), held(warehouse)) == (["mine: CREATE INDEX …"], [Text("mine: CREATE INDEX …")])
