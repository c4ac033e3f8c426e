"""Causes in words: every reason that users see, on the terminal, in JSON and in the log, is made here.

Nothing reads these sentences. Rewording one changes what is printed and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from dyda.model import cause as kinds
from dyda.model.cause import BuildReason, Cause, CommittedChange, Obstacle, RelationDrift, SourceDrift
from dyda.model.layout import LayoutChange, LayoutEvent
from dyda.model.message import MessageState

__all__ = ["layout_sentence", "lost_index", "message_sentence", "rows_follow", "sentence", "what_happened"]


def sentence(cause: Cause) -> str:
    """The cause as users see it."""
    match cause:
        case (
            kinds.Text(words)
            | kinds.Skipped(words)
            | kinds.Unforeseen(words)
            | kinds.InstallRefused(words)
            | kinds.DependentObjects(words)
            | kinds.NegativeCount(words)
            | kinds.SourceAway(detail=words)
        ):
            return words
        case kinds.HeldByOperator(message):
            return f"message {message} is held by an operator"
        case kinds.NeedsApproval(message, effects):
            listed = "; ".join(_EFFECTS[effect.effect].format(effect.view) for effect in effects)
            return f"message {message} waits for approval: {listed}"
        case kinds.WaitsWith(message, other):
            return f"message {message} waits with message {other}, which changes the same table"
        case kinds.WaitsBehind(message, other):
            return (
                f"message {message} gives a name to another table; views that wait for message {other} need the first"
            )
        case kinds.MessagesPending(messages):
            return "1 message waits to be processed" if messages == 1 else f"{messages} messages wait to be processed"
        case kinds.NotPolled():
            return "its sources were not polled lately"
        case kinds.Rejected(message, source, ddl):
            return f"rejected by an operator: message {message} of {source}: {ddl}"
        case kinds.MessageSkipped(message, note, row):
            return f"message {message} was skipped: {note}" + (f" ({row})" if row else "")
        case kinds.Detached():
            return "detached"
        case kinds.Uncomputable(detail, row=row):
            return f"{detail} [{row}]" if row else detail
        case kinds.Quarantined(messages, because):
            listed = ", ".join(map(str, messages))
            which = f"messages {listed} are" if len(messages) > 1 else f"message {listed} is"
            return f"{which} quarantined: {sentence(because)}"
        case kinds.RowsInTheWay(to_be_built, because):
            return (
                f"{sentence(to_be_built)}; it cannot be built from the rows that its sources have now:"
                f" {sentence(because).rstrip('.')}; correct or delete the row at the source, and DyDa builds it;"
                " or change the view's file and run: dyda apply"
            )
        case kinds.SchemaChanged():
            return _schema_changed(cause)
        case kinds.Followed(changes, detail):
            return "; ".join(changes) or detail or "a schema change was followed"
        case kinds.LayoutChanged(changes):
            return "; ".join(map(layout_sentence, changes))
        case kinds.NotMaintained(state, because):
            return f"it is {state} already" + (f": {sentence(because)}" if because is not None else "")
        case kinds.NotBuilt(to_be_built, detail):
            return f"{sentence(to_be_built)}: {detail}"
        case kinds.Behind(detail, away, lane):
            rows = "its rows are rebuilt beside the other views" if lane else rows_follow()
            return "; ".join([detail or "a schema change was followed", *map(sentence, away), rows])
        case kinds.SourceDrifted(unsettled=True):
            return f"{what_happened(cause)}; re-reading it once the transactions behind them have ended"
        case kinds.SourceDrifted() | kinds.RelationDrifted():
            return f"{what_happened(cause)}; re-reading it"
        case kinds.RightsMissing(obstacles=obstacles):
            return " ".join(map(_advice, obstacles))
        case kinds.Unshown(view, reader, replaced):
            back = f"dyda views resync {view}"
            if replaced:
                return f"{reader} was replaced by something that is not DyDa's; rename or drop that, then: {back}"
            return f"{reader} was dropped; put it back with: {back}"
        case kinds.DeclaredKeyRepeated(view, columns, detail):
            return (
                f"the declared key {_listed(columns)} does not hold: {detail}; the rows are shown, and the key is not"
                f" enforced. Correct them at the source and run: dyda views resync {view}; or change the key in"
                f" views/{view}.sql and run: dyda apply"
            )
        case kinds.DeclaredIndexLost(view, columns, detail, unique):
            what = "key" if unique else "index"
            return (
                f"the declared {what} {_listed(columns)} is gone: {detail}."
                f" Change the {what} in views/{view}.sql and run: dyda apply"
            )
        case kinds.HandmadeIndexLost(view, name, definition, detail):
            return (
                f"the index {name} was lost with a new table: {detail} ({definition})."
                f" If you need it, make it again on the table that this shows: dyda views show {view}"
            )
        case kinds.ToBeBuilt(reason, detail):
            return "; ".join(part for part in (_BUILDS.get(reason), detail) if part)
        case kinds.Following(to_be_built, followed):
            return "; ".join([sentence(to_be_built), *followed])
        case kinds.Several(causes):
            return "; ".join(sorted({sentence(one) for one in causes}))
        case _:
            assert_never(cause)


def layout_sentence(change: LayoutChange) -> str:
    """What came or went of a view's keys and indexes."""
    columns = _listed(change.columns)
    if not change.columns:
        known = change.event is LayoutEvent.KEY_PROVEN
        return f"that it has at most one row {'follows now' if known else 'no longer follows'} from its definition"
    return _LAYOUT_EVENTS[change.event].format(columns)


