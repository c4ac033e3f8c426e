"""The slot that keeps the write-ahead log for us, and the identities of the tables in it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dyda.cursor import Cursor
from dyda.errors import Blocker, CaptureBlocked, MissingRights, SourceBusy, SourceInUse
from dyda.sources.adapter import Waiting
from dyda.sources.connection import FRESH, WRITING, Sessions, value

__all__ = ["Slot", "create_slot", "drop_slot", "find_slot", "require_logical"]

FIND = (
    "SELECT s.slot_name, coalesce(s.wal_status, '') NOT IN ('lost', '') AND s.plugin = 'pgoutput'"
    " AND s.confirmed_flush_lsn - '0/0'::pg_lsn <= dyda.flushed_to(),"
    " pg_wal_lsn_diff(CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_lsn() END, s.restart_lsn)::bigint"
    " FROM pg_database d LEFT JOIN pg_replication_slots s"
    " ON s.slot_name = 'dyda_' || d.oid AND s.database = d.datname WHERE d.datname = current_database()"
)


@dataclass(frozen=True)
class Slot:
    """`works`: it is the one that was created for us, and goes on where we have left it. Everybody who advances it, or
    creates another one under its name, leaves it beyond what was read of it. `retained`: how many bytes of WAL the
    server keeps for it."""

    name: str
    works: bool
    retained: int


def find_slot(cursor: Cursor) -> Slot | None:
    cursor.execute(FIND)
    name, works, retained = cursor.fetchone()
    return None if name is None else Slot(name, bool(works), int(retained or 0))


def require_logical(cursor: Cursor, source: str) -> None:
    """What capture from the write-ahead log needs, before anything is changed."""
    events = (
        "SELECT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) OR (SELECT count(*) = 3 FROM"
        " pg_event_trigger WHERE evtenabled = 'A' AND evtname IN"
        " ('dyda_command_ended', 'dyda_object_dropped', 'dyda_table_rewritten'))"
    )
    if not value(cursor, events):
        raise MissingRights(
            f"source {source}: reading the write-ahead log needs event triggers, which only a superuser can create",
            'Run `dyda apply` once with a superuser\'s url, or set capture = "triggers".',
            source,
        )
    if value(cursor, "SELECT current_setting('wal_level')") != "logical":
        raise MissingRights(
            f"source {source}: its write-ahead log has no rows to read (wal_level is not logical)",
            'ALTER SYSTEM SET wal_level = logical; and restart the server. Or set capture = "triggers".',
            source,
        )


OPEN = (
    "SELECT a.pid, a.usename::text, nullif(a.application_name, ''), a.xact_start, NULL FROM pg_stat_activity a"
    " WHERE a.backend_xid IS NOT NULL AND a.pid <> pg_backend_pid()"
    " UNION ALL SELECT NULL, p.owner::text, NULL, p.prepared, p.gid FROM pg_prepared_xacts p ORDER BY 4, 1"
)
"""Whatever has written somewhere on the server and is still open."""


def create_slot(sessions: Sessions, waiting: Waiting | None = None) -> bool:
    """Whether it had to be created: everything before is lost then. The server waits for the transactions that are
    open; `waiting` is called with them, and raises to end the wait. Without it, attach_timeout does."""
    with sessions.transaction(WRITING) as cursor:
        found = find_slot(cursor)
    if found is not None and found.works:
        return False
    if found is not None:
        drop_slot(sessions)
    deadline = time.monotonic() + sessions.settings.attach_timeout
    while True:
        try:
            with sessions.transaction(WRITING) as cursor:
                cursor.execute(
                    "SELECT dyda.keep_flushed((s.lsn - '0/0'::pg_lsn)::bigint, true) FROM pg_database d,"
                    " pg_create_logical_replication_slot(('dyda_' || d.oid)::name, 'pgoutput') AS s (name, lsn)"
                    " WHERE d.datname = current_database()"
                )
            return True
        except SourceBusy as busy:
            blocked = _blocked(sessions, busy)
            if waiting is not None:
                waiting(blocked)
            elif time.monotonic() > deadline:
                raise blocked from None


def _blocked(sessions: Sessions, busy: SourceBusy) -> CaptureBlocked:
    with sessions.transaction(FRESH) as cursor:
        cursor.execute(OPEN)
        blockers = [Blocker(*row) for row in cursor.fetchall()]
    name = sessions.settings.name
    return CaptureBlocked(name, f"the replication slot of {name}", blockers, busy.why)


def drop_slot(sessions: Sessions) -> None:
    """Also where somebody reads it."""
    deadline = time.monotonic() + sessions.settings.attach_timeout
    while True:
        try:
            with sessions.transaction(WRITING) as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(s.active_pid) FROM pg_replication_slots s JOIN pg_database d"
                    " ON s.slot_name = 'dyda_' || d.oid AND d.datname = current_database()"
                    " WHERE s.active_pid IS NOT NULL"
                )
                cursor.execute(
                    "SELECT pg_drop_replication_slot(s.slot_name) FROM pg_replication_slots s JOIN pg_database d"
                    " ON s.slot_name = 'dyda_' || d.oid AND d.datname = current_database()"
                )
            return
        except SourceInUse as error:
            if time.monotonic() > deadline:
                raise SourceBusy(sessions.settings.name, error.what) from None
            time.sleep(0.05)
