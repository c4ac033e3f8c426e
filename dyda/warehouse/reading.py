"""Sessions for short questions to the catalog, kept from one to the next. Their rows are named tuples."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import psycopg2
from psycopg2.extras import NamedTupleCursor

from dyda.cursor import Cursor
from dyda.warehouse.connection import connect

__all__ = ["IdleSessions"]

KEPT = 2
"""Idle sessions: more are needed only for moments."""


class IdleSessions:
    """The idle sessions of one warehouse; one that has died with its server is replaced by a new one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._guard = threading.Lock()
        self._idle: list[Any] = []

    @contextlib.contextmanager
    def transaction(self, *, writes: bool = False) -> Iterator[Cursor]:
        """A cursor in a transaction of its own: one snapshot, which cannot write; or one that commits at the end."""
        session = self._take()
        try:
            if not writes:
                session.set_session(isolation_level="REPEATABLE READ", readonly=True)
            with session.cursor(cursor_factory=NamedTupleCursor) as cursor:
                yield cursor
            if writes:
                session.commit()
            session.rollback()
            session.set_session(isolation_level="DEFAULT", readonly="DEFAULT")
        except BaseException:
            # Nobody knows what state it is in; failures are rare, and a new session costs little.
            session.close()
            raise
        self._give_back(session)

    def close(self) -> None:
        with self._guard:
            idle, self._idle = self._idle, []
        for session in idle:
            session.close()

    def _take(self) -> Any:
        while True:
            with self._guard:
                session = self._idle.pop() if self._idle else None
            if session is None:
                return connect(self._url, "dyda")
            if _is_alive(session):
                return session

    def _give_back(self, session: Any) -> None:
        with self._guard:
            if len(self._idle) < KEPT:
                self._idle.append(session)
                return
        session.close()


def _is_alive(session: Any) -> bool:
    try:
        session.autocommit = True
        with session.cursor() as cursor:
            cursor.execute("SELECT")
        session.autocommit = False
        return True
    except psycopg2.Error:
        session.close()
        return False
