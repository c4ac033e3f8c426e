"""An operator's decisions about one message: hold, release, approve, reject, retry, skip.

A decision is a state in the catalog, so it survives every crash and the schedules respect it: a held message holds what
depends on it, for the views that read what it changes, and nothing else. While a daemon runs, the daemon carries out
the decision (`DECISIONS`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyda.commands.handover import hand_over
from dyda.commands.open_transactions import Progress
from dyda.commands.status import told
from dyda.errors import DydaError
from dyda.model.cause import HeldByOperator, MessageSkipped, Quarantined, Rejected, Skipped, Uncomputable, WaitsWith
from dyda.model.message import MessageState
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import Installation, MessageRecord, ViewChange, ViewRecord

if TYPE_CHECKING:
    from dyda.maintenance.loop import Maintainer

__all__ = [
    "DECISIONS",
    "pending_approve",
    "pending_hold",
    "pending_reject",
    "pending_release",
    "pending_retry",
    "pending_skip",
]

Answer = dict[str, Any]
Decision = Callable[["Maintainer", Mapping[str, Any]], Answer]

OTHERS_END = 10.0
"""Seconds to wait until another command, such as `apply`, releases the lock."""


class NotPossible(DydaError):
    """The message's state does not allow the decision."""


def pending_hold(folder: Path, message: int) -> Answer:
    """Keep a message, and what depends on it, from being processed."""
    return _decide(folder, "hold", {"message": message})


def pending_release(folder: Path, message: int) -> Answer:
    """Release a held message."""
    return _decide(folder, "release", {"message": message})


def pending_approve(folder: Path, message: int) -> Answer:
    """Release a schema change that waits for approval; it is not stopped again."""
    return _decide(folder, "approve", {"message": message})


def pending_reject(folder: Path, message: int) -> Answer:
    """Break the views that a schema change would rewrite or break; everything else goes on."""
    return _decide(folder, "reject", {"message": message})


def pending_retry(folder: Path, message: int) -> Answer:
    """Try a quarantined message again; the views that were held for it are maintained again."""
    return _decide(folder, "retry", {"message": message})


def pending_skip(folder: Path, message: int, reason: str) -> Answer:
    """Never process a message; the views that it touches are rebuilt from their sources instead."""
    return _decide(folder, "skip", {"message": message, "reason": _given(reason)})


def _decide(folder: Path, verb: str, arguments: Mapping[str, Any], progress: Progress = lambda *news: None) -> Answer:
    from dyda.maintenance.loop import Maintainer

    with OpenProject.open(folder) as opened:
        answer = hand_over(opened, verb, arguments, progress)
        if answer is not None:
            return answer
        with opened.warehouse.lock(wait=OTHERS_END, role=f"pending {verb}") as writer:
            return DECISIONS[verb](Maintainer(opened, writer), arguments)


def _hold(maintainer: Maintainer, arguments: Mapping[str, Any]) -> Answer:
    from dyda.maintenance.waiting import stops_of
    from scheduler import Queued

    record = _message(maintainer, arguments, "held", MessageState.WAITING, MessageState.RUNNING, MessageState.HELD)
    cause = HeldByOperator(record.id)
    maintainer.writer.mark_messages([record.id], MessageState.HELD, cause)
    stops = stops_of({record.id: cause}, [Queued(record.id, record.message)], list(maintainer.known.views.values()))
    return _answer(maintainer, record, sorted(stops))


def _release(maintainer: Maintainer, arguments: Mapping[str, Any]) -> Answer:
    record = _message(maintainer, arguments, "released", MessageState.HELD)
    maintainer.writer.mark_messages([record.id], MessageState.WAITING)
    return _answer(maintainer, record)


def _approve(maintainer: Maintainer, arguments: Mapping[str, Any]) -> Answer:
    record = _message(maintainer, arguments, "approved", MessageState.APPROVAL)
    views = _endangered(maintainer, record)
    if isinstance(record.cause, WaitsWith) and (record.approved or not views):
        raise NotPossible(
            f"{record.reason}: there is nothing to approve",
            f"Approve that message: dyda pending approve {record.cause.other}",
        )
    maintainer.writer.approve_message(record.id)
    return _answer(maintainer, record, views)


def _reject(maintainer: Maintainer, arguments: Mapping[str, Any]) -> Answer:
    from dyda.maintenance.install.acknowledge import everywhere
    from dyda.maintenance.install.installation import positions_after

    record = _message(maintainer, arguments, "rejected", MessageState.APPROVAL)
    views = _endangered(maintainer, record)
    if not views:
        advice = "See: dyda pending"
        if isinstance(record.cause, WaitsWith):
            advice = f"Reject that message: dyda pending reject {record.cause.other} (or approve)"
        raise NotPossible(f"{record.reason}: there is nothing to reject", advice)
    ddl = "; ".join(dict.fromkeys(change.ddl or str(change) for change in record.message.schema_changes))
    cause = Rejected(record.id, record.source, ddl)
    broken = tuple(ViewChange(view=view, state=ViewState.BROKEN, cause=cause) for view in views)
    positions = positions_after(maintainer.known, broken)
    # The other views follow it in their turn; if none lacks it, the message is done.
    done = (record.id,) if everywhere(positions, record.source, record.xid) else ()
    maintainer.writer.approve_message(record.id, views)
    maintainer.writer.install(Installation(broken, done=done))
    maintainer.reload()
    return {"id": record.id, "state": "rejected", **told(cause), "views": views}


