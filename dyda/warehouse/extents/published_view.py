"""The views that readers query: <schema>.<view>, a bag, nothing else.

Their definitions change only when a version's columns do. A user's GRANTs and comments are kept, and a relation of the
user's own that happens to have the name is never touched.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql

from dyda.cursor import Cursor, Row
from dyda.errors import ConfigurationError, InstallBlocked, NotInstallable, StoodOn
from dyda.warehouse.connection import load, short
from dyda.warehouse.extents.extent import Extent
from dyda.warehouse.extents.plain_extent import PlainExtent

__all__ = ["Publication", "Reader", "check_names", "lock", "publish"]

LONGEST_NAME = 63
TURN = "500ms"
"""How long one attempt to lock may wait: less than PostgreSQL's deadlock_timeout, so that no reader is cancelled."""
PAUSE = 0.1
SINCE = re.compile(r"pg_snapshot_xmin\(pg_current_snapshot\(\)\) > '(\d+)'::xid8")
"""What a view's definition says of the transaction that showed its extent; those of older versions say nothing."""


@dataclass(frozen=True)
class Publication:
    """A reader-facing view that will show `extent` under these column names; it has shown `previous`.

    `places`: the extent has the table of the previous one, of which these columns are left; None: a table of its own.
    """

    reader: Reader
    extent: Extent
    names: tuple[str, ...]
    previous: Extent | None
    places: tuple[int, ...] | None = None

    def show(self, cursor: Cursor) -> None:
        """Under exclusive locks."""
        previous, places, gone = self.previous, self.places, []
        if previous is not None and places is not None:
            if self.extent.number != previous.number:
                # By the number, a reader with an older snapshot notices that the view has other columns now (I2).
                previous.rename(cursor, self.extent.number)
            if isinstance(self.extent, PlainExtent) and isinstance(previous, PlainExtent):
                gone = self.extent.take_names(cursor, previous, places)
        self.reader.show(cursor, self.extent, self.names)
        if gone:
            assert isinstance(self.extent, PlainExtent)
            self.extent.drop_columns(cursor, gone)


def publish(cursor: Cursor, publications: Sequence[Publication], patience: float) -> None:
    """Shows readers new extents. All locks are taken together, when the rows are ready: readers wait briefly."""
    there = [publication for publication in publications if publication.reader.exists(cursor)]
    for publication in there:
        ours = {extent.number for extent in (publication.previous, publication.extent) if extent is not None}
        if not publication.reader.extents(cursor) & ours:
            raise ConfigurationError(
                f"{publication.reader} already exists and is not DyDa's",
                "Rename the view's file, rename or drop that relation, or choose another schema in [warehouse].",
            )
    lock(cursor, [publication.reader for publication in there], patience)
    for publication in publications:
        publication.show(cursor)


def lock(cursor: Cursor, readers: Sequence[Reader], patience: float) -> None:
    """Exclusive locks on all of them or on none, requested in short turns.

    While we queue for a lock, new readers queue behind us; and a reader that has one of the views and wants another
    must never find the second one locked by us while we wait for the first.
    """
    if not readers:
        return
    names = sql.SQL(", ").join(reader.identifier for reader in readers)
    deadline = time.monotonic() + patience
    cursor.execute("SAVEPOINT locking")
    while True:
        cursor.execute("SET LOCAL lock_timeout = %s", (TURN,))
        try:
            cursor.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names))
            cursor.execute("SET LOCAL lock_timeout = 0; RELEASE SAVEPOINT locking")
            return
        except psycopg2.errors.LockNotAvailable:
            cursor.execute("ROLLBACK TO SAVEPOINT locking")
        if time.monotonic() >= deadline:
            held = {reader: reader.holders(cursor) for reader in readers}
            blocked = next((reader for reader, sessions in held.items() if sessions), readers[0])
            raise InstallBlocked(str(blocked), held[blocked], blocked.name)
        time.sleep(PAUSE)


