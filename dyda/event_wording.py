"""Events in words: what happened, in one sentence, and what to do about it, with the very command.

Nothing reads these sentences; like the causes', they can be reworded at any time.
"""

from __future__ import annotations

from typing import assert_never

from dyda.model import cause as causes
from dyda.model import event as kinds
from dyda.model.cause import Cause
from dyda.model.event import Event
from dyda.model.message import MessageState
from dyda.model.view_state import ViewState
from dyda.wording import message_sentence, sentence, what_happened

__all__ = ["event_sentence", "in_one_line", "next_for_message", "next_for_view", "next_step"]


def event_sentence(event: Event) -> str:
    """What happened, in one sentence."""
    match event:
        case kinds.ViewBuilding(view):
            return f"view {view} is going to be built"
        case kinds.ViewBuilt(view, rows, cause):
            amount = "" if rows is None else f": {_counted(rows, 'row')}"
            return f"view {view} was built{amount}" + (f" ({_said(cause)})" if _said(cause) else "")
        case kinds.ViewRewritten(view, version, components, cause):
            what = "; ".join(components) or _said(cause)
            return f"view {view} was rewritten, version {version}: {what}"
        case kinds.ViewAdapted(view, version, cause):
            return f"view {view} has followed, version {version}: {_said(cause)}"
        case kinds.ViewRecovered(view, ViewState.LIVE):
            return f"view {view} waits for nothing any more"
        case kinds.ViewRecovered(view, was):
            return f"view {view} follows its sources again; it was {was}"
        case kinds.ViewBroken(view, cause):
            return _with_cause(f"view {view} is broken", cause)
        case kinds.ViewHeld(view, cause):
            return _with_cause(f"view {view} is held", cause)
        case kinds.ViewResync(view, causes.Behind() as cause):
            return f"view {view} has followed a schema change: {sentence(cause)}"
        case kinds.ViewResync(view, cause):
            return _with_cause(f"view {view} needs a rebuild", cause)
        case kinds.ViewWaiting(view, cause):
            return f"view {view} stays as it is: {sentence(cause)}"
        case kinds.ViewStale(view, lag, limit, reason):
            why = f": {reason}" if reason else ""
            return f"view {view} is {lag:.0f} s old, which is more than {limit:.0f} s{why}"
        case kinds.ViewFresh(view, lag):
            return f"view {view} is no longer too old: its lag is {lag:.1f} s"
        case kinds.ViewRelaid(view, cause) | kinds.ViewIndexLost(view, cause):
            return f"view {view}: {sentence(cause)}"
        case kinds.ViewDropped(view):
            return f"view {view} was dropped"
        case kinds.MessageApproval(message, source, cause):
            return f"{message_sentence(message, MessageState.APPROVAL, cause)} (source {source})"
        case kinds.MessageQuarantined(message, source, cause):
            return _with_cause(f"message {message} of source {source} is quarantined", cause)
        case kinds.MessageHeld(message, source):
            return f"message {message} of source {source} is held by an operator"
        case kinds.MessageReleased(message, source):
            return f"message {message} of source {source} is processed in its turn"
        case kinds.MessageApproved(message, source):
            return f"message {message} of source {source} was approved"
        case kinds.MessageRejected(message, source, views):
            return f"message {message} of source {source} was rejected: it breaks {', '.join(views)}"
        case kinds.MessageSkipped(message, source, cause):
            return _with_cause(f"message {message} of source {source} was skipped", cause)
        case kinds.SourceLost(source, detail):
            said = detail.startswith(f"source {source} ")
            return detail if said else f"source {source} is out of reach: {detail}"
        case kinds.SourceBack(source):
            return f"source {source} is back"
        case kinds.SourceGap(_, cause) | kinds.SourceDrift(_, cause):
            if isinstance(cause, causes.SourceDrifted | causes.RelationDrifted):
                return what_happened(cause)
            return sentence(cause)
        case kinds.SourceDetached(source):
            return f"DyDa was removed from source {source}"
        case kinds.UnitInstalled(unit, unit_kind, messages, rows, views, seconds):
            return f"unit {unit} installed: {unit_kind}, {_amounts(messages, rows, views, seconds)}"
        case kinds.UnitMerged(unit, messages, rows, views, seconds):
            return f"unit {unit} installed: merged, {_amounts(messages, rows, views, seconds)}"
        case kinds.UnitAborted(detail=detail):
            return f"unit abandoned: {detail}"
        case kinds.DaemonStarted(views=views, consistency=consistency):
            return f"maintaining {views} views, consistency {consistency}"
        case kinds.DaemonTookOver(pid, host):
            return f"the daemon with pid {pid} on {host} has taken over"
        case kinds.DaemonStopped(pid, host):
            return f"the daemon with pid {pid} on {host} has ended"
        case kinds.DaemonBlocked(detail):
            return f"maintenance cannot go on: {detail}"
        case kinds.DaemonUnblocked():
            return "maintenance goes on"
        case kinds.WarehouseBack(seconds):
            return f"the warehouse is back after {seconds:.0f} s"
        case kinds.ConfigurationRefused(detail):
            return f"configuration refused: {detail}"
        case _:
            assert_never(event)


