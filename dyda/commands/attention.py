"""What needs somebody's attention: decisions that are due, with the command for each, and the answer for monitoring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dyda.event_wording import next_for_message, next_for_view
from dyda.model.cause import Cause, HeldByOperator, NeedsApproval, Quarantined, Several, WaitsBehind, WaitsWith
from dyda.model.message import MessageState
from dyda.model.view_state import ShownState
from dyda.warehouse import MessageRecord
from dyda.wording import message_sentence

__all__ = ["DUE", "FRESH", "NOT_WELL", "NO_DAEMON", "decisions", "next_of", "status_check", "verdict"]

DUE = (MessageState.APPROVAL, MessageState.HELD, MessageState.QUARANTINED, MessageState.BROKEN)
"""States of messages about which an operator decides."""

FRESH, NOT_WELL, NO_DAEMON = 0, 3, 4
"""Exit codes of `dyda status --check`."""

ABOUT_MESSAGES = (HeldByOperator, NeedsApproval, Quarantined, WaitsBehind, WaitsWith)

STOPPED = (ShownState.BROKEN, ShownState.HELD)


def next_of(view: str, state: str, cause: Cause | None) -> str | None:
    """What an operator does about a view; None if it needs nobody."""
    if state in STOPPED or cause is not None:
        return next_for_view(view, cause, broken=state == ShownState.BROKEN)
    return None


def decisions(
    messages: Iterable[MessageRecord], views: Iterable[tuple[str, str, Cause | None]]
) -> list[dict[str, Any]]:
    """What an operator has to decide, with the command; `views` are names with the state and the cause that users see.

    A view that waits for a message is not listed beside it: the decision about the message is the view's as well.
    """
    due = []
    for record in messages:
        if isinstance(record.cause, WaitsWith):
            continue  # the other message is listed
        held = record.state == MessageState.HELD
        quarantined = record.state in (MessageState.QUARANTINED, MessageState.BROKEN)
        step = (
            f"When it may go on: dyda pending release {record.id}"
            if held
            else next_for_message(record.id, record.cause, quarantined=quarantined)
        )
        what = message_sentence(record.id, record.state, record.cause)
        due.append({"message": record.id, "view": None, "what": what, "next": step})
    for name, state, cause in views:
        if state in STOPPED and not _is_about_messages(cause):
            what = f"view {name} is {state}"
            due.append({"message": None, "view": name, "what": what, "next": next_of(name, state, cause)})
    return due


def _is_about_messages(cause: Cause | None) -> bool:
    if isinstance(cause, Several):
        return all(map(_is_about_messages, cause.causes))
    return isinstance(cause, ABOUT_MESSAGES)


def status_check(folder: Path) -> dict[str, Any]:
    """Whether all is well, for monitoring: `code` is the exit code."""
    from dyda.commands.status import status
    from dyda.project import Project

    limit = Project.load(folder).settings.maintenance.stale_after
    return verdict(status(folder), limit)


def verdict(status: Mapping[str, Any], limit: float) -> dict[str, Any]:
    """What is wrong by an answer of `status`; a view may be `limit` seconds old."""
    problems = [_problem(view, limit) for view in status["views"]]
    found: Sequence[dict[str, Any]] = [problem for problem in problems if problem is not None]
    daemon = status["daemon"]
    code = NO_DAEMON if not daemon["running"] else NOT_WELL if found else FRESH
    return {
        "code": code,
        "daemon": bool(daemon["running"]),
        "views": len(status["views"]),
        "limit_seconds": limit,
        "problems": list(found),
    }


def _problem(view: Mapping[str, Any], limit: float) -> dict[str, Any] | None:
    late = view["lag_seconds"] is not None and view["lag_seconds"] > limit and view["state"] != ShownState.BUILDING
    if view["state"] not in STOPPED and not late:
        return None
    return {name: view[name] for name in ("name", "state", "reason", "next", "lag_seconds")}
