"""Bringing the catalog to this program's version, with Alembic."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import alembic.command
import alembic.config
import alembic.script
import alembic.util
from psycopg2 import sql
from sqlalchemy import Connection, Engine, text

from dyda.errors import DydaError
from dyda.warehouse.connection import ADVISORY_CLASS, UPGRADE_LOCK
from dyda.warehouse.models import SCHEMA

__all__ = ["upgrade"]


def upgrade(engine: Engine, readers: str) -> None:
    """Schemas, tables and functions, in one transaction; a process that comes second waits and finds it done."""
    with engine.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:c, :k)"), {"c": ADVISORY_CLASS, "k": UPGRADE_LOCK})
        _refuse_strangers(connection)
        for schema in (SCHEMA, readers):
            _create_schema(connection, schema)
        if _is_current(connection):
            return
        configuration = _configuration()
        configuration.attributes["connection"] = connection
        try:
            alembic.command.upgrade(configuration, "head")
        except alembic.util.CommandError as error:
            raise DydaError(
                f"the catalog in the warehouse cannot be upgraded: {error}",
                "It was probably written by a newer version of DyDa: use that one.",
            ) from None


def _configuration() -> alembic.config.Config:
    configuration = alembic.config.Config()
    configuration.set_main_option("script_location", str(resources.files("dyda.warehouse") / "migrations"))
    return configuration


@functools.cache
def _newest() -> str | None:
    return alembic.script.ScriptDirectory.from_config(_configuration()).get_current_head()


def _is_current(connection: Connection) -> bool:
    """Every command asks, and Alembic takes longer to find out than most of them take altogether."""
    table = f"{SCHEMA}.alembic_version"
    if connection.execute(text("SELECT to_regclass(:table) IS NULL"), {"table": table}).scalar_one():
        return False
    found = connection.execute(text(f"SELECT array_agg(version_num) FROM {table}")).scalar_one()
    return bool(found == [_newest()])


def _refuse_strangers(connection: Connection) -> None:
    """A schema dyda that somebody else has put there is not filled, and a superuser does not even look into it.

    Its owner can drop what is in it, and whoever reads a view or calls a function of his does it with his own rights.
    """
    stranger = connection.execute(
        text(
            "SELECT r.rolname FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner"
            " JOIN pg_roles me ON me.rolname = current_user"
            " WHERE n.nspname = :schema AND r.oid <> me.oid AND NOT r.rolsuper"
            " AND r.rolname NOT IN (SELECT 'dyda_capture_' || d.oid FROM pg_database d"
            " WHERE d.datname = current_database() UNION ALL SELECT 'dyda_capture')"
            " AND (me.rolsuper OR NOT pg_has_role(r.oid, 'USAGE') AND NOT EXISTS (SELECT FROM pg_class c"
            " WHERE c.relnamespace = n.oid AND c.relname = 'alembic_version'))"
        ),
        {"schema": SCHEMA},
    ).scalar()
    if stranger is not None:
        raise DydaError(
            f"schema {SCHEMA} of the warehouse belongs to {stranger}",
            "If that is DyDa's own role, name it in [warehouse] url; otherwise ask whose it is, and drop it.",
        )


def _create_schema(connection: Connection, schema: str) -> None:
    """CREATE SCHEMA IF NOT EXISTS asks for the right to create even where there is nothing to do."""
    if connection.execute(text("SELECT to_regnamespace(quote_ident(:s)) IS NULL"), {"s": schema}).scalar_one():
        cursor: Any = connection.connection.cursor()
        cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
