"""Bringing the catalog to this program's version, with Alembic."""

from __future__ import annotations

from importlib import resources
from typing import Any

import alembic.command
import alembic.config
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
        for schema in (SCHEMA, readers):
            _create_schema(connection, schema)
        configuration = alembic.config.Config()
        configuration.set_main_option("script_location", str(resources.files("dyda.warehouse") / "migrations"))
        configuration.attributes["connection"] = connection
        try:
            alembic.command.upgrade(configuration, "head")
        except alembic.util.CommandError as error:
            raise DydaError(
                f"the catalog in the warehouse cannot be upgraded: {error}",
                "It was probably written by a newer version of DyDa: use that one.",
            ) from None


def _create_schema(connection: Connection, schema: str) -> None:
    """CREATE SCHEMA IF NOT EXISTS asks for the right to create even where there is nothing to do."""
    if connection.execute(text("SELECT to_regnamespace(quote_ident(:s)) IS NULL"), {"s": schema}).scalar_one():
        cursor: Any = connection.connection.cursor()
        cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
