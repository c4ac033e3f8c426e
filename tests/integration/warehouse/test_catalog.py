"""The catalog's migrations, and opening a warehouse that is not as it should be."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import psycopg2
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine

from dyda.errors import DydaError, WarehouseUnreachable
from dyda.warehouse import Warehouse
from dyda.warehouse.catalog import tables
from dyda.warehouse.connection import without_password

Query = Callable[..., list[tuple[Any, ...]]]


def _catalog(query: Query) -> list[Any]:
    return [
        query(
            "SELECT table_name, column_name, ordinal_position, data_type, udt_name, is_nullable, column_default,"
            " is_identity FROM information_schema.columns WHERE table_schema = 'dyda' ORDER BY 1, 3"
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
    with Warehouse.connect(url) as bare, pytest.raises(WarehouseUnreachable, match="no catalog"):
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
