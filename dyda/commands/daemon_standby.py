"""`dyda daemon` while another process works on the project: stand by, and take over when that one ends or dies."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from pathlib import Path

from dyda.model.view_state import ShownState, ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import DaemonRecord, Warehouse

__all__ = ["PATIENCE", "wait_for_turn"]

PATIENCE = 30.0
"""Seconds that `--until-idle` waits for a source or the warehouse to come back."""

LOOK_AGAIN = 0.25
"""Seconds between two checks whether the working process is still there."""


def wait_for_turn(folder: Path, until_idle: bool, log: Callable[[str], None], stopping: threading.Event) -> int | None:
    """None when the project's lock is free, else the exit code.

    With `until_idle` this ends when the working daemon has done everything.
    """
    with OpenProject.open(folder) as opened, opened.warehouse.turn() as turn:
        others = _OthersWork(opened.warehouse)
        logged: str | None = None
        while not stopping.is_set():
            holder = turn.holder()
            if not holder.running:
                log("the project lock is free; taking over")
                return None
            who = describe(holder)
            if who != logged:
                log(f"{who} works on this project; standing by to take over when it ends")
                logged = who
            if until_idle and holder.role == "daemon":
                code = others.done(log)
                if code is not None:
                    return code
            stopping.wait(LOOK_AGAIN)
    return 0


def describe(holder: DaemonRecord) -> str:
    """Who works, where and since when."""
    if holder.pid is None or holder.since is None:
        return "another process"  # it has the lock and has not written its name yet
    who = "the daemon" if holder.role == "daemon" else f"dyda {holder.role}"
    since = holder.since.astimezone(datetime.UTC)
    return f"{who} (pid {holder.pid} on {holder.host}, since {since:%Y-%m-%d %H:%M:%S} UTC)"


class _OthersWork:
    """Whether another daemon has nothing left to do, judged by the catalog.

    A source's `polled_at` is written after the poll's messages are in the queue. When it has changed twice, a poll has
    completed that began after we did: everything that was committed before us is known.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._polls: dict[str, list[datetime.datetime | None]] = {}
        self._away_since: float | None = None

    def done(self, log: Callable[[str], None]) -> int | None:
        """0: everything is done; 1: a source stays out of reach; None: not yet."""
        status = self._warehouse.status()
        maintained = [view for view in status.views if view.stored_state in (ViewState.LIVE, ViewState.RESYNC)]
        needed = {source for view in maintained for source in view.positions}
        away = [source for source in status.sources if source.name in needed and not source.reachable]
        if away:
            self._away_since = self._away_since or time.monotonic()
            if time.monotonic() - self._away_since > PATIENCE:
                log(away[0].error or f"source {away[0].name} stays out of reach")
                return 1
            return None
        self._away_since = None
        for source in status.sources:
            seen = self._polls.setdefault(source.name, [source.polled_at])
            if source.polled_at != seen[-1]:
                seen.append(source.polled_at)
        if any(len(self._polls.get(source, ())) < 3 for source in needed):
            return None
        busy = any(
            view.stored_state in (ViewState.BUILDING, ViewState.RESYNC)
            or (view.stored_state == ViewState.LIVE and view.state == ShownState.STALE)
            for view in status.views
        )
        return None if busy else 0
