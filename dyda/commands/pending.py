"""Commands that show the queue: what is pending, in which order it will be processed and why, and a picture of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dyda.commands.status import time_text, told
from dyda.engine import Engine
from dyda.errors import DydaError
from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import CatalogState, MaintainedView, load
from dyda.maintenance.plan.impact import impact_of_messages, impact_of_unit
from dyda.maintenance.schedules import Schedules, Turn
from dyda.maintenance.view_reads import HOLDING, schedule_of, view_reads
from dyda.maintenance.waiting import Stops, stops_of, who_waits_for
from dyda.model.bag import COUNT
from dyda.model.cause import Quarantined
from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation
from dyda.model.relation import RelationName
from dyda.open_project import OpenProject
from dyda.warehouse import MessageRecord, cause_to_json
from dyda.wording import message_sentence
from scheduler import Consistency, Detection, MessageState, Queued, Schedule, Unit, ViewReads
from scheduler.graph import Drawing, dot, text

__all__ = ["Queue", "pending", "pending_graph", "pending_picture", "pending_plan", "pending_show"]

SHOWN_ROWS = 100
SHOWN_CHARACTERS = 1000

ASIDE = (MessageState.SKIPPED, MessageState.QUARANTINED, MessageState.BROKEN)
"""States of messages that are left out of the order: views that lack them are held or rebuilt."""

DRAWN = 200
"""Messages in an svg or png by default: more are unreadable."""

OPTIMISTIC = "detection is optimistic: the daemon follows arrival order until a unit breaks, then this order"


@dataclass(frozen=True)
class Queue:
    """The catalog's queue and its legal order, whatever `detection` says.

    `schedule` is that of all views together, for the dependency graph; units are those of the views that can move.
    """

    known: CatalogState
    records: tuple[MessageRecord, ...]
    schedule: Schedule
    consistency: Consistency
    batch_rows: int

    @classmethod
    def of(cls, opened: OpenProject) -> Queue:
        known, settings = load(opened), opened.project.settings.maintenance
        stored = opened.warehouse.messages()
        records = tuple(replace(record, message=known.named_now(record.message)) for record in stored)
        schedule = schedule_of(records, known)
        return cls(known, records, schedule, Consistency(settings.consistency), settings.batch_rows)

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(self._schedules().turns(self.consistency, self.batch_rows))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """Unit 1 is the one that is processed next."""
        return tuple(turn.unit for turn in self.turns)

    def _schedules(self) -> Schedules:
        known = self.known
        queue = [Queued(record.id, record.message) for record in self.records if record.id in self.schedule]
        states = {record.id: record.state for record in self.records}
        schedules = Schedules(Detection.PESSIMISTIC)

        def reads(view: MaintainedView) -> ViewReads:
            return view_reads(view, known.known_to(view.record.earlier))

        schedules.refresh(Arrivals.of(queue), list(known.views.values()), self._stops, states, reads)
        return schedules

    @cached_property
    def _stops(self) -> Stops:
        held = {record.id: record.cause for record in self.records if record.state in HOLDING}
        queue = (Queued(record.id, record.message) for record in self.records)
        return stops_of(held, queue, list(self.known.views.values()))

    @cached_property
    def waiting(self) -> dict[int, str]:
        """By message, why some view that lacks it cannot process it now."""
        found = (waiting for group in self._schedules().groups for waiting in group.schedule.waiting())
        return {waiting.number: waiting.reason for waiting in found}

    @cached_property
    def views(self) -> dict[int, list[str]]:
        """By message, the views that cannot go beyond it now: those that it stops, and those held because of it."""
        found = who_waits_for(self._stops)
        for name, record in self.known.held.items():
            for number in record.cause.messages if isinstance(record.cause, Quarantined) else ():
                found.setdefault(number, []).append(name)
        return {number: sorted(names) for number, names in found.items()}

    @cached_property
    def drawing(self) -> Drawing:
        return self.schedule.drawing()

    @cached_property
    def unit_of(self) -> dict[int, int]:
        return {number: index for index, unit in enumerate(self.units, 1) for number in unit.numbers}

    @cached_property
    def depends_on(self) -> dict[int, list[int]]:
        """By message, those that it directly waits for."""
        befores: dict[int, set[int]] = {}
        for edge in self.drawing.edges:
            befores.setdefault(edge.after, set()).add(edge.before)
        return {number: sorted(before) for number, before in befores.items()}

    def as_dict(self, record: MessageRecord) -> dict[str, Any]:
        return {
            "id": record.id,
            "source": record.source,
            "kind": record.kind,
            "relations": sorted(map(str, record.relations)),
            "rows": record.rows,
            "state": record.state,
            **told(record.cause),
            "received_at": time_text(record.received_at),
            "depends_on": self.depends_on.get(record.id, []),
            "unit": self.unit_of.get(record.id),
            "views": self.views.get(record.id, []),
        }


def pending(folder: Path) -> list[dict[str, Any]]:
    """The queue, in arrival order."""
    with OpenProject.open(folder) as opened:
        queue = Queue.of(opened)
        return [queue.as_dict(record) for record in queue.records]


def pending_show(folder: Path, message: int, engine: Engine | None = None) -> dict[str, Any]:
    """One message with the rows it changes (the first hundred), if the source's log can be read now."""
    with OpenProject.open(folder, engine) as opened:
        queue = Queue.of(opened)
        record = next((record for record in queue.records if record.id == message), None)
        if record is None:
            raise DydaError(f"there is no pending message {message}", "See what is pending: dyda pending")
        samples, unreadable = [], None
        try:
            samples = _rows(opened, record)
        except DydaError as error:
            unreadable = error.what
        return {
            **queue.as_dict(record),
            "plan": _plan(opened, queue, record),
            "changes": [_change(change) for change in record.message.changes],
            "samples": samples[:SHOWN_ROWS],
            "truncated": len(samples) > SHOWN_ROWS,
            "unreadable": unreadable,
        }


