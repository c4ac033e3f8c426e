"""Locks that let a unit that was broken too often end at last (paper 001, Section 5; termination).

    holder ─── BEGIN; LOCK TABLE … IN ACCESS SHARE MODE ─────── (idle, at most `limit` seconds) ─────── ROLLBACK

Readers and writers at the source notice nothing; a schema change waits until the unit is through or the limit is
reached, which the server itself sees to, whatever has become of us. Then a schema change may slip in again, and the
fingerprint after the last read tells.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from psycopg2 import sql

from dyda.errors import BrokenUnit, SourceBusy
from dyda.model.relation import RelationName
from dyda.sources import catalog
from dyda.sources.connection import WRITING, Sessions, translate

__all__ = ["TableLocks"]

PATIENCE = "400ms"
"""How long one attempt may hold some of the locks and wait for the others: less than PostgreSQL's deadlock_timeout, so
that it is never the source's transaction that is ended for a deadlock with us."""


class TableLocks:
    """ACCESS SHARE locks on these relations and everything below them, in a transaction of their own."""

    def __init__(self, sessions: Sessions, relations: Mapping[RelationName, int | None], limit: float) -> None:
        self._sessions = sessions
        self._relations = relations
        self._holder: Any = None
        deadline = time.monotonic() + limit
        pause = 0.02
        while self._holder is None:
            try:
                self._take(limit)
            except SourceBusy:
                if time.monotonic() + pause > deadline:
                    raise
                time.sleep(pause)
                pause = min(pause * 2, 0.5)

    def release(self) -> None:
        if self._holder is not None:
            holder, self._holder = self._holder, None
            self._sessions.give_back(holder)

    def _take(self, limit: float) -> None:
        """All or none. Names are resolved twice: another table might have taken one before its lock was granted."""
        source = self._sessions.settings.name
        holder = self._sessions.begin(WRITING)
        try:
            with translate(source, self._relations), holder.cursor() as cursor:
                wanted = self._present(cursor)
                cursor.execute(f"SET LOCAL statement_timeout = '{PATIENCE}'; SET LOCAL lock_timeout = '{PATIENCE}'")
                tables = sql.SQL(", ").join(sql.Identifier(schema, table) for schema, table in wanted.values())
                cursor.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(tables))
                if self._present(cursor) != wanted:
                    raise SourceBusy(source, "tables were renamed while they were being locked")
                # Counted from here: nothing more is asked in this session.
                cursor.execute(
                    "SELECT set_config('idle_in_transaction_session_timeout', %s, true)", (f"{int(limit * 1000)}ms",)
                )
        except BaseException:
            self._sessions.give_back(holder)
            raise
        self._holder = holder

    def _present(self, cursor: Any) -> dict[int, tuple[str, str]]:
        """The relations by oid with the names they have now."""
        unknown = [name for name, oid in self._relations.items() if oid is None]
        under = catalog.stand_under(cursor, [(name.schema, name.table) for name in unknown])
        oids = {oid for oid in (*self._relations.values(), *under) if oid is not None}
        found = {
            oid: (relation.name.schema, relation.name.table)
            for oid, relation in catalog.find(cursor, self._sessions.settings.name, oids).items()
            if relation is not None
        }
        if len(found) < len(set(self._relations)):
            raise BrokenUnit(self._sessions.settings.name, frozenset(map(str, self._relations)), "a relation is gone")
        return found
