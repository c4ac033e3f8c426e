"""`dyda events`: what happened, from the catalog."""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dyda.commands.daemon_log import event_to_json
from dyda.errors import DydaError, WarehouseUnreachable
from dyda.open_project import OpenProject

__all__ = ["events", "follow_events"]

SHOWN = 100
"""How many events are shown if no moment is given."""

PAUSE = 0.5
"""Seconds between two looks, where somebody follows."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class NotAMoment(DydaError):
    """`--since` is neither an age nor a time."""

    exit_code = 2


def events(folder: Path, since: str | None = None, view: str | None = None) -> list[dict[str, Any]]:
    """What happened, oldest first: since a moment, or else the last hundred events."""
    with OpenProject.open(folder) as opened:
        if since is None:
            return [event_to_json(event) for event in opened.warehouse.events(view=view, last=SHOWN)]
        return [event_to_json(event) for event in opened.warehouse.events(view=view, since=_moment(since))]


def follow_events(
    folder: Path,
    since: str | None = None,
    view: str | None = None,
    going_on: Callable[[], bool] = lambda: True,
) -> Iterator[dict[str, Any]]:
    """What happened since that moment, and then each event as it happens. The warehouse may be away for a while."""
    with OpenProject.open(folder) as opened:
        warehouse = opened.warehouse
        seen = warehouse.newest_event()
        if since is not None:
            for event in warehouse.events(view=view, since=_moment(since)):
                seen = max(seen, event.id)
                yield event_to_json(event)
        while going_on():
            try:
                found = warehouse.events(view=view, after=seen)
            except WarehouseUnreachable:
                found = []
            for event in found:
                seen = event.id
                yield event_to_json(event)
            if not found:
                time.sleep(PAUSE)


def _moment(since: str) -> datetime.datetime:
    """`90s`, `15m`, `1h` or `2d` ago, or a time as RFC 3339 writes it."""
    now = datetime.datetime.now(datetime.UTC)
    if (age := re.fullmatch(r"([0-9]{1,6})([smhd])", since.strip())) is not None:
        return now - datetime.timedelta(seconds=int(age[1]) * UNITS[age[2]])
    try:
        moment = datetime.datetime.fromisoformat(since.strip())
    except ValueError:
        raise NotAMoment(
            f"--since {since!r} is neither an age nor a time",
            "Write an age, such as 90s, 15m, 1h or 2d, or a time, such as 2026-01-31T12:00:00Z.",
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)
