"""Reading the catalog: one function per kind of record, each given a cursor, so that several can share a snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from dyda.cursor import Cursor
from dyda.model.cause import Cause, LostIndex, MessagesPending, NotPolled, Several, SourceAway, Text, Unshown
from dyda.model.message import MessageState, UpdateMessage
from dyda.model.position import Position
from dyda.model.view_state import ShownState, ViewState
from dyda.warehouse.catalog.cause_codec import cause_from_json
from dyda.warehouse.catalog.codec import (
    changes_from_json,
    earlier_from_json,
    layout_from_json,
    name_from_text,
    relation_from_json,
    states_from_json,
    view_columns_from_json,
)
from dyda.warehouse.catalog.records import (
    AbortRecord,
    Blocker,
    DaemonRecord,
    FreshnessRecord,
    Identity,
    IndexRecord,
    KnowledgeRecord,
    MessageRecord,
    RelationRecord,
    RequestRecord,
    SourceRecord,
    Status,
    UnitRecord,
    VersionRecord,
    ViewRecord,
    WaitingRecord,
)
from dyda.warehouse.connection import ADVISORY_CLASS, PROJECT_LOCK, WAITING_LOCK, load

POLLED_WITHIN = 10.0
"""Seconds within which every source must have been polled for a view to count as fresh."""

PROJECT = {"class": ADVISORY_CLASS, "key": PROJECT_LOCK}
WAITING = {"class": ADVISORY_CLASS, "key": WAITING_LOCK}


Row = Any
"""A named tuple, with the columns of its query."""


def _all(cursor: Cursor, name: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
    """The rows of sql/NAME."""
    return _rows(cursor, load(name).string, parameters)


def _rows(cursor: Cursor, query: str, parameters: Mapping[str, Any] | None = None) -> list[Row]:
    cursor.execute(query, dict(parameters or {}))
    return cursor.fetchall()


def _row(cursor: Cursor, query: str, parameters: Mapping[str, Any] | None = None) -> Row:
    (row,) = _rows(cursor, query, parameters)
    return row


def views(cursor: Cursor, name: str | None = None, *, counted: bool = True, hidden: bool = False) -> list[ViewRecord]:
    """Every view, or the one called `name`. `counted` False skips counting pending messages: that takes long. `hidden`:
    also those that lanes have built and no reader sees yet."""
    parameters = {"name": name, "counted": counted, "hidden": hidden}
    return [_view(row) for row in _all(cursor, "views.sql", parameters)]


def _view(row: Row) -> ViewRecord:
    state, cause = _shown(row)
    fresh_at = row.fresh_at
    if row.state in (ViewState.LIVE, ViewState.HELD) and fresh_at is not None:
        # The extent is known to be complete up to here: the oldest change it lacks, or else the last poll.
        known = row.oldest if row.pending else row.polled_at
        if known is not None and (row.pending or known > fresh_at):
            fresh_at = min(known, row.now)
    return ViewRecord(
        name=row.name,
        state=state,
        stored_state=ViewState(row.state),
        cause=cause,
        version=row.version,
        rows=row.rows,
        fresh_at=fresh_at,
        lag_seconds=None if fresh_at is None else max(0.0, (row.now - fresh_at).total_seconds()),
        positions={source: Position.parse(text) for source, text in (row.positions or {}).items()},
        columns=view_columns_from_json(row.columns or ()),
        sql=row.sql,
        relations=tuple(map(name_from_text, row.relations or ())),
        file_text=row.file_text,
        created_at=row.created_at,
        pending=row.pending,
        details=row.details or {},
        states=tuple(table.state for _, table in states_from_json(row.states or ())),
        program=row.program,
        layout=layout_from_json(row.layout),
        narrowed=row.narrowed,
        earlier=None if row.earlier is None else earlier_from_json(row.earlier),
    )


def _shown(row: Row) -> tuple[ShownState, Cause | None]:
    """The state that users see, and its cause: what a live view waits for comes first."""
    own = cause_from_json(row.cause)
    if row.state != ViewState.LIVE:
        return ShownState(row.state), own
    waits = tuple(cause for entry in row.waits_for or () if (cause := cause_from_json(entry)) is not None)
    cause = Several(waits) if len(waits) > 1 else next(iter(waits), own)
    if row.held:
        return ShownState.HELD, cause
    polled = row.polled_at is not None and row.now - row.polled_at <= datetime.timedelta(seconds=POLLED_WITHIN)
    if polled and not row.pending and row.away is None:
        return ShownState.FRESH, cause
    return ShownState.STALE, cause or _why_stale(row)


def _why_stale(row: Row) -> Cause | None:
    if not row.positions:
        return None
    if row.away is not None:
        return SourceAway(row.away["source"], row.away["error"] or f"source {row.away['source']} is out of reach")
    return MessagesPending(row.pending) if row.pending else NotPolled()


def indexes(cursor: Cursor, view: str) -> list[IndexRecord]:
    """Those of the view's table: what its file declares, what users made by hand, and what finds its rows."""
    rows = _all(cursor, "view_indexes.sql", {"view": view})
    return [
        IndexRecord(row.name, row.purpose, tuple(row.columns), row.unique, row.definition, row.bytes, row.scans)
        for row in rows
    ]