def in_one_line(text: str, next_text: str | None) -> str:
    """What happened, and what to do about it, as a line of a log."""
    return text if next_text is None else f"{text.rstrip('.')}. {next_text}"


def next_step(event: Event) -> str | None:
    """What to do about it; None if there is nothing to do."""
    match event:
        case kinds.ViewBroken(view, cause) | kinds.ViewHeld(view, cause) | kinds.ViewWaiting(view, cause):
            return next_for_view(view, cause, broken=isinstance(event, kinds.ViewBroken))
        case kinds.ViewStale():
            return "See what it waits for: dyda status"
        case kinds.ViewRewritten(view):
            return f"See what became of it, and the other choices: dyda views history {view}"
        case kinds.MessageApproval(message, _, cause) | kinds.MessageQuarantined(message, _, cause):
            return next_for_message(message, cause, quarantined=isinstance(event, kinds.MessageQuarantined))
        case kinds.MessageHeld(message):
            return f"When it may go on: dyda pending release {message}"
        case kinds.MessageRejected():
            return "Change the files of these views, then run: dyda apply"
        case kinds.SourceLost():
            return "Views that do not read it go on, and nothing is lost. Look for the reason with: dyda sources check"
        case kinds.SourceDetached():
            return "To attach it again, run: dyda apply"
        case kinds.DaemonStopped():
            return "Views stay as they are until one works again: dyda daemon"
        case kinds.DaemonBlocked():
            return "It tries again by itself. See: dyda status"
        case kinds.ConfigurationRefused(remedy=remedy):
            return remedy or None
        case _:
            return None


def next_for_view(view: str, cause: Cause | None, *, broken: bool) -> str | None:
    """What an operator does about a view that is broken, held or kept waiting for this cause."""
    match cause:
        case causes.Quarantined(messages):
            return next_for_message(messages[0], cause.because, quarantined=True)
        case causes.HeldByOperator(message):
            return f"When it may go on: dyda pending release {message}"
        case causes.NeedsApproval(message) | causes.WaitsWith(_, message) | causes.WaitsBehind(_, message):
            return next_for_message(message, None, quarantined=False)
        case causes.Detached():
            return "To attach the source again and rebuild the view, run: dyda apply"
        case causes.Rejected():
            return f"Change views/{view}.sql, then run: dyda apply"
        case causes.RightsMissing():
            return None  # the cause has the statement to run
        case causes.DependentObjects(dependents=dependents):
            return f"Drop or change {', '.join(dependents)}; maintenance of the view then resumes."
        case causes.RowsInTheWay() | causes.Unshown():
            return None  # the cause says what to do
        case causes.SchemaChanged():
            return (
                f"Correct views/{view}.sql, or add the constraint to knowledge.toml, then run: dyda apply."
                " If what it reads comes back, it recovers by itself."
            )
        case causes.InstallRefused() | causes.Text():
            return f"Remove the cause, then run: dyda views resync {view}"
        case causes.SourceAway():
            return "Look for the reason with: dyda sources check"
        case causes.Several(several):
            steps = [step for one in several if (step := next_for_view(view, one, broken=broken)) is not None]
            return " ".join(dict.fromkeys(steps)) or None
        case _:
            return f"Correct views/{view}.sql, then run: dyda apply" if broken else None


def next_for_message(message: int, cause: Cause | None, *, quarantined: bool) -> str:
    """What an operator does about a message that is quarantined, or else waits for approval."""
    if quarantined:
        return (
            f"Correct or delete the row at its source, then run: dyda pending retry {message}"
            f' (or rebuild the views without it: dyda pending skip {message} --reason "…")'
        )
    if isinstance(cause, causes.WaitsWith):
        return f"Decide about message {cause.other}: dyda pending show {cause.other}"
    return (
        f"See what it would do: dyda pending show {message}; then run: dyda pending approve {message}"
        f" (or: dyda pending reject {message})"
    )


def _said(cause: Cause | None) -> str:
    return "" if cause is None else sentence(cause)


def _with_cause(what: str, cause: Cause | None) -> str:
    return what if cause is None else f"{what}: {sentence(cause)}"


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _amounts(messages: int, rows: int, views: int, seconds: float) -> str:
    """What a unit was made of, what it moved and how long that took."""
    amounts = (_counted(messages, "message"), _counted(rows, "row"), _counted(views, "view"))
    return f"{', '.join(amounts)}, {seconds * 1000:.0f} ms"
