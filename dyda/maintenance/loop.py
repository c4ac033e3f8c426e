"""Dyno's loop (paper 001, Section 6.3): poll, choose, compute, check, install, acknowledge.

    poll ──▶ something moved that nothing explains? ──▶ heal capture, poll again, build the views concerned ──┐
      │                                                                                                       ▼
      └────▶ next unit of the schedule ──▶ vs, va, vm ────────────────────────────▶ check ─▶ install ─▶ acknowledge
                    ▲                                                                 │
                    └────────────── broken: the schema moved under the reads ─────────┘

Several units of data are processed under one poll; a unit that changes a schema ends it, because the names it was
opened with may be others now.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from dyda import faults
from dyda.errors import (
    BrokenUnit,
    DydaError,
    EngineFailed,
    EvaluationFailed,
    InstallBlocked,
    InvariantViolated,
    MissingRights,
    NotInstallable,
    PositionMoved,
    SourceBusy,
    SourceUnreachable,
    ValueDoesNotFit,
)
from dyda.maintenance.catalog_state import BuildRequest, CatalogState, MaintainedView, keep_programs, load
from dyda.maintenance.error_causes import cause_of, uncomputable
from dyda.maintenance.execute.deltas import Refresh
from dyda.maintenance.execute.poisoned_row import culprit
from dyda.maintenance.execute.recompute import Builder, Progress
from dyda.maintenance.execute.unit import UnitWork
from dyda.maintenance.install.installation import (
    Phases,
    Positions,
    acknowledge,
    covered,
    installation,
    moved_on,
    positions_after,
)
from dyda.maintenance.observe.drift import account_for, listen_again
from dyda.maintenance.observe.missing_rights import Barred
from dyda.maintenance.observe.poll import Poll, poll
from dyda.maintenance.observe.recovery import Recovery
from dyda.maintenance.observe.source_backoff import ALL_WAIT, Resting, who_waits
from dyda.maintenance.observe.unexplained_changes import find_movement
from dyda.maintenance.plan.approval import Approval
from dyda.maintenance.plan.knowledge_after import KnowledgeWatch
from dyda.maintenance.plan.left_behind import left_behind
from dyda.maintenance.plan.next_unit import Planner
from dyda.model.cause import Cause, Quarantined
from dyda.model.message import MessageState
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import Installation, ViewChange, ViewRecord, Writer
from dyda.wording import sentence
from scheduler import Queued, Unit, UnitKind

__all__ = ["Maintainer", "Outcome"]


class Outcome(enum.Enum):
    """How a cycle ended."""

    IDLE = "nothing to do"
    WORKED = "at least one unit was installed"
    BROKEN = "the unit was void: a schema moved under it"
    BLOCKED = "something that is needed is out of reach"


class Maintainer:
    """Keeps the views of one project; holds the project's lock through its writer."""

    def __init__(self, opened: OpenProject, writer: Writer, log: Callable[[str], None] = lambda text: None) -> None:
        self.opened = opened
        self.writer = writer
        self.log = log
        self.obstacle: DydaError | None = None
        """What stood in the way of the last cycle that was blocked."""
        self.waiting = ALL_WAIT
        self.planner = Planner(opened, log)
        self.recovery = Recovery(opened)
        self.approval = Approval(opened, writer)
        self.watch = KnowledgeWatch(opened)
        self._known: CatalogState | None = None
        self._loaded: CatalogState | None = None
        self._acknowledged: set[str] = set()
        self._resting = Resting(opened)
        self._barred = Barred(opened, writer, lambda text: self.log(text))
        self._tidy: set[int] | None = None
        """The messages that were in the queue when it was last found tidy; None after an installation."""

    @property
    def known(self) -> CatalogState:
        """The catalog; only this process writes it, so it is read again only after a write that changes more than
        rows and positions."""
        if self._known is None:
            self._known = self._loaded = load(self.opened, self._loaded)
            keep_programs(self.opened, self.writer, self._known)
        return self._known

    def forget(self) -> None:
        """Read the catalog again before the next unit."""
        self._known = None

    def reload(self) -> None:
        """Somebody decided something: read the catalog and plan anew."""
        self.forget()
        self.planner.forget()

    def cycle(
        self, targets: Sequence[BuildRequest] = (), progress: Progress = lambda text, done, total: None
    ) -> Outcome:
        """One poll and its units. `targets` are views to build: new ones, changed ones, those to resync."""
        requested = {target.name: target for target in targets}
        healed: set[str] = set(requested)
        returning: dict[str, BuildRequest] = {}
        if self.recovery.release(self.writer, self.known):
            self.reload()
        try:
            while True:
                phases = Phases(self.opened.engine.jobs)
                locked = self.planner.locks()
                with poll(self.opened, self.writer, self.known, locked, self._resting.now()) as polled:
                    self._note_sources(polled)
                    barred = self._barred.waiting(self.known, polled.snapshots, self.forget)
                    phases.done("capture")
                    if self.approval.mark(polled, self.known):
                        self.planner.forget()
                    movement = find_movement(polled, self.known)
                    listen_again(self.opened, self.writer, movement.deaf, self.log)
                    if account_for(self.writer, self.known, polled, movement, self.log):
                        self.reload()
                        continue
                    owing = {**self.known.unreadable, **movement.again}
                    again = {
                        name: BuildRequest(name, self._record(name).sql or "", None, cause)
                        for name, cause in owing.items()
                        if name not in barred and not self._record(name).sources & set(polled.unreachable)
                    }
                    returning |= self.recovery.returning(polled, self.known, barred)
                    again |= returning
                    undecided = self.approval.put_off(self.known, again, requested)
                    self.recovery.forget(undecided)
                    again = {name: target for name, target in again.items() if name not in undecided}
                    stopped = {name: cause for name, cause in undecided.items() if name in self.known.views}
                    waiting = {**movement.waiting, **stopped}
                    if set(again) <= healed:
                        self._wait(waiting)
                        waiting |= barred
                        asked = {name: replace(target, anew=name in owing) for name, target in requested.items()}
                        builds = {**again, **asked}
                        if builds:
                            try:
                                return self._build(polled, builds, requested, waiting, progress, phases)
                            except BrokenUnit as error:
                                self.planner.build_broken(self._read_for(builds, error))
                                self.writer.record_abort((), error.what, phases.total)
                                raise
                        return self._work(polled, waiting, progress, phases)
                self.recovery.heal(self._to_attach(polled, again))
                healed |= set(again)
        except (BrokenUnit, PositionMoved) as error:
            self.log(f"unit abandoned: {error.what}")
            self._abandon()
            self.recovery.forget(returning)
            return Outcome.BROKEN
        except (SourceUnreachable, SourceBusy, MissingRights) as error:
            self._abandon()
            self.recovery.forget(returning)
            if isinstance(error, MissingRights) and self._barred.add(error, self.known):
                return Outcome.BROKEN
            self._resting.add(error)
            return self.blocked(error, [error.source])
        except InstallBlocked as error:
            self._abandon()
            positions = self.known.views[error.view].positions if error.view in self.known.views else {}
            self._resting.add_readers(positions, error)
            return self.blocked(error, positions)
        except EngineFailed as error:
            self._abandon()
            return self.blocked(error)
        except InvariantViolated as error:
            self._abandon()
            return self._put_aside(error.view, ViewState.RESYNC, error, requested)
        except NotInstallable as error:
            self._abandon()
            return self._put_aside(error.view, ViewState.HELD, error, requested)
        except BaseException:
            self._abandon()
            raise

    def _to_attach(self, polled: Poll, again: Iterable[str]) -> set[RelationName]:
        """What these views read; all that was captured where nothing is captured any more."""
        bare = [source for source, snapshot in polled.snapshots.items() if not snapshot.attached]
        mine = {relation for name in again for relation in self._record(name).relations}
        return mine | {relation for source in bare for relation in self.known.captured.get(source, {})}

    def _record(self, name: str) -> ViewRecord:
        view = self.known.views.get(name)
        return view.record if view is not None else self.known.frozen[name]

    def _read_for(self, builds: Iterable[str], error: BrokenUnit) -> set[RelationName]:
        """What these views read as far as the catalog knows them, and what moved."""
        captured = {str(name): name for relations in self.known.captured.values() for name in relations}
        records = [self._record(name) for name in builds if name in self.known.views or name in self.known.frozen]
        read = {name for record in records for name in record.relations if str(name) in captured}
        return read | {captured[text] for text in error.relations if text in captured}

    def _put_aside(
        self, view: str, state: ViewState, error: DydaError, requested: Mapping[str, BuildRequest]
    ) -> Outcome:
        """One view cannot be installed: it stays as it is and says why, and the others go on without it."""
        if view in requested:
            raise error
        self.log(f"view {view} is {state}: {error.what}")
        self.writer.set_state(view, state, cause_of(error))
        self.reload()
        return Outcome.BROKEN

    def _abandon(self) -> None:
        """A unit that is not installed leaves no trace."""
        self.writer.discard_stagings()
        self.forget()

    def blocked(self, error: DydaError, sources: Collection[str] = ()) -> Outcome:
        """Something stands in the way of these sources' views, or of all; it is said once, and tried again."""
        waiting = who_waits(self.known.views.values(), sources) if sources else ALL_WAIT
        if self.obstacle is None or self.obstacle.what != error.what:
            self.log(f"{error.in_one_line} ({waiting})")
        self.obstacle, self.waiting = error, waiting
        return Outcome.BLOCKED

    def _note_sources(self, polled: Poll) -> None:
        for name in polled.snapshots:
            self.writer.note_source(name, reachable=True)
        for name, why in polled.unreachable.items():
            self.writer.note_source(name, reachable=False, error=why)
        self._resting.reached(polled.snapshots)
        for error in polled.errors:
            self._resting.add(error)

    def _wait(self, waiting: Mapping[str, Cause]) -> None:
        for name, cause in waiting.items():
            if self.known.views[name].record.stored_state != ViewState.RESYNC:
                self.writer.set_state(name, ViewState.RESYNC, cause)
                self.forget()

    def _current(self, polled: Poll, excluded: Iterable[str]) -> list[MaintainedView]:
        """The views that can be maintained now: not excluded, and every source of theirs in reach."""
        away, left_out = set(polled.unreachable), set(excluded)
        return [
            view for view in self.known.views.values() if view.name not in left_out and not away & view.record.sources
        ]

    # --- views that are built whole

    def _build(
        self,
        polled: Poll,
        targets: Mapping[str, BuildRequest],
        requested: Collection[str],
        waiting: Mapping[str, Cause],
        progress: Progress,
        phases: Phases,
    ) -> Outcome:
        """Build the targets at the snapshots; in `strong` mode the others come along, so that all stand alike. One that
        nobody asked for and that needs a source out of reach waits alone."""
        refresh = Refresh(self.opened, polled, self.writer)
        permit = self.approval.permit(targets)
        builder = Builder(self.opened, self.writer, polled, self.known, refresh, progress, permit=permit)
        changes: list[ViewChange] = []
        away: dict[str, Cause] = {}
        for name, target in targets.items():
            try:
                with polled.blamed():
                    changes.append(builder.build(target))
            except SourceUnreachable as error:
                if name in requested:
                    raise
                away[name] = cause_of(error)
        if away:
            waiting = {**waiting, **away}
            self._wait({name: cause for name, cause in away.items() if name in self.known.views})
            if not changes:
                return self._work(polled, waiting, progress, phases)
        current = self._current(polled, [*targets, *waiting])
        unit = self.planner.everything(polled, current)
        if unit is not None:
            work = UnitWork(self.opened, builder, polled, self.known, refresh, unit)
            try:
                with polled.blamed():
                    changes += work.changes(current, phases.done)
            except (ValueDoesNotFit, EvaluationFailed):
                unit = None  # those views find their poisoned message in a unit of their own
            current = [view for view in current if view.name not in work.behind]
        self._install(polled, unit, changes, builder, current, phases, set(targets) - set(away))
        self.recovery.tried(polled, self.known, changes)
        self.planner.built()
        return Outcome.WORKED

    # --- units of the schedule

    def _work(self, polled: Poll, waiting: Mapping[str, Cause], progress: Progress, phases: Phases) -> Outcome:
        noticed = self.watch.notice(polled, self.known)
        if noticed is not None:
            self.writer.install(noticed)
            self._tidy = None
            self.reload()
            return Outcome.WORKED
        refresh = Refresh(self.opened, polled, self.writer, self.planner.early_check(polled))
        outcome = Outcome.IDLE
        while True:
            phases.done("plan")
            current = self._current(polled, waiting)
            phases.done("catalog")
            unit = self.planner.next_unit(polled, current, self.known)
            phases.done("plan")
            if unit is None:
                break
            outcome = Outcome.WORKED
            try:
                self.planner.foresee(unit)
                run = self.planner.next_run(current)
                if len(run) > 1:
                    self._process_run(polled, run, current, refresh, progress, phases)
                elif not self._process(polled, unit, current, refresh, progress, phases):
                    return outcome
            except BrokenUnit as error:
                relations = self.planner.broken(unit, error, self.known)
                self.writer.record_abort(unit.numbers, error.what, phases.total, relations)
                raise
            phases = Phases(self.opened.engine.jobs, polled.queries)
        if outcome is Outcome.IDLE:
            self._tidy_queue(polled)
            acknowledge(self.opened, polled, positions_after(self.known, ()), self._acknowledged)
            self.writer.write_phases()
            read = {source for view in self.known.views.values() for source in view.record.sources}
            if away := sorted(read.intersection(polled.unreachable)):
                return self.blocked(DydaError(polled.unreachable[away[0]], "It is tried again."), away)
            self.obstacle = None
        return outcome

    def _tidy_queue(self, polled: Poll) -> None:
        """Messages that no view waits for any more leave the queue: their readers were dropped, broke or rebuilt.

        The poll knows nothing of what only held views wait for."""
        numbers = {queued.number for queued in polled.queue}
        if self._tidy is not None and numbers <= self._tidy:
            return
        self._tidy = numbers
        waiting = numbers - {queued.number for queued in covered(polled.queue, positions_after(self.known, ()))}
        held = {name: dict(r.positions) for name, r in self.known.frozen.items() if r.stored_state == ViewState.HELD}
        stored = [
            Queued(record.id, record.message)
            for record in self.opened.warehouse.messages()
            if record.source in polled.snapshots and record.id not in waiting
        ]
        left = [queued.number for queued in covered(stored, held)]
        if left:
            self.writer.install(Installation(done=tuple(left)))

    def _process(
        self,
        polled: Poll,
        unit: Unit,
        current: Sequence[MaintainedView],
        refresh: Refresh,
        progress: Progress,
        phases: Phases,
    ) -> bool:
        """One unit, from the sources to the warehouse; whether this poll may be used for another."""
        builder = Builder(self.opened, self.writer, polled, self.known, refresh, progress)
        work = UnitWork(self.opened, builder, polled, self.known, refresh, unit)
        try:
            with polled.blamed():
                changes = work.changes(current, phases.done)
        except (ValueDoesNotFit, EvaluationFailed) as error:
            self._poisoned(polled, unit, current, refresh, progress, error)
            return False
        taken = [view for view in current if view.name not in work.behind]
        self._install(polled, unit, changes, builder, taken, phases, set())
        if builder.forgotten:
            self.planner.forget()  # messages that wait are told by the new names from now on
        self.planner.installed(unit)
        return unit.kind in (UnitKind.DATA, UnitKind.IDLE)

    def _process_run(
        self,
        polled: Poll,
        units: Sequence[Unit],
        current: Sequence[MaintainedView],
        refresh: Refresh,
        progress: Progress,
        phases: Phases,
    ) -> None:
        """Units of data alone, computed together and installed one after the other: each is a state of its own (W6).

        What was read is checked once, before the first of them: what happens to a schema later is a later message.
        """
        builder = Builder(self.opened, self.writer, polled, self.known, refresh, progress)
        work = UnitWork(self.opened, builder, polled, self.known, refresh, units[0])
        try:
            with polled.blamed():
                computed = work.run(current, units, phases.done)
        except (ValueDoesNotFit, EvaluationFailed):
            self.writer.discard_stagings()
            self.planner.narrow_run(units)
            return
        faults.point("unit.evaluated")
        polled.settle(scanned=True)
        faults.point("unit.checked")
        phases.done("check")
        known, plain = self.known, True
        for unit, changes in computed:
            positions: Positions = positions_after(known, changes)
            first = unit is units[0]
            prepared = installation(
                self.opened, known, polled, unit, changes, builder, positions, phases, set(), with_sources=first
            )
            plain = plain and prepared.moves_rows_alone
            self.writer.install(prepared)
            phases.done("install")
            self.writer.note_phases(self.writer.last_unit, phases.after_installing())
            known = moved_on(known, changes, polled)
            self.planner.installed(unit)
            phases = Phases(self.opened.engine.jobs, polled.queries)
        self._known = known if plain else None
        self._tidy = None
        self._resting.back(polled.snapshots)
        acknowledge(self.opened, polled, positions, self._acknowledged)

    def _install(
        self,
        polled: Poll,
        unit: Unit | None,
        changes: Sequence[ViewChange],
        builder: Builder,
        current: Sequence[MaintainedView],
        phases: Phases,
        built: set[str],
    ) -> None:
        faults.point("unit.evaluated")
        polled.settle({*builder.described, *builder.forgotten}, builder.looked_at, scanned=True)
        faults.point("unit.checked")
        phases.done("check")
        taken = built | {view.name for view in current if unit is not None}
        changes = [*changes, *left_behind(self.opened, self.known, polled, builder, taken)]
        positions: Positions = positions_after(self.known, changes)
        prepared = installation(self.opened, self.known, polled, unit, changes, builder, positions, phases, built)
        self.writer.install(prepared)
        phases.done("install")
        for name, relation in builder.described.items():
            if name not in self.known.relations and polled.snapshots[name.source].stands(relation):
                self.opened.source(name.source).attach([relation])  # the same table, watched under its new name
        self._known = moved_on(self.known, changes, polled) if prepared.moves_rows_alone else None
        self._tidy = None
        self._resting.back(polled.snapshots)
        acknowledge(self.opened, polled, positions, self._acknowledged)
        phases.done("acknowledge")
        self.writer.note_phases(self.writer.last_unit, phases.after_installing())

    def _poisoned(
        self,
        polled: Poll,
        unit: Unit,
        views: Sequence[MaintainedView],
        refresh: Refresh,
        progress: Progress,
        error: DydaError,
    ) -> None:
        """A value that Spark cannot hold or compute: narrow the unit down to its message, then quarantine that.

        The views that need the message are held where they are, and say why; everything else goes on.
        """
        self.writer.discard_stagings()
        if len(unit.messages) > 1 and unit.kind is UnitKind.DATA:
            self.planner.narrow(unit)
            return
        numbers = [queued.number for queued in unit.messages]
        for view in views:

            def compute(over: Refresh, view: MaintainedView = view) -> None:
                builder = Builder(self.opened, self.writer, polled, self.known, over, progress)
                UnitWork(self.opened, builder, polled, self.known, over, unit).changes([view], lambda phase: None)

            try:
                with polled.blamed():
                    compute(refresh)
            except (ValueDoesNotFit, EvaluationFailed) as own:
                row = culprit(refresh, unit, view.definition.relations, compute) if unit.kind is UnitKind.DATA else None
                cause = uncomputable(own, row)
                held = Quarantined(tuple(numbers), cause)
                self.log(f"view {view.name} is held: {sentence(held)}")
                self.writer.mark_messages(numbers, MessageState.QUARANTINED, cause)
                self.writer.set_state(view.name, ViewState.HELD, held)
        self.writer.discard_stagings()
        self.planner.forget()
        self.forget()
