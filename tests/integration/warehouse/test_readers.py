"""What readers see, whatever is installed meanwhile, and what they have done to the views."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
import pytest

from dyda import faults
from dyda.errors import ConfigurationError, DydaError, InstallBlocked
from dyda.warehouse import Installation, ViewChange, ViewVersion, Warehouse
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import NEXT, START, add, create, entries, version

Query = Callable[..., list[tuple[Any, ...]]]


@contextmanager
def reader(url: str, isolation: str) -> Iterator[Query]:
    """A reader's open transaction."""
    with closing(psycopg2.connect(url)) as connection:
        connection.set_session(isolation_level=isolation)

        def run(statement: str) -> list[tuple[Any, ...]]:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())

        yield run
        connection.rollback()


def replace(writer: Writer, view: str, rows: Any, defined: ViewVersion | None = None) -> None:
    staging = writer.staging(rows.num_columns - 1)
    staging.sink()(rows.to_batches())
    positions = {"crm": (START, START)}
    change = ViewChange(view, staging=staging, mode="replace", version=defined, positions=positions)
    writer.install(Installation((change,)))


BOTH = "SELECT (SELECT min(name) FROM one), (SELECT min(name) FROM two)"


def test_I3_all_views_are_in_one_state_per_transaction_from_repeatable_read_up(url: str, writer: Writer) -> None:
    for view in ("one", "two"):
        create(writer, view, version(("name", "text")), entries(("old", 1)))
    moved = {"crm": (START, NEXT)}
    delta = entries(("old", -1), ("new", 1))
    with reader(url, "REPEATABLE READ") as older, reader(url, "SERIALIZABLE") as strict:
        assert older("SELECT * FROM one") == strict("SELECT * FROM one") == [("old",)]
        writer.install(Installation(tuple(ViewChange(view, delta=delta, positions=moved) for view in ("one", "two"))))
        assert older("SELECT * FROM two") == strict("SELECT * FROM two") == [("old",)]
    with reader(url, "REPEATABLE READ") as newer:
        assert newer(BOTH) == [("new", "new")]


def test_I3_all_views_are_in_one_state_per_statement(url: str, writer: Writer) -> None:
    for view in ("one", "two"):
        create(writer, view, version(("name", "text")), entries(("old", 1)))
    seen = []
    delta, moved = entries(("old", -1), ("new", 1)), {"crm": (START, NEXT)}
    changes = tuple(ViewChange(view, delta=delta, positions=moved) for view in ("one", "two"))
    with reader(url, "READ COMMITTED") as any_time:
        with (
            faults.on("install.merged", lambda: seen.extend(any_time(BOTH))),
            faults.on("install.before-commit", lambda: seen.extend(any_time(BOTH))),
        ):
            writer.install(Installation(changes))
        assert seen == [("old", "old"), ("old", "old")]
        assert any_time(BOTH) == [("new", "new")]


def test_I2_an_older_reader_keeps_its_rows_when_all_rows_are_replaced(url: str, writer: Writer) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 2), ("Bob", 1)))
    with reader(url, "REPEATABLE READ") as first, reader(url, "REPEATABLE READ") as second:
        first("SELECT 1")  # the snapshot is taken, the view has not been touched
        replace(writer, "people", entries(("Ann", 1), ("Cid", 1)))
        second("SELECT 1")
        replace(writer, "people", entries(("Dan", 1)))
        assert sorted(first("SELECT * FROM people")) == [("Ann",), ("Ann",), ("Bob",)]
        assert sorted(second("SELECT * FROM people")) == [("Ann",), ("Cid",)]


def test_I2_an_older_reader_gets_a_serialization_error_where_the_columns_changed(url: str, writer: Writer) -> None:
    create(writer, "people", version(("name", "text")), entries(("1", 1)))
    with reader(url, "REPEATABLE READ") as older:
        older("SELECT 1")
        replace(writer, "people", entries(("1", 1)), version(("name", "integer")))
        with reader(url, "REPEATABLE READ") as newer:
            assert newer("SELECT * FROM people") == [(1,)]
        with pytest.raises(psycopg2.errors.SerializationFailure, match="has changed since the transaction began"):
            older("SELECT count(*) FROM people")


