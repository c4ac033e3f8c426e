"""Building views: new ones, and those that must be read again because something moved under them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dyda.errors import BrokenUnit, DydaError, EvaluationFailed, SourceUnreachable, UnsupportedSql, ValueDoesNotFit
from dyda.maintenance.catalog_state import BuildPlan, BuildRequest, CatalogState, MaintainedView
from dyda.maintenance.error_causes import uncomputable
from dyda.maintenance.execute.deltas import Refresh
from dyda.maintenance.execute.from_extent import Adapter
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.plan.programs import fingerprint_of, state_tables
from dyda.maintenance.plan.relations_after import Present
from dyda.maintenance.plan.version_details import story
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import Cause, Following, NotBuilt, RowsInTheWay
from dyda.model.message import DataUpdate
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.render import render_view
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import RelationState, StateChange, ViewChange, ViewColumn, ViewRecord, ViewVersion, Writer
from va import Adaptation, FromExtent, MetadataOnly, Reaggregate, Recompute
from vs import Broken, Holds, Judgement, Rewritten, World, read, synchronize

__all__ = ["Builder", "Progress", "Told"]

Progress = Callable[[str, int, int], None]

Told = Callable[[Adaptation | Reaggregate, int, int, float], Mapping[str, Any]]
"""told(adaptation, queries, rows, seconds): what the history says, once it is known what the adaptation cost."""


@dataclass
class Builder:
    """Builds under the snapshots of one poll. `described` is what the sources said of the relations read."""

    opened: OpenProject
    writer: Writer
    poll: Poll
    known: CatalogState
    refresh: Refresh
    progress: Progress
    described: dict[RelationName, Relation] = field(default_factory=dict)
    forgotten: set[RelationName] = field(default_factory=set)
    gone: set[RelationName] = field(default_factory=set)
    """Relations of the catalog that are not there any more."""
    looked_at: set[RelationName] = field(default_factory=set)
    """Relations of the catalog whose present form was asked for."""
    permit: Callable[[BuildRequest, ViewDefinition], None] = lambda target, definition: None
    """Raises if a view may not be built with this definition now."""

    def build(self, target: BuildRequest) -> ViewChange:
        """The change that installs the view as its definition says now, or freezes it as broken.

        What was asked for by a file is never frozen: its error goes to whoever asked, and what is live stays live.
        """
        try:
            judgement = self._judge(target)
            if isinstance(judgement, Broken):
                raise _BrokenView(judgement.reason)
            self.permit(target, judgement.definition)
            return self._at_present(target, judgement)
        except SourceUnreachable:
            raise
        except (_BrokenView, EvaluationFailed, UnsupportedSql, ValueDoesNotFit) as error:
            if target.file_text is not None:
                raise
            cause: Cause = NotBuilt(target.cause, error.what)
            if isinstance(error, EvaluationFailed | ValueDoesNotFit):
                cause = RowsInTheWay(target.cause, uncomputable(error, view=target.name))
            return ViewChange(view=target.name, state=ViewState.BROKEN, cause=cause)

    def _judge(self, target: BuildRequest) -> Judgement:
        """A maintained view follows what it means; a text from a file is read as it stands."""
        numeric = self.opened.project.settings.spark.numeric
        view = self.known.views.get(target.name)
        if view is None or target.file_text is not None:
            return read(target.name, target.sql, self._describe, numeric)
        relations = {name: record.relation for name, record in self.known.relations.items()}
        mine = {scan.relation.name: scan.relation for scan in scans(view.definition.tree)}
        named = {name: relations[name] for name in self.known.knowledge.relations if name in relations}
        reachable = [relation for relation in {**named, **mine}.values() if relation.name.source in self.poll.snapshots]
        pending = [queued for queued in self.poll.moving if not view.has(queued.message.source, queued.message.xid)]
        present = Present(self.opened, self.poll, self.known, pending)
        world = World(relations, present.of(reachable), self.known.knowledge)
        self.looked_at |= set(present.found)
        judgement = synchronize(view.definition, world, self.known.defaults, numeric)
        if isinstance(judgement, Broken):
            refused = next((why for name, why in present.refused.items() if name in view.definition.relations), None)
            return judgement if refused is None else Broken(refused)
        for scan in scans(judgement.definition.tree):
            self.require_captured(scan.relation)
        self.learn(world, view.definition, judgement.definition)
        return judgement

    def learn(self, world: World, before: ViewDefinition, after: ViewDefinition) -> None:
        """What is now known of the relations: those that changed under the view or the knowledge, and those that the
        view reads from now on."""
        concerned = before.relations | self.known.knowledge.relations
        for name, relation in world.now.items():
            if relation is None:
                self.gone.add(name)
            elif name in concerned or relation.name in after.relations:
                self.described[relation.name] = relation
                self.refresh.known_as[relation.name] = name
                if relation.name != name:
                    self.forgotten.add(name)
        for scan in scans(after.tree):
            if scan.relation.name not in before.relations:
                self.described.setdefault(scan.relation.name, scan.relation)

    def require_captured(self, relation: Relation) -> None:
        """What a rewriting brings in must be captured before it is read (C6). If it is not, it is from now on, and
        the next poll finds it so. A table that took a captured one's name is captured since then; the catalog goes on
        knowing the one before it, which the views' texts are about until they have followed."""
        source = relation.name.source
        record, snapshot = self.known.relations.get(relation.name), self.poll.snapshots.get(source)
        if record is not None and record.relation.oid != relation.oid:
            captured = snapshot is not None and snapshot.watches(relation)
            news = []
        else:
            captured = relation.oid in self.known.captured.get(source, {}).values()
            news = [RelationState(relation)]
        if not captured:
            self.opened.source(source).attach([relation])
            self.writer.save_relations(news)
            raise BrokenUnit(source, frozenset({str(relation.name)}), "capture of it begins only now")
        if source not in self.poll.snapshots:
            raise SourceUnreachable(source, self.poll.unreachable.get(source, "capture is not attached"))

    def _at_present(self, target: BuildRequest, judgement: Holds | Rewritten) -> ViewChange:
        """The whole view at everything that the snapshots show."""
        definition = judgement.definition
        if judgement.followed:
            following = Following(target.cause, tuple(judgement.followed))
            target = BuildRequest(target.name, definition.sql, None, following)
        positions = {}
        for source in sorted(definition.sources):
            if source not in self.poll.snapshots:
                raise SourceUnreachable(source, self.poll.unreachable.get(source, "capture is not attached"))
            positions[source] = self.poll.snapshots[source].position
        told = partial(story, judgement, ())
        view = self.known.views.get(target.name)
        if view is None or target.file_text is None or target.anew:
            return self.recompute(self.plan(target, definition), positions, told)
        return self._redefined(view, target, definition, positions, told)

    def _redefined(
        self,
        view: MaintainedView,
        target: BuildRequest,
        definition: ViewDefinition,
        positions: Mapping[str, Position],
        told: Told,
    ) -> ViewChange:
        """A changed file: from the old extent where it can be, with what happened since it was computed folded in."""
        for scan in scans(definition.tree):
            for name, record in self.known.relations.items():
                if name.source == scan.relation.name.source and record.relation.oid == scan.relation.oid:
                    self.refresh.known_as[scan.relation.name] = name
        changes = [
            change
            for queued in self.poll.moving
            if not view.has(queued.message.source, queued.message.xid)
            for change in queued.message.changes
            if not isinstance(change, DataUpdate) and change.relation in view.definition.relations
        ]
        adapter = Adapter(self)
        adaptation = adapter.plan(view, definition, changes, positions)
        if isinstance(adaptation, Recompute):
            return self.recompute(self.plan(target, definition), positions, told, adaptation.reason)
        if isinstance(adaptation, MetadataOnly):
            updated = adapter.updated(view, definition, positions)
            if not definition.plain and updated:
                reason = f"rows of {', '.join(map(str, sorted(updated)))} changed meanwhile"
                return self.recompute(self.plan(target, definition), positions, told, reason)
            every = tuple(range(len(view.record.columns)))
            adaptation = FromExtent(adaptation.kind, definition, adaptation.reason, columns=every)
        return adapter.carry_out(view, adaptation, target, positions, told)

    def plan(self, target: BuildRequest, definition: ViewDefinition) -> BuildPlan:
        engine = self.opened.engine
        program = engine.program(definition)
        return BuildPlan(target, definition, program, tuple(engine.outputs(definition, program)))

    def recompute(
        self, plan: BuildPlan, positions: Mapping[str, Position], told: Told, reason: str | None = None
    ) -> ViewChange:
        """The view at `positions`, merged into its extent by difference; what is visible beyond them is taken away.

        `reason` is why nothing less will do, if that is not why it is done at all.
        """
        started, asked = time.perf_counter(), self.poll.queries
        if self._lies_beyond(positions, plan.definition):
            self.refresh.read_images(plan.program.blocks)
        name = plan.target.name
        (*states, staging), written = self.refresh.build(
            plan.program,
            lambda occurrence: positions.get(occurrence.relation.name.source),
            self.writer,
            lambda done, total: self.progress(f"building {name}", done, total),
        )
        done = Recompute(plan.definition, reason or plan.target.reason)
        record = self._record(name)
        spent = (self.poll.queries - asked, written, time.perf_counter() - started)
        version = self.version(plan, told(done, *spent) if record is not None and record.version else {})
        unchanged = (
            record is not None
            and not record.behind
            and record.sql == version.sql
            and record.columns == version.columns
            and record.states == tuple(table.state for table in version.states or ())
            and record.program == version.program
        )
        expected = record.positions if record is not None else {}
        return ViewChange(
            view=name,
            staging=staging,
            states=tuple(StateChange(number, staging=state) for number, state in enumerate(states)),
            mode="replace",
            version=None if unchanged and plan.target.file_text is None else version,
            state=ViewState.LIVE,
            positions={source: (expected.get(source), position) for source, position in positions.items()},
        )

    def columns(self, plan: BuildPlan) -> tuple[ViewColumn, ...]:
        """The view's columns as readers will see them."""
        return tuple(
            ViewColumn(output.name, output.warehouse_type, output.spark_type, output.passthrough)
            for output in plan.outputs
        )

    def version(self, plan: BuildPlan, details: Mapping[str, Any]) -> ViewVersion:
        """The definition to be installed; `details` is what the view's history says about it."""
        target, definition = plan.target, plan.definition
        record = self._record(target.name)
        # A version's text must mean the same for ever; `*` would take in a column that is added later, and a column's
        # name alone could mean that one.
        sql = render_view(definition.tree, definition.preferences) if definition.star else definition.sql
        evolved = target.file_text is None and (
            record is None or record.sql != sql or bool(record.details.get("evolved"))
        )
        columns, states = self.columns(plan), state_tables(plan.program)
        return ViewVersion(
            sql=sql,
            columns=columns,
            relations=tuple(sorted(definition.relations)),
            cause=target.reason,
            file_text=target.file_text,
            details={"evolved": evolved, **details},
            states=states,
            program=fingerprint_of(self.opened, definition, sql, states, columns),
        )

    def _record(self, name: str) -> ViewRecord | None:
        view = self.known.views.get(name)
        return view.record if view is not None else self.known.frozen.get(name)

    def _lies_beyond(self, positions: Mapping[str, Position], definition: ViewDefinition) -> bool:
        """Whether the snapshots show rows of this view that `positions` leave out. Otherwise no image is needed, and
        none is read. The queue speaks of relations by the names that the poll was opened with."""
        read = {self.refresh.known_as.get(name, name) for name in definition.relations}
        return any(
            not positions[queued.message.source].includes(queued.message.xid)
            for queued in self.poll.queue
            if queued.message.relations & read
        )

    def _describe(self, source: str, schema: str | None, table: str) -> Relation:
        """A relation as it is now. Right for this unit because the schemas are compared before and after (R2)."""
        name = self.opened.relation_name(source, schema, table)
        if name not in self.described:
            self.described[name] = self.opened.describe(source, schema, table)
        return self.described[name]


class _BrokenView(DydaError):
    """The definition does not hold over the relations as they are now."""
