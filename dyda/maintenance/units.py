"""Units under one poll: each planned, executed, checked, installed, acknowledged.

Several units of data are processed under one poll; a unit that changes a schema ends it, because the names it was
opened with may be others now.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from dyda import faults
from dyda.errors import BrokenUnit, DydaError, EvaluationFailed, SourceUnreachable, ValueDoesNotFit
from dyda.maintenance.approval import Approval
from dyda.maintenance.catalog_state import BuildRequest, Catalog, MaintainedView
from dyda.maintenance.cycle import Cycle, Due, Outcome
from dyda.maintenance.error_causes import uncomputable
from dyda.maintenance.execute.deltas import Refresh
from dyda.maintenance.execute.execution import Execution
from dyda.maintenance.execute.poisoned_row import culprit
from dyda.maintenance.execute.unit import execute, execute_run
from dyda.maintenance.install.acknowledge import acknowledge, covered, covered_among
from dyda.maintenance.install.installation import (
    Installing,
    installation,
    knowledge_installation,
    moved_on,
    positions_after,
)
from dyda.maintenance.next_unit import Planner
from dyda.maintenance.observe.knowledge_watch import KnowledgeWatch, uncaptured
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.observe.recovery import Recovery
from dyda.maintenance.observe.round import Round
from dyda.maintenance.observe.source_backoff import Resting
from dyda.maintenance.observe.tables import Table, look_at, sizes_of
from dyda.maintenance.phases import Phases
from dyda.maintenance.plan.analysis import SparkAnalysis
from dyda.maintenance.plan.builds import Builds, Reading, plan_builds, reachable_relations
from dyda.maintenance.plan.planner import plan_knowledge, plan_measured, plan_run, plan_unit
from dyda.maintenance.plan.unit_plan import Adapt, LeaveBehind, UnitPlan
from dyda.model.cause import Quarantined
from dyda.model.message import MessageState
from dyda.model.relation import Relation, RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import Installation, RelationState, ViewChange, is_hidden
from dyda.warehouse.writer import Writer
from scheduler import Queued, Unit, UnitKind
from vs import read

__all__ = ["Units"]


@dataclass(frozen=True)
class _Work:
    """What units under one poll are processed with: `views` are those that can be maintained now, `waiting` the names
    of those that can and do not process this unit."""

    polled: Poll
    refresh: Refresh
    cycle: Cycle
    views: Sequence[MaintainedView] = ()
    waiting: frozenset[str] = frozenset()


@dataclass
class Units:
    """Processes what is due under a poll, one unit after the other."""

    opened: OpenProject
    writer: Writer
    catalog: Catalog
    planner: Planner
    approval: Approval
    recovery: Recovery
    resting: Resting
    log: Callable[[str], None]
    lanes: bool = False
    """Whether lanes run: then no unit waits for what takes long."""
    left: list[tuple[UnitPlan, Adapt]] = field(default_factory=list, init=False)
    """What the unit under this poll has left for a lane, which can do it under the same snapshots."""
    _tidy: set[int] | None = field(default=None, init=False)
    """The messages that were in the queue when it was last found tidy; None after an installation."""

    def __post_init__(self) -> None:
        self._analysis = SparkAnalysis(self.opened.engine)
        self._watch = KnowledgeWatch()

    # --- units of the schedule

    def work(self, polled: Poll, due: Due, cycle: Cycle, phases: Phases) -> Outcome:
        if changed := self._watch.changed(polled, self.catalog.state):
            self._follow_knowledge(polled, changed)
            return Outcome.WORKED
        refresh = Refresh(self.opened, polled, self.writer, self.planner.early_check(polled), few=True)
        work = _Work(polled, refresh, cycle)
        outcome = Outcome.IDLE
        while True:
            phases.done("plan")
            work = replace(work, views=self.current(polled, due.waiting))
            phases.done("catalog")
            turn = self.planner.next_turn(polled, work.views, self.catalog.state)
            phases.done("plan")
            if turn is None:
                break
            outcome = Outcome.WORKED
            moving = self._moving(work, turn.views, self.planner.stopped(polled, self.catalog.state))
            if not self._process(moving, turn.unit, phases):
                return outcome
            phases = Phases(self.opened.engine.jobs, polled.queries)
        return self._idle(polled) if outcome is Outcome.IDLE else outcome

    @staticmethod
    def _moving(work: _Work, names: Collection[str], stopped: frozenset[str]) -> _Work:
        """The work of a unit that moves these views: all, or all but those that wait or process another. Those that are
        `stopped` wait, whether or not their sources are in reach."""
        views = [view for view in work.views if view.name in names]
        waiting = stopped.union(view.name for view in work.views) - frozenset(names)
        if len(views) == len(work.views):
            return replace(work, waiting=waiting)
        return replace(work, views=views, waiting=waiting, refresh=work.refresh.apart(views))

    def _follow_knowledge(self, polled: Poll, names: Sequence[RelationName]) -> None:
        """Relations that only the knowledge names have changed: the catalog and the knowledge follow."""
        known = self.catalog.state
        relations = [known.relations[name].relation for name in names]
        plan = plan_knowledge(self._looking_at(self._round(polled), relations), relations, uncaptured(polled, names))
        for relation in plan.captures:
            try:
                self.opened.source(relation.name.source).attach([relation])
            except DydaError as error:
                if isinstance(error, SourceUnreachable) and not self._watch.failed_twice(relation.name):
                    raise
                # Views go on: a rewriting that needs it will say so.
                self.log(f"{relation.name}, which the knowledge names, cannot be captured: {error.in_one_line}")
        self.writer.install(knowledge_installation(plan, known, polled))
        self._watch.seen(polled, names)
        self._tidy = None
        self.catalog.forget()
        self.planner.forget()

    def _idle(self, polled: Poll) -> Outcome:
        """Nothing is left to do under this poll."""
        self._tidy_queue(polled)
        acknowledge(self.opened, polled, positions_after(self.catalog.state, ()))
        self.writer.write_phases()
        self.resting.back(polled.snapshots)
        return Outcome.IDLE

    def _process(self, work: _Work, unit: Unit, phases: Phases) -> bool:
        """One unit or a run of them, from the sources to the warehouse; whether this poll may be used for another."""
        try:
            self.planner.foresee(unit)
            run = self.planner.next_run(work.views)
            if len(run) > 1:
                self._process_run(work, run, phases)
                return True
            return self._process_unit(work, unit, phases)
        except BrokenUnit as error:
            relations = self.planner.broken(unit, error, self.catalog.state)
            self.writer.record_abort(unit.numbers, error.what, phases.total, relations)
            error.recorded = True
            raise

    def _process_unit(self, work: _Work, unit: Unit, phases: Phases) -> bool:
        plan = self._plan(work, unit)
        try:
            changes = self._execute(work, plan, phases)
        except (ValueDoesNotFit, EvaluationFailed):
            self._poisoned(work, unit)
            return False
        done = Installing(plan, changes, self.catalog.state, work.polled, phases)
        self._install(done)
        if plan.facts.forgotten:
            self.planner.forget()  # messages that wait have the new names from now on
        self.planner.installed(unit)
        self._acknowledge(done)
        return unit.kind in (UnitKind.DATA, UnitKind.IDLE)

    def _process_run(self, work: _Work, units: Sequence[Unit], phases: Phases) -> None:
        """Units of data alone, computed together and installed one after the other: each is a state of its own (W6).

        What was read is checked once, before the first of them: what happens to a schema later is a later message.
        """
        polled = work.polled
        plans = self._plan_run(work, units)
        try:
            with polled.blamed():
                computed = list(execute_run(self._execution(work, plans[0]), plans, phases.done))
        except (ValueDoesNotFit, EvaluationFailed):
            self.writer.discard_stagings()
            self.planner.narrow_run(units)
            return
        self._check(polled, plans[0], phases)
        known, plain = self.catalog.state, True
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
        self.catalog.becomes(known if plain else None)
        self._tidy = None
        self.resting.back({source for view in work.views for source in view.record.sources})
        acknowledge(self.opened, polled, done.positions)

    # --- views that are built whole

    def build(self, polled: Poll, due: Due, cycle: Cycle, phases: Phases) -> Outcome:
        """Build what is due at the snapshots; in `strong` mode the others come along, so that all have the same
        positions. A view that was not requested and needs a source out of reach waits alone."""
        try:
            return self._build_all(polled, due, cycle, phases)
        except BrokenUnit as error:
            self.planner.build_broken(self._read_for(due.builds, error))
            self.writer.record_abort((), error.what, phases.total)
            error.recorded = True
            raise

    def _build_all(self, polled: Poll, due: Due, cycle: Cycle, phases: Phases) -> Outcome:
        work = _Work(polled, Refresh(self.opened, polled, self.writer), cycle)
        builds = self.builds(due, cycle)
        able = self.current(polled, [*due.builds, *due.waiting])
        current = self.planner.free(polled, able)
        waiting = {view.name for view in able} | self.planner.stopped(polled, self.catalog.state)
        waiting -= {view.name for view in current}
        plan = self.plan_builds(polled, builds, self.planner.everything(polled, current), current, waiting)
        if plan.postponed:
            self.recovery.forget(plan.postponed)
            self.catalog.wait({name: why for name, why in plan.postponed.items() if name in self.catalog.state.views})
            if set(plan.postponed) == set(due.builds):
                return self.work(polled, replace(due, waiting={**due.waiting, **plan.postponed}), cycle, phases)
        try:
            changes = self._execute(work, plan, phases)
        except (ValueDoesNotFit, EvaluationFailed):
            if plan.unit is None:
                raise
            # The views that come along find their poisoned message in a unit of their own.
            self.writer.discard_stagings()
            plan = self.plan_builds(polled, builds, waiting=waiting.union(view.name for view in able))
            changes = self._execute(work, plan, phases)
        done = Installing(plan, changes, self.catalog.state, polled, phases)
        self._install(done)
        self.recovery.tried(polled, self.catalog.state, changes)
        self.planner.built()
        self._acknowledge(done)
        return Outcome.WORKED

    def _read_for(self, builds: Iterable[str], error: BrokenUnit) -> set[RelationName]:
        """What these views read as far as the catalog knows them, and what moved."""
        captured = {str(name): name for relations in self.catalog.state.captured.values() for name in relations}
        records = [record for name in builds if (record := self.catalog.state.records.get(name)) is not None]
        read = {name for record in records for name in record.relations if str(name) in captured}
        return read | {captured[text] for text in error.relations if text in captured}

    # --- plan

    def _round(self, polled: Poll, waiting: Iterable[str] = ()) -> Round:
        """As the catalog has it, whatever views know."""
        known = self.catalog.state
        round = Round.of(self.opened.project, known, polled, lanes=self.lanes)
        return replace(round, catalog=known, waiting=frozenset(waiting))

    def _round_of(self, work: _Work) -> Round:
        """As the views of a unit know it."""
        earlier = work.views[0].record.earlier if work.views else None
        round = Round.of(self.opened.project, self.catalog.state, work.polled, earlier, lanes=self.lanes)
        return replace(round, waiting=work.waiting, stopped=self.planner.stopped(work.polled, self.catalog.state))

    def _looking_at(self, round: Round, relations: Collection[Relation]) -> Round:
        """The same round, with these relations looked at."""
        if not relations:
            return round
        return replace(round, tables=look_at(self.opened, relations, (queued.message for queued in round.moving)))

    def _plan(self, work: _Work, unit: Unit) -> UnitPlan:
        round = self._round_of(work)
        round = self._looking_at(round, round.touched_by(unit, work.views))
        return self._captured(self._measured(round, lambda round: plan_unit(round, unit, work.views, self._analysis)))

    def _measured(self, round: Round, plan: Callable[[Round], UnitPlan]) -> UnitPlan:
        return plan_measured(round, lambda tables: sizes_of(self.opened, tables), plan)

    def takes_long(self, polled: Poll, tables: Collection[Table]) -> bool:
        """Whether building a view over these is left to a lane."""
        return replace(self._round(polled), sizes=sizes_of(self.opened, tables)).takes_long(tables)

    def _plan_run(self, work: _Work, units: Sequence[Unit]) -> list[UnitPlan]:
        """Its units are of rows alone; relations that only the knowledge names may have changed meanwhile."""
        round = self._round_of(work)
        touched = {relation.name: relation for unit in units for relation in round.touched_by(unit, work.views)}
        return plan_run(self._looking_at(round, touched.values()), units, work.views, self._analysis)

    def plan_builds(
        self,
        polled: Poll,
        builds: Builds,
        unit: Unit | None = None,
        views: Sequence[MaintainedView] = (),
        waiting: Iterable[str] = (),
    ) -> UnitPlan:
        """With `unit`, `views` come along; those that are `waiting` stay where they are."""
        round = self._round(polled, waiting)
        following = [self.catalog.state.views[name] for name in builds.requests if name not in builds.readings]
        relations = {relation.name: relation for view in following for relation in reachable_relations(round, view)}
        if unit is not None:
            relations |= {relation.name: relation for relation in round.touched_by(unit, views)}
        round = self._looking_at(round, relations.values())
        return self._captured(
            self._measured(round, lambda round: plan_builds(round, builds, unit, views, self._analysis))
        )

    def _captured(self, plan: UnitPlan) -> UnitPlan:
        """New relations of a plan must be captured before they are read (C6): then another poll is needed."""
        if not plan.captures:
            return plan
        for relation in plan.captures:
            record = self.catalog.state.relations.get(relation.name)
            self.opened.source(relation.name.source).attach([relation])
            if record is None or record.relation.oid == relation.oid:
                self.writer.save_relations([RelationState(relation)])
        names = frozenset(str(relation.name) for relation in plan.captures)
        raise BrokenUnit(plan.captures[0].name.source, names, "its capture starts only now")

    def builds(self, due: Due, cycle: Cycle) -> Builds:
        """What is to be built, and what the texts of files mean over the tables as they are now."""
        readings = {
            name: self._reading(request)
            for name, request in due.builds.items()
            if request.file_text is not None or name not in self.catalog.state.views
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

    def current(self, polled: Poll, excluded: Iterable[str]) -> list[MaintainedView]:
        """The views that can be maintained now: not excluded, and every source of theirs in reach."""
        away, left_out = set(polled.unreachable), set(excluded)
        return [
            view
            for view in self.catalog.state.views.values()
            if view.name not in left_out and not away & view.record.sources
        ]

    # --- execute

    def _execution(self, work: _Work, plan: UnitPlan) -> Execution:
        refresh, progress = work.refresh.following(plan.facts.known_as), work.cycle.progress
        return Execution(self.opened, self.writer, work.polled, self.catalog.state, refresh, plan.facts, progress)

    def _execute(self, work: _Work, plan: UnitPlan, phases: Phases) -> list[ViewChange]:
        with work.polled.blamed():
            return execute(self._execution(work, plan), plan, phases.done)

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
        for one in plan.views:
            if isinstance(one, LeaveBehind) and one.lane is not None and not is_hidden(one.name):
                self.left += [(plan, one.adapt)] if one.adapt is not None else []
        for name, relation in plan.facts.described.items():
            if name not in self.catalog.state.relations and polled.snapshots[name.source].stands(relation):
                self.opened.source(name.source).attach([relation])  # the same table, watched under its new name
        self.catalog.becomes(moved_on(done.catalog, done.changes, polled) if prepared.moves_rows_alone else None)
        self._tidy = None
        self.resting.back({source for change in done.changes for source in change.positions})

    def _acknowledge(self, done: Installing) -> None:
        acknowledge(self.opened, done.poll, done.positions)
        done.phases.done("acknowledge")
        self.writer.note_phases(self.writer.last_unit, done.phases.after_installing())

    def untidy(self) -> None:
        """Messages may have lost the last view that waited for them, without an installation."""
        self._tidy = None

    def _tidy_queue(self, polled: Poll) -> None:
        """Messages that no view waits for any more leave the queue: their readers were dropped, broke or rebuilt.

        The poll knows nothing of what only held views wait for."""
        numbers = {queued.number for queued in polled.queue}
        if self._tidy is not None and numbers <= self._tidy:
            return
        self._tidy = numbers
        waiting = numbers - {
            queued.number for queued in covered(polled.arrivals, positions_after(self.catalog.state, ()))
        }
        held = {name: dict(record.positions) for name, record in self.catalog.state.held.items()}
        held |= {name: dict(at) for name, at in self.catalog.state.reserved.items()}
        stored = [
            Queued(record.id, record.message)
            for record in self.opened.warehouse.messages()
            if record.source in polled.snapshots and record.id not in waiting
        ]
        left = [queued.number for queued in covered_among(stored, held)]
        if left:
            self.writer.install(Installation(done=tuple(left)))

    # --- what cannot be computed

    def _poisoned(self, work: _Work, unit: Unit) -> None:
        """A value that Spark cannot hold or compute: narrow the unit down to its message, then quarantine that.

        The views that need the message are held where they are, and say why; everything else goes on.
        """
        self.writer.discard_stagings()
        if len(unit.messages) > 1 and unit.kind is UnitKind.DATA:
            self.planner.narrow(unit)
            return
        numbers = [queued.number for queued in unit.messages]
        for view in work.views:

            def compute(over: Refresh, view: MaintainedView = view) -> None:
                alone = replace(work, refresh=over, views=[view])
                plan = self._plan(alone, unit)
                execute(self._execution(alone, plan), plan, lambda phase: None)

            try:
                with work.polled.blamed():
                    compute(work.refresh)
            except (ValueDoesNotFit, EvaluationFailed) as own:
                read = view.definition.relations
                row = None
                if unit.kind is UnitKind.DATA:
                    row = culprit(work.refresh.with_all_images(view.program.blocks), unit, read, compute)
                cause = uncomputable(own, row)
                held = Quarantined(tuple(numbers), cause)
                self.writer.mark_messages(numbers, MessageState.QUARANTINED, cause)
                self.writer.set_state(view.name, ViewState.HELD, held)
        self.writer.discard_stagings()
        self.planner.forget()
        self.catalog.forget()
