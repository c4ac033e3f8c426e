"""Sources that are left alone for a while, so that the views that do not need them go on.

A source that does not answer may take its time to say so. It is therefore asked in the background whether it is back,
and counts as away until it has said yes. One that is only busy is tried again after a pause.

A source that was lost in the middle of a cycle is doubtful until a unit with it is installed, or nothing is left to do:
the other views go first, under a poll of their own, so that their work is not lost with it again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping

from dyda.errors import DydaError, InstallBlocked, NotAvailable, SourceNotAvailable, SourceUnreachable
from dyda.maintenance.catalog_state import MaintainedView
from dyda.open_project import OpenProject

__all__ = ["ALL_WAIT", "Resting", "who_waits"]

ALL_WAIT = "all views wait for this"
SHOWN = 5

SHORTEST, LONGEST = 0.25, 8.0


def who_waits(views: Collection[MaintainedView], sources: Collection[str]) -> str:
    """Which views cannot go on while these sources are left alone, and whether others do."""
    names = sorted(view.name for view in views if not view.record.sources.isdisjoint(sources))
    others = len(views) - len(names)
    if not others:
        return ALL_WAIT
    listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    waiting = f"waiting for this: {listed}" if names else "no view waits for this"
    return f"{waiting}; {others} other view{'s go' if others > 1 else ' goes'} on"


class _Rest:
    def __init__(self, why: str, pause: float, busy: bool) -> None:
        self.why = why
        self.pause = pause
        self.busy = busy
        self.away = not busy
        self.doubtful = False
        self.until = time.monotonic() + pause
        self.asking: threading.Thread | None = None


class Resting:
    """Which sources are left alone now, and why."""

    def __init__(self, opened: OpenProject) -> None:
        self._opened = opened
        self._rests: dict[str, _Rest] = {}
        self.losses = 0
        """How often a source was lost in the middle of a cycle."""

    def add(self, error: NotAvailable, views: Mapping[str, MaintainedView], *, within: bool = False) -> Collection[str]:
        """Leave the sources alone that the error concerns, each time in a row for longer; returns them. `within`: they
        had answered the poll."""
        match error:
            case SourceNotAvailable():
                sources = [error.source]
            case InstallBlocked() if error.view in views:
                sources = list(views[error.view].positions)  # what they send cannot be installed now
            case _:
                sources = []
        lost = within and isinstance(error, SourceNotAvailable)
        for source in sources:
            before = self._rests.get(source)
            pause = SHORTEST if before is None else min(before.pause * 2, LONGEST)
            rest = _Rest(error.what, pause, not isinstance(error, SourceUnreachable))
            rest.doubtful = lost or (before is not None and before.doubtful)
            self._rests[source] = rest
        self.losses += lost
        return sources

    def now(self) -> dict[str, str]:
        """Those to leave alone now. Whoever is not here is tried by the next poll."""
        found = {}
        for source, rest in self._rests.items():
            if rest.until > time.monotonic():
                found[source] = rest.why
            elif rest.away:
                if rest.asking is None:
                    rest.asking = threading.Thread(target=self._ask, args=(source, rest), daemon=True)
                    rest.asking.start()
                found[source] = rest.why
        return found

    def doubtful(self) -> dict[str, str]:
        """Those that were lost in the middle of a cycle, may be tried again, and have not proven themselves yet."""
        resting = self.now()
        return {name: rest.why for name, rest in self._rests.items() if rest.doubtful and name not in resting}

    def reached(self, sources: Collection[str]) -> None:
        """These answered a poll; whether one that was busy or doubtful is so no longer shows only in a unit."""
        self._rests = {
            name: rest for name, rest in self._rests.items() if rest.busy or rest.doubtful or name not in sources
        }

    def back(self, sources: Collection[str]) -> None:
        """A unit was installed with the help of these, or they were asked and nothing was left to do."""
        self._rests = {name: rest for name, rest in self._rests.items() if name not in sources}

    def _ask(self, source: str, rest: _Rest) -> None:
        try:
            self._opened.source(source).state()
            rest.away = False
        except DydaError as error:
            rest.why = error.what
            rest.pause = min(rest.pause * 2, LONGEST)
            rest.until = time.monotonic() + rest.pause
        finally:
            rest.asking = None
