"""Connections to one source: reused sessions with pinned settings, short transactions, errors in DyDa's own words."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterable, Iterator
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg2

from dyda.cursor import Cursor, Values
from dyda.errors import (
    BrokenUnit,
    DydaError,
    MissingRights,
    SourceBusy,
    SourceInUse,
    SourceUnreachable,
    SourceUnreadable,
)
from dyda.sources.reading.encoding import Repertoire
from dyda.sources.reading.session import connect, first_line
from dyda.sources.settings import SourceSettings
from dyda.sources.stalled_server import PatientConnection

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FRESH", "WRITING", "Sessions", "load_sql", "translate", "value"]

FRESH = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Several statements that see one state of the catalogs."""
WRITING = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

MOVED = frozenset({"42P01", "42703", "3F000", "42883", "42804", "42846", "22P02", "22003", "22007", "22008", "42809"})
"""A table, column, schema, operator or type is not what it was when the query was written."""
LOST = (psycopg2.OperationalError, psycopg2.InterfaceError)
UNREADABLE = frozenset({"22021", "22P05"})
"""A text is invalid in its database's encoding, or has no equivalent in UTF8."""
BUSY = frozenset({"55P03", "57014", "40001", "40P01", "53300", "53200"})


class Sessions:
    """Reuses idle sessions of one source; a session that failed in an unknown way is never used again.

    Applications' tables are read in separate sessions, `tables`: what a function that runs while we read has prepared,
    declared or set there must affect nothing but the next such read. Their transactions are always rolled back, so that
    nothing of it runs at COMMIT with our rights.
    """

    def __init__(self, settings: SourceSettings, whole: Sessions | None = None) -> None:
        self.settings = settings
        self._whole = whole or self
        self.tables = self if whole is not None else Sessions(settings, self)
        self._idle: list[PatientConnection] = []
        self._guard = threading.Lock()
        self._utf8 = True
        self._repertoire = Repertoire()
        self._stalled = False
        """Whether the server did not respond last time; a new session that works shows that it does again."""

    @contextlib.contextmanager
    def transaction(self, begin: str, relations: Iterable[object] = ()) -> Iterator[Cursor]:
        """A cursor inside a transaction that `begin` opens; commits, or rolls back if the block raises."""
        connection = self.begin(begin, relations)
        try:
            with translate(self.settings.name, relations), connection.cursor() as cursor:
                yield cursor
                if self.tables is not self:
                    cursor.execute("COMMIT")
        except BaseException:
            self.give_back(connection)
            raise
        self.give_back(connection)

    def begin(self, begin: str, relations: Iterable[object] = ()) -> PatientConnection:
        """A session on which `begin` has been executed. Idle ones may have died with their server: tried in turn."""
        with translate(self.settings.name, relations, self.settings.url):
            while True:
                with self._guard:
                    connection = self._idle.pop() if self._idle else None
                reused = connection is not None
                if connection is None:
                    connection = connect(self.settings.url, self.settings.lock_timeout, self.settings.statement_timeout)
                try:
                    with connection.cursor() as cursor:
                        cursor.execute(begin)
                    self._whole._stalled = self._whole._stalled and reused
                    self._utf8 = connection.get_parameter_status("server_encoding") == "UTF8"
                    return connection
                except BaseException as error:
                    self._note_stalled(connection)
                    connection.close()
                    if not reused or connection.given_up or not _lost(error):
                        raise

    @staticmethod
    def resume(connection: PatientConnection, begin: str) -> bool:
        """Execute `begin` on a session that a caller keeps to himself; False if the session is gone."""
        try:
            with connection.cursor() as cursor:
                cursor.execute(begin)
            return True
        except psycopg2.Error as error:
            connection.close()
            if not _lost(error):
                raise
            return False

    def give_back(self, connection: PatientConnection) -> None:
        """End whatever transaction is open and keep the session, if it still works."""
        try:
            self._note_stalled(connection)
            if connection.closed:
                return
            if self._whole._stalled:
                connection.close()  # ROLLBACK would get no answer
                return
            if connection.info.transaction_status != psycopg2.extensions.TRANSACTION_STATUS_IDLE:
                with connection.cursor() as cursor:
                    cursor.execute("ROLLBACK")
            with self._guard:
                self._idle.append(connection)
        except psycopg2.Error:
            connection.close()

    def _note_stalled(self, connection: PatientConnection) -> None:
        """One session was given up because the server does not respond: the others need not each find out."""
        if connection.given_up and not self._whole._stalled:
            self._whole._stalled = True
            self._whole.close()

    def possible(self, keys: pa.Table) -> pa.Table:
        """The tuples that the source's encoding can represent: any other equals nothing there."""
        if self._utf8:
            return keys
        with self.transaction(FRESH) as cursor:
            return self._repertoire.possible(cursor, keys)

    def close(self) -> None:
        with self._guard:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        if self.tables is not self:
            self.tables.close()


def _lost(error: BaseException) -> bool:
    """Whether a session may be gone. A server that dies while answering raises a bare DatabaseError."""
    return isinstance(error, LOST) or type(error) is psycopg2.DatabaseError


@contextlib.contextmanager
def translate(source: str, relations: Iterable[object] = (), url: str = "") -> Iterator[None]:
    """PostgreSQL's errors as DyDa's. `relations` are those the statement is about."""
    try:
        yield
    except psycopg2.Error as error:
        raise translated(source, relations, error.pgcode, first_line(error, url)) from None


def translated(source: str, relations: Iterable[object], sqlstate: str | None, why: str) -> DydaError:
    """The error that a caller acts on: wait, plan again, request a right, or give up the source for now."""
    code = sqlstate or ""
    if code in MOVED:
        return BrokenUnit(source, frozenset(str(relation) for relation in relations), why)
    if code in UNREADABLE:
        return SourceUnreadable(source, why)
    if code == "55006":
        return SourceInUse(f"source {source}: {why}", "A source can belong to one project only.")
    if code in BUSY:
        return SourceBusy(source, why)
    if code == "42501":
        statement = "ALTER ROLE … BYPASSRLS" if "row-level security" in why else "statement"
        remedy = f"`dyda sources check` prints the {statement} to run."
        return MissingRights(f"source {source}: {why}", remedy, source, frozenset(map(str, relations)))
    return SourceUnreachable(source, why)


def value(cursor: Cursor, query: str, values: Values | None = None) -> Any:
    """The value of a query that returns just one."""
    cursor.execute(query, values)
    return cursor.fetchone()[0]


@functools.cache
def load_sql(name: str) -> str:
    """The text of sql/NAME.sql."""
    return resources.files("dyda.sources").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
