"""Connections that give up on a server that no longer responds, because it is frozen or the network drops packets.

A server ends statements that take too long, unless the server itself hangs. So when a connection has waited a while for
an answer, the server is probed over a second connection; if it shows no sign of life, the first one is given up.
Imports nothing but psycopg2 and the standard library, so that Spark can ship it to executors without DyDa.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psycopg2
import psycopg2.extensions

if TYPE_CHECKING:
    from psycopg2 import sql

    from dyda.cursor import Cursor, File, Values

__all__ = ["PatientConnection", "PatientCursor"]

QUIET = 5.0
"""Seconds without an answer after which the server is probed."""

SIGN_OF_LIFE = 10.0
"""Seconds that the server has to answer the probe."""

SSL_REQUEST = struct.pack("!ii", 8, 80877103)
"""PostgreSQL answers this with one byte, without any authentication."""


class PatientConnection(psycopg2.extensions.connection):  # type: ignore[misc]
    """Made by psycopg2.connect(connection_factory=…); its cursors are patient ones."""

    cursor: Callable[[], Cursor]  # for type checkers: psycopg2 has no types

    def __init__(self, *arguments: object, **options: object) -> None:
        super().__init__(*arguments, **options)
        self.cursor_factory = PatientCursor
        self.asked_at: float | None = None
        """When the running statement was sent."""
        self.given_up = False
        self.prepared: set[str] = set()
        """Names of the session's prepared statements."""
        threading.Thread(target=_watch, args=(weakref.ref(self),), daemon=True).start()


class PatientCursor(psycopg2.extensions.cursor):  # type: ignore[misc]
    """Raises OperationalError if its server no longer responds."""

    def execute(self, query: str | sql.Composable, values: Values | None = None) -> None:
        with self._asking():
            super().execute(query, values)

    def copy_expert(self, query: str | sql.Composable, file: File, size: int = 8192) -> None:
        with self._asking():
            super().copy_expert(query, file, size)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        connection = self.connection
        connection.asked_at = time.monotonic()
        try:
            yield
        except psycopg2.Error:
            if connection.given_up:
                quiet = time.monotonic() - connection.asked_at
                raise psycopg2.OperationalError(f"the server does not respond: no answer for {quiet:.0f} s") from None
            raise
        finally:
            connection.asked_at = None


def _watch(reference: weakref.ref[PatientConnection]) -> None:
    """Give up the connection if it waits for a server that does not respond. Ends with the connection."""
    while True:
        time.sleep(1.0)
        connection = reference()
        if connection is None or connection.closed:
            return
        asked_at = connection.asked_at
        if asked_at is not None and time.monotonic() - asked_at > QUIET:
            _give_up_if_dead(connection, asked_at)
        del connection


def _give_up_if_dead(connection: PatientConnection, asked_at: float) -> None:
    # A connection that is closed meanwhile has no descriptor any more.
    with contextlib.suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(connection.fileno())) as own:
        if not _responds(own) and connection.asked_at == asked_at:
            connection.given_up = True
            own.shutdown(socket.SHUT_RDWR)  # libpq now finds the connection gone


def _responds(own: socket.socket) -> bool:
    """Whether the server at the other end of this connection answers a new one."""
    try:
        with socket.socket(own.family, socket.SOCK_STREAM) as probe:
            probe.settimeout(SIGN_OF_LIFE)
            probe.connect(own.getpeername())
            probe.sendall(SSL_REQUEST)
            return bool(probe.recv(1))
    except OSError:
        return False