def test_the_check_of_the_extent_costs_a_query_nothing_per_row(writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    plan = "\n".join(line for (line,) in query("EXPLAIN SELECT * FROM people WHERE name = 'Ann'"))
    assert "One-Time Filter: ((pg_snapshot_xmin(pg_current_snapshot()) > " in plan


def test_a_view_is_read_beside_a_transaction_that_is_older_than_its_table(
    url: str, writer: Writer, query: Query
) -> None:
    with reader(url, "READ COMMITTED") as open_:
        open_("SELECT pg_current_xact_id()")
        create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
        assert query("SELECT * FROM people") == open_("SELECT * FROM people") == [("Ann",)]


def test_a_restored_warehouse_is_read_although_its_transactions_have_other_numbers(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    """As after pg_dump and pg_restore: the definition names a transaction that this server has not reached."""
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    ((definition,),) = query("SELECT pg_get_viewdef('people'::regclass)")
    restored, changes = re.subn(r"'\d+'::xid8", "'999999999'::xid8", definition)
    assert changes == 1
    query(f"CREATE OR REPLACE VIEW people AS {restored}")
    assert query("SELECT * FROM people") == [("Ann",)]
    with warehouse.frozen() as frozen:
        assert frozen.shows("people", "public")


def test_a_reader_in_the_way_is_named_and_nothing_changes(
    url: str, warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "people", version(("name", "text")), entries(("1", 1)))
    writer.patience = 0.0
    with reader(url, "READ COMMITTED") as slow:
        slow("SELECT * FROM people")
        ((session,),) = slow("SELECT pg_backend_pid()")
        with pytest.raises(InstallBlocked, match=f"session {session}") as raised:
            replace(writer, "people", entries(("1", 1)), version(("name", "integer")))
        assert raised.value.sessions == [session]
        with pytest.raises(InstallBlocked):
            writer.drop_view("people")
        # Rows alone never wait for readers.
        add(writer, "people", entries(("2", 1)), START, START)
    assert warehouse.view("people").version == 1
    replace(writer, "people", entries(("1", 1)), version(("name", "integer")))
    assert query("SELECT * FROM people") == [(1,)]


def test_status_names_the_reader_that_an_installation_waits_for(
    url: str, warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "people", version(("name", "text")), entries(("1", 1)))
    with reader(url, "READ COMMITTED") as slow:
        slow("SELECT * FROM people")
        ((session,),) = slow("SELECT pg_backend_pid()")
        install = threading.Thread(
            target=replace, args=(writer, "people", entries(("1", 1)), version(("name", "integer")))
        )
        install.start()
        blockers: list[int] = []
        while not blockers and install.is_alive():
            blockers = [blocker.pid for blocker in warehouse.status().blockers]
        assert blockers == [session]
    install.join()
    assert query("SELECT * FROM people") == [(1,)], "it was tried again until the reader was done"


@pytest.fixture
def role(query: Query) -> Iterator[str]:
    name = f"reader {uuid.uuid4().hex[:8]} %"
    query(f'CREATE ROLE "{name}"'.replace("%", "%%"), ())
    yield name
    query(f'DROP OWNED BY "{name}"; DROP ROLE "{name}"'.replace("%", "%%"), ())


def test_grants_and_comments_survive_versions(writer: Writer, query: Query, role: str) -> None:
    create(writer, "people", version(("name", "text"), ("age", "text")), entries(("Ann", "7", 1)))
    quoted = f'"{role}"'
    query(f"GRANT SELECT ON people TO {quoted} WITH GRANT OPTION; GRANT SELECT (age) ON people TO PUBLIC")
    query("COMMENT ON VIEW people IS 'who''s who'; COMMENT ON COLUMN people.age IS 'years'")
    acl = "SELECT relacl::text, obj_description('people'::regclass) FROM pg_class WHERE oid = 'people'::regclass"
    column = (
        "SELECT attacl::text, col_description(attrelid, attnum) FROM pg_attribute"
        " WHERE attrelid = 'people'::regclass AND attname = 'age'"
    )
    before = query(acl), query(column)
    query(f"ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT ALL ON TABLES TO {quoted}")
    replace(writer, "people", entries(("7", "Ann", 1)), version(("age", "integer"), ("name", "text")))
    assert (query(acl), query(column)) == before
    # Rights on the view are enough: none on DyDa's own schema.
    assert query(f"SET ROLE {quoted}; SELECT age FROM people") == [(7,)]
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        query(f"SET ROLE {quoted}; SELECT * FROM dyda.extent")


def test_appended_columns_leave_the_readers_own_views_alone(writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    query("CREATE VIEW mine AS SELECT name || '!' AS loud FROM people")
    replace(writer, "people", entries(("Ann", "7", 1)), version(("name", "text"), ("age", "integer")))
    assert query("SELECT * FROM mine") == [("Ann!",)]
    with pytest.raises(DydaError, match=r"public\.mine (stands|depends) on"):
        replace(writer, "people", entries(("7", 1)), version(("age", "integer")))
    with pytest.raises(DydaError, match=r"public\.mine (stands|depends) on"):
        writer.drop_view("people")
    assert query("SELECT * FROM mine") == [("Ann!",)]


@pytest.mark.parametrize("kind", ["TABLE people (x integer)", "VIEW people AS SELECT 1 AS x", "SEQUENCE people"])
def test_a_relation_of_the_users_own_is_never_touched(
    warehouse: Warehouse, writer: Writer, query: Query, kind: str
) -> None:
    query(f"CREATE {kind}")
    before = query("SELECT 'people'::regclass::oid")
    with pytest.raises(ConfigurationError, match=r"public\.people already exists"):
        create(writer, "people", version(("name", "text")))
    assert query("SELECT 'people'::regclass::oid") == before
    assert warehouse.views() == []


def test_dropping_a_view_spares_what_took_its_name(writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")))
    query("DROP VIEW people; CREATE TABLE people (x integer)")
    writer.drop_view("people")
    assert query("SELECT count(*) FROM people") == [(0,)]


def test_a_view_dropped_by_hand_comes_back_with_the_next_version(writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    query("DROP VIEW people")
    replace(writer, "people", entries(("Ann", 1)), version(("name", "text")))
    assert query("SELECT * FROM people") == [("Ann",)]


ODD = [
    'with "quotes"',
    "with 'ticks'",
    "100 % {odd} \\ ;",
    "größe 漢字",
    "ctid",
    "select",
    "x" * 63,
    "é" * 31,
    "#count",
]


def test_odd_identifiers_work_everywhere(warehouse: Warehouse, writer: Writer, url: str, query: Query) -> None:
    create(writer, "wide", version(*((name, "text") for name in ODD)), entries((*(str(i) for i in range(len(ODD))), 1)))
    assert query("SELECT * FROM wide") == [tuple(str(i) for i in range(len(ODD)))]
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM wide")
        assert [column.name for column in cursor.description] == ODD
    for name in ODD:
        create(writer, name, version((name, "text")), entries(("old", 1)))
        add(writer, name, entries(("old", -1), ("new", 1)), START, START)
        replace(writer, name, entries(("1", 1)), version((name, "integer")))

    assert {record.name for record in warehouse.views()} == {*ODD, "wide"}
    for name in ODD:
        writer.drop_view(name)
    assert [record.name for record in warehouse.views()] == ["wide"]


@pytest.mark.parametrize("name", ["x" * 64, "é" * 32, ""])
def test_names_that_postgresql_would_cut_off_are_refused(writer: Writer, name: str) -> None:
    for view, column in ((name, "x"), ("view", name)):
        with pytest.raises(ConfigurationError, match=r"longer than|not possible"):
            create(writer, view, version((column, "text")))


def test_readers_may_have_a_schema_of_their_own(url: str, query: Query) -> None:
    with Warehouse.connect(url, 'the "readers" %') as warehouse:
        warehouse.upgrade()
        with warehouse.lock() as writer:
            create(writer, "people", version(("name", "text")), entries(("Ann", 1)))
    assert query('SELECT * FROM "the ""readers"" %%".people', ()) == [("Ann",)]
