"""A daemon that waits for the project's lock: listed while its own session lasts.

waiting session ── shared lock, row in dyda.waiting ── holder? ── holder? ── none ──▶ Warehouse.lock()
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

from dyda.cursor import Connection
from dyda.warehouse.catalog.records import DaemonRecord
from dyda.warehouse.connection import ADVISORY_CLASS, PROJECT_LOCK, WAITING_LOCK, connect, load, translated

__all__ = ["Turn", "waiting_turn"]


@contextlib.contextmanager
def waiting_turn(url: str) -> Iterator[Turn]:
    """Waits, for the length of the block."""
    with contextlib.closing(connect(url, "dyda daemon waits")) as connection:
        with translated(url):
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock_shared(%s, %s)", (ADVISORY_CLASS, WAITING_LOCK))
                # Ended sessions left their rows here; a new session may have the same number.
                cursor.execute("DELETE FROM dyda.waiting WHERE backend NOT IN (SELECT pid FROM pg_stat_activity)")
                cursor.execute(
                    "INSERT INTO dyda.waiting (backend, pid, host) VALUES (pg_backend_pid(), %(pid)s, %(host)s)"
                    " ON CONFLICT (backend) DO UPDATE SET pid = %(pid)s, host = %(host)s, since = now()",
                    {"pid": os.getpid(), "host": socket.gethostname()},
                )
            connection.commit()
        yield Turn(connection, url)


class Turn:
    """Made by `Warehouse.turn()`."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self._url = url

    def holder(self) -> DaemonRecord:
        """The holder of the lock, read through the waiting session: its loss raises instead of waiting in vain."""
        with translated(self._url):
            with self._connection.cursor() as cursor:
                cursor.execute(load("holder.sql"), {"class": ADVISORY_CLASS, "key": PROJECT_LOCK})
                row = cursor.fetchone()
            self._connection.commit()
        return DaemonRecord(running=False) if row is None else DaemonRecord(True, *row)
