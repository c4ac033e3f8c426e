"""Commands that only read: sources, views, everything at a glance."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dyda.commands.attention import DUE, decisions, next_of
from dyda.errors import DydaError
from dyda.model.cause import Cause, WaitsBehind
from dyda.model.layout import Layout
from dyda.model.message import HOLDING
from dyda.model.preferences import Preference
from dyda.model.view_state import ShownState, ViewState
from dyda.open_project import OpenProject
from dyda.settings import without_password
from dyda.warehouse import IndexRecord, RequestRecord, SourceRecord, UnitRecord, ViewRecord, cause_to_json
from dyda.wording import sentence

__all__ = ["sources", "status", "time_text", "told", "views", "views_show"]

RECENT = 20
"""Units whose phases `status` shows."""

PHASES = "capture, catalog, plan, images, sweep, check, to spark, spark plan, execute, to arrow, install, acknowledge"
"""In the order of a unit's life."""

SOURCE_STATE = ("reachable", "capture", "order", "pending", "lag_seconds")


def status(folder: Path) -> dict[str, Any]:
    """Daemon, sources and views at a glance."""
    with OpenProject.open(folder) as opened:
        now = opened.warehouse.status()
        aborted, seconds = opened.warehouse.aborts()
        shown = _shown(opened, now.views)
        return {
            "warehouse": {"url": _url(opened), "schema": opened.warehouse.schema},
            "daemon": {
                "running": now.daemon.running and now.daemon.role == "daemon",
                "pid": now.daemon.pid,
                "since": time_text(now.daemon.since),
                "error": now.daemon.obstacle,
                "host": now.daemon.host,
                "waiting": len(now.waiting),
            },
            "sources": _sources(opened, now.sources),
            "lanes": [_lane(record) for record in opened.warehouse.lanes() if now.daemon.running],
            "aborts": {"units": aborted, "seconds": seconds},
            "units": _where_time_goes(opened.warehouse.units(RECENT)),
            "views": _listed(opened, shown),
            "decide": decisions(
                opened.warehouse.messages(states=DUE), [(record.name, record.state, record.cause) for record in shown]
            ),
            "blocked_by": [{**asdict(blocker), "since": time_text(blocker.since)} for blocker in now.blockers],
        }


def sources(folder: Path) -> list[dict[str, Any]]:
    """The sources of the project as they answer now."""
    with OpenProject.open(folder) as opened:
        relations = opened.warehouse.relations()
        answers = []
        for name, source in opened.sources.items():
            settings = opened.project.settings.sources[name]
            answer: dict[str, Any] = {
                "name": name,
                "url": source.url if settings.embedded else without_password(source.url),
                "schema": settings.schema,
                "reachable": True,
                "capture": None,
                "order": None,
                "relations": [str(r.relation.name) for r in relations if r.captured and r.relation.name.source == name],
                "error": None,
            }
            try:
                state = source.state()
                answer |= {"capture": state.capture, "order": state.order}
            except DydaError as error:
                answer |= {"reachable": False, "error": error.what}
            answers.append(answer)
        return answers


def views(folder: Path) -> list[dict[str, Any]]:
    """Every view, with its state."""
    with OpenProject.open(folder) as opened:
        return _views(opened, opened.warehouse.views())


def views_show(folder: Path, name: str) -> dict[str, Any]:
    """One view: its state, definition, file, preferences, keys and indexes."""
    with OpenProject.open(folder) as opened:
        record = opened.warehouse.view(name)
        return {
            **_views(opened, [record])[0],
            "sql": record.sql,
            "file": record.file_text,
            "preferences": _preferences(opened, name),
            "layout": _layout(record.layout, opened.warehouse.indexes(name)),
        }


def _layout(layout: Layout, indexes: Sequence[IndexRecord]) -> dict[str, Any]:
    """What is unique in its rows, and its indexes with their size and use."""
    return {
        "key": None if layout.key is None else list(layout.key),
        "declared_key": None if layout.declared_key is None else list(layout.declared_key),
        "indexes": [
            {
                "columns": list(index.columns),
                "origin": _origin(layout, index),
                "unique": index.unique,
                "definition": index.definition,
                "bytes": index.bytes,
                "scans": index.scans,
            }
            for index in indexes
        ],
    }


def _origin(layout: Layout, index: IndexRecord) -> str:
    """Where an index comes from: a key may be proven and declared, too."""
    if index.purpose in ("key", "declared key"):
        if layout.key is not None and layout.key == layout.declared_key:
            return "derived and declared"
        return "derived" if index.purpose == "key" else "declared"
    return index.purpose


def _preferences(opened: OpenProject, name: str) -> dict[str, Any] | None:
    """What may happen to each component, and contradictions in the file. None for a broken view."""
    from dyda.maintenance.catalog_state import load
    from vs import effective_preferences

    known = load(opened)
    view = known.views.get(name)
    if view is None:
        return None
    effective = effective_preferences(view.definition, known.defaults)
    return {
        "extent": effective.extent,
        "new_columns": effective.new_columns,
        "columns": {name: _words(preference) for name, preference in effective.items},
        "relations": {alias: _words(preference) for alias, preference in effective.relations},
        "conditions": {sql: _words(preference) for sql, preference in effective.conditions},
        "warnings": list(effective.warnings),
    }


