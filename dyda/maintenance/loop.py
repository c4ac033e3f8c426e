"""Dyno's loop (paper 001, Section 6.3): observe, plan, execute, install, acknowledge.

    observe ──▶ something moved that nothing explains? ──▶ heal capture, observe again, build the views concerned ─┐
      │                                                                                                            ▼
      └───────▶ plan the next unit ──▶ execute: vs, va, vm ──────────────────────▶ check ─▶ install ─▶ acknowledge
                    ▲                                                                 │
                    └────────────── broken: the schema moved under the reads ─────────┘

Several units of data are processed under one poll; a unit that changes a schema ends it, because the names it was
opened with may be others now.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from dyda.maintenance.execute.deltas import Refresh
from dyda.maintenance.execute.execution import Execution, Progress
from dyda.maintenance.execute.poisoned_row import culprit
from dyda.maintenance.execute.unit import execute, execute_run
from dyda.maintenance.install.acknowledge import acknowledge, covered
from dyda.maintenance.install.installation import Installing, installation, moved_on, positions_after
from dyda.maintenance.install.phases import Phases
from dyda.maintenance.observe.drift import account_for, listen_again
from dyda.maintenance.observe.missing_rights import Barred
from dyda.maintenance.observe.poll import Poll, poll
from dyda.maintenance.observe.recovery import Recovery
from dyda.maintenance.observe.round import Round
from dyda.maintenance.observe.source_backoff import ALL_WAIT, Resting, who_waits
from dyda.maintenance.observe.tables import look_at
from dyda.maintenance.observe.unexplained_changes import find_movement
from dyda.maintenance.plan.analysis import SparkAnalysis
from dyda.maintenance.plan.approval import Approval
from dyda.maintenance.plan.knowledge_after import KnowledgeWatch
from dyda.maintenance.plan.next_unit import Planner
from dyda.maintenance.plan.planner import (
    Builds,
    Reading,
    plan_builds,
    plan_run,
    plan_unit,
    reachable_relations,
    relations_to_look_at,
)
from dyda.maintenance.plan.unit_plan import UnitPlan
from dyda.model.relation import Relation, RelationName
from dyda.open_project import OpenProject
from dyda.warehouse import Installation, RelationState, ViewChange, ViewRecord, Writer
from scheduler import Queued, Unit, UnitKind
from vs import read

__all__ = ["Maintainer", "Outcome"]


class Outcome(enum.Enum):
    """How a cycle ended."""

    IDLE = "nothing to do"
    WORKED = "at least one unit was installed"
    BROKEN = "the unit was void: a schema moved under it"
    BLOCKED = "something that is needed is out of reach"


@dataclass
class _Cycle:
    """What a cycle was asked for, and what it has tried so far."""

    requested: Mapping[str, BuildRequest]
    progress: Progress
    healed: set[str] = field(default_factory=set)
    """Views for whose relations capture was attached again."""
    returning: dict[str, BuildRequest] = field(default_factory=dict)
    """Broken views that mean something again."""


@dataclass(frozen=True)
class _Due:
    """What a poll asks for beside its messages: views to build, with and without a request, and views that wait."""

    again: Mapping[str, BuildRequest]
    builds: Mapping[str, BuildRequest]
    waiting: Mapping[str, str]


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
        self._analysis = SparkAnalysis(opened.engine)
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
        self, requests: Sequence[BuildRequest] = (), progress: Progress = lambda text, done, total: None
    ) -> Outcome:
        """One poll and its units. `requests` are views to build: new ones, changed ones, those to resync."""
        cycle = _Cycle({request.name: request for request in requests}, progress)
        cycle.healed |= set(cycle.requested)
        if self.recovery.release(self.writer, self.known):
            self.reload()
        try:
            while (outcome := self._observe(cycle)) is None:
                pass
        except BaseException as error:
            self._abandon()
            return self._outcome_of(error, cycle)
        return outcome

    def _outcome_of(self, error: BaseException, cycle: _Cycle) -> Outcome:
        """The one place that decides what an exception means for the rounds to come."""
        match error:
            case BrokenUnit() | PositionMoved():
                self.log(f"unit abandoned: {error.what}")
                self.recovery.forget(cycle.returning)
                return Outcome.BROKEN
            case MissingRights() if self._barred.add(error, self.known):
                self.recovery.forget(cycle.returning)
                return Outcome.BROKEN
            case SourceUnreachable() | SourceBusy() | MissingRights():
                self.recovery.forget(cycle.returning)
                self._resting.add(error)
                return self.blocked(error, [error.source])
            case InstallBlocked():
                positions = self.known.views[error.view].positions if error.view in self.known.views else {}
                self._resting.add_readers(positions, error)
                return self.blocked(error, positions)
            case EngineFailed():
                return self.blocked(error)
            case InvariantViolated():
                return self._put_aside(error.view, "resync", error, cycle)
            case NotInstallable():
                return self._put_aside(error.view, "held", error, cycle)
        raise error

    # --- observe

    def _observe(self, cycle: _Cycle) -> Outcome | None:
        """One poll, and what it leads to; None if it is to be made again."""
        phases = Phases(self.opened.engine.jobs)
        locked = self.planner.locks()
        with poll(self.opened, self.writer, self.known, locked, self._resting.now()) as polled:
            self._note_sources(polled)
            due = self._due(polled, cycle, phases)
            if due is None:
                return None
            if set(due.again) <= cycle.healed:
                return self._build(polled, due, cycle, phases) if due.builds else self._work(polled, due, cycle, phases)
        self.recovery.heal(self._to_attach(polled, due.again))
        cycle.healed |= set(due.again)
        return None

    def _due(self, polled: Poll, cycle: _Cycle, phases: Phases) -> _Due | None:
        """None if something was written down that the next poll must know."""
        barred = self._barred.waiting(self.known, polled.snapshots, self.forget)
        phases.done("capture")
        if self.approval.mark(polled, self.known):
            self.planner.forget()
        movement = find_movement(polled, self.known)
        listen_again(self.opened, self.writer, movement.deaf, self.log)
        if account_for(self.writer, self.known, polled, movement, self.log):
            self.reload()
            return None
        owing = {**self.known.unreadable, **movement.again}
        again = {
            name: BuildRequest(name, self._record(name).sql or "", None, reason)
            for name, reason in owing.items()
            if name not in barred and not self._record(name).sources & set(polled.unreachable)
        }
        cycle.returning |= self.recovery.returning(polled, self.known, barred)
        again |= cycle.returning
        undecided = self.approval.put_off(self.known, again, cycle.requested)
        self.recovery.forget(undecided)
        again = {name: request for name, request in again.items() if name not in undecided}
        waiting = {**movement.waiting, **{n: why for n, why in undecided.items() if n in self.known.views}}
        if set(again) <= cycle.healed:
            self._wait(waiting)
        asked = {name: replace(request, anew=name in owing) for name, request in cycle.requested.items()}
        return _Due(again, {**again, **asked}, {**waiting, **barred})

    def _note_sources(self, polled: Poll) -> None:
        for name in polled.snapshots:
            self.writer.note_source(name, reachable=True)
        for name, why in polled.unreachable.items():
            self.writer.note_source(name, reachable=False, error=why)
        self._resting.reached(polled.snapshots)
        for error in polled.errors:
            self._resting.add(error)

    def _wait(self, waiting: Mapping[str, str]) -> None:
        for name, reason in waiting.items():
            if self.known.views[name].record.stored_state != "resync":
                self.writer.set_state(name, "resync", reason)
                self.forget()

    def _to_attach(self, polled: Poll, again: Iterable[str]) -> set[RelationName]:
        """What these views read; all that was captured where nothing is captured any more."""
        bare = [source for source, snapshot in polled.snapshots.items() if not snapshot.attached]
        mine = {relation for name in again for relation in self._record(name).relations}
        return mine | {relation for source in bare for relation in self.known.captured.get(source, {})}

    def _record(self, name: str) -> ViewRecord:
        view = self.known.views.get(name)
        return view.record if view is not None else self.known.frozen[name]

    def _current(self, polled: Poll, excluded: Iterable[str]) -> list[MaintainedView]:
        """The views that can be maintained now: not excluded, and every source of theirs in reach."""
        away, left_out = set(polled.unreachable), set(excluded)
        return [
            view for view in self.known.views.values() if view.name not in left_out and not away & view.record.sources
        ]

    # --- plan

    def _round(self, polled: Poll) -> Round:
        return Round.of(self.opened.project, self.known, polled)

    def _looking_at(self, round: Round, relations: Collection[Relation]) -> Round:
        """The same round, with these relations looked at."""
        if not relations:
            return round
        return replace(round, tables=look_at(self.opened, relations, (queued.message for queued in round.moving)))

    def _plan(self, polled: Poll, unit: Unit, views: Sequence[MaintainedView]) -> UnitPlan:
        round = self._round(polled)
        round = self._looking_at(round, relations_to_look_at(round, unit))
        return self._captured(plan_unit(round, unit, views, self._analysis))

    def _plan_builds(
        self, polled: Poll, builds: Builds, unit: Unit | None, views: Sequence[MaintainedView]
    ) -> UnitPlan:
        round = self._round(polled)
        following = [self.known.views[name] for name in builds.requests if name not in builds.readings]
        relations = {relation.name: relation for view in following for relation in reachable_relations(round, view)}
        if unit is not None:
            relations |= {relation.name: relation for relation in relations_to_look_at(round, unit)}
        round = self._looking_at(round, relations.values())
        return self._captured(plan_builds(round, builds, unit, views, self._analysis))

    def _captured(self, plan: UnitPlan) -> UnitPlan:
        """What a plan brings in must be captured before it is read (C6). If it is not, it is from now on, and the next
        poll finds it so."""
        if not plan.captures:
            return plan
        for relation in plan.captures:
            record = self.known.relations.get(relation.name)
            self.opened.source(relation.name.source).attach([relation])
            if record is None or record.relation.oid == relation.oid:
                self.writer.save_relations([RelationState(relation)])
        names = frozenset(str(relation.name) for relation in plan.captures)
        raise BrokenUnit(plan.captures[0].name.source, names, "capture of it begins only now")

    def _builds(self, due: _Due, cycle: _Cycle) -> Builds:
        """What is to be built, and what the texts of files mean over the tables as they are now."""
        readings = {
            name: self._reading(request)
            for name, request in due.builds.items()
            if request.file_text is not None or name not in self.known.views
        }
        return Builds(due.builds, frozenset(cycle.requested), readings, self.approval.permit(due.builds))

    def _reading(self, request: BuildRequest) -> Reading:
        described: dict[RelationName, Relation] = {}

        def describe(source: str, schema: str | None, table: str) -> Relation:
            name = self.opened.relation_name(source, schema, table)
            if name not in described:
                described[name] = self.opened.describe(source, schema, table)
            return described[name]

        numeric = self.opened.project.settings.spark.numeric
        return Reading(read(request.name, request.sql, describe, numeric), described)

    # --- views that are built whole

    def _build(self, polled: Poll, due: _Due, cycle: _Cycle, phases: Phases) -> Outcome:
        """Build what is due at the snapshots; in `strong` mode the others come along, so that all stand alike. One that
        nobody asked for and that needs a source out of reach waits alone."""
        try:
            return self._build_all(polled, due, cycle, phases)
        except BrokenUnit as error:
            self.planner.build_broken(self._read_for(due.builds, error))
            self.writer.record_abort((), error.what, phases.total)
            raise

    def _build_all(self, polled: Poll, due: _Due, cycle: _Cycle, phases: Phases) -> Outcome:
        refresh = Refresh(self.opened, polled, self.writer)
        builds = self._builds(due, cycle)
        current = self._current(polled, [*due.builds, *due.waiting])
        plan = self._plan_builds(polled, builds, self.planner.everything(polled, current), current)
        if plan.postponed:
            self._wait({name: why for name, why in plan.postponed.items() if name in self.known.views})
            if set(plan.postponed) == set(due.builds):
                return self._work(polled, replace(due, waiting={**due.waiting, **plan.postponed}), cycle, phases)
        try:
            changes = self._execute(polled, plan, refresh, cycle, phases)
        except (ValueDoesNotFit, EvaluationFailed):
            if plan.unit is None:
                raise
            # The views that come along find their poisoned message in a unit of their own.
            self.writer.discard_stagings()
            plan = self._plan_builds(polled, builds, None, ())
            changes = self._execute(polled, plan, refresh, cycle, phases)
        self._install(Installing(plan, changes, self.known, polled, phases))
        self.recovery.tried(polled, self.known, changes)
        self.planner.built()
        return Outcome.WORKED

    def _read_for(self, builds: Iterable[str], error: BrokenUnit) -> set[RelationName]:
        """What these views read as far as the catalog knows them, and what moved."""
        captured = {str(name): name for relations in self.known.captured.values() for name in relations}
        records = [self._record(name) for name in builds if name in self.known.views or name in self.known.frozen]
        read = {name for record in records for name in record.relations if str(name) in captured}
        return read | {captured[text] for text in error.relations if text in captured}

    # --- units of the schedule

    def _work(self, polled: Poll, due: _Due, cycle: _Cycle, phases: Phases) -> Outcome:
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
            current = self._current(polled, due.waiting)
            phases.done("catalog")
            unit = self.planner.next_unit(polled, current, self.known)
            phases.done("plan")
            if unit is None:
                break
            outcome = Outcome.WORKED
            if not self._process(polled, unit, current, refresh, cycle, phases):
                return outcome
            phases = Phases(self.opened.engine.jobs, polled.queries)
        return self._idle(polled) if outcome is Outcome.IDLE else outcome

    def _idle(self, polled: Poll) -> Outcome:
        self._tidy_queue(polled)
        acknowledge(self.opened, polled, positions_after(self.known, ()), self._acknowledged)
        self.writer.write_phases()
        read = {source for view in self.known.views.values() for source in view.record.sources}
        if away := sorted(read.intersection(polled.unreachable)):
            return self.blocked(DydaError(polled.unreachable[away[0]], "It is tried again."), away)
        self.obstacle = None
        return Outcome.IDLE

    def _process(
        self,
        polled: Poll,
        unit: Unit,
        current: Sequence[MaintainedView],
        refresh: Refresh,
        cycle: _Cycle,
        phases: Phases,
    ) -> bool:
        """One unit or a run of them, from the sources to the warehouse; whether this poll may be used for another."""
        try:
            self.planner.foresee(unit)
            run = self.planner.next_run(current)
            if len(run) > 1:
                self._process_run(polled, run, current, refresh, cycle, phases)
                return True
            return self._process_unit(polled, unit, current, refresh, cycle, phases)
        except BrokenUnit as error:
            relations = self.planner.broken(unit, error, self.known)
            self.writer.record_abort(unit.numbers, error.what, phases.total, relations)
            raise

    def _process_unit(
        self,
        polled: Poll,
        unit: Unit,
        current: Sequence[MaintainedView],
        refresh: Refresh,
        cycle: _Cycle,
        phases: Phases,
    ) -> bool:
        plan = self._plan(polled, unit, current)
        try:
            changes = self._execute(polled, plan, refresh, cycle, phases)
        except (ValueDoesNotFit, EvaluationFailed):
            self._poisoned(polled, unit, current, refresh, cycle)
            return False
        self._install(Installing(plan, changes, self.known, polled, phases))
        if plan.facts.forgotten:
            self.planner.forget()  # messages that wait are told by the new names from now on
        self.planner.installed(unit)
        return unit.kind in (UnitKind.DATA, UnitKind.IDLE)

    def _process_run(
        self,
        polled: Poll,
        units: Sequence[Unit],
        current: Sequence[MaintainedView],
        refresh: Refresh,
        cycle: _Cycle,
        phases: Phases,
    ) -> None:
        """Units of data alone, computed together and installed one after the other: each is a state of its own (W6).

        What was read is checked once, before the first of them: what happens to a schema later is a later message.
        """
        plans = plan_run(self._round(polled), units, current, self._analysis)
        try:
            with polled.blamed():
                execution = self._execution(polled, plans[0], refresh, cycle)
                computed = list(execute_run(execution, plans, phases.done))
        except (ValueDoesNotFit, EvaluationFailed):
            self.writer.discard_stagings()
            self.planner.narrow_run(units)
            return
        self._check(polled, plans[0], phases)
        known, plain = self.known, True
        for unit, (plan, changes) in zip(units, computed, strict=True):
            done = Installing(plan, changes, known, polled, phases)
            prepared = self._installation(done, with_sources=unit is units[0])
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
        acknowledge(self.opened, polled, done.positions, self._acknowledged)

    # --- execute

    def _execution(self, polled: Poll, plan: UnitPlan, refresh: Refresh, cycle: _Cycle) -> Execution:
        following = refresh.following(plan.facts.known_as)
        return Execution(self.opened, self.writer, polled, self.known, following, plan.facts, cycle.progress)

    def _execute(
        self, polled: Poll, plan: UnitPlan, refresh: Refresh, cycle: _Cycle, phases: Phases
    ) -> list[ViewChange]:
        with polled.blamed():
            return execute(self._execution(polled, plan, refresh, cycle), plan, phases.done)

    def _check(self, polled: Poll, plan: UnitPlan, phases: Phases) -> None:
        """What was read is what it seemed (R2), and cannot be lost any more (P2)."""
        faults.point("unit.evaluated")
        facts = plan.facts
        polled.settle({*facts.described, *facts.forgotten}, facts.looked_at, scanned=True)
        faults.point("unit.checked")
        phases.done("check")

    # --- install and acknowledge

    def _installation(self, done: Installing, *, with_sources: bool = True) -> Installation:
        mode = self.opened.project.settings.maintenance.consistency
        return installation(done, mode, self.opened.engine.jobs, with_sources=with_sources)

    def _install(self, done: Installing) -> None:
        polled, phases, plan = done.poll, done.phases, done.plan
        self._check(polled, plan, phases)
        prepared = self._installation(done)
        self.writer.install(prepared)
        phases.done("install")
        for name, relation in plan.facts.described.items():
            if name not in self.known.relations and polled.snapshots[name.source].stands(relation):
                self.opened.source(name.source).attach([relation])  # the same table, watched under its new name
        self._known = moved_on(self.known, done.changes, polled) if prepared.moves_rows_alone else None
        self._tidy = None
        self._resting.back(polled.snapshots)
        acknowledge(self.opened, polled, done.positions, self._acknowledged)
        phases.done("acknowledge")
        self.writer.note_phases(self.writer.last_unit, phases.after_installing())

    def _tidy_queue(self, polled: Poll) -> None:
        """Messages that no view waits for any more leave the queue: their readers were dropped, broke or rebuilt.

        The poll knows nothing of what only held views wait for."""
        numbers = {queued.number for queued in polled.queue}
        if self._tidy is not None and numbers <= self._tidy:
            return
        self._tidy = numbers
        waiting = numbers - {queued.number for queued in covered(polled.queue, positions_after(self.known, ()))}
        held = {name: dict(r.positions) for name, r in self.known.frozen.items() if r.stored_state == "held"}
        stored = [
            Queued(record.id, record.message)
            for record in self.opened.warehouse.messages()
            if record.source in polled.snapshots and record.id not in waiting
        ]
        left = [queued.number for queued in covered(stored, held)]
        if left:
            self.writer.install(Installation(done=tuple(left)))

    # --- what cannot be done now

    def _put_aside(self, view: str, state: str, error: DydaError, cycle: _Cycle) -> Outcome:
        """One view cannot be installed: it stays as it is and says why, and the others go on without it."""
        if view in cycle.requested:
            raise error
        self.log(f"view {view} is {state}: {error.what}")
        self.writer.set_state(view, state, error.what)
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

    def _poisoned(
        self,
        polled: Poll,
        unit: Unit,
        views: Sequence[MaintainedView],
        refresh: Refresh,
        cycle: _Cycle,
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
                plan = self._plan(polled, unit, [view])
                execute(self._execution(polled, plan, over, cycle), plan, lambda phase: None)

            try:
                with polled.blamed():
                    compute(refresh)
            except (ValueDoesNotFit, EvaluationFailed) as own:
                row = culprit(refresh, unit, view.definition.relations, compute) if unit.kind is UnitKind.DATA else None
                what = f"{own.what} [{row}]" if row else own.what
                told = ", ".join(map(str, numbers))
                which = f"messages {told} are" if len(numbers) > 1 else f"message {told} is"
                reason = f"{which} quarantined: {what}"
                self.log(f"view {view.name} is held: {reason}")
                self.writer.mark_messages(numbers, "quarantined", what)
                self.writer.set_state(view.name, "held", reason)
        self.writer.discard_stagings()
        self.planner.forget()
        self.forget()
