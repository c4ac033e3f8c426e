"""The views that readers query: <schema>.<view>, a bag, nothing else.

Their definitions move only when a version's columns do. Whatever a user did to one is kept: GRANTs, the comment, and
above all a relation of the user's own that happens to have the name is never touched.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2 import sql

from dyda.errors import ConfigurationError, DydaError, InstallBlocked
from dyda.warehouse.connection import load, short
from dyda.warehouse.extents import Extent

__all__ = ["Reader", "check_names"]

LONGEST_NAME = 63


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

    def exists(self, cursor: Any) -> bool:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s)",
            (self.schema, self.name),
        )
        (found,) = cursor.fetchone()
        return bool(found)

    def publish(
        self, cursor: Any, extent: Extent, names: Sequence[str], previous: Extent | None, patience: float
    ) -> None:
        """Lets readers see `extent` under these column names; `previous` is what they have seen until now."""
        exists = self._is_ours(cursor, previous, extent)
        if exists:
            self._lock(cursor, patience)
            if self._try_replace(cursor, extent, names):
                return
            kept = self._kept(cursor)
            self.drop(cursor)
            cursor.execute(self._definition("CREATE VIEW", extent, names))
            self._restore(cursor, kept, names)
        else:
            cursor.execute(self._definition("CREATE VIEW", extent, names))

    def retire(self, cursor: Any, extent: Extent | None, patience: float) -> None:
        """Takes the view away, if it is there and ours."""
        if extent is not None and self._owner_extents(cursor) & {extent.number}:
            self._lock(cursor, patience)
            self.drop(cursor)

    def drop(self, cursor: Any) -> None:
        try:
            cursor.execute(sql.SQL("DROP VIEW {}").format(self.identifier))
        except psycopg2.errors.DependentObjectsStillExist as error:
            raise DydaError(
                f"{self} cannot be replaced: {error.diag.message_detail or short(error)}",
                "Drop or change what depends on it, then run the command again.",
            ) from None

    def _definition(self, command: str, extent: Extent, names: Sequence[str]) -> sql.Composable:
        items = [
            sql.SQL("e.{} AS {}").format(sql.Identifier(f"c{i}"), sql.Identifier(name))
            for i, name in enumerate(names, start=1)
        ]
        return sql.SQL(
            "{} {} AS SELECT {} FROM {} AS e CROSS JOIN LATERAL generate_series(1, e.count) AS copies"
            " WHERE dyda.extent_visible({})"
        ).format(
            sql.SQL(command), self.identifier, sql.SQL(", ").join(items), extent.identifier, sql.Literal(extent.number)
        )

    def _is_ours(self, cursor: Any, *extents: Extent | None) -> bool:
        """Whether there is something of this name; an error if it is not ours."""
        if not self.exists(cursor):
            return False
        if not self._owner_extents(cursor) & {extent.number for extent in extents if extent is not None}:
            raise ConfigurationError(
                f"{self} is there already and is not DyDa's",
                "Rename the view's file, rename or drop that relation, or choose another schema in [warehouse].",
            )
        return True

    def _owner_extents(self, cursor: Any) -> set[int]:
        """The extents that the relation of this name reads: what makes it ours, also after a dump and restore."""
        cursor.execute(load("reader_extents.sql"), (self.schema, self.name))
        return {number for (number,) in cursor.fetchall()}

    def _try_replace(self, cursor: Any, extent: Extent, names: Sequence[str]) -> bool:
        """CREATE OR REPLACE keeps everything that hangs on the view, but allows new columns only at the end."""
        cursor.execute("SAVEPOINT replacing")
        try:
            cursor.execute(self._definition("CREATE OR REPLACE VIEW", extent, names))
        except psycopg2.errors.InvalidTableDefinition:
            cursor.execute("ROLLBACK TO SAVEPOINT replacing")
            return False
        cursor.execute("RELEASE SAVEPOINT replacing")
        return True

    def _lock(self, cursor: Any, patience: float) -> None:
        """The exclusive lock, asked for in short turns: while we queue for it, new readers queue behind us."""
        deadline = time.monotonic() + patience
        cursor.execute("SAVEPOINT locking")
        while True:
            cursor.execute("SET LOCAL lock_timeout = '500ms'")
            try:
                cursor.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(self.identifier))
                cursor.execute("SET LOCAL lock_timeout = 0")
                cursor.execute("RELEASE SAVEPOINT locking")
                return
            except psycopg2.errors.LockNotAvailable:
                cursor.execute("ROLLBACK TO SAVEPOINT locking")
            if time.monotonic() >= deadline:
                raise InstallBlocked(str(self), self._holders(cursor))
            time.sleep(0.1)

    def _holders(self, cursor: Any) -> list[int]:
        cursor.execute(load("lock_holders.sql"), (self.schema, self.name))
        return [pid for (pid,) in cursor.fetchall()]

    def _kept(self, cursor: Any) -> list[tuple[Any, ...]]:
        cursor.execute(load("reader_rights.sql"), {"schema": self.schema, "name": self.name})
        return list(cursor.fetchall())

    def _restore(self, cursor: Any, kept: list[tuple[Any, ...]], names: Sequence[str]) -> None:
        """Rights and comments as they were; default privileges must not widen what a user had narrowed."""
        for kind, _column, role, _text, _grantable in self._kept(cursor):
            if kind == "right":
                cursor.execute(sql.SQL("REVOKE ALL ON {} FROM {}").format(self.identifier, _role(role)))
        for kind, column, role, text, grantable in kept:
            if column is not None and column not in names:
                continue
            on = sql.SQL("") if column is None else sql.SQL(" ({})").format(sql.Identifier(column))
            if kind == "right":
                cursor.execute(
                    sql.SQL("GRANT {}{} ON {} TO {}{}").format(
                        sql.SQL(text),
                        on,
                        self.identifier,
                        _role(role),
                        sql.SQL(" WITH GRANT OPTION" if grantable else ""),
                    )
                )
            else:
                what = sql.SQL("VIEW {}").format(self.identifier)
                if column is not None:
                    what = sql.SQL("COLUMN {}.{}").format(self.identifier, sql.Identifier(column))
                cursor.execute(sql.SQL("COMMENT ON {} IS {}").format(what, sql.Literal(text)))


def _role(name: str | None) -> sql.Composable:
    return sql.SQL("PUBLIC") if name is None else sql.Identifier(name)


def check_names(view: str, columns: Sequence[str]) -> None:
    """Names that PostgreSQL would cut off or refuse are refused by us, with the name."""
    for what, name in [("the view's name", view), *(("the column name", column) for column in columns)]:
        if not name or "\0" in name:
            raise ConfigurationError(f"view {view!r}: {what} {name!r} is not possible in PostgreSQL", "Give it a name.")
        if len(name.encode()) > LONGEST_NAME:
            raise ConfigurationError(
                f"view {view!r}: {what} {name!r} is longer than PostgreSQL's {LONGEST_NAME} bytes", "Shorten it."
            )
