"""The state of capture at a source, as its own functions report it."""

from __future__ import annotations

from dataclasses import dataclass

from dyda.cursor import Cursor
from dyda.sources.adapter import CaptureState, SourceIdentity
from dyda.sources.capture.role import refuse_traps
from dyda.sources.connection import value
from dyda.sources.settings import Consumer
from dyda.sources.wal.slot import Slot, find_slot

__all__ = ["LogState", "is_complete", "read_state", "schema_changed"]


ANNOUNCED = (
    "SELECT EXISTS (SELECT FROM pg_trigger WHERE tgrelid = 'dyda.log'::regclass AND tgname = 'dyda_announce'"
    " AND tgenabled = 'A' AND tgfoid = 'dyda.announce()'::regprocedure)"
)
"""Whether schema changes and truncations are told in the stream."""


@dataclass(frozen=True)
class LogState(CaptureState):
    """Also the log's consumer, and its file, which changes when the log is truncated or created again. `by_wal`: rows
    come from the write-ahead log, and `slot` keeps it."""

    project: str | None = None
    log_file: int = 0
    by_wal: bool = False
    slot: Slot | None = None


def is_complete(cursor: Cursor) -> bool:
    """Whether every table, sequence and function of capture exists, and the triggers that guard the log are enabled.

    Capture as an older DyDa attached it, with dyda.shape, is complete without later additions.
    """
    cursor.execute(
        "SELECT (SELECT count(*) = 3 FROM pg_trigger WHERE tgrelid = to_regclass('dyda.log') AND tgenabled = 'A'"
        "        AND tgfoid = to_regprocedure('dyda.log_changed()'))"
        " AND (to_regprocedure('dyda.shape(oid, oid)') IS NOT NULL OR"
        "      (SELECT to_regclass('dyda.measure_at') IS NOT NULL AND bool_and(to_regprocedure(later) IS NOT NULL) FROM"
        "       unnest(ARRAY['dyda.measure()', 'dyda.places()', 'dyda.places(oid, oid)', 'dyda.capturing(oid, oid)'])"
        "       AS later))"
        " AND bool_and(to_regclass(t) IS NOT NULL) AND bool_and(to_regprocedure(f) IS NOT NULL) FROM (VALUES"
        " ('dyda.log', 'dyda.state()'), ('dyda.gap', 'dyda.capture()'), ('dyda.consumer', 'dyda.entries(pg_snapshot)'),"
        " ('dyda.watched', 'dyda.watched_relations()'), ('dyda.member', 'dyda.mark_gap()'),"
        " ('dyda.log_sequence', 'dyda.acknowledge(text, pg_snapshot)'), ('dyda.gap_until', 'dyda.mark_gap()'),"
        " ('dyda.described', 'dyda.schema_entries(pg_snapshot)'),"
        " ('dyda.holder', 'dyda.changed_relations()'), ('dyda.log_schema', 'dyda.observe(oid, text, oid[], oid[])'),"
        " ('dyda.described', 'dyda.schema_changed(pg_snapshot)'), ('dyda.mark', 'dyda.standing()'),"
        " ('dyda.mark', 'dyda.leave_mark(text, text)')) AS needed (t, f)"
    )
    return bool(cursor.fetchone()[0])


def read_state(cursor: Cursor, consumer: Consumer) -> LogState:
    """What `dyda.state()` says, or that nothing is attached (as in a restored dump). Needs a fresh transaction."""
    nothing = LogState(False, SourceIdentity("unknown", "unknown"))
    if not is_complete(cursor):
        return nothing
    refuse_traps(cursor, consumer)
    cursor.execute(
        "SELECT h.*, s.*, ARRAY(SELECT json_build_array(w.root::bigint, w.schema_name, w.table_name)"
        " FROM dyda.watched_relations() w) FROM dyda.standing() h, dyda.state() s"
    )
    at_home, marks, project, gap, unsettled, system, timeline, events, order, log_file, relations = cursor.fetchone()
    if not at_home:
        return nothing
    watched = {root: (schema, table) for root, schema, table in relations}
    identity = SourceIdentity(system, timeline)
    by_wal = bool(value(cursor, "SELECT EXISTS (SELECT FROM pg_publication WHERE pubname = 'dyda_capture')"))
    slot = find_slot(cursor) if by_wal else None
    # A stream names columns, and only event triggers tell their numbers in the same place.
    if by_wal and (slot is None or not slot.works or not events or not value(cursor, ANNOUNCED)):
        return LogState(False, identity, project=project, by_wal=True)
    order = order or by_wal
    return LogState(
        True, identity, gap, unsettled, events, order, frozenset(marks), watched, project, log_file, by_wal, slot
    )


def schema_changed(cursor: Cursor, since: str) -> bool:
    """Whether the log has a schema change that the snapshot `since` does not show."""
    return bool(value(cursor, "SELECT dyda.schema_changed(%s::pg_snapshot)", (since,)))
