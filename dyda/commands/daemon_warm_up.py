"""What a daemon does while nothing is to do yet: Spark starts, and is asked for each view what a unit will ask.

    daemon ── polls ─────────────── unit ── …          a unit that comes early waits for Spark's start, as it must,
    warm-up ── Spark starts ── v1 ── v2 ─┤ ends        and for nothing else: the warm-up ends when a unit asks Spark

What Java loads, and Spark plans, for the first time takes seconds; the first change would pay for it. Afterwards, and
once only, Java is let write an archive that halves Spark's next start.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dyda.engine import Engine
from dyda.engine.class_archive import Archiving, archive_file
from dyda.errors import DydaError
from dyda.maintenance.catalog_state import MaintainedView

__all__ = ["WarmUp"]

ARCHIVE_AFTER = 60.0
"""Seconds until the archive is made: a daemon that has just started has better things to do."""


class WarmUp:
    """Runs beside the daemon until it is done, until a unit asks Spark for something, or until it is closed."""

    def __init__(
        self, engine: Engine, views: Sequence[MaintainedView], archives: Path, log: Callable[[str], None]
    ) -> None:
        self._engine = engine
        self._views = views
        self._archives = archives
        self._log = log
        self._asked = engine.asked
        self._started = threading.Event()
        self._closed = threading.Event()
        self._archiving: Archiving | None = None
        self._guard = threading.Lock()
        # Spark's start cannot be interrupted: the process may end meanwhile, and Java ends with it.
        self._thread = threading.Thread(target=self._run, name="warm-up", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Nothing of it runs any more, unless Spark is starting: `Engine.stop` sees to that."""
        self._closed.set()
        if self._started.is_set():
            self._engine.cancel(self._thread.name)
            self._thread.join()
        with self._guard:
            if self._archiving is not None:
                self._archiving.close()

    def _run(self) -> None:
        began = time.monotonic()
        try:
            self._engine.start()
            self._started.set()
            rehearsed = self._rehearse()
        except Exception as error:  # a unit that needs Spark will say what to do; until then nothing is lost
            if not self._closed.is_set():
                self._log(f"not ready yet: {error.in_one_line if isinstance(error, DydaError) else error}")
            return
        if self._closed.is_set():
            return
        if rehearsed:
            self._log(f"ready to maintain {len(self._views)} views after {time.monotonic() - began:.1f} s")
        file = archive_file(self._archives)
        with self._guard:
            if not self._closed.is_set() and not file.exists():
                self._archiving = Archiving(file, ARCHIVE_AFTER)

    def _rehearse(self) -> bool:
        """False if something better was to do."""
        for view in self._views:
            for block in view.program.blocks:
                if self._closed.is_set() or self._engine.asked != self._asked:
                    return False
                self._engine.beside(self._thread.name)
                self._engine.rehearse(block)
        return True
