"""Dyno's loop (paper 001, Section 6.3): observe, plan, execute, install, acknowledge.

    observe ──▶ something moved that nothing explains? ──▶ heal capture, observe again, build the views concerned ─┐
      │                                                                                                            ▼
      └───────▶ plan the next unit ──▶ execute: vs, va, vm ──────────────────────▶ check ─▶ install ─▶ acknowledge
                    ▲                                                                 │
                    └────────────── broken: the schema moved under the reads ─────────┘

What a poll shows is looked at here; the units under it are processed in `units`.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from dyda.errors import (
    BrokenUnit,
    ConfigurationError,
    DydaError,
    InstallBlocked,
    InvariantViolated,
    MissingRights,
    NotAvailable,
    NotInstallable,
    PositionMoved,
    SourceNotAvailable,
    UnknownView,
    WarehouseUnreachable,
)
from dyda.event_wording import in_one_line
from dyda.maintenance.approval import Approval
from dyda.maintenance.catalog_state import BuildRequest, Catalog, CatalogState
from dyda.maintenance.cycle import Cycle, Due, Outcome
from dyda.maintenance.error_causes import cause_of
from dyda.maintenance.execute.execution import Progress
from dyda.maintenance.lanes import Lanes
from dyda.maintenance.next_unit import Planner
from dyda.maintenance.observe.backlog import Backlog
from dyda.maintenance.observe.drift import account_for, listen_again
from dyda.maintenance.observe.missing_rights import Barred
from dyda.maintenance.observe.poll import Poll, poll
from dyda.maintenance.observe.recovery import Recovery
from dyda.maintenance.observe.source_backoff import ALL_WAIT, Resting, who_waits
from dyda.maintenance.observe.unexplained_changes import find_movement
from dyda.maintenance.phases import Phases
from dyda.maintenance.units import Units
from dyda.model.cause import Behind, Cause
from dyda.model.event import UnitAborted
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import EventRecord, ViewRecord, is_hidden
from dyda.warehouse.writer import Writer

__all__ = ["Maintainer"]

RENEW_PAUSE = 60.0
"""Seconds until a table that a reader had open is tried again."""

BLOCKED_FOR = 10.0
"""Seconds for which an obstacle counts after it was last met, while other views go on: it is said once, and not with
each of their units."""


class Maintainer:
    """Keeps the views of one project; holds the project's lock through its writer."""

    def __init__(
        self,
        opened: OpenProject,
        writer: Writer,
        log: Callable[[str], None] = lambda text: None,
        stopping: Callable[[], bool] | None = None,
        outlet: Callable[[EventRecord], None] | None = None,
    ) -> None:
        """`stopping`, for a process that goes on: whether it is to end. What takes long is then built in lanes.
        `outlet` gets each event; without one, it is a line of the log."""
        self.opened = opened
        self.writer = writer
        self.log = log
        writer.outlet = outlet if outlet is not None else self._say_event
        self.obstacle: DydaError | None = None
        """Why the last cycle was blocked."""
        self.waiting = ALL_WAIT
        self._blocked_at = 0.0
        self.planner = Planner(opened, self._say)
        self.recovery = Recovery(opened)
        self.approval = Approval(opened)
        self.catalog = Catalog(opened, writer)
        self._outdated: list[str] | None = None
        self._renew_after = 0.0
        self._resting = Resting(opened)
        self._backlog = Backlog()
        self._barred = Barred(opened, writer)
        lanes = stopping is not None and opened.project.settings.maintenance.lanes > 0
        self.units = Units(
            opened, writer, self.catalog, self.planner, self.approval, self.recovery, self._resting, self._say, lanes
        )
        self.built: set[str] = set()
        """Views that were built and are shown, for whoever has asked for them and takes them out again."""
        self.meanwhile: Callable[[], None] = lambda: None
        """Called by whoever waits for a lane, between two cycles."""
        self.lanes: Lanes | None = None
        if stopping is not None and lanes:
            self.lanes = Lanes(
                opened, writer, self.catalog, self.units, self.planner, self.recovery, self._say, stopping
            )

    def close(self) -> None:
        """Nothing runs beside the units any more."""
        if self.lanes is not None:
            self.lanes.close()

    @property
    def known(self) -> CatalogState:
        """What the catalog says."""
        return self.catalog.state

    def _say(self, text: str) -> None:
        self.log(text)

    def _say_event(self, event: EventRecord) -> None:
        self.log(in_one_line(event.text, event.next))

    def forget(self) -> None:
        """Read the catalog again before the next unit."""
        self.catalog.forget()

    def reload(self) -> None:
        """An operator decided something: read the catalog and plan again."""
        self.forget()
        self.planner.forget()
        self.units.untidy()  # a view that broke waits for nothing any more

    def cycle(
        self, requests: Sequence[BuildRequest] = (), progress: Progress = lambda text, done, total: None
    ) -> Outcome:
        """One poll and its units. `requests` are views to build: new ones, changed ones, those to resync."""
        cycle = Cycle({request.name: request for request in requests}, progress)
        cycle.healed |= set(cycle.requested)
        if self.lanes is not None:
            self.lanes.prefer(cycle.requested)
        if self.recovery.release(self.writer, self.known):
            self.reload()
        outcome = self._attempts(cycle)
        if outcome is Outcome.IDLE:
            self._renew_extents()
        return outcome

    def _attempts(self, cycle: Cycle) -> Outcome:
        """Once, or twice where a source is lost on the way or may be: views that do not read it do not wait for that.
        Whoever asks for a view is told at once that a source of it is away."""
        doubtful = {} if cycle.requested else self._resting.doubtful()
        losses, unit = self._resting.losses, self.writer.last_unit
        outcome = self._attempt(cycle, doubtful)
        if cycle.requested or not (doubtful or self._resting.losses > losses):
            return outcome
        outcome = self._attempt(cycle)
        return outcome if self.writer.last_unit == unit else Outcome.WORKED

    def _attempt(self, cycle: Cycle, apart: Mapping[str, str] = types.MappingProxyType({})) -> Outcome:
        """`apart`: sources that are left alone, with the reason."""
        try:
            while (outcome := self._observe(cycle, apart)) is None:
                pass
            return outcome
        except BaseException as error:
            self.writer.discard_stagings()  # a unit that is not installed leaves no trace
            self.forget()
            return self._outcome_of(error, cycle)

    def _renew_extents(self) -> None:
        """Views of an older version move to tables of today's form, one at a time, while nothing else is to do."""
        if self._outdated is None:
            self._outdated = self.writer.outdated_extents()
        if not self._outdated or time.monotonic() < self._renew_after:
            return
        view = self._outdated[0]
        if self.lanes is not None and self.lanes.busy(view):
            return
        try:
            self.writer.renew_extent(view)
            self.log(f"view {view} has moved to a table of this version's form")
        except InstallBlocked:
            self._renew_after = time.monotonic() + RENEW_PAUSE
            return
        except (ConfigurationError, InvariantViolated, NotInstallable, UnknownView) as error:
            self.log(f"view {view} stays in its table: {error.in_one_line}")
        self._outdated = self._outdated[1:]
        self.forget()

    def _outcome_of(self, error: BaseException, cycle: Cycle) -> Outcome:
        """The one place that decides what an exception means for the rounds to come."""
        match error:
            case BrokenUnit() | PositionMoved():
                if isinstance(error, PositionMoved) or not error.recorded:
                    self.writer.tell(UnitAborted((), error.what, 0.0))
                self.recovery.forget(cycle.returning)
                return Outcome.BROKEN
            case MissingRights() if self._barred.add(error, self.known):
                self.recovery.forget(cycle.returning)
                return Outcome.BROKEN
            case WarehouseUnreachable():
                raise error  # whoever opened the warehouse opens it again
            case NotAvailable():
                self.recovery.forget(cycle.returning)
                return self.blocked(error, self._resting.add(error, self.known.views, within=True))
            case InvariantViolated():
                return self._put_aside(error.view, ViewState.RESYNC, error, cycle)
            case NotInstallable():
                return self._put_aside(error.view, ViewState.HELD, error, cycle)
        raise error

    # --- observe

    def _observe(self, cycle: Cycle, apart: Mapping[str, str]) -> Outcome | None:
        """One poll, and what it leads to; None if it is to be made again."""
        phases = Phases(self.opened.engine.jobs)
        locked = self.planner.locks()
        resting = {**self._resting.now(), **apart}
        with poll(self.opened, self.writer, self.known, locked, resting, self._backlog) as polled:
            self._note_sources(polled)
            due = self._due(polled, cycle, phases)
            if due is None:
                return None
            if set(due.again) <= cycle.healed:
                return self._processed(polled, due, cycle, phases)
        self.planner.lock_again(locked)
        self.recovery.heal(self._to_attach(polled, due.again))
        cycle.healed |= set(due.again)
        return None

    def _processed(self, polled: Poll, due: Due, cycle: Cycle, phases: Phases) -> Outcome | None:
        if self.lanes is not None:
            if self.lanes.advance(polled) or self._show(self.lanes, polled, due):
                return Outcome.WORKED
            if due.builds and self.lanes.begin(polled, due, cycle, self.units.current(polled, due.waiting)):
                return None  # it has the snapshots: the others need new ones
            due = self.lanes.put_off(due)
        self.units.left.clear()
        if due.builds:
            outcome = self.units.build(polled, due, cycle, phases)
            self.built |= set(due.builds)
        else:
            outcome = self.units.work(polled, due, cycle, phases)
        if self.lanes is not None and self.units.left:
            self.lanes.adapt(polled, self.units.left)
        if due.builds:
            return outcome
        delayed = self.lanes is not None and self.lanes.delayed()
        if outcome is not Outcome.IDLE:
            return outcome
        if self.lanes is not None and (self._show(self.lanes, polled, due, idle=True) or delayed):
            return Outcome.WORKED
        read = {source for view in self.known.views.values() for source in view.record.sources}
        if away := sorted(read.intersection(polled.unreachable)):
            error = SourceNotAvailable(polled.unreachable[away[0]], "DyDa tries again.", away[0])
            return self.blocked(error, away)
        self.obstacle = None
        return outcome

    def _show(self, lanes: Lanes, polled: Poll, due: Due, *, idle: bool = False) -> bool:
        """Whether something that was built in a lane is shown from now on."""
        shown = lanes.show(polled, self.units.current(polled, due.waiting), idle=idle)
        self.built |= set(shown)
        return bool(shown)

    def _due(self, polled: Poll, cycle: Cycle, phases: Phases) -> Due | None:
        """None if something was written down that the next poll must know."""
        barred = self._barred.waiting(self.known, polled.snapshots, self.forget)
        phases.done("capture")
        for mark in self.approval.marks(polled, self.known):
            self.writer.mark_messages([mark.number], mark.state, mark.cause)
            self.planner.forget()
        movement = find_movement(polled, self.known)
        listen_again(self.opened, self.writer, movement.deaf, self.log)
        if account_for(self.writer, self.known, polled, movement):
            if self.lanes is not None:
                self.lanes.give_up({drift.source for drift in movement.drifts})
            self.reload()
            return None
        owing = {name: why for name, why in {**self.known.unreadable, **movement.again}.items() if not is_hidden(name)}
        again = {
            name: BuildRequest(name, self.known.records[name].sql or "", None, cause)
            for name, cause in owing.items()
            if name not in barred and not self.known.records[name].sources & set(polled.unreachable)
        }
        cycle.returning |= self.recovery.returning(polled, self.known, barred)
        again |= cycle.returning
        undecided = self.approval.put_off(self.known, again, cycle.requested)
        undecided |= self._stopped(polled, again, cycle)
        self.recovery.forget(undecided)
        again = {name: request for name, request in again.items() if name not in undecided}
        beside = self._beside([*again, *cycle.requested])
        again = {name: request for name, request in again.items() if name not in beside}
        undecided |= {name: cause for name, cause in owing.items() if name in beside}
        waiting = {**movement.waiting, **{n: cause for n, cause in undecided.items() if n in self.known.views}}
        if set(again) <= cycle.healed:
            self.catalog.wait(waiting)
        asked = {
            name: replace(request, anew=name in owing)
            for name, request in cycle.requested.items()
            if name not in beside
        }
        beside_them = {} if self.lanes is None else self.lanes.waiting()
        return Due(again, {**again, **asked}, {**waiting, **barred, **beside_them})

    def _stopped(self, polled: Poll, again: Mapping[str, BuildRequest], cycle: Cycle) -> dict[str, Cause]:
        """Those of the views that lanes owe their rows which a message stops: a build would take them past it."""
        owed = {name for name in again if name not in cycle.requested and _is_owed_by_a_lane(self.known.records[name])}
        stopped = self.planner.stopped(polled, self.known) if owed else frozenset()
        return {name: again[name].cause for name in owed & stopped}

    def _beside(self, names: Iterable[str]) -> set[str]:
        """Those of the views to be built that lanes build, or will build."""
        if self.lanes is None:
            return set()
        found = {name for name in names if self.lanes.waits(name)}
        self.recovery.forget(name for name in found if not self.lanes.busy(name))
        return found

    def _note_sources(self, polled: Poll) -> None:
        for name in polled.snapshots:
            self.writer.note_source(name, reachable=True)
        for name, why in polled.unreachable.items():  # one that was lost on the way, too: its views stay behind
            self.writer.note_source(name, reachable=False, error=why)
        self._resting.reached(polled.snapshots)
        for error in polled.errors:
            self._resting.add(error, self.known.views)

    def _to_attach(self, polled: Poll, again: Iterable[str]) -> set[RelationName]:
        """What these views read; all that was captured where nothing is captured any more."""
        bare = [source for source, snapshot in polled.snapshots.items() if not snapshot.state.attached]
        mine = {relation for name in again for relation in self.known.records[name].relations}
        return mine | {relation for source in bare for relation in self.known.captured.get(source, {})}

    # --- what cannot be done now

    @property
    def still_blocked(self) -> bool:
        """Whether the obstacle is probably still there although other views go on: their units say nothing about it."""
        if isinstance(self.obstacle, SourceNotAvailable) and self.writer.reaches(self.obstacle.source) is False:
            return True
        return self.obstacle is not None and time.monotonic() - self._blocked_at < BLOCKED_FOR

    def _put_aside(self, view: str, state: ViewState, error: DydaError, cycle: Cycle) -> Outcome:
        """One view cannot be installed: it stays as it is and says why, and the others go on without it."""
        if view in cycle.requested:
            raise error
        self.writer.set_state(view, state, cause_of(error))
        self.reload()
        return Outcome.BROKEN

    def blocked(self, error: DydaError, sources: Collection[str] = ()) -> Outcome:
        """The views of these sources, or all, cannot go on now: whoever runs the cycles says so, and tries again."""
        self.waiting = who_waits(self.known.views.values(), sources) if sources else ALL_WAIT
        self.obstacle, self._blocked_at = error, time.monotonic()
        return Outcome.BLOCKED


def _is_owed_by_a_lane(record: ViewRecord) -> bool:
    return record.stored_state == ViewState.RESYNC and isinstance(record.cause, Behind) and record.cause.lane
