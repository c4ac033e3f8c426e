"""One build in a thread of its own: under the snapshots of a poll, into tables that no view has yet."""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import replace

from dyda import faults
from dyda.maintenance.catalog_state import CatalogState
from dyda.maintenance.execute.deltas import Refresh
from dyda.maintenance.execute.execution import Execution
from dyda.maintenance.execute.recompute import recompute
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.plan.unit_plan import Rebuild, UnitPlan
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import Stagings, ViewChange, Writer, hidden_name

__all__ = ["Lane"]

GIVEN_UP = 30.0
"""Seconds for which a lane that was cancelled is waited for: it has nothing to lose."""


class Lane:
    """Owns the snapshots that it is given. `change` is what it has built, or `error` why it has not."""

    def __init__(
        self, opened: OpenProject, writer: Writer, catalog: CatalogState, plan: UnitPlan, build: Rebuild, polled: Poll
    ) -> None:
        self.opened = opened
        self.catalog = catalog
        """As it was when the lane began."""
        self.plan = plan
        self.build = build
        self.poll = polled
        self.since = datetime.datetime.now(datetime.UTC)
        self.started = time.perf_counter()
        self.ended_at = math.inf
        """By `time.monotonic`."""
        self.step = "reading"
        self.done, self.total = 0, 0
        self.rows: int | None = None
        self.change: ViewChange | None = None
        self.error: BaseException | None = None
        self._writer = writer
        asked = (*plan.facts.looked_at, *plan.facts.described)
        self._snapshots = polled.handed_over({*build.to, *(name.source for name in asked)})
        self._stagings: Stagings | None = None
        self._ready = threading.Event()
        self._released = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"dyda lane {build.name}", daemon=True)

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
    def ended(self) -> bool:
        """Whether there is a result, or an error."""
        return self._ready.is_set()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    def start(self) -> None:
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Until it has ended, or for so long."""
        self._ready.wait(seconds)

    def cancel(self) -> None:
        """Give it up; it ends soon."""
        self.opened.engine.cancel(self._thread.name)
        if self._stagings is not None:
            self._stagings.cancel()

    def close(self) -> None:
        """The session that guards its tables ends: what was not adopted is garbage."""
        if not self.ended:
            self.cancel()
        self._released.set()
        self._thread.join(GIVEN_UP)

    def _run(self) -> None:
        try:
            with self._snapshots, self.opened.warehouse.stagings() as self._stagings:
                self.change = self._built(self._stagings)
                self._end()
                self._released.wait()
        except BaseException as error:
            self.error = error
        finally:
            self._end()

    def _end(self) -> None:
        self.ended_at = min(self.ended_at, time.monotonic())
        self._ready.set()

    def _built(self, stagings: Stagings) -> ViewChange:
        faults.point("lane.opened")
        opened, build, facts = self.opened, self.build, self.plan.facts
        opened.engine.beside(self._thread.name)
        refresh = Refresh(opened, self.poll, beside=True, known_as=facts.known_as)
        execution = Execution(
            opened, self._writer, self.poll, self.catalog, refresh, facts, self._progress, lane=stagings
        )
        with self.poll.blamed():
            change = recompute(execution, build, built=True)
        self.poll.settle({*facts.described}, facts.looked_at, scanned=True)
        if not self.poll.locked:  # otherwise the relations stay as they are until the result is adopted
            self._snapshots.close()
        faults.point("lane.computed")
        if change.state == ViewState.BROKEN or change.version is None or change.staging is None:
            return change
        self.step = "filling"
        states = [state.staging for state in change.states if state.staging is not None]
        prepared = stagings.prepare(build.name, change.version, change.staging, states)
        self.rows = prepared.rows
        faults.point("lane.prepared")
        at = {source: (None, position) for source, position in self.at.items()}
        return replace(change, view=hidden_name(build.name), staging=None, states=(), positions=at, prepared=prepared)

    def _progress(self, text: str, done: int, total: int) -> None:
        self.done, self.total = done, total
