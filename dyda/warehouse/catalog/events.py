"""Events in the catalog: saved with what they are about, read by commands and notifications, and forgotten in time."""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Sequence
from typing import Any

from dyda.cursor import Cursor
from dyda.event_wording import event_sentence, next_step
from dyda.model.event import Event
from dyda.passwords import hidden
from dyda.warehouse.catalog.cause_codec import parts_of
from dyda.warehouse.catalog.records import EventRecord
from dyda.warehouse.connection import load

__all__ = ["events", "forget_old_events", "newest_event", "notified", "save_events"]

LASTING_DAYS, LASTING = 30, 100_000
"""So long, and so many of them, events are kept …"""

UNIT_HOURS, UNITS = 24, 20_000
"""… and those of installed units, of which there may be many in a second."""


def save_events(cursor: Cursor, happened: Sequence[Event]) -> list[EventRecord]:
    """Saves them, in this order, in the transaction of what they are about: one statement, and none for none."""
    if not happened:
        return []
    rows = [_row(event) for event in happened]
    columns = ("kind", "view", "source", "message", "text", "next")
    parameters: dict[str, Any] = {name: [row[name] for row in rows] for name in columns}
    parameters["causes"] = [None if row["cause"] is None else json.dumps(row["cause"]) for row in rows]
    parameters["details"] = [json.dumps(row["details"]) for row in rows]
    cursor.execute(load("save_events.sql"), parameters)
    saved = sorted(cursor.fetchall())
    return [EventRecord(id=number, at=at, **row) for (number, at), row in zip(saved, rows, strict=True)]


def _row(event: Event) -> dict[str, Any]:
    parts = _without_passwords(parts_of(event))
    next_text = next_step(event)
    row = {name: parts.pop(name, None) for name in ("kind", "view", "source", "message", "cause")}
    row |= {"text": hidden(event_sentence(event)), "next": None if next_text is None else hidden(next_text)}
    return {**row, "details": parts}


def _without_passwords(value: Any) -> Any:
    if isinstance(value, str):
        return hidden(value)
    if isinstance(value, dict):
        return {name: _without_passwords(part) for name, part in value.items()}
    return [_without_passwords(part) for part in value] if isinstance(value, list) else value


def events(
    cursor: Cursor,
    *,
    after: int = 0,
    since: datetime.datetime | None = None,
    view: str | None = None,
    kinds: Collection[str] | None = None,
    last: int | None = None,
    limit: int | None = None,
) -> list[EventRecord]:
    """Events in the order in which they happened: those `after` a number, or `since` a moment; `last`: only so many of
    the newest ones, `limit`: of the oldest ones."""
    conditions = {
        "id > %(after)s": True,
        "at >= %(since)s": since is not None,
        "view = %(view)s": view is not None,
        "kind = ANY(%(kinds)s)": kinds is not None,
    }
    chosen = " AND ".join(text for text, used in conditions.items() if used)
    columns = "id, at, kind, view, source, message, text, next, cause, details"
    order, number = ("DESC", last) if last is not None else ("ASC", limit)
    cursor.execute(
        f"SELECT {columns} FROM dyda.event WHERE {chosen} ORDER BY id {order} LIMIT %(number)s",
        {
            "after": after,
            "since": since,
            "view": view,
            "kinds": None if kinds is None else list(kinds),
            "number": number,
        },
    )
    found = [EventRecord(*row) for row in cursor.fetchall()]
    return found[::-1] if last is not None else found


def newest_event(cursor: Cursor) -> int:
    """The number of the last event; 0 if there was none."""
    cursor.execute("SELECT coalesce(max(id), 0) FROM dyda.event")
    return int(cursor.fetchone()[0])


def notified(cursor: Cursor, target: str) -> int | None:
    """The last event that the target was told of; None: it was told of none yet."""
    cursor.execute("SELECT event FROM dyda.notified WHERE target = %s", (target,))
    row = cursor.fetchone()
    return None if row is None else int(row[0])


def forget_old_events(cursor: Cursor) -> None:
    """Deletes what is older than events are kept, or more than are kept."""
    cursor.execute(
        load("forget_old_events.sql"),
        {"days": LASTING_DAYS, "lasting": LASTING, "hours": UNIT_HOURS, "units": UNITS},
    )
