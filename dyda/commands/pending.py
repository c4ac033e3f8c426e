"""Commands that show the queue: what is pending, in which order it will be processed and why, and a picture of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyda.errors import DydaError
from dyda.model.message import HOLDING, Change, DataUpdate, MessageState, SchemaChange, Truncation
from dyda.model.relation import RelationName
from dyda.open_project import OpenProject
from dyda.warehouse import MessageRecord, cause_to_json
from dyda.wording import message_sentence

if TYPE_CHECKING:
    import pyarrow as pa

    from dyda.commands.queue import Queue
    from dyda.engine import Engine
    from scheduler import Unit

__all__ = ["pending", "pending_graph", "pending_picture", "pending_plan", "pending_show"]

SHOWN_ROWS = 100
SHOWN_CHARACTERS = 1000

ASIDE = (MessageState.SKIPPED, MessageState.QUARANTINED, MessageState.BROKEN)
"""States of messages that are left out of the order: views that lack them are held or rebuilt."""

DRAWN = 200
"""Messages in an svg or png by default: more are unreadable."""

OPTIMISTIC = "detection is optimistic: the daemon follows arrival order until a unit breaks, then this order"


def pending(folder: Path) -> list[dict[str, Any]]:
    """The queue, in arrival order."""
    with OpenProject.open(folder) as opened:
        if not opened.warehouse.messages(limit=1):
            return []  # nothing to put in order, which takes longer than anything else here
        from dyda.commands.queue import Queue

        queue = Queue.of(opened)
        return [queue.as_dict(record) for record in queue.records]


def pending_show(folder: Path, message: int, engine: Engine | None = None) -> dict[str, Any]:
    """One message with the rows it changes (the first hundred), if the source's log can be read now."""
    from dyda.commands.queue import Queue

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
    from dyda.commands.queue import Queue

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
    from dyda.commands.queue import Queue

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
    from dyda.commands.queue import Queue
    from scheduler.graph import dot, text

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
    from dyda.maintenance.plan.impact import impact_of_messages

    if not record.message.schema_changes:
        return None
    messages = [(r.id, r.message) for r in queue.records if r.id <= record.id and r.state != MessageState.SKIPPED]
    return [view.as_dict() for view in impact_of_messages(opened, queue.known, messages)[record.id]]


def _views(opened: OpenProject, queue: Queue, unit: Unit) -> list[dict[str, Any]]:
    """The plan of each view that the next unit changes."""
    from dyda.maintenance.plan.impact import impact_of_unit
    from scheduler import Queued

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
    import pyarrow.compute as pc

    from dyda.model.bag import COUNT
    from dyda.sources.adapter import XID

    mine = table.filter(pc.equal(table.column(XID), xid)).slice(0, SHOWN_ROWS + 1)
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