def lost_index(cause: Cause) -> str:
    """A lost index as the history of its view has it: what it was, and why it is lost."""
    match cause:
        case kinds.DeclaredKeyRepeated(_, columns, detail) | kinds.DeclaredIndexLost(_, columns, detail, True):
            return f"key {_listed(columns)}: {detail}"
        case kinds.DeclaredIndexLost(_, columns, detail):
            return f"index {_listed(columns)}: {detail}"
        case kinds.HandmadeIndexLost(_, name, definition, detail):
            return f"{name}: {definition}: {detail}"
        case _:
            return sentence(cause)


def _listed(columns: Iterable[str]) -> str:
    """`(order_id, First Name)`."""
    return f"({', '.join(columns)})"


def message_sentence(number: int, state: MessageState, cause: Cause | None) -> str:
    """Why a message is not processed, in a sentence that says which message it is about."""
    if isinstance(cause, kinds.HeldByOperator | kinds.NeedsApproval | kinds.WaitsWith):
        return sentence(cause)
    return f"message {number} is {state}" + (f": {sentence(cause)}" if cause is not None else "")


def what_happened(cause: kinds.SourceDrifted | kinds.RelationDrifted) -> str:
    """A drift without what is done about it."""
    if isinstance(cause, kinds.RelationDrifted):
        return _RELATION_DRIFTS[cause.drift].format(relation=cause.relation, source=cause.source)
    return _SOURCE_DRIFTS[cause.drift].format(source=cause.source)


def rows_follow() -> str:
    """What happens to the rows of a view whose definition has already changed."""
    return "its rows follow when it can be built"


_LAYOUT_EVENTS = {
    LayoutEvent.KEY_PROVEN: "the key {} follows from the keys of its sources",
    LayoutEvent.KEY_UNPROVEN: "the key {} no longer follows from the keys of its sources",
    LayoutEvent.KEY_DECLARED: "its file declares the key {}",
    LayoutEvent.KEY_LOST: "the declared key {} is gone",
    LayoutEvent.INDEX_DECLARED: "its file declares the index {}",
    LayoutEvent.INDEX_LOST: "the index {} is gone",
}

_EFFECTS = {"broken": "it breaks {}", "rewritten": "it rewrites {}", "unknown": "its effect on {} is unknown"}

_SOURCE_DRIFTS = {
    SourceDrift.CAPTURE_LOST: "capture at source {source} is damaged: schema dyda or a part of it was dropped or"
    " changed, or was restored from a dump of another database",
    SourceDrift.REPLACED: "source {source} is not the same server as before: restored, promoted or replaced",
    SourceDrift.TRANSACTIONS_LOST: "source {source} has lost transactions that are installed here: it was reset to"
    " an older state",
    SourceDrift.CHANGES_MISSED: "source {source} has changes that were not captured: its log was full, locked or"
    " changed by hand",
}

_RELATION_DRIFTS = {
    RelationDrift.UNCAPTURED: "{relation} was not captured for a while: its triggers were dropped, disabled or changed",
    RelationDrift.ROWS_UNSEEN: "rows of {relation} may have changed unlogged: since it was read, a partition, parent or"
    " subscription was added or removed at source {source}, or the server crashed, and no event trigger saw it",
    RelationDrift.UNEXPLAINED: "{relation} changed outside capture",
}

_BUILDS = {
    BuildReason.CREATED: "created",
    BuildReason.FILE_CHANGED: "its file changed",
    BuildReason.APPLIED_AGAIN: "applied again",
    BuildReason.REQUESTED: "resync requested",
    BuildReason.RETURNED: "its relations are back",
    BuildReason.OUTDATED: "this version of DyDa, with its present settings, computes it in other steps; rebuilding it",
    BuildReason.DUE: "a resync is due",
}


def _schema_changed(cause: kinds.SchemaChanged) -> str:
    """The component, the changes with source, text and time, and what would have helped."""
    said = cause.detail
    if cause.component and cause.component not in said:
        said = f"{cause.component}: {said}"
    if cause.changes:
        said = f"{said} ({'; '.join(dict.fromkeys(map(_change, cause.changes)))})"
    return f"{said}. {cause.remedy}" if cause.remedy else said


def _change(change: CommittedChange) -> str:
    at = f" at {change.committed_at}" if change.committed_at else ""
    return f"{change.source}{at}: {change.ddl or f'{change.command} {change.relation}'}"


def _advice(obstacle: Obstacle) -> str:
    statement = obstacle.remedy.endswith(";")
    return f"{obstacle.what}. {'Run at the source: ' if statement else ''}{obstacle.remedy}"
