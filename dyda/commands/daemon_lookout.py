"""Beside the daemon's units: views that are older than they may be, and events that are older than they are kept.

A thread of its own: what is too old must be said while a unit takes long, and because it does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dyda.errors import DydaError, Fenced
from dyda.model.event import ViewFresh, ViewStale
from dyda.model.view_state import ShownState
from dyda.warehouse import FreshnessRecord, Warehouse
from dyda.warehouse.writer import Writer

__all__ = ["Lookout", "overdue"]

SHORTEST, LONGEST = 1.0, 15.0
"""Seconds between two looks; a fourth of the limit if that is in between."""

GRACE = 60.0
"""Seconds until the first look, or the limit if that is less."""

SHARE = 20
"""A look that takes long is rare: at most this part of the time is spent looking."""

FORGET_AGAIN = 3600.0

WAITING = (ShownState.STALE, ShownState.RESYNC)
"""States that end by themselves. For the others somebody was told already that it is his turn."""


class Lookout:
    """Looks until it is closed."""

    def __init__(self, warehouse: Warehouse, writer: Writer, limit: float, log: Callable[[str], None]) -> None:
        self._warehouse = warehouse
        self._writer = writer
        self._limit = limit
        self._log = log
        self._closed = threading.Event()
        self._forgotten_at: float | None = None
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        least = max(SHORTEST, min(self._limit / 4, LONGEST))
        # A daemon that has just started catches up first: it says what it cannot make fresh.
        pause, failures = max(SHORTEST, min(self._limit, GRACE)), 0
        while not self._closed.wait(pause):
            began = time.monotonic()
            try:
                self._look()
                failures = 0
            except Fenced:
                return  # another process works, and looks
            except DydaError as error:
                failures += 1
                if failures == 2:  # the daemon has not begun again meanwhile, as it does where all is lost
                    self._log(f"cannot look how old the views are: {error.in_one_line}")
            pause = max(least, SHARE * (time.monotonic() - began))

    def _look(self) -> None:
        events: list[ViewStale | ViewFresh] = []
        for view in self._warehouse.freshness():
            lag = view.lag_seconds or 0.0
            if view.overdue_since is None and overdue(view, self._limit):
                events.append(ViewStale(view.name, round(lag, 1), self._limit, view.reason))
            elif view.overdue_since is not None and lag <= self._limit:
                events.append(ViewFresh(view.name, round(lag, 1)))
        if events:
            self._writer.note_overdue(events)
        if self._forgotten_at is None or time.monotonic() - self._forgotten_at > FORGET_AGAIN:
            self._writer.forget_old_events()
            self._forgotten_at = time.monotonic()


def overdue(view: FreshnessRecord, limit: float) -> bool:
    """Whether readers see something older than they may, and nobody has to decide about it."""
    return view.state in WAITING and view.lag_seconds is not None and view.lag_seconds > limit
