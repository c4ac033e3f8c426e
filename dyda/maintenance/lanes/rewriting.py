"""A narrowed extent gets a table of its own, beside the units: otherwise the first rows that come would do that, in
everybody's way. The view waits meanwhile, so its rows and positions are the same before and after."""

from __future__ import annotations

from dyda import faults
from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.lanes.worker import Worker
from dyda.open_project import OpenProject
from dyda.warehouse import ViewChange
from dyda.warehouse.extents.lockless_staging import Stagings

__all__ = ["Rewriting"]


class Rewriting(Worker):
    """One extent."""

    def __init__(self, opened: OpenProject, view: MaintainedView) -> None:
        super().__init__(opened, f"rewriting {view.name}")
        self.view = view
        """As it was when it began to wait."""

    def made(self, stagings: Stagings) -> ViewChange | None:
        prepared = stagings.rewrite(self.view.name)
        faults.point("lane.rewritten")
        return None if prepared is None else ViewChange(view=self.view.name, prepared=prepared)