def pending_plan(folder: Path, engine: Engine | None = None) -> dict[str, Any]:
    """The order in which the queue will be processed, what is merged, what waits, and the reason for each; and how the
    views follow the next unit."""
    with OpenProject.open(folder, engine) as opened:
        queue = Queue.of(opened)
        optimistic = opened.project.settings.maintenance.detection == "optimistic"
        return {
            "units": [
                {
                    "unit": index,
                    "kind": unit.kind.value,
                    "messages": list(unit.numbers),
                    "idle": sorted(unit.idle),
                    "reason": unit.reason,
                    "views": _views(opened, queue, unit) if index == 1 else None,
                }
                for index, unit in enumerate(queue.units, 1)
            ],
            "waiting": _waiting(queue),
            "notes": [OPTIMISTIC] if optimistic and queue.schedule.schema_change_flag else [],
        }


def pending_graph(folder: Path) -> dict[str, Any]:
    """The dependency graph: messages, the edges between them with their reasons, and which are merged."""
    with OpenProject.open(folder) as opened:
        queue = Queue.of(opened)
        return {
            "messages": [queue.as_dict(record) for record in queue.records if record.id in queue.schedule],
            "edges": [
                {"before": edge.before, "after": edge.after, "kind": edge.kind.value, "reason": edge.reason}
                for edge in queue.drawing.edges
            ],
            "merged": [list(group) for group in queue.drawing.groups],
        }


def pending_picture(folder: Path, format: str = "svg", limit: int | None = DRAWN) -> bytes:
    """The same graph as text, dot, svg or png. `limit`: the most messages in an svg or png."""
    with OpenProject.open(folder) as opened:
        queue = Queue.of(opened)
        if format == "text":
            return text(queue.drawing).encode()
        if format == "dot":
            return dot(queue.drawing).encode()
        # matplotlib takes half a second to import, and nothing else needs it.
        from dyda.queue_picture import lay_out, picture_of, render

        messages = {record.id: record.message for record in queue.records}
        return render(lay_out(picture_of(queue.drawing, queue.units, messages, limit)), format)


