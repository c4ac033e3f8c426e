"""The warehouse: reading the catalog, and taking the lock to write.

Reading happens in short transactions of their own; writing goes through a `Writer` (see writer.py), except for
requests, which any command may submit to the process that holds the lock. Most commands only read: what writes and
compares rows is imported by the methods that need it.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import psycopg2
from psycopg2.extras import Json

from dyda.cursor import Connection as PostgresConnection
from dyda.cursor import Cursor
from dyda.errors import DydaError, ProjectBusy, RequestFailed, UnknownView, WarehouseUnreachable
from dyda.model.cause import Cause
from dyda.warehouse.catalog import events as happened
from dyda.warehouse.catalog import queries
from dyda.warehouse.catalog.records import DaemonRecord, MessageRecord, ViewRecord
from dyda.warehouse.catalog.upgrade import is_ready, upgrade
from dyda.warehouse.connection import (
    ADVISORY_CLASS,
    PROJECT_LOCK,
    connect,
    load,
    read_only,
    session,
    short,
    translated,
    without_password,
)
from dyda.warehouse.reading import IdleSessions
from dyda.warehouse.standby import Turn, waiting_turn

if TYPE_CHECKING:
    from dyda.warehouse.extents.lockless_staging import Stagings
    from dyda.warehouse.extents.set_comparison import SetComparison
    from dyda.warehouse.extents.staging import Staging
    from dyda.warehouse.extents.verification_snapshot import FrozenWarehouse
    from dyda.warehouse.writer import Writer

__all__ = ["Warehouse"]


P = ParamSpec("P")
R = TypeVar("R")


def _reads(query: Callable[Concatenate[Cursor, P], R]) -> Callable[Concatenate[Warehouse, P], R]:
    """A method of Warehouse that answers a query of the catalog, in a snapshot of its own."""

    @wraps(query)
    def method(self: Warehouse, /, *arguments: P.args, **options: P.kwargs) -> R:
        with self._reading() as cursor:
            return query(cursor, *arguments, **options)

    return method


class Warehouse:
    """A warehouse database. `schema` is where readers find the views."""

    def __init__(self, url: str, schema: str = "public") -> None:
        self.url = url
        self.schema = schema
        self._sessions = IdleSessions(url)

    @classmethod
    def connect(cls, url: str, schema: str = "public") -> Warehouse:
        """Opens it, or raises at once if it does not answer."""
        warehouse = cls(url, schema)
        with warehouse._reading():
            return warehouse

    def __repr__(self) -> str:
        return f"Warehouse({without_password(self.url, self.url)!r}, {self.schema!r})"

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def close(self) -> None:
        self._sessions.close()

    def upgrade(self) -> None:
        """Upgrades the catalog to this program's version; several processes may try at once."""
        with self._reading() as cursor:
            cursor.execute("SELECT pg_is_in_recovery()")
            if cursor.fetchone()[0]:
                raise read_only("its server is a standby, or still in recovery")
            if is_ready(cursor, self.schema):
                return
        with self._translated():
            upgrade(self.url, self.schema)

    @cached_property
    def project_id(self) -> uuid.UUID:
        with self._reading() as cursor:
            cursor.execute("SELECT id FROM dyda.project")
            return uuid.UUID(cursor.fetchone()[0])

    def check_types(self, view: str, types: Sequence[str]) -> None:
        """Refuses types that this warehouse cannot hold, before anything is built."""
        from dyda.warehouse.extents.extent import check_types

        with self._reading() as cursor:
            check_types(cursor, view, types)

    def owner(self) -> tuple[str | None, dict[str, frozenset[str]]]:
        """The project that this warehouse belongs to (None: to none yet), and its views with the sources they read."""
        with self._reading() as cursor:
            cursor.execute("SELECT owner FROM dyda.project")
            (owner,) = cursor.fetchone()
            cursor.execute(
                "SELECT v.name, array_remove(array_agg(p.source), NULL) FROM dyda.view v"
                " LEFT JOIN dyda.position p ON p.view = v.name GROUP BY v.name"
            )
            return owner, {name: frozenset(sources) for name, sources in cursor.fetchall()}

    def claim(self, owner: str) -> str:
        """Gives the warehouse to a project, unless it belongs to one already; returns its owner."""
        with self._writing() as cursor:
            cursor.execute("UPDATE dyda.project SET owner = %s WHERE owner IS NULL", (owner,))
            cursor.execute("SELECT owner FROM dyda.project")
            return str(cursor.fetchone()[0])

    # --- taking the lock

    def lock(self, wait: float = 0, role: str = "command") -> Writer:
        """The project's lock, or ProjectBusy after `wait` seconds. `role` says who holds it: daemon, apply, …"""
        from dyda.warehouse.extents.prepared_tables import collect_prepared
        from dyda.warehouse.extents.staging import collect_garbage
        from dyda.warehouse.writer import Writer

        connection = connect(self.url, f"dyda {role}"[:63])
        try:
            with translated(self.url):
                self._take_lock(connection, time.monotonic() + wait)
                writer = Writer(connection, self.url, self.schema, _raise_fence(connection, role))
                collect_garbage(connection)
                collect_prepared(connection)
                writer.drop_hidden()
                return writer
        except BaseException:
            connection.close()
            raise

    def _take_lock(self, connection: PostgresConnection, deadline: float) -> None:
        while True:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", (ADVISORY_CLASS, PROJECT_LOCK))
                (taken,) = cursor.fetchone()
            connection.commit()
            if taken:
                return
            if time.monotonic() >= deadline:
                raise _busy(self.holder())
            time.sleep(0.05)

    def turn(self) -> AbstractContextManager[Turn]:
        """Waits for the lock, for the length of the block; `status` counts the waiting daemons."""
        return waiting_turn(self.url)

    # --- reading

    @contextmanager
    def _reading(self) -> Iterator[Cursor]:
        """One snapshot for all queries in the block."""
        with self._translated(), self._sessions.transaction() as cursor:
            yield cursor

    @contextmanager
    def _writing(self) -> Iterator[Cursor]:
        """One transaction."""
        with self._translated(), self._sessions.transaction(writes=True) as cursor:
            yield cursor

    @contextmanager
    def _translated(self) -> Iterator[None]:
        with translated(self.url):
            try:
                yield
            except (psycopg2.errors.UndefinedTable, psycopg2.errors.InvalidSchemaName):
                raise WarehouseUnreachable(
                    "the warehouse has no DyDa catalog", "Run a command that creates it, for example: dyda apply"
                ) from None

    views = _reads(queries.views)
    versions = _reads(queries.versions)
    indexes = _reads(queries.indexes)
    messages = _reads(queries.messages)
    sources = _reads(queries.sources)
    relations = _reads(queries.relations)
    knowledge = _reads(queries.knowledge)
    units = _reads(queries.units)
    aborts = _reads(queries.aborts)
    aborts_of_waiting = _reads(queries.aborts_of_waiting)
    holder = _reads(queries.holder)
    waiting = _reads(queries.waiting)
    request = _reads(queries.request)
    lanes = _reads(queries.lanes)
    status = _reads(queries.status)
    events = _reads(happened.events)
    notified = _reads(happened.notified)
    newest_event = _reads(happened.newest_event)
    freshness = _reads(queries.freshness)

    def view(self, name: str) -> ViewRecord:
        with self._reading() as cursor:
            found = queries.views(cursor, name)
            if not found:
                known = ", ".join(record.name for record in queries.views(cursor)) or "none yet"
                raise UnknownView(f"there is no view {name!r}; this project has: {known}", "See: dyda views")
            return found[0]

    def message(self, number: int) -> MessageRecord:
        found = self.messages(numbers=[number])
        if not found:
            raise DydaError(f"there is no pending message {number}", "See: dyda pending")
        return found[0]

    def unshown(self) -> dict[str, Cause]:
        """Views whose rows readers do not see, and why."""
        with self._reading() as cursor:
            return queries.unshown(cursor, self.schema)

    def lost_indexes(self) -> dict[str, tuple[Cause, ...]]:
        """By view, the keys and indexes that it has lost since its file was last applied and has not got back."""
        with self._reading() as cursor:
            return queries.lost_indexes(cursor)

    # --- verifying, beside a running daemon

    def stagings(self) -> AbstractContextManager[Stagings]:
        """Staging tables for a process without the lock; dropped at the end of the block."""
        from dyda.warehouse.extents.lockless_staging import own_stagings

        return own_stagings(self.url)

    @contextmanager
    def staging(self, columns: int) -> Iterator[Staging]:
        """One of them."""
        with self.stagings() as stagings:
            yield stagings.staging(columns)

    def compare_sets(
        self, left: Staging, right: Staging, sides: tuple[bool, bool] = (True, True), samples: int = 10
    ) -> SetComparison:
        """How the rows of two staging tables differ as sets."""
        from dyda.warehouse.extents.set_comparison import compare_sets

        with session(self.url, "dyda check") as connection, connection.cursor() as cursor:
            return compare_sets(cursor, left, right, sides=sides, samples=samples)

    def frozen(self) -> AbstractContextManager[FrozenWarehouse]:
        """Catalog and extents as they are now, for the length of the block."""
        from dyda.warehouse.extents.verification_snapshot import frozen

        return frozen(self.url)

    # --- requests

    def submit(self, verb: str, arguments: Mapping[str, Any]) -> int:
        """Submits a request to the process that holds the lock; see `wait`."""
        with self._writing() as cursor:
            cursor.execute(
                "INSERT INTO dyda.request (verb, arguments) VALUES (%s, %s) RETURNING id", (verb, Json(dict(arguments)))
            )
            return int(cursor.fetchone()[0])

    def wait(self, number: int, on_progress: Callable[[Any], None] = lambda progress: None) -> Any:
        """The request's result. RequestFailed: it failed, or no process is left to answer it."""
        shown: Any = None
        while True:
            alive = self.holder().running or bool(self.waiting())  # checked first: the holder may answer and end
            request = self.request(number)
            if request.progress != shown:
                shown = request.progress
                on_progress(shown)
            if request.state == "done":
                return request.result
            if request.state in ("failed", "cancelled"):
                error = request.error or {}
                raise RequestFailed(error.get("what", f"{request.verb} was {request.state}"), error.get("remedy", ""))
            if not alive and self.cancel(number):
                raise RequestFailed(f"{request.verb}: the daemon ended before it was done", "Run the command again.")
            time.sleep(0.1)

    def cancel(self, number: int) -> bool:
        """Takes back an unfinished request; whether it did."""
        with self._writing() as cursor:
            cursor.execute(
                "UPDATE dyda.request SET state = 'cancelled', finished_at = now()"
                " WHERE id = %s AND state IN ('waiting', 'running')",
                (number,),
            )
            return cursor.rowcount == 1


def _raise_fence(connection: PostgresConnection, role: str) -> int:
    """A new fence; cleans up what the last holder left unfinished."""
    try:
        with connection.cursor() as cursor:
            # Waits for a transaction that an earlier holder may still have open; not forever.
            cursor.execute("SET LOCAL lock_timeout = '60s'")
            cursor.execute(load("take_over.sql"), {"role": role, "pid": os.getpid(), "host": socket.gethostname()})
            (fence,) = cursor.fetchone()
        connection.commit()
        return int(fence)
    except psycopg2.errors.LockNotAvailable as error:
        raise ProjectBusy(
            f"another process still has an open installation in the warehouse ({short(error)})", "Try again later."
        ) from None


def _busy(holder: DaemonRecord) -> ProjectBusy:
    if not holder.running or holder.pid is None:
        return ProjectBusy("another process is working on this project", "Try again in a moment.")
    who = "the daemon" if holder.role == "daemon" else f"dyda {holder.role}"
    return ProjectBusy(
        f"{who} (pid {holder.pid} on {holder.host}, since {holder.since:%Y-%m-%d %H:%M:%S} UTC) has the project's lock",
        "Wait until it is done, or stop it: dyda stop" if holder.role == "daemon" else "Wait until it is done.",
    )
