"""Readers of the warehouse while it changes: what each statement saw is part of the history."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any

import psycopg2
from psycopg2 import sql

from tests.torture.history import History, Read
from tests.torture.recording import connect, lost_is_operational

__all__ = ["Reader", "look"]

EXPECTED = (psycopg2.errors.SerializationFailure, psycopg2.errors.DeadlockDetected, psycopg2.errors.LockNotAvailable)
"""What a reader's transaction may end with; 40001 is a definition that changed under an older snapshot (I2)."""


def look(cursor: Any, views: Sequence[str], schema: str = "public") -> dict[str, list[str]]:
    """All rows of these views, in one statement."""
    parts = [
        sql.SQL('SELECT {}, coalesce(array_agg("#row"::text), \'{{}}\') FROM {} AS "#row"').format(
            sql.Literal(view), sql.Identifier(schema, view)
        )
        for view in views
    ]
    cursor.execute(sql.SQL(" UNION ALL ").join(parts))
    return dict(cursor.fetchall())


class Reader(threading.Thread):
    """Reads all views in one statement, again and again; from REPEATABLE READ up several statements a transaction.

    `statements` per transaction read random halves of the views after the first, which reads all. A lost connection is
    made anew.
    """

    def __init__(
        self,
        history: History,
        name: str,
        url: str,
        views: Sequence[str],
        isolation: str = "READ COMMITTED",
        statements: int = 1,
        pause: float = 0.02,
        seed: int = 0,
        schema: str = "public",
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.history, self.url, self.views, self.isolation = history, url, list(views), isolation
        self.statements, self.pause, self.schema = statements, pause, schema
        self.random = random.Random(f"{seed} {name}")
        self.failure: BaseException | None = None
        self._stop_wanted = threading.Event()

    def stop(self) -> None:
        """End after the transaction under way; what the reader died of, if it did, is raised here."""
        self._stop_wanted.set()
        self.join(60)
        if self.failure is not None:
            raise self.failure

    def run(self) -> None:
        connection: Any = None
        try:
            while not self._stop_wanted.is_set():
                try:
                    connection = connection or connect(self.url)
                    with lost_is_operational():
                        self.once(connection)
                except EXPECTED:
                    connection.rollback()
                except (psycopg2.OperationalError, psycopg2.InterfaceError):  # the server is away: try again
                    if connection is not None:
                        connection.close()
                    connection = None
                self._stop_wanted.wait(self.random.uniform(0, 2 * self.pause))
        except BaseException as error:
            self.failure = error
        finally:
            if connection is not None:
                connection.close()

    def once(self, connection: Any) -> Read:
        """One transaction; it is in the history whatever becomes of it."""
        read = Read(self.name, self.isolation)
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {self.isolation}; SET LOCAL lock_timeout = '10s'")
                for number in range(self.statements):
                    views = self.views if number == 0 else self._half()
                    seen = look(cursor, views, self.schema)
                    read.statements.append({view: self.history.keep(rows) for view, rows in seen.items()})
                    if number + 1 < self.statements:
                        self._stop_wanted.wait(self.random.uniform(0, 2 * self.pause))
            connection.commit()
        except psycopg2.Error as error:
            read.error = error.pgcode or "connection"
            raise
        finally:
            self.history.add(read)
        return read

    def _half(self) -> list[str]:
        return sorted(self.random.sample(self.views, max(1, len(self.views) // 2)))
