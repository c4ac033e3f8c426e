"""Events in the catalog: one statement, bounded retention, and what any SQL tool may read."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

import psycopg2
import pytest

from dyda import faults
from dyda.cursor import Cursor
from dyda.model.cause import Detached, HeldByOperator, Text
from dyda.model.event import SourceLost, ViewFresh, ViewStale
from dyda.model.message import MessageState, UpdateMessage
from dyda.model.view_state import ViewState
from dyda.warehouse import Installation, SourceState, UnitRecord, ViewChange, Warehouse
from dyda.warehouse.catalog import events as catalog_events
from dyda.warehouse.catalog import upgrade
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import NEXT, START, create, entries, version

Query = Callable[..., list[tuple[Any, ...]]]


def kinds(warehouse: Warehouse) -> list[str]:
    return [event.kind for event in warehouse.events()]


def test_a_unit_is_one_statement_more(writer: Writer, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    saved: list[list[str]] = []

    class Counting:
        def __init__(self, cursor: Cursor) -> None:
            self.cursor = cursor

        def execute(self, statement: Any, parameters: Any = None) -> None:
            saved[-1].append(str(statement))
            self.cursor.execute(statement, parameters)

        def fetchall(self) -> list[Any]:
            return self.cursor.fetchall()

    def counted(cursor: Any, happened: Any) -> Any:
        saved.append([])
        return catalog_events.save_events(cast(Cursor, Counting(cursor)), happened)

    monkeypatch.setattr("dyda.warehouse.install.save_events", counted)
    change = ViewChange("people", delta=entries(("Bob", 1)), positions={"crm": (START, NEXT)})
    writer.install(Installation((change,), unit=UnitRecord(mode="strong", messages=1, rows=1)))
    assert kinds(warehouse)[-1] == "unit.installed"
    writer.install(Installation())  # nothing happens: nothing is written
    assert list(map(len, saved)) == [1, 0]


def _fail() -> None:
    raise RuntimeError("before the commit")


def test_events_are_told_after_their_transaction_and_only_then(writer: Writer, warehouse: Warehouse) -> None:
    told: list[list[str]] = []
    writer.outlet = lambda event: told.append(kinds(warehouse))
    create(writer, "people", version(("name", "text")))
    assert told == [["view.built"]]
    with faults.on("install.before-commit", _fail), pytest.raises(RuntimeError):
        create(writer, "others", version(("name", "text")))
    assert (told, kinds(warehouse)) == ([["view.built"]], ["view.built"])


def test_a_state_that_is_set_again_is_no_event(writer: Writer, warehouse: Warehouse) -> None:
    create(writer, "people", version(("name", "text")))
    for _ in range(2):
        writer.set_state("people", ViewState.BROKEN, Detached("crm"))
    writer.set_state("people", ViewState.BROKEN, Text("for another reason"))
    assert kinds(warehouse) == ["view.built", "view.broken", "view.broken"]


def test_a_source_is_lost_once_even_for_another_process(warehouse: Warehouse) -> None:
    for reachable in (True, False, False, True):
        with warehouse.lock() as writer:
            for _ in range(2):
                writer.note_source("crm", reachable=reachable, error=None if reachable else "no route")
    assert kinds(warehouse) == ["source.lost", "source.back"]


def test_only_so_many_are_kept(writer: Writer, warehouse: Warehouse, query: Query) -> None:
    query(
        "INSERT INTO dyda.event (at, kind, text) SELECT now() - make_interval(days => d), k, 'x'"
        " FROM unnest(ARRAY[0, 2, 31]) d, unnest(ARRAY['unit.installed', 'view.broken']) k"
    )
    writer.forget_old_events()
    left = query("SELECT kind, (now() - at) > interval '1 day' FROM dyda.event ORDER BY 1, 2")
    assert left == [("unit.installed", False), ("view.broken", False), ("view.broken", True)]
    query("INSERT INTO dyda.event (at, kind, text) SELECT now(), 'unit.installed', 'x' FROM generate_series(1, 20050)")
    writer.forget_old_events()
    assert query("SELECT kind, count(*) FROM dyda.event GROUP BY 1 ORDER BY 1") == [
        ("unit.installed", 20_000),
        ("view.broken", 2),
    ]


def test_a_password_is_in_no_event(writer: Writer, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dyda.passwords._known", {'s3"cret\\x'})
    writer.tell(SourceLost("crm", 'refused: s3"cret\\x'))
    (event,) = warehouse.events()
    assert event.details == {"detail": "refused: ***"}
    assert "cret" not in event.text


def test_overdue_is_announced_once(writer: Writer, warehouse: Warehouse) -> None:
    create(writer, "people", version(("name", "text")))
    for _ in range(2):
        writer.note_overdue([ViewStale("people", 70.0, 60.0, "it waits")])
    assert [view.overdue_since is not None for view in warehouse.freshness()] == [True]
    for _ in range(2):
        writer.note_overdue([ViewFresh("people", 0.1)])
    assert kinds(warehouse) == ["view.built", "view.stale", "view.fresh"]


# --- in SQL


def _as_status(warehouse: Warehouse) -> dict[str, tuple[str, str | None]]:
    return {view.name: (view.state.value, view.reason) for view in warehouse.views()}


def _in_sql(query: Query) -> dict[str, tuple[str, str | None]]:
    return {name: (state, reason) for name, state, reason in query("SELECT name, state, reason FROM dyda.freshness")}


def _differences(warehouse: Warehouse, query: Query) -> None:
    assert _in_sql(query) == _as_status(warehouse)
    ages = {view.name: view.lag_seconds for view in warehouse.views()}
    for name, lag in query("SELECT name, lag_seconds FROM dyda.freshness"):
        assert (lag is None) == (ages[name] is None)
        assert lag is None or abs(lag - (ages[name] or 0)) < 5, name


def test_freshness_says_what_status_says(writer: Writer, warehouse: Warehouse, query: Query) -> None:
    for name in ("people", "others", "gone"):
        create(writer, name, version(("name", "text")), entries(("Ann", 1)))
    writer.create_view("new")
    _differences(warehouse, query)
    writer.save_sources([SourceState("crm", reachable=True, error="", polled=True)])
    _differences(warehouse, query)
    assert _in_sql(query)["people"] == ("fresh", None)
    numbers = writer.receive("crm", [UpdateMessage("crm", xid, xid, (), None) for xid in (30, 31)])
    query(
        "UPDATE dyda.message SET relations = ARRAY['crm.public.people'] WHERE id = ANY(%s)", (list(numbers.values()),)
    )
    _differences(warehouse, query)
    writer.mark_messages([numbers[30]], MessageState.HELD, HeldByOperator(numbers[30]))
    _differences(warehouse, query)
    writer.mark_messages([numbers[30]], MessageState.WAITING)
    writer.set_state("others", ViewState.BROKEN, Detached("crm"))
    _differences(warehouse, query)
    assert _in_sql(query)["others"] == ("broken", "detached")
    writer.save_sources([SourceState("crm", reachable=False, error="no route to it")])
    _differences(warehouse, query)
    query("DROP VIEW public.gone")
    assert _in_sql(query)["gone"][0] == "broken"
    assert "dyda views resync gone" in (_in_sql(query)["gone"][1] or "")
    (positions,) = query("SELECT positions FROM dyda.freshness WHERE name = 'people'")[0]
    assert positions == {"crm": str(START)}


def test_a_role_with_select_alone_reads_both(url: str, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")))
    role = f"looker_{uuid.uuid4().hex[:8]}"
    query(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA dyda TO {role}")
    query(f"GRANT SELECT ON dyda.events, dyda.freshness TO {role}")
    try:
        mine = f"{url}{'&' if '?' in url else '?'}user={role}"
        with closing(psycopg2.connect(mine)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT name, state FROM dyda.freshness")
            assert [name for name, _ in cursor.fetchall()] == ["people"]
            cursor.execute("SELECT kind FROM dyda.events")
            assert cursor.fetchall() == [("view.built",)]
    finally:
        query(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_an_upgrade_gives_new_tables_the_readers_of_the_old_ones(
    url: str, warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "people", version(("name", "text")))
    writer.set_state("people", ViewState.BROKEN, Detached("crm"))
    role = f'Looker "{uuid.uuid4().hex[:8]}'
    quoted = '"' + role.replace('"', '""') + '"'
    query(
        "DROP VIEW dyda.events, dyda.freshness; DROP TABLE dyda.event, dyda.notified;"
        " ALTER TABLE dyda.view DROP COLUMN reason, DROP COLUMN overdue_since;"
        " ALTER TABLE dyda.message DROP COLUMN reason; UPDATE dyda.migration SET version_num = '0015'"
    )
    query(f"CREATE ROLE {quoted} LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA dyda TO {quoted}")
    try:
        with closing(psycopg2.connect(url)) as reader, reader.cursor() as cursor:
            cursor.execute("SELECT * FROM people")  # an open transaction stops no upgrade
            warehouse.upgrade()
            assert query("SELECT version_num FROM dyda.migration") == [(upgrade.newest(),)]
        assert query("SELECT reason FROM dyda.view") == [("detached",)]
        for name in ("event", "notified", "events", "freshness"):
            assert query("SELECT has_table_privilege(%s, %s, 'SELECT')", (role, f"dyda.{name}")) == [(True,)]
    finally:
        query(f"DROP OWNED BY {quoted}; DROP ROLE {quoted}")
