"""Upgrading the catalog to this program's version, with Alembic."""

from __future__ import annotations

import functools
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any, cast

from psycopg2 import sql
from psycopg2.extras import NamedTupleCursor

from dyda.cursor import Cursor
from dyda.errors import DydaError
from dyda.warehouse.catalog.schema import SCHEMA, VERSION_TABLE
from dyda.warehouse.connection import ADVISORY_CLASS, UPGRADE_LOCK, connect

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["is_ready", "newest", "upgrade"]


def is_ready(cursor: Cursor, readers: str) -> bool:
    """Whether the schemas are there and the catalog is of this program's version. Every command asks this, in a
    transaction that need not write.

    A role that does not own the catalog can only read it: it needs the rights, and a catalog of this version.
    """
    cursor.execute(_OWNER, {"schema": SCHEMA, "table": VERSION_TABLE})
    found: Any = cursor.fetchone()
    if found is not None and found.stranger:
        raise DydaError(
            f"schema {SCHEMA} of the warehouse belongs to {found.owner}",
            f"If {found.owner} is DyDa's own role, name it in [warehouse] url; otherwise ask its owner to drop it.",
        )
    if found is not None and found.looks:
        _refuse_blind(cursor, found.role)
        if not _is_current(cursor):
            raise DydaError(
                f"the catalog in the warehouse is not of this program's version, and {found.role} can only read it",
                f"Run any command as {found.owner} first, with this version of DyDa.",
            )
        return True
    return all(_has_schema(cursor, schema) for schema in (SCHEMA, readers)) and _is_current(cursor)


def upgrade(url: str, readers: str) -> None:
    """Schemas, tables and functions, in one transaction; a second process waits and finds it done.

    SQLAlchemy and Alembic are imported only here: that takes longer than most commands.
    """
    import sqlalchemy

    # libpq reads the URL itself: SQLAlchemy's own idea of a URL is narrower (services, several hosts, sockets).
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg2://", creator=lambda: connect(url, "dyda"), poolclass=sqlalchemy.NullPool
    )
    with engine.begin() as connection:
        cursor = cast(Cursor, connection.connection.cursor(cursor_factory=NamedTupleCursor))
        cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", (ADVISORY_CLASS, UPGRADE_LOCK))
        if is_ready(cursor, readers):
            return
        for schema in (SCHEMA, readers):
            if not _has_schema(cursor, schema):
                cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        if not _is_current(cursor):
            _migrate(connection)


_OWNER = """
SELECT owner, role, NOT mine AND NOT capture AND (superuser OR NOT present) AND NOT owner_superuser AS stranger,
    NOT mine_or_superuser AND NOT capture AND present AS looks
FROM (
    SELECT r.rolname AS owner, me.rolname AS role, me.rolsuper AS superuser, r.rolsuper AS owner_superuser,
        r.oid = me.oid OR NOT me.rolsuper AND pg_has_role(r.oid, 'USAGE') AS mine,
        pg_has_role(r.oid, 'USAGE') AS mine_or_superuser,
        r.rolname IN (SELECT 'dyda_capture_' || d.oid FROM pg_database d WHERE d.datname = current_database()
            UNION ALL SELECT 'dyda_capture') AS capture,
        EXISTS (SELECT FROM pg_class c
            WHERE c.relnamespace = n.oid AND c.relname = %(table)s AND c.relkind = 'r') AS present
    FROM pg_namespace n JOIN pg_roles r ON r.oid = n.nspowner JOIN pg_roles me ON me.rolname = current_user
    WHERE n.nspname = %(schema)s
) AS known
"""
"""A schema dyda of another owner is not used, and a superuser does not even read it: its owner can drop what is in it,
and its views and functions would run with the rights of the role that reads or calls them."""


def _refuse_blind(cursor: Cursor, role: str) -> None:
    """A role that can only read must see the whole catalog: the remedy is the statements that allow it."""
    from dyda.warehouse.catalog.tables import metadata

    tables = sorted([table.name for table in metadata.sorted_tables] + [VERSION_TABLE])
    cursor.execute(
        "SELECT has_schema_privilege(n.oid, 'USAGE'), array(SELECT c.relname::text FROM pg_class c"
        " WHERE c.relnamespace = n.oid AND c.relname = ANY(%(tables)s) AND NOT has_table_privilege(c.oid, 'SELECT')"
        " ORDER BY 1) FROM pg_namespace n WHERE n.nspname = %(schema)s",
        {"tables": tables, "schema": SCHEMA},
    )
    found = cursor.fetchone()
    usage, hidden = bool(found[0]), list(found[1])
    if usage and not hidden:
        return
    quoted = '"' + role.replace('"', '""') + '"'
    statements = [] if usage else [f"GRANT USAGE ON SCHEMA {SCHEMA} TO {quoted};"]
    if hidden:
        statements.append(f"GRANT SELECT ON {', '.join(f'{SCHEMA}.{name}' for name in hidden)} TO {quoted};")
    raise DydaError(f"role {role} may not read DyDa's catalog in the warehouse", "\n".join(statements))


def _migrate(connection: Connection) -> None:
    import alembic.command
    import alembic.config
    import alembic.util

    configuration = alembic.config.Config()
    configuration.set_main_option("script_location", str(_migrations()))
    configuration.attributes["connection"] = connection
    try:
        alembic.command.upgrade(configuration, "head")
    except alembic.util.CommandError as error:
        raise DydaError(
            f"the catalog in the warehouse cannot be upgraded: {error}",
            "A newer version of DyDa has probably written it: use that one.",
        ) from None


def _migrations() -> Traversable:
    return resources.files("dyda.warehouse.catalog") / "migrations"


@functools.cache
def newest() -> str:
    """The last migration. Its file's name begins with its number, so Alembic need not be asked."""
    files = (_migrations() / "versions").iterdir()
    return max(file.name.partition("_")[0] for file in files if file.name[:1].isdigit())


def _is_current(cursor: Cursor) -> bool:
    table = f"{SCHEMA}.{VERSION_TABLE}"
    cursor.execute("SELECT to_regclass(%s) IS NULL", (table,))
    if cursor.fetchone()[0]:
        return False
    cursor.execute(f"SELECT array_agg(version_num) FROM {table}")
    return bool(cursor.fetchone()[0] == [newest()])


def _has_schema(cursor: Cursor, schema: str) -> bool:
    """CREATE SCHEMA IF NOT EXISTS needs the right to create even where there is nothing to do."""
    cursor.execute("SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", (schema,))
    return bool(cursor.fetchone()[0])
