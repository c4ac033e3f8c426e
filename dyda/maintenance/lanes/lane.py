"""One view in a thread of its own: under the snapshots of a poll, into tables that no view has yet."""

from __future__ import annotations

import datetime
import time
from collections.abc import Mapping
from contextlib import ExitStack

from dyda import faults
from dyda.errors import BrokenUnit, EvaluationFailed, ValueDoesNotFit
from dyda.maintenance.catalog_state import CatalogState
from dyda.maintenance.execute.deltas import Refresh
from dyda.maintenance.execute.execution import Execution
from dyda.maintenance.execute.from_extent import adapt_from_extent
from dyda.maintenance.execute.recompute import recompute
from dyda.maintenance.lanes.worker import Worker
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.plan.unit_plan import Adapt, Rebuild, UnitPlan
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import ViewChange, hidden_name
from dyda.warehouse.extents.lockless_staging import Stagings
from dyda.warehouse.writer import Writer
from va import FromExtent

__all__ = ["Lane"]

LONGEST_REST = 5.0
"""Seconds."""


class Lane(Worker):
    """Owns the snapshots that it is given."""

    def __init__(
        self,
        opened: OpenProject,
        writer: Writer,
        catalog: CatalogState,
        plan: UnitPlan,
        build: Rebuild | Adapt,
        polled: Poll,
    ) -> None:
        super().__init__(opened, f"lane {build.name}")
        self.catalog = catalog
        """As it was when the lane began."""
        self.plan = plan
        self.build = build
        self.poll = polled
        self.since = datetime.datetime.now(datetime.UTC)
        self.started = time.perf_counter()
        self.step = "reading"
        self.done, self.total = 0, 0
        self.rows: int | None = None
        self._writer = writer
        self._last_unit = writer.last_unit
        asked = (*plan.facts.looked_at, *plan.facts.described)
        self._snapshots = polled.handed_over({*build.to, *(name.source for name in asked)})

    @property
    def name(self) -> str:
        return self.build.name

    @property
    def at(self) -> Mapping[str, Position]:
        """The positions of what it builds."""
        return self.build.to

    @property
    def reads(self) -> set[RelationName]:
        """Relations that must stay what they are until the result is adopted."""
        facts = self.plan.facts
        return {*facts.described, *self.build.definition.relations}

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def adapts(self) -> bool:
        """Whether it takes rows of the view's extent, which must stay as they are meanwhile."""
        return isinstance(self.build, Adapt)

    def holding(self) -> ExitStack:
        return self._snapshots

    def made(self, stagings: Stagings) -> ViewChange:
        faults.point("lane.opened")
        opened, build, facts = self.opened, self.build, self.plan.facts
        opened.engine.beside(self._thread.name)
        refresh = Refresh(opened, self.poll, rest=self._rest, known_as=facts.known_as)
        execution = Execution(
            opened, self._writer, self.poll, self.catalog, refresh, facts, self._progress, lane=stagings
        )
        with self.poll.blamed():
            change = _computed(execution, build)
        self.poll.settle({*facts.described}, facts.looked_at, scanned=True)
        if not self.poll.locked:  # otherwise the relations stay as they are until the result is adopted
            self._snapshots.close()
        faults.point("lane.computed")
        if change.state == ViewState.BROKEN or change.version is None:
            return change
        self.step = "filling"
        prepared = stagings.prepare(change, change.version)
        self.rows = prepared.rows
        faults.point("lane.prepared")
        at = {source: (None, position) for source, position in self.at.items()}
        return ViewChange(
            view=hidden_name(build.name),
            mode="replace",
            version=change.version,
            state=change.state,
            positions=at,
            prepared=prepared,
        )

    def _progress(self, text: str, done: int, total: int) -> None:
        self.done, self.total = done, total

    def _rest(self, seconds: float) -> None:
        """The units have the machine for as long as the lane had it, if there were any meanwhile."""
        faults.point("lane.resting")
        busy, self._last_unit = self._writer.last_unit != self._last_unit, self._writer.last_unit
        if self.given_up.wait(min(seconds, LONGEST_REST) if busy else 0):
            raise BrokenUnit("", frozenset(), "the lane was given up")


def _computed(execution: Execution, build: Rebuild | Adapt) -> ViewChange:
    if isinstance(build, Rebuild):
        return recompute(execution, build, built=True)
    try:
        assert isinstance(build.how, FromExtent)  # nothing else reads sources for long
        return adapt_from_extent(execution, build, build.how)
    except (EvaluationFailed, ValueDoesNotFit) as error:
        return recompute(execution, build.rebuild(error.what), built=True)  # says of the view what is in the way
