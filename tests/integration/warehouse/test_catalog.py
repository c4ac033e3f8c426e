"""The catalog's migrations, and opening a warehouse that is not as it should be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from dyda.errors import DydaError, WarehouseUnreachable
from dyda.model.cause import (
    DependentObjects,
    HeldByOperator,
    Quarantined,
    Rejected,
    RowsInTheWay,
    Text,
    Uncomputable,
    WaitsWith,
)
from dyda.model.layout import Layout
from dyda.warehouse import Warehouse
from dyda.warehouse.catalog import tables
from dyda.warehouse.connection import without_password
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import START, add, create, entries, version
from tests.older_extents import make_older

Query = Callable[..., list[tuple[Any, ...]]]


def _catalog(query: Query) -> list[Any]:
    return [
        query(
            "SELECT table_name, column_name, ordinal_position, data_type, udt_name, is_nullable, column_default,"
            " is_identity FROM information_schema.columns"
            " JOIN information_schema.tables USING (table_schema, table_name)"
            " WHERE table_schema = 'dyda' AND table_type = 'BASE TABLE' ORDER BY 1, 3"
        ),
        query("SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'dyda' ORDER BY 1, 2"),
        query(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = 'dyda'::regnamespace ORDER BY 1, 2"
        ),
        query("SELECT sequencename FROM pg_sequences WHERE schemaname = 'dyda' ORDER BY 1"),
    ]


def test_migrations_from_empty_equal_the_models(warehouse: Warehouse, url: str, query: Query) -> None:
    engine = create_engine("postgresql+psycopg2://", creator=lambda: psycopg2.connect(url))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_schemas": True,
                "include_name": lambda name, kind, parents: kind != "schema" or name == "dyda",
                "compare_server_default": True,
                "version_table": "migration",
                "version_table_schema": "dyda",
            },
        )
        assert compare_metadata(context, tables.metadata) == []
    # Alembic's comparison is blind to sequences, identity and partial indexes: let PostgreSQL print both.
    migrated = _catalog(query)
    query(
        "DROP SCHEMA dyda CASCADE; CREATE SCHEMA dyda; CREATE TABLE dyda.migration"
        " (version_num varchar(32) NOT NULL CONSTRAINT migration_pkc PRIMARY KEY)"
    )
    with engine.begin() as connection:
        tables.metadata.create_all(connection)
    engine.dispose()
    assert _catalog(query) == migrated


def test_upgrading_again_and_at_once_is_harmless(url: str, query: Query) -> None:
    errors: list[BaseException] = []

    def upgrade() -> None:
        try:
            with Warehouse.connect(url) as warehouse:
                warehouse.upgrade()
                warehouse.upgrade()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=upgrade) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert query("SELECT count(*) FROM dyda.project") == [(1,)]


def test_the_project_keeps_its_identity(warehouse: Warehouse, url: str) -> None:
    with Warehouse.connect(url) as again:
        again.upgrade()
        assert again.project_id == warehouse.project_id


def test_a_catalog_of_a_newer_version_is_left_alone(warehouse: Warehouse, query: Query) -> None:
    query("UPDATE dyda.migration SET version_num = '9999'")
    with pytest.raises(DydaError, match="newer version of DyDa"):
        warehouse.upgrade()


def test_a_database_without_a_catalog_says_so(url: str) -> None:
    with Warehouse.connect(url) as bare, pytest.raises(WarehouseUnreachable, match="no DyDa catalog"):
        bare.views()


@pytest.mark.parametrize(
    "bad",
    [
        "postgresql://someone:hush%21secret@127.0.0.1:1/nowhere",
        "postgresql://someone:hush%21secret@127.0.0.1:port/nowhere",
        "host=127.0.0.1 port=1 password=hush!secret",
        "postgresql://someone:hush!secret:x@[::1/y",
    ],
)
def test_an_unreachable_warehouse_never_echoes_the_password(bad: str) -> None:
    with pytest.raises(WarehouseUnreachable) as raised:
        Warehouse.connect(bad)
    assert "secret" not in str(raised.value)
    assert "[warehouse] url" in str(raised.value)
    assert "secret" not in repr(Warehouse(bad))
    assert raised.value.__cause__ is None


def test_a_password_is_blotted_out_wherever_it_stands() -> None:
    url = "postgresql://u:p%40ss@h/d"
    assert without_password(f"failed: {url} with p@ss", url) == "failed: postgresql://u:***@h/d with ***"


def test_a_role_without_rights_is_told_what_it_needs(url: str, query: Query) -> None:
    import uuid

    role = f"poor_{uuid.uuid4().hex[:8]}"
    query(f"CREATE ROLE {role} LOGIN")
    try:
        poor = f"{url}&user={role}" if "?" in url else f"{url}?user={role}"
        with Warehouse.connect(poor) as warehouse, pytest.raises(DydaError, match="needs CREATE on the database"):
            warehouse.upgrade()
    finally:
        query(f"DROP ROLE {role}")


OLD_VIEWS = {
    "rejected": ("broken", "rejected by an operator: message 7 of crm: ALTER TABLE t DROP a"),
    "stopped": (
        "broken",
        "resync was asked for; it cannot be built over the rows that its sources have now: Division by zero; correct or"
        " delete the row at the source, and it is built by itself; or change the view's file: dyda apply",
    ),
    "poisoned": ("held", "messages 3, 5 are quarantined: crm.t.a: no [row of crm.t: a = [1], b = 2]"),
    "alone": ("held", "message 3 is quarantined: view alone: no"),
    "stood_on": ("held", "view stood_on: public.a, public.b stands on public.stood_on, whose columns are to change"),
    "drifted": ("resync", "source crm is not the server it was; it is read again by itself"),
    "gone": ("broken", "a was dropped. Mark it dispensable"),
    "fine": ("live", None),
}
WORDED_TODAY = {
    "stopped": (
        "broken",
        "resync was asked for; it cannot be built from the rows that its sources have now: Division by zero; correct or"
        " delete the row at the source, and DyDa builds it; or change the view's file and run: dyda apply",
    )
}
"""What the upgrade reads as a cause with parts is worded as it is today."""
OLD_MESSAGES = {
    11: ("quarantined", "crm.t.a: no [row of crm.t: a = 1]"),
    12: ("approval", "message 12 waits with message 13, which changes the same table"),
    13: ("approval", "message 13 waits for approval: it breaks gone"),
    14: ("held", "message 14 is held by an operator"),
    15: ("skipped", "a test row"),
    16: ("waiting", None),
}


BEFORE_EVENTS = (
    "DROP VIEW dyda.events, dyda.freshness; DROP TABLE dyda.event, dyda.notified;"
    " ALTER TABLE dyda.view DROP COLUMN reason, DROP COLUMN overdue_since; ALTER TABLE dyda.message DROP COLUMN reason"
)


def test_reasons_of_an_older_version_keep_their_text_and_what_was_gone_by(warehouse: Warehouse, query: Query) -> None:
    query("UPDATE dyda.migration SET version_num = '0011'")
    query("ALTER TABLE dyda.view_version DROP COLUMN layout; DROP TABLE dyda.form")
    query(BEFORE_EVENTS)
    for table in ("view", "message"):
        query(f"ALTER TABLE dyda.{table} RENAME cause TO reason; ALTER TABLE dyda.{table} ALTER reason TYPE text")
    for name, old in OLD_VIEWS.items():
        query("INSERT INTO dyda.view (name, state, reason) VALUES (%s, %s, %s)", (name, *old))
    for number, old in OLD_MESSAGES.items():
        query(
            "INSERT INTO dyda.message (id, source, xid, last_sequence, kind, changes, relations, state, reason)"
            " OVERRIDING SYSTEM VALUE VALUES (%s, 'crm', %s, 1, 'data', '[]', '{}', %s, %s)",
            (number, number, *old),
        )
    warehouse.upgrade()
    views = {record.name: record for record in warehouse.views()}
    messages = {record.id: record for record in warehouse.messages()}
    assert {name: (view.stored_state, view.reason) for name, view in views.items()} == OLD_VIEWS | WORDED_TODAY
    assert {number: (record.state, record.reason) for number, record in messages.items()} == OLD_MESSAGES
    row = "row of crm.t: a = [1], b = 2"
    assert views["rejected"].cause == Rejected(7, "crm", "ALTER TABLE t DROP a")
    assert views["stopped"].cause == RowsInTheWay(Text("resync was asked for"), Uncomputable("Division by zero"))
    assert views["poisoned"].cause == Quarantined((3, 5), Uncomputable("crm.t.a: no", row=row))
    assert views["alone"].cause == Quarantined((3,), Uncomputable("view alone: no"))
    assert isinstance(views["stood_on"].cause, DependentObjects)
    assert views["stood_on"].cause.dependents == ("public.a", "public.b")
    assert isinstance(views["drifted"].cause, Text)
    assert isinstance(views["gone"].cause, Text)
    assert views["fine"].cause is None
    assert messages[11].cause == Uncomputable("crm.t.a: no", row="row of crm.t: a = 1")
    assert messages[12].cause == WaitsWith(12, 13)
    assert isinstance(messages[13].cause, Text)
    assert messages[14].cause == HeldByOperator(14)
    assert isinstance(messages[15].cause, Text)


def test_a_layout_is_stored_with_its_version(writer: Writer, warehouse: Warehouse, query: Query) -> None:
    columns = (("id", "integer"), ("odd name", "text"))
    layout = Layout(("id",), ("odd name",), (("odd name", "id"), ("id",)))
    create(writer, "people", version(*columns, layout=layout))
    create(writer, "total", version(*columns, layout=Layout(key=())))
    create(writer, "plain", version(*columns))
    found = {view.name: view.layout for view in warehouse.views()}
    assert found == {"people": layout, "total": Layout(key=()), "plain": Layout()}
    assert [one.layout for one in warehouse.versions("people")] == [layout]
    query("UPDATE dyda.view_version SET layout = NULL")  # as a version from before layouts has it
    assert {view.layout for view in warehouse.views()} == {Layout()}


def test_an_upgrade_neither_waits_for_readers_nor_makes_them_wait(
    url: str, warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    """From the revision before extents had forms, while a reader's transaction is open."""
    create(writer, "people", version(("name", "text")), entries(("Ann", 2)))
    make_older(url, "people")
    query("UPDATE dyda.migration SET version_num = '0013'; DROP TABLE dyda.form")
    with closing(psycopg2.connect(url)) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT * FROM people")
        upgrade = threading.Thread(target=warehouse.upgrade, daemon=True)
        upgrade.start()
        upgrade.join(20)
        assert not upgrade.is_alive()
        assert query("SELECT * FROM people") == [("Ann",), ("Ann",)]
    assert writer.outdated_extents() == ["people"]
    add(writer, "people", entries(("Ann", -1)), START, START)
    assert query("SELECT * FROM people") == [("Ann",)]
