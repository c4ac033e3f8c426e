"""A daemon that waits for its turn: known to everybody by a session of its own, gone from the list when that ends.

waiting session ── shared lock, row in dyda.waiting ── who works? ── who works? ── nobody ──▶ Warehouse.lock()
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
    connection = connect(url, "dyda daemon waits")
    try:
        with translated(url):
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_lock_shared(%s, %s)", (ADVISORY_CLASS, WAITING_LOCK))
                # Sessions that are gone left their rows here; a number may be a new session's by now.
                cursor.execute("DELETE FROM dyda.waiting WHERE backend NOT IN (SELECT pid FROM pg_stat_activity)")
                cursor.execute(
                    "INSERT INTO dyda.waiting (backend, pid, host) VALUES (pg_backend_pid(), %(pid)s, %(host)s)"
                    " ON CONFLICT (backend) DO UPDATE SET pid = %(pid)s, host = %(host)s, since = now()",
                    {"pid": os.getpid(), "host": socket.gethostname()},
                )
            connection.commit()
        yield Turn(connection, url)
    finally:
        connection.close()


class Turn:
    """Made by `Warehouse.turn()`."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self._url = url

    def holder(self) -> DaemonRecord:
        """Who works now, asked through the waiting session: should that be lost, nobody waits in vain."""
        with translated(self._url):
            with self._connection.cursor() as cursor:
                cursor.execute(load("holder.sql"), {"class": ADVISORY_CLASS, "key": PROJECT_LOCK})
                row = cursor.fetchone()
            self._connection.commit()
        return DaemonRecord(running=False) if row is None else DaemonRecord(True, *row)