def _endangered(maintainer: Maintainer, record: MessageRecord) -> list[str]:
    """The views that the message would rewrite or break."""
    from dyda.maintenance.plan.impact import impact_of_messages

    records = maintainer.opened.warehouse.messages()
    queue = [
        (other.id, maintainer.known.named_now(other.message))
        for other in records
        if other.id <= record.id and other.state != MessageState.SKIPPED
    ]
    views = impact_of_messages(maintainer.opened, maintainer.known, queue)[record.id]
    return [view.name for view in views if view.dangerous]


def _retry(maintainer: Maintainer, arguments: Mapping[str, Any]) -> Answer:
    record = _message(maintainer, arguments, "tried again", MessageState.QUARANTINED, MessageState.BROKEN)
    held = [view for view in maintainer.known.frozen.values() if record.id in _held_by(view)]
    # The message first: it would be passed over if the view were live again while it is still quarantined.
    together = {number for view in held for number in _held_by(view)}
    merged = [
        other.id
        for other in maintainer.opened.warehouse.messages()
        if other.id in together and other.state == MessageState.QUARANTINED and other.id != record.id
    ]
    maintainer.writer.mark_messages([record.id, *merged], MessageState.WAITING)
    for view in held:
        maintainer.writer.set_state(view.name, ViewState.RESYNC if view.behind else ViewState.LIVE)
    return _answer(maintainer, record, [view.name for view in held])


def _skip(maintainer: Maintainer, arguments: Mapping[str, Any]) -> Answer:
    record = _message(maintainer, arguments, "skipped", *(set(MessageState) - {MessageState.SKIPPED}))
    note = _given(str(arguments.get("reason", "")))
    views = _touched(maintainer, record)
    cause = MessageSkipped(record.id, note, record.cause.row if isinstance(record.cause, Uncomputable) else None)
    # The views first: after a crash in between they are rebuilt for nothing. The other way round they would stay wrong.
    for view in views:
        maintainer.writer.set_state(view, ViewState.RESYNC, cause)
    maintainer.writer.mark_messages([record.id], MessageState.SKIPPED, Skipped(note))
    return _answer(maintainer, record, views)


DECISIONS: Mapping[str, Decision] = {
    "hold": _hold,
    "release": _release,
    "approve": _approve,
    "reject": _reject,
    "retry": _retry,
    "skip": _skip,
}


def _message(maintainer: Maintainer, arguments: Mapping[str, Any], done: str, *states: MessageState) -> MessageRecord:
    """The message that is to be `done`, which is possible in these states."""
    number = int(arguments["message"])
    record = next((record for record in maintainer.opened.warehouse.messages() if record.id == number), None)
    if record is None:
        raise NotPossible(
            f"message {number} is not in the queue: it is installed already, or never existed",
            "See what is pending: dyda pending",
        )
    if record.state in states:
        return record
    possible = {
        MessageState.WAITING: "It will be processed in its turn.",
        MessageState.RUNNING: "It is being processed now.",
        MessageState.HELD: f"Release it with: dyda pending release {number}",
        MessageState.APPROVAL: f"It holds what depends on it. Use: dyda pending approve {number} (or reject)",
        MessageState.QUARANTINED: f"It holds what depends on it. Use: dyda pending retry {number} (or skip)",
        MessageState.BROKEN: f"It holds what depends on it. Use: dyda pending retry {number} (or skip)",
        MessageState.SKIPPED: "The views that it touches are rebuilt; a skip cannot be undone.",
    }
    raise NotPossible(f"message {number} is {record.state}: it cannot be {done}", possible[record.state])


def _given(reason: str) -> str:
    if not reason.strip():
        raise NotPossible("a skip needs a reason", 'Say why: --reason "…" (it is shown with the views)')
    return reason.strip()


def _touched(maintainer: Maintainer, record: MessageRecord) -> list[str]:
    """The views that would have processed the message: it concerns them and is not in their extents yet."""
    from dyda.maintenance.view_reads import view_reads
    from scheduler import Footprints
    from scheduler.footprint import shape_of

    known, warehouse = maintainer.known, maintainer.opened.warehouse
    pending = [change for other in warehouse.messages() for change in other.message.changes]
    footprints = Footprints([view_reads(view) for view in known.views.values()], pending)
    concerned = footprints.of(shape_of(record.message)).views
    live = {name for name in concerned if not known.views[name].has(record.source, record.xid)}
    held = {
        view.name
        for view in known.frozen.values()
        if view.stored_state == ViewState.HELD and not record.relations.isdisjoint(view.relations)
    }
    return sorted(live | held)


def _held_by(view: ViewRecord) -> tuple[int, ...]:
    """The messages because of which the view is held: several if they were merged."""
    if view.stored_state == ViewState.HELD and isinstance(view.cause, Quarantined):
        return view.cause.messages
    return ()


def _answer(maintainer: Maintainer, record: MessageRecord, views: list[str] | None = None) -> Answer:
    """The message as it is now; the catalog is read again."""
    maintainer.reload()
    now = maintainer.opened.warehouse.message(record.id)
    return {"id": now.id, "state": now.state, **told(now.cause), "views": views or []}
