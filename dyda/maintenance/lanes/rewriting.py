"""A narrowed extent gets a table of its own, beside the units: otherwise the first rows that come would do that, in
everybody's way. The view waits meanwhile, so its rows and positions are the same before and after."""

from __future__ import annotations

import threading

from dyda import faults
from dyda.maintenance.catalog_state import MaintainedView
from dyda.open_project import OpenProject
from dyda.warehouse import PreparedTables, Stagings, ViewChange

__all__ = ["Rewriting"]

GIVEN_UP = 30.0
"""Seconds for which a thread that was cancelled is waited for: it has nothing to lose."""


class Rewriting:
    """One extent in a thread of its own; `change` installs the new table."""

    def __init__(self, opened: OpenProject, view: MaintainedView) -> None:
        self.view = view
        """As it was when it began to wait."""
        self.error: BaseException | None = None
        self._opened = opened
        self._prepared: PreparedTables | None = None
        self._stagings: Stagings | None = None
        self._ready, self._released = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"dyda rewriting {view.name}", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        return self._ready.is_set()

    @property
    def change(self) -> ViewChange | None:
        """None: there is nothing to be installed."""
        return None if self._prepared is None else ViewChange(view=self.view.name, prepared=self._prepared)

    def close(self) -> None:
        """The session that guards its table ends: what was not installed is garbage."""
        if not self.ended and self._stagings is not None:
            self._stagings.cancel()
        self._released.set()
        self._thread.join(GIVEN_UP)

    def _run(self) -> None:
        try:
            with self._opened.warehouse.stagings() as self._stagings:
                self._prepared = self._stagings.rewrite(self.view.name)
                faults.point("lane.rewritten")
                self._ready.set()
                self._released.wait()
        except BaseException as error:
            self.error = error
        finally:
            self._ready.set()
