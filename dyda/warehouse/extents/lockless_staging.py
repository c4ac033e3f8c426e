"""Staging tables in a session of their own: for `verify`, beside a running daemon, and for lanes, beside its units."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg2

from dyda.cursor import Connection
from dyda.model.operator_state import State
from dyda.warehouse.catalog.records import ViewVersion
from dyda.warehouse.connection import session
from dyda.warehouse.extents.prepared_tables import PreparedTables, prepare, rewrite
from dyda.warehouse.extents.staging import Staging, create_staging, drop_staging
from dyda.warehouse.installation import ViewChange
from dyda.warehouse.states.combine import combine_staging
from dyda.warehouse.view_installer import owned

__all__ = ["Stagings", "own_stagings"]


class Stagings:
    """Made by `Warehouse.stagings()`; one session guards all of its tables."""

    def __init__(self, connection: Connection, url: str) -> None:
        self._connection = connection
        self._url = url
        self.made: list[Staging] = []

    def staging(self, columns: int) -> Staging:
        with self._connection.cursor() as cursor:
            made = create_staging(cursor, self._url, columns)
        self._connection.commit()
        self.made.append(made)
        return made

    def combine_staging(self, state: State, entries: Staging, *, view: str) -> Staging:
        """As `Writer.combine_staging`."""
        target = self.staging(len(state.columns))
        with self._connection.cursor() as cursor:
            combine_staging(cursor, view, state, entries, target)
        self._connection.commit()
        return target

    def prepare(self, change: ViewChange, version: ViewVersion) -> PreparedTables:
        """Tables with all rows that the view and its states have after the change, for an installation to take; this
        session guards them until then. The view must not move meanwhile if rows of its extent are among them."""
        whole = tuple(range(len(version.columns))) if change.mode == "delta" else None
        states = [state.staging for state in change.states if state.staging is not None]
        with owned(change.view):
            return prepare(
                self._connection, change.view, version, change.delta, change.staging, change.projection or whole, states
            )

    def rewrite(self, view: str) -> PreparedTables | None:
        """A table of its own for a narrowed extent, which an installation takes; None if it has one."""
        with owned(view):
            return rewrite(self._connection, view)

    def cancel(self) -> None:
        """Ends what the session is doing now; from any thread."""
        with suppress(psycopg2.Error):
            self._connection.cancel()


@contextmanager
def own_stagings(url: str) -> Iterator[Stagings]:
    """Staging tables that are dropped at the end of the block."""
    with session(url, "dyda staging") as connection:
        stagings = Stagings(connection, url)
        try:
            yield stagings
        finally:
            with suppress(psycopg2.Error):
                connection.rollback()
                for made in stagings.made:
                    drop_staging(connection, made.number)