def lost_indexes(cursor: Cursor) -> dict[str, tuple[Cause, ...]]:
    """By view, the keys and indexes that it has lost since its file was last applied and has not got back."""
    found: dict[str, dict[Cause, Cause]] = {}
    for row in _all(cursor, "lost_indexes.sql"):
        cause = _lost_index(row.entry)
        # Of one that was lost more than once, the last is said.
        lost = replace(cause, detail="") if isinstance(cause, LostIndex) else cause
        found.setdefault(row.view, {})[lost] = cause
    return {name: tuple(causes.values()) for name, causes in found.items()}


def _lost_index(entry: Mapping[str, Any] | str) -> Cause:
    """An older version wrote a text."""
    cause = Text(entry) if isinstance(entry, str) else cause_from_json(entry)
    assert cause is not None
    return cause


def versions(cursor: Cursor, view: str) -> list[VersionRecord]:
    rows = _rows(cursor, "SELECT * FROM dyda.view_version WHERE view = %(view)s ORDER BY version", {"view": view})
    return [
        VersionRecord(
            row.view,
            row.version,
            row.sql,
            view_columns_from_json(row.columns),
            tuple(map(name_from_text, row.relations)),
            cause_from_json(row.details.get("cause")) or Text(row.cause),
            row.extent,
            row.installed_at,
            row.details,
            layout_from_json(row.layout),
            tuple(map(_lost_index, row.details.get("lost_indexes", ()))),
        )
        for row in rows
    ]


def messages(
    cursor: Cursor,
    source: str | None = None,
    limit: int | None = None,
    numbers: Collection[int] | None = None,
    states: Collection[MessageState] | None = None,
) -> list[MessageRecord]:
    """The queue in arrival order: all of it, or a selection."""
    values = {
        "source": source,
        "numbers": None if numbers is None else list(numbers),
        "states": None if states is None else [state.value for state in states],
        "limit": limit,
    }
    chosen = {
        "source": "source = %(source)s",
        "numbers": "id = ANY (%(numbers)s::bigint[])",
        "states": "state = ANY (%(states)s::text[])",
    }
    conditions = " AND ".join(text for name, text in chosen.items() if values[name] is not None) or "true"
    query = f"SELECT * FROM dyda.message WHERE {conditions} ORDER BY id LIMIT %(limit)s"
    return [_message(row) for row in _rows(cursor, query, values)]


def _message(row: Row) -> MessageRecord:
    header = UpdateMessage(
        row.source, row.xid, row.last_sequence, changes_from_json(row.source, row.changes), row.committed_at
    )
    return MessageRecord(
        row.id, header, MessageState(row.state), cause_from_json(row.cause), row.unit, row.received_at, row.approved
    )