def _words(preference: Preference) -> list[str]:
    return [word for word in ("dispensable", "replaceable") if getattr(preference, word)]


def _where_time_goes(units: Sequence[UnitRecord]) -> dict[str, Any]:
    """The median duration of the last data units, phase by phase."""
    recent = [unit for unit in units if unit.kind == "data"]
    names = {name for unit in recent for name in unit.phases}
    known = [name for name in PHASES.split(", ") if name in names]
    return {
        "counted": len(recent),
        "seconds": statistics.median(sum(unit.phases.values()) for unit in recent) if recent else None,
        "phases": {name: statistics.median(unit.phases.get(name, 0.0) for unit in recent) for name in known},
    }


def _sources(opened: OpenProject, records: Sequence[SourceRecord]) -> list[dict[str, Any]]:
    """What the polls found, and the sources of dyda.toml that were never polled."""
    polled = {record.name: record for record in records}
    unpolled = {name: None for name in opened.sources if name not in polled}
    return [
        {
            "name": name,
            **{key: getattr(record, key, None) for key in SOURCE_STATE},
            "error": (record and record.error) or None,
        }
        for name, record in (polled | unpolled).items()
    ]


def _lane(record: RequestRecord) -> dict[str, Any]:
    """What one lane does: `done` of `total` parts of the step, as far as they are known, and how many messages are left
    until the view has caught up."""
    known = record.progress or {}
    return {
        "view": record.arguments["view"],
        "reason": record.arguments["reason"],
        "since": time_text(record.created_at),
        "step": known.get("step", "reading"),
        "done": known.get("done"),
        "total": known.get("total"),
        "rows": known.get("rows"),
        "left": known.get("left"),
    }


def told(cause: Cause | None) -> dict[str, Any]:
    """A cause as answers contain it: as a sentence, and in parts."""
    return {"reason": None if cause is None else sentence(cause), "cause": cause_to_json(cause)}


def _url(opened: OpenProject) -> str:
    """The warehouse's, without a password; that of an embedded server has none."""
    url = opened.warehouse.url
    return url if opened.project.settings.warehouse.embedded else without_password(url)


def _views(opened: OpenProject, records: Sequence[ViewRecord]) -> list[dict[str, Any]]:
    return _listed(opened, _shown(opened, records))


def _shown(opened: OpenProject, records: Sequence[ViewRecord]) -> list[ViewRecord]:
    """With the state and the cause that users see. A view whose reader-facing view is gone is broken for its readers,
    however well it is maintained."""
    unshown, behind = opened.warehouse.unshown(), _behind(opened)
    found = []
    for record in records:
        if record.name in behind:
            record = replace(record, state=ShownState.HELD, cause=behind[record.name])
        if record.stored_state == ViewState.LIVE and record.name in unshown:
            record = replace(record, state=ShownState.BROKEN, cause=unshown[record.name])
        found.append(record)
    return found


def _listed(opened: OpenProject, shown: Sequence[ViewRecord]) -> list[dict[str, Any]]:
    lost = opened.warehouse.lost_indexes()
    return [_view(record, lost.get(record.name, ())) for record in shown]


def _behind(opened: OpenProject) -> dict[str, Cause]:
    """Views that stop at a message only because others wait for an earlier one: no message says so itself."""
    records = opened.warehouse.messages(states=HOLDING)
    if not records:
        return {}
    from dyda.maintenance.catalog_state import load
    from dyda.maintenance.waiting import stops_of
    from scheduler import Queued

    held = {record.id: record.cause for record in records}
    known = load(opened)
    queue = [Queued(record.id, known.named_now(record.message)) for record in opened.warehouse.messages()]
    stops = stops_of(held, queue, list(known.views.values()))
    return {
        name: WaitsBehind(min(numbers), min(held))
        for name, numbers in stops.items()
        if not numbers & held.keys() and min(held) < min(numbers)
    }


def _view(record: ViewRecord, lost: Sequence[Cause]) -> dict[str, Any]:
    return {
        "name": record.name,
        "state": record.state,
        **told(record.cause),
        "next": next_of(record.name, record.state, record.cause),
        "version": record.version,
        "rows": record.rows,
        "fresh_at": time_text(record.fresh_at),
        "since": time_text(record.fresh_at) if record.state != ShownState.FRESH else None,
        "lag_seconds": record.lag_seconds,
        "positions": {source: str(position) for source, position in record.positions.items()},
        "columns": [{"name": column.name, "type": column.type} for column in record.columns],
        "definition": record.sql,
        "lost": [told(cause) for cause in lost],
    }


def time_text(moment: datetime.datetime | None) -> str | None:
    """RFC 3339, in UTC."""
    return moment.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z") if moment else None