@dataclass(frozen=True)
class Reader:
    """The reader-facing view of one of our views."""

    schema: str
    name: str

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"

    def exists(self, cursor: Cursor) -> bool:
        """Whether a relation of this name exists, ours or not."""
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s)",
            (self.schema, self.name),
        )
        (found,) = cursor.fetchone()
        return bool(found)

    def extents(self, cursor: Cursor) -> set[int]:
        """The extents that the relation of this name reads: what makes it ours, also after a dump and restore."""
        cursor.execute(load("reader_extents.sql"), (self.schema, self.name))
        return {number for (number,) in cursor.fetchall()}

    def shows(self, cursor: Cursor, extent: Extent, names: Sequence[str]) -> bool:
        """Whether readers see the extent under these names, exactly as after `show`."""
        cursor.execute(load("reader_definition.sql"), (self.schema, self.name))
        row = cursor.fetchone()
        if row is None:
            return False
        cursor.execute("SAVEPOINT showing")
        # PostgreSQL prints definitions in its own form: a view with ours is created to be printed the same way.
        likeness = sql.Identifier("pg_temp", "dyda likeness")
        since = SINCE.search(row[0])
        transaction = since and since[1]
        cursor.execute(self._selecting(sql.SQL("CREATE VIEW {}").format(likeness), extent, names, transaction))
        cursor.execute("SELECT pg_get_viewdef('pg_temp.\"dyda likeness\"'::regclass)")
        (wanted,) = cursor.fetchone()
        cursor.execute("ROLLBACK TO SAVEPOINT showing; RELEASE SAVEPOINT showing")
        return bool(row[0] == wanted)

    def holders(self, cursor: Cursor) -> list[int]:
        """The sessions that have a lock on it."""
        cursor.execute(load("lock_holders.sql"), (self.schema, self.name))
        return [pid for (pid,) in cursor.fetchall()]

    def show(self, cursor: Cursor, extent: Extent, names: Sequence[str]) -> None:
        """What readers see from now on; users' rights, comments and dependent objects stay."""
        if not self.exists(cursor):
            cursor.execute(self._definition(cursor, "CREATE VIEW", extent, names))
        elif not self._try_replace(cursor, extent, names):
            kept = self._kept(cursor)
            self.drop(cursor)
            cursor.execute(self._definition(cursor, "CREATE VIEW", extent, names))
            self._restore(cursor, kept, names)

    def retire(self, cursor: Cursor, number: int, patience: float) -> None:
        """Drops the view, if it exists and is ours: it shows extent `number`."""
        if number in self.extents(cursor):
            lock(cursor, [self], patience)
            self.drop(cursor)

    def drop(self, cursor: Cursor) -> None:
        dependents = self.dependents(cursor)
        if dependents:
            raise StoodOn(self.name, str(self), dependents)
        try:
            cursor.execute(sql.SQL("DROP VIEW {}").format(self.identifier))
        except psycopg2.errors.DependentObjectsStillExist as error:
            why = f"{self} cannot be replaced or dropped: {error.diag.message_detail or short(error)}"
            raise NotInstallable(self.name, why) from None

    def dependents(self, cursor: Cursor) -> list[str]:
        """Relations that users have built on the view."""
        cursor.execute(load("reader_dependents.sql"), (self.schema, self.name))
        return [name for (name,) in cursor.fetchall()]

    def _definition(self, cursor: Cursor, command: str, extent: Extent, names: Sequence[str]) -> sql.Composable:
        cursor.execute("SELECT pg_current_xact_id()::text")
        (transaction,) = cursor.fetchone()
        created = sql.SQL("{} {}").format(sql.SQL(command), self.identifier)
        return self._selecting(created, extent, names, transaction)

    def _selecting(
        self, created: sql.Composable, extent: Extent, names: Sequence[str], transaction: str | None
    ) -> sql.Composable:
        """`transaction` shows the extent. A snapshot for which nothing as old is running any more sees the extent: that
        needs no look into the catalog, which would take longer than a look-up by a key. Any other snapshot does, and so
        do those of a server that the warehouse was restored to (I2). Only xmin is right on a standby, too."""
        items = [
            sql.SQL("e.{} AS {}").format(extent.column(place), sql.Identifier(name)) for place, name in enumerate(names)
        ]
        seen = sql.SQL("pg_snapshot_xmin(pg_current_snapshot()) > {}::xid8 OR ").format(sql.Literal(transaction))
        return sql.SQL("{} AS SELECT {} FROM {} WHERE {}dyda.extent_visible({})").format(
            created,
            sql.SQL(", ").join(items),
            extent.shown,
            sql.SQL("") if transaction is None else seen,
            sql.Literal(extent.number),
        )

    def _try_replace(self, cursor: Cursor, extent: Extent, names: Sequence[str]) -> bool:
        """CREATE OR REPLACE keeps everything that depends on the view, but allows new columns only at the end."""
        cursor.execute("SAVEPOINT replacing")
        try:
            cursor.execute(self._definition(cursor, "CREATE OR REPLACE VIEW", extent, names))
        except psycopg2.errors.InvalidTableDefinition:
            cursor.execute("ROLLBACK TO SAVEPOINT replacing")
            return False
        cursor.execute("RELEASE SAVEPOINT replacing")
        return True

    def _kept(self, cursor: Cursor) -> list[Row]:
        cursor.execute(load("reader_rights.sql"), {"schema": self.schema, "name": self.name})
        return cursor.fetchall()

    def _restore(self, cursor: Cursor, kept: list[Row], names: Sequence[str]) -> None:
        """Rights and comments as they were; default privileges must not widen what a user had narrowed."""
        for kind, _column, role, _text, _grantable in self._kept(cursor):
            if kind == "right":
                cursor.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(self.identifier, _role(role)))
        for kind, column, role, text, grantable in kept:
            if column is not None and column not in names:
                continue
            if kind == "right":
                on = sql.SQL("") if column is None else sql.SQL(" ({})").format(sql.Identifier(column))
                option = sql.SQL(" WITH GRANT OPTION" if grantable else "")
                cursor.execute(
                    sql.SQL("GRANT {}{} ON {} TO {}{}").format(sql.SQL(text), on, self.identifier, _role(role), option)
                )
            else:
                what = sql.SQL("VIEW {}").format(self.identifier)
                if column is not None:
                    what = sql.SQL("COLUMN {}.{}").format(self.identifier, sql.Identifier(column))
                cursor.execute(sql.SQL("COMMENT ON {} IS {}").format(what, sql.Literal(text)))


def _role(name: str | None) -> sql.Composable:
    return sql.SQL("PUBLIC") if name is None else sql.Identifier(name)


def check_names(view: str, columns: Sequence[str]) -> None:
    """Refuses names that PostgreSQL would cut off or refuse."""
    for what, name in [("the view's name", view), *(("the column name", column) for column in columns)]:
        if not name or "\0" in name:
            raise ConfigurationError(
                f"view {view!r}: {what} {name!r} is not possible in PostgreSQL", "Choose another name."
            )
        if len(name.encode()) > LONGEST_NAME:
            raise ConfigurationError(
                f"view {view!r}: {what} {name!r} is longer than PostgreSQL's {LONGEST_NAME} bytes", "Shorten it."
            )