def sources(cursor: Cursor, *, counted: bool = True) -> list[SourceRecord]:
    """Every source. `counted` False skips counting pending messages."""
    found = []
    for row in _all(cursor, "sources.sql", {"counted": counted}):
        parts = row._asdict()
        system, timeline = parts.pop("system_identifier"), parts.pop("timeline")
        found.append(SourceRecord(identity=None if system is None else Identity(system, timeline), **parts))
    return found


def relations(cursor: Cursor) -> list[RelationRecord]:
    rows = _rows(cursor, 'SELECT * FROM dyda.relation ORDER BY source, schema, "table"')
    return [
        RelationRecord(
            relation_from_json(row._asdict()),
            row.fingerprint,
            row.captured,
            Position.parse(row.position) if row.position is not None else None,
        )
        for row in rows
    ]


def knowledge(cursor: Cursor) -> KnowledgeRecord:
    row = _row(cursor, "SELECT * FROM dyda.project")
    return KnowledgeRecord(row.knowledge, row.knowledge_file, tuple(row.knowledge_retired), row.knowledge_evolved)


def units(cursor: Cursor, limit: int = 20) -> list[UnitRecord]:
    """The last units, newest first."""
    rows = _rows(cursor, "SELECT * FROM dyda.unit ORDER BY id DESC LIMIT %(limit)s", {"limit": limit})
    return [UnitRecord(**row._asdict()) for row in rows]


def aborts(cursor: Cursor) -> tuple[int, float]:
    """How many units were abandoned so far, and the seconds they had cost."""
    row = _row(cursor, "SELECT count(*), coalesce(sum(seconds), 0) FROM dyda.abort")
    return int(row[0]), float(row[1])


def aborts_of_waiting(cursor: Cursor) -> list[AbortRecord]:
    """The aborts of units whose messages are still in the queue, oldest first."""
    rows = _rows(
        cursor,
        "SELECT messages, relations FROM dyda.abort WHERE messages && ARRAY(SELECT id FROM dyda.message) ORDER BY id",
    )
    return [AbortRecord(tuple(messages), tuple(map(name_from_text, relations))) for messages, relations in rows]


def lanes(cursor: Cursor) -> list[RequestRecord]:
    """What is being built beside the units, oldest first."""
    rows = _rows(cursor, "SELECT * FROM dyda.request WHERE verb = 'lane' AND state = 'running' ORDER BY id")
    return [RequestRecord(**row._asdict()) for row in rows]


def request(cursor: Cursor, number: int) -> RequestRecord:
    row = _row(cursor, "SELECT * FROM dyda.request WHERE id = %(number)s", {"number": number})
    return RequestRecord(**row._asdict())


def holder(cursor: Cursor) -> DaemonRecord:
    """The process that works on the project now."""
    rows = _all(cursor, "holder.sql", PROJECT)
    return DaemonRecord(True, *rows[0]) if rows else DaemonRecord(running=False)


def waiting(cursor: Cursor) -> list[WaitingRecord]:
    """The daemons that wait for the project's lock, in the order in which they came."""
    return [WaitingRecord(**row._asdict()) for row in _all(cursor, "waiting.sql", WAITING)]


def status(cursor: Cursor) -> Status:
    """Everything at a glance."""
    return Status(
        holder(cursor),
        tuple(sources(cursor)),
        tuple(views(cursor)),
        tuple(Blocker(**row._asdict()) for row in _all(cursor, "blockers.sql", PROJECT)),
        tuple(waiting(cursor)),
    )


def freshness(cursor: Cursor) -> list[FreshnessRecord]:
    """Every view as any SQL tool sees it."""
    columns = "f.name, f.state, f.reason, f.fresh_at, f.lag_seconds, v.overdue_since"
    rows = _rows(cursor, f"SELECT {columns} FROM dyda.freshness f JOIN dyda.view v ON v.name = f.name ORDER BY f.name")
    return [FreshnessRecord(**row._asdict()) for row in rows]


def unshown(cursor: Cursor, schema: str) -> dict[str, Cause]:
    """Views whose rows readers do not see, because their view was dropped or replaced."""
    rows = _all(cursor, "unshown.sql", {"schema": schema})
    return {row.name: Unshown(row.name, f"{schema}.{row.name}", bool(row.replaced)) for row in rows}
