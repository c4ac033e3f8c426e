"""The session of the one process that may write: holder of the project's lock, through one connection.

    lock ──▶ fence + 1 ──▶ every write: the project's row is locked, its fence compared, then written, then committed

The advisory lock keeps processes apart. The fence stops one that lost its lock without noticing: it finds another
number there. Since each write holds the project's row, a new process waits for an installation in flight.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import psycopg2

from dyda.cursor import Connection, Cursor
from dyda.errors import Fenced
from dyda.warehouse.connection import translated

__all__ = ["FencedSession"]


class FencedSession:
    """Threads take turns."""

    def __init__(self, connection: Connection, url: str, fence: int) -> None:
        self._connection = connection
        self._url = url
        self.turn = threading.RLock()
        self.fence = fence

    def close(self) -> None:
        """Releases the lock: at once, or when the server notices that the session is lost."""
        with contextlib.suppress(psycopg2.Error):
            self._connection.rollback()
            with self._connection.cursor() as cursor:
                cursor.execute("DELETE FROM dyda.daemon WHERE fence = %s", (self.fence,))
                cursor.execute("SELECT pg_advisory_unlock_all()")
            self._connection.commit()
        self._connection.close()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Cursor]:
        """A transaction that has passed the fence; committed at the end, rolled back on any error."""
        with self.turn, translated(self._url):
            try:
                with self._connection.cursor() as cursor:
                    # FOR UPDATE: a process that takes over waits here until we have committed or are gone.
                    cursor.execute("SELECT fence FROM dyda.project FOR UPDATE")
                    (fence,) = cursor.fetchone()
                    if fence != self.fence:
                        raise Fenced(
                            f"another process has taken over this project (fence {fence}, ours is {self.fence})",
                            "This process stops; nothing of its last unit was installed.",
                        )
                    yield cursor
                self._connection.commit()
            except BaseException:
                with contextlib.suppress(psycopg2.Error):
                    self._connection.rollback()
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[Cursor]:
        """A transaction that changes nothing."""
        with self.turn, translated(self._url):
            try:
                with self._connection.cursor() as cursor:
                    yield cursor
            finally:
                with contextlib.suppress(psycopg2.Error):
                    self._connection.rollback()

    @contextlib.contextmanager
    def computing(self) -> Iterator[Cursor]:
        """The same with temporary tables: they are created once in a session, so the transaction commits."""
        with self.reading() as cursor:
            yield cursor
            self._connection.commit()
