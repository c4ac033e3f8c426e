"""Staging tables: where Spark tasks put a view's rows before one transaction installs them.

They are UNLOGGED: they are worthless after a crash, and the next process drops what a dead one left behind. Each is
guarded by an advisory lock of the session that created it, so that it is not dropped while in use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg2
from psycopg2 import sql

from dyda.cursor import Connection, Cursor
from dyda.warehouse.catalog.schema import SCHEMA
from dyda.warehouse.connection import STAGING_CLASS
from dyda.warehouse.extents.copy_in import StagingSink

__all__ = ["Staging", "collect_garbage", "create_staging", "drop_staging", "text_columns"]


@dataclass(frozen=True)
class Staging:
    """dyda.staging_<number>(c1 … cn text, n bigint)."""

    number: int
    width: int
    url: str = field(repr=False)

    @property
    def table(self) -> str:
        return f"staging_{self.number}"

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(SCHEMA, self.table)

    def sink(self) -> StagingSink:
        """What a Spark task calls with its record batches."""
        return StagingSink(self.url, SCHEMA, self.table, self.width)


def create_staging(cursor: Cursor, url: str, width: int) -> Staging:
    """A new, empty staging table; the caller commits, so that others see it."""
    cursor.execute("SELECT nextval('dyda.staging_number')")
    staging = Staging(cursor.fetchone()[0], width, url)
    cursor.execute("SELECT pg_advisory_lock(%s, %s)", (STAGING_CLASS, staging.number))
    cursor.execute(
        sql.SQL("CREATE UNLOGGED TABLE {} ({}n bigint NOT NULL)").format(staging.identifier, text_columns(width))
    )
    cursor.execute(
        sql.SQL("CREATE UNLOGGED TABLE {} (task text PRIMARY KEY, entries bigint NOT NULL)").format(
            sql.Identifier(SCHEMA, staging.table + "_task")
        )
    )
    return staging


def text_columns(width: int) -> sql.Composable:
    """The columns c1 … cn of a table of entries; others follow."""
    return sql.SQL("".join(f"c{i} text, " for i in range(1, width + 1)))


def drop_staging(connection: Connection, number: int) -> bool:
    """Drops it, unless an abandoned task still writes there: then the next collection does."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = '100ms'")
            tables = [sql.Identifier(SCHEMA, f"staging_{number}{suffix}") for suffix in ("", "_task")]
            cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.SQL(", ").join(tables)))
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", (STAGING_CLASS, number))
        connection.commit()
    except psycopg2.errors.LockNotAvailable:
        connection.rollback()
        return False
    return True


def collect_garbage(connection: Connection) -> None:
    """Drops the staging tables that no live session guards."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT substr(relname, 9)::integer FROM pg_class"
            " WHERE relnamespace = 'dyda'::regnamespace AND relkind = 'r' AND relname ~ '^staging_[0-9]+$'"
        )
        numbers = [number for (number,) in cursor.fetchall()]
    connection.commit()
    for number in numbers:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", (STAGING_CLASS, number))
            (free,) = cursor.fetchone()
        connection.commit()
        if free:
            drop_staging(connection, number)