def _plan(opened: OpenProject, queue: Queue, record: MessageRecord) -> list[dict[str, Any]] | None:
    """What each affected view would become; None for a message that changes no schema."""
    if not record.message.schema_changes:
        return None
    messages = [(r.id, r.message) for r in queue.records if r.id <= record.id and r.state != MessageState.SKIPPED]
    return [view.as_dict() for view in impact_of_messages(opened, queue.known, messages)[record.id]]


def _views(opened: OpenProject, queue: Queue, unit: Unit) -> list[dict[str, Any]]:
    """The plan of each view that the next unit changes."""
    waiting = [Queued(record.id, record.message) for record in queue.records if record.id in queue.schedule]
    turn = queue.turns[0]
    known = queue.known.known_to(turn.groups[0].earlier)
    return [view.as_dict() for view in impact_of_unit(opened, known, waiting, unit) if view.name in turn.views]


def _waiting(queue: Queue) -> list[dict[str, Any]]:
    """Messages that some view does not process now: because of an operator's decision or a failure, or because they
    wait for an earlier message, as its schedule says."""
    answers = []
    for record in queue.records:
        if record.id in queue.waiting and record.state not in HOLDING:
            reason = queue.waiting[record.id]
        elif record.id in queue.waiting or record.state in ASIDE:
            reason = message_sentence(record.id, record.state, record.cause)
        else:
            continue
        answers.append(
            {
                "id": record.id,
                "state": record.state,
                "reason": reason,
                "cause": cause_to_json(record.cause),
                "views": queue.views.get(record.id, []),
            }
        )
    return answers


def _rows(opened: OpenProject, record: MessageRecord) -> list[dict[str, Any]]:
    known = {relation.relation.name: relation.relation for relation in opened.warehouse.relations()}
    columns = {
        change.relation: [column.name for column in known[change.relation].columns if column.generated != "v"]
        for change in record.message.changes
        if isinstance(change, DataUpdate) and change.relation in known
    }
    if not columns:
        return []
    with opened.source(record.source).open(list(columns)) as snapshot:
        tables = snapshot.changes(columns, None, xids=[record.xid])
        return [row for name, table in tables.items() for row in _samples(name, columns[name], table, record.xid)]


def _samples(relation: RelationName, columns: list[str], table: pa.Table, xid: int) -> list[dict[str, Any]]:
    mine = table.filter(pc.equal(table.column("#xid"), xid)).slice(0, SHOWN_ROWS + 1)
    values = [mine.column(index).to_pylist() for index in range(len(columns))]
    counts = mine.column(COUNT).to_pylist()
    return [
        {
            "relation": str(relation),
            "op": "insert" if count > 0 else "delete",
            "values": {column: _cut(values[index][row]) for index, column in enumerate(columns)},
        }
        for row, count in enumerate(counts)
    ]


def _cut(value: str | None) -> str | None:
    """Long values are cut."""
    if value is None or len(value) <= SHOWN_CHARACTERS:
        return value
    return f"{value[:SHOWN_CHARACTERS]}… ({len(value)} characters)"


def _change(change: Change) -> dict[str, Any]:
    match change:
        case DataUpdate(relation, inserted, deleted):
            return {"relation": str(relation), "kind": "data", "inserted": inserted, "deleted": deleted}
        case Truncation(relation):
            return {"relation": str(relation), "kind": "truncate"}
        case SchemaChange(relation, command, ddl, steps):
            shown = [str(step) for step in steps]
            return {"relation": str(relation), "kind": "schema", "command": command, "ddl": ddl, "steps": shown}
