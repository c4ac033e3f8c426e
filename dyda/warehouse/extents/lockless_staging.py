"""Staging tables for a process without the project's lock: `verify`, beside a running daemon."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg2

from dyda.cursor import Connection
from dyda.model.operator_state import State
from dyda.warehouse.connection import session
from dyda.warehouse.extents.staging import Staging, create_staging, drop_staging
from dyda.warehouse.states.combine import combine_staging

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
