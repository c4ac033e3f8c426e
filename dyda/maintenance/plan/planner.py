"""From what a round knows to the plan of a unit: pure, so that whoever asks beforehand gets the plan that is executed.

schema changes of the unit ─▶ vs.synchronize ─▶ no legal form, message by message neither: Freeze
                                   │
                                   ▼ holds, or rewritten
                               va.adapt ─▶ Adapt, Rebuild
                                   │
                                   ▼ metadata only, or untouched
                               FollowText, Maintain
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dyda.errors import BrokenUnit, DydaError, SourceUnreachable, UnsupportedSql
from dyda.maintenance.catalog_state import BuildRequest, MaintainedView
from dyda.maintenance.observe.round import Round
from dyda.maintenance.plan.analysis import Analysis
from dyda.maintenance.plan.knowledge_after import evolved_knowledge, relations_after
from dyda.maintenance.plan.left_behind import left_behind
from dyda.maintenance.plan.positions import Destinations
from dyda.maintenance.plan.relations_after import RelationsAfter
from dyda.maintenance.plan.stored_state import obstacle
from dyda.maintenance.plan.unit_plan import (
    Adapt,
    FollowText,
    Freeze,
    Maintain,
    Rebuild,
    RelationFacts,
    UnitPlan,
    ViewPlan,
)
from dyda.maintenance.plan.version_details import Moved, because, story
from dyda.maintenance.programs import fingerprint_of, recorded, state_tables
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import BuildReason, Following, NotBuilt, SourceAway, ToBeBuilt
from dyda.model.message import Change, DataUpdate
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.model.schema_change import DropRelation, ReplaceRelation, apply
from dyda.warehouse import ViewVersion
from scheduler import Unit
from va import Adaptation, FromExtent, MetadataOnly, Reaggregate, Recompute, adapt
from vs import Broken, Holds, Judgement, Rewritten, Stage, World, synchronize, synchronize_in_turn

__all__ = [
    "BrokenDefinition",
    "Builds",
    "Reading",
    "plan_builds",
    "plan_changes",
    "plan_run",
    "plan_unit",
    "reachable_relations",
    "relations_to_look_at",
]


@dataclass(frozen=True)
class Reading:
    """What a text from a file means over the tables as they are now, and these."""

    judgement: Judgement
    described: Mapping[RelationName, Relation]


@dataclass(frozen=True)
class Builds:
    """Views to be built. `requested`: somebody waits for these, and is told what is wrong with them."""

    requests: Mapping[str, BuildRequest]
    requested: frozenset[str] = frozenset()
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Of those that are not maintained, or that a file asks for."""
    permit: Callable[[BuildRequest, ViewDefinition], None] = lambda request, definition: None
    """Raises if a view may not be built with this definition now."""


class BrokenDefinition(DydaError):
    """The definition does not hold over the relations as they are now."""


def plan_unit(round: Round, unit: Unit, views: Sequence[MaintainedView], analysis: Analysis) -> UnitPlan:
    """What the unit does to `views`, and to the others as far as they are left behind."""
    planning = _Planning(round, analysis)
    return planning.finished(unit, planning.of_unit(unit, views))


def plan_run(
    round: Round, units: Sequence[Unit], views: Sequence[MaintainedView], analysis: Analysis
) -> list[UnitPlan]:
    """One plan after the other, for units of data alone: each begins where the one before ends."""
    plans = []
    for unit in units:
        plan = plan_unit(round, unit, views, analysis)
        views = [_moved_on(one) for one in plan.views if isinstance(one, Maintain)]
        plans.append(plan)
    return plans


def plan_changes(round: Round, unit: Unit, now: Mapping[RelationName, Relation | None], analysis: Analysis) -> UnitPlan:
    """What the unit would do to every view if it made `now` of the relations: no source is asked."""
    planning = _Planning(round, analysis)
    relations = {name: record.relation for name, record in round.catalog.relations.items()}
    world = World(relations, now, round.catalog.knowledge)
    views = list(round.catalog.views.values())
    return planning.finished(unit, planning.over(world, unit, views, {}), now=now)


def plan_builds(
    round: Round, builds: Builds, unit: Unit | None, views: Sequence[MaintainedView], analysis: Analysis
) -> UnitPlan:
    """The builds at everything that the snapshots show; with `unit`, `views` come along."""
    planning = _Planning(round, analysis)
    plans = planning.of_builds(builds)
    built = frozenset(builds.requests)
    plans += planning.of_unit(unit, views) if unit is not None else []
    return planning.finished(unit, plans, built)


def relations_to_look_at(round: Round, unit: Unit) -> list[Relation]:
    """The relations of the catalog that the unit's schema changes touch. A source that no view reads has no position:
    whatever is pending there is part of the unit's world."""
    ours = frozenset(unit.numbers)
    touched = {
        change.relation
        for queued in round.moving
        if queued.number in ours or round.after.get(queued.message.source) is None
        for change in queued.message.changes
        if not isinstance(change, DataUpdate)
    }
    known = round.catalog.relations
    return [known[name].relation for name in sorted(touched) if name in known]


@dataclass
class _Planning:
    """One plan in the making; what is learned of relations on the way is gathered here."""

    round: Round
    analysis: Analysis
    described: dict[RelationName, Relation] = field(default_factory=dict)
    forgotten: set[RelationName] = field(default_factory=set)
    gone: set[RelationName] = field(default_factory=set)
    known_as: dict[RelationName, RelationName] = field(default_factory=dict)
    looked_at: set[RelationName] = field(default_factory=set)
    captures: dict[tuple[str, int], Relation] = field(default_factory=dict)
    postponed: dict[str, SourceAway] = field(default_factory=dict)

    def finished(
        self,
        unit: Unit | None,
        plans: Sequence[ViewPlan],
        built: frozenset[str] = frozenset(),
        now: Mapping[RelationName, Relation | None] | None = None,
    ) -> UnitPlan:
        """`now`: what the views that are left behind are judged by, if that is more than the catalog learns."""
        catalog = self.round.catalog
        facts = RelationFacts(
            dict(self.described),
            frozenset(self.forgotten),
            frozenset(self.gone),
            dict(self.known_as),
            frozenset(self.looked_at),
        )
        taken = (built - set(self.postponed)) | {plan.name for plan in plans}
        if now is None:
            now = relations_after(catalog, catalog.relations, facts.described, facts.gone)
        return UnitPlan(
            unit,
            (*plans, *left_behind(self.round, now, taken)),
            facts,
            evolved_knowledge(catalog, facts.described, facts.gone),
            tuple(self.captures.values()),
            built,
            dict(self.postponed),
        )

    # --- a unit of the schedule

    def of_unit(self, unit: Unit, views: Sequence[MaintainedView]) -> list[ViewPlan]:
        present = RelationsAfter(self.round, unit.messages)
        world = self._world(unit, present)
        self.looked_at |= set(present.found)
        return self.over(world, unit, views, present.refused)

    def over(
        self, world: World, unit: Unit, views: Sequence[MaintainedView], refusals: Mapping[RelationName, str]
    ) -> list[ViewPlan]:
        """What becomes of the views over the relations as the unit leaves them."""
        destinations = Destinations(self.round, unit)
        self._learn_knowledge(world)
        plans: list[ViewPlan] = []
        for view in views:
            moved = _moved(unit, view)
            if not moved:
                plans.append(Maintain(view, destinations.moves(view)))
                continue
            judgement = self._judged(view, unit, world)
            if isinstance(judgement, Broken):
                refused = next((why for name, why in refusals.items() if _concerns(moved, name)), None)
                plans.append(Freeze(view.name, judgement, because(judgement, moved, refused)))
                continue
            if not self._readable(view, judgement.definition, world, destinations):
                # Its rewriting needs a source that is out of reach: its text is left behind, its rows follow later.
                self._learn(world, view.definition, view.definition)
                continue
            self._learn(world, view.definition, judgement.definition)
            plans.append(self._followed(view, judgement, moved, destinations))
        return plans

    def _world(self, unit: Unit, present: RelationsAfter) -> World:
        """What vs must know: every relation of the catalog, and those that the unit's schema changes touched as they
        are now."""
        relations = {name: record.relation for name, record in self.round.catalog.relations.items()}
        ours = frozenset(unit.numbers)
        later = {
            change.relation
            for queued in self.round.moving
            if queued.number not in ours
            for change in queued.message.schema_changes
        }
        now = {
            name: _with_lasting_keys(relations[name], found) if found is not None and name in later else found
            for name, found in present.of(relations_to_look_at(self.round, unit)).items()
        }
        return World(relations, now, self.round.catalog.knowledge)

    def _judged(self, view: MaintainedView, unit: Unit, world: World) -> Judgement:
        """What becomes of the view: by all changes of the unit together, or else, where they were merged, in turn."""
        defaults, numeric = self.round.catalog.defaults, self.round.numeric
        judgement = synchronize(view.definition, world, defaults, numeric)
        if isinstance(judgement, Broken):
            stages = self._stages(unit, world)
            if len(stages) > 1:
                found = synchronize_in_turn(view.definition, world, stages, defaults, numeric)
                return judgement if isinstance(found, Broken) else found
        return judgement

    def _stages(self, unit: Unit, world: World) -> list[Stage]:
        """What each message of the unit makes of the relations; none if the log does not tell it in steps."""
        stages: list[dict[RelationName, Relation | None]] = []
        relations: dict[RelationName, Relation | None] = dict(world.relations)
        for queued in sorted(unit.messages, key=lambda queued: queued.number):
            stage: dict[RelationName, Relation | None] = {}
            for change in queued.message.schema_changes:
                name = change.relation
                relation = stage.get(name, relations.get(name))
                if name not in world.now or self.round.catalog.is_described_with(name, queued.message.xid):
                    continue
                if relation is None or not change.steps or any(isinstance(s, ReplaceRelation) for s in change.steps):
                    return []
                dropped = any(isinstance(step, DropRelation) for step in change.steps)
                stage[name] = None if dropped else apply(relation, change.steps)
            relations |= stage
            stages += [stage] if stage else []
        for name, relation in world.now.items():
            last = next((stage for stage in reversed(stages) if name in stage), None)
            if last is None:
                return []
            last[name] = relation  # with its keys, which no step tells
        return list(stages)

    def _readable(
        self, view: MaintainedView, definition: ViewDefinition, world: World, destinations: Destinations
    ) -> bool:
        """A rewriting may bring in relations that the view did not read. Each must be captured and polled, and must be
        readable at the unit's position: a schema change that the unit leaves out cannot be taken back (P5). Whether
        their sources are in reach."""
        read = [scan.relation for scan in scans(view.definition.tree)]
        read += [now for name in view.definition.relations if (now := world.now.get(name)) is not None]
        mine = {(relation.name.source, relation.oid) for relation in read}
        for scan in scans(definition.tree):
            relation, source = scan.relation, scan.relation.name.source
            if (source, relation.oid) in mine or self._to_capture(relation):
                continue
            if self.round.away(source) is not None:
                return False
            captured = self.round.catalog.captured[source]
            position = destinations.position(view, source, anew=True)
            for queued in self.round.moving:
                if queued.message.source == source and not position.includes(queued.message.xid):
                    left = {n for n in queued.message.moved_without_rows if captured.get(n) == relation.oid}
                    if left:
                        raise BrokenUnit(source, frozenset(map(str, left)), "a schema change of it waits")
        return True

    def _followed(
        self,
        view: MaintainedView,
        judgement: Holds | Rewritten,
        moved: Sequence[Moved],
        destinations: Destinations,
    ) -> ViewPlan:
        """How the rows get to the new definition."""
        to = {} if self.captures else destinations.of(view, judgement.definition, self.known_as)
        try:
            how = self._adaptation(view, judgement.definition, [one.change for one in moved], to)
            if isinstance(how, MetadataOnly):
                following = self._following(view, how.definition)
                if not isinstance(following, Recompute):
                    moves = destinations.moves(view)
                    if following.definition.sql == view.definition.sql:
                        return Maintain(following, moves)
                    # A new version brings all of the view's positions with it, also those that stay.
                    moves = {source: (at, at) for source, at in view.positions.items()} | dict(moves)
                    return FollowText(following, self._version(following, judgement, moved, how), judgement, moves)
                how = following
            self.analysis.require_computable(view.definition, how.definition)
        except UnsupportedSql as error:  # the sides of a UNION, say, that are of different types now
            broken = Broken(error.what)
            return Freeze(view.name, broken, because(broken, moved))
        told = judgement.reason if isinstance(judgement, Rewritten) else how.reason
        request = BuildRequest(view.name, how.definition.sql, None, ToBeBuilt(BuildReason.EVOLVED, told))
        if isinstance(how, Recompute):
            return Rebuild(request, how.definition, judgement, tuple(moved), to, how.reason)
        return Adapt(view, how, request, judgement, tuple(moved), to)

    def _adaptation(
        self,
        view: MaintainedView,
        definition: ViewDefinition,
        changes: Sequence[Change],
        to: Mapping[str, Position],
    ) -> Adaptation | Reaggregate:
        """How the view's extent gets to `definition` at `to`, given what changed in between other than by images."""
        moved = [change for change in changes if not isinstance(change, DataUpdate)]
        found = adapt(view.definition, definition, moved, self._updated(view, definition, to), view.record.rows)
        if isinstance(found, Reaggregate) or (isinstance(found, FromExtent) and not definition.plain):
            why = obstacle(found, view, self.analysis.program(found.definition))
            return found if why is None else Recompute(definition, f"{found.reason}, but {why}")
        return found

    def _updated(
        self, view: MaintainedView, definition: ViewDefinition, to: Mapping[str, Position]
    ) -> set[RelationName]:
        """The relations of `definition` with row images between the view's positions and `to`."""
        updated: set[RelationName] = set()
        seen: set[tuple[Change, ...]] = set()
        for queued in self.round.queue:
            source, xid, changes = queued.message.source, queued.message.xid, queued.message.changes
            if changes in seen or source not in to or view.has(source, xid) or not to[source].includes(xid):
                continue
            seen.add(changes)
            updated |= {change.relation for change in changes if isinstance(change, DataUpdate)}
        return {name for name in definition.relations if self.known_as.get(name, name) in updated}

    def _following(self, view: MaintainedView, definition: ViewDefinition) -> MaintainedView | Recompute:
        """The view under another text, with its rows and states as they are, if these are what the text asks for."""
        try:
            program = recorded(self.round.numeric, definition, view.record)
        except DydaError as error:
            return Recompute(definition, error.what)
        return replace(view, definition=definition, program=program)

    def _version(
        self, after: MaintainedView, judgement: Holds | Rewritten, moved: Sequence[Moved], how: Adaptation
    ) -> ViewVersion:
        definition, columns, states = after.definition, after.record.columns, state_tables(after.program)
        return ViewVersion(
            sql=definition.sql,
            columns=columns,
            states=states,
            program=fingerprint_of(self.round.project, definition, definition.sql, states, columns),
            relations=tuple(sorted(definition.relations)),
            cause="; ".join(judgement.followed) or how.reason,
            details={"evolved": True, **story(judgement, moved, how)},
        )

    # --- views that are built whole

    def of_builds(self, builds: Builds) -> list[ViewPlan]:
        plans: list[ViewPlan] = []
        for name, request in builds.requests.items():
            try:
                plans.append(self._build(request, builds))
            except SourceUnreachable as error:
                if name in builds.requested:
                    raise
                self.postponed[name] = SourceAway(error.source, error.what)
            except (BrokenDefinition, UnsupportedSql) as error:
                # What a file asks for is never frozen: its error goes to whoever asked, and what is live stays live.
                if request.file_text is not None:
                    raise
                plans.append(Freeze(name, Broken(error.what), NotBuilt(request.cause, error.what)))
        return plans

    def _build(self, request: BuildRequest, builds: Builds) -> ViewPlan:
        view = self.round.catalog.views.get(request.name)
        if view is None or request.file_text is not None:
            reading = builds.readings[request.name]
            self.described = {**reading.described, **self.described}
            judgement = reading.judgement
        else:
            judgement = self._judged_at_present(view)
        if isinstance(judgement, Broken):
            raise BrokenDefinition(judgement.reason)
        builds.permit(request, judgement.definition)
        return self._at_present(view, request, judgement)

    def _judged_at_present(self, view: MaintainedView) -> Judgement:
        """A maintained view follows what it means."""
        catalog = self.round.catalog
        pending = [queued for queued in self.round.moving if not view.has(queued.message.source, queued.message.xid)]
        present = RelationsAfter(self.round, pending)
        relations = {name: record.relation for name, record in catalog.relations.items()}
        world = World(relations, present.of(reachable_relations(self.round, view)), catalog.knowledge)
        self.looked_at |= set(present.found)
        judgement = synchronize(view.definition, world, catalog.defaults, self.round.numeric)
        if isinstance(judgement, Broken):
            refused = next((why for name, why in present.refused.items() if name in view.definition.relations), None)
            return judgement if refused is None else Broken(refused)
        for scan in scans(judgement.definition.tree):
            if not self._to_capture(scan.relation):
                self._require_in_reach(scan.relation.name.source)
        self._learn(world, view.definition, judgement.definition)
        return judgement

    def _at_present(self, view: MaintainedView | None, request: BuildRequest, judgement: Holds | Rewritten) -> ViewPlan:
        """The whole view at everything that the snapshots show."""
        definition = judgement.definition
        if self.captures:
            return Rebuild(request, definition, judgement, (), {})
        if judgement.followed:
            following = Following(request.cause, tuple(judgement.followed))
            request = BuildRequest(request.name, definition.sql, None, following)
        for source in definition.sources:
            self._require_in_reach(source)
        to = {source: self.round.sources[source].position for source in sorted(definition.sources)}
        self.analysis.require_computable(None, definition)
        if view is None or request.file_text is None or request.anew:
            return Rebuild(request, definition, judgement, (), to)
        return self._redefined(view, request, judgement, to)

    def _redefined(
        self, view: MaintainedView, request: BuildRequest, judgement: Holds | Rewritten, to: Mapping[str, Position]
    ) -> ViewPlan:
        """A changed file: from the old extent where it can be, with what happened since it was computed folded in."""
        definition = judgement.definition
        for scan in scans(definition.tree):
            for name, record in self.round.catalog.relations.items():
                if name.source == scan.relation.name.source and record.relation.oid == scan.relation.oid:
                    self.known_as[scan.relation.name] = name
        changes = [
            change
            for queued in self.round.moving
            if not view.has(queued.message.source, queued.message.xid)
            for change in queued.message.changes
            if not isinstance(change, DataUpdate) and change.relation in view.definition.relations
        ]
        how = self._adaptation(view, definition, changes, to)
        if isinstance(how, MetadataOnly):
            updated = self._updated(view, definition, to)
            if not definition.plain and updated:
                how = Recompute(definition, f"rows of {', '.join(map(str, sorted(updated)))} changed meanwhile")
            else:
                every = tuple(range(len(view.record.columns)))
                how = FromExtent(how.kind, definition, how.reason, columns=every)
        if isinstance(how, Recompute):
            return Rebuild(request, definition, judgement, (), to, how.reason)
        return Adapt(view, how, request, judgement, (), to)

    # --- what is learned of relations

    def _learn_knowledge(self, world: World) -> None:
        """What the unit changes of relations that the knowledge names, whether or not a view reads them."""
        for name, relation in world.now.items():
            if name not in self.round.catalog.knowledge.relations:
                continue
            if relation is None:
                self.gone.add(name)
                continue
            self.described[relation.name] = relation
            if relation.name != name:
                self.forgotten.add(name)

    def _learn(self, world: World, before: ViewDefinition, after: ViewDefinition) -> None:
        """What is now known of the relations: those that changed under the view or the knowledge, and those that the
        view reads from now on."""
        concerned = before.relations | self.round.catalog.knowledge.relations
        for name, relation in world.now.items():
            if relation is None:
                self.gone.add(name)
            elif name in concerned or relation.name in after.relations:
                self.described[relation.name] = relation
                self.known_as[relation.name] = name
                if relation.name != name:
                    self.forgotten.add(name)
        for scan in scans(after.tree):
            if scan.relation.name not in before.relations:
                self.described.setdefault(scan.relation.name, scan.relation)

    def _to_capture(self, relation: Relation) -> bool:
        """Whether capture of it must begin before it can be read (C6). A table that took a captured one's name is
        captured since then; the catalog goes on knowing the one before it, which the views' texts are about until they
        have followed."""
        record = self.round.catalog.relations.get(relation.name)
        if record is not None and record.relation.oid != relation.oid:
            captured = self.round.watches(relation)
        else:
            captured = relation.oid in self.round.catalog.captured.get(relation.name.source, {}).values()
        if not captured:
            self.captures[relation.name.source, relation.oid] = relation
        return not captured

    def _require_in_reach(self, source: str) -> None:
        away = self.round.away(source)
        if away is not None:
            raise SourceUnreachable(source, away)


def reachable_relations(round: Round, view: MaintainedView) -> list[Relation]:
    """What judging the view at present looks at: its relations and the knowledge's, where sources are in reach."""
    catalog = round.catalog
    mine = {scan.relation.name: scan.relation for scan in scans(view.definition.tree)}
    named = {n: catalog.relations[n].relation for n in catalog.knowledge.relations if n in catalog.relations}
    return [relation for relation in {**named, **mine}.values() if relation.name.source in round.sources]


def _moved_on(plan: Maintain) -> MaintainedView:
    """The view where its plan takes it."""
    moved = {source: new for source, (_, new) in plan.moves.items() if new is not None}
    view = plan.view
    return replace(view, record=replace(view.record, positions={**view.positions, **moved}))


def _moved(unit: Unit, view: MaintainedView) -> list[Moved]:
    """What the unit's messages changed under the view other than by row images."""
    return [
        Moved(change, queued.message.committed_at, queued.number)
        for queued in unit.messages
        if queued.message.kind != "data" and not view.has(queued.message.source, queued.message.xid)
        for change in queued.message.changes
        if not isinstance(change, DataUpdate) and change.relation in view.definition.relations
    ]


def _with_lasting_keys(before: Relation, now: Relation) -> Relation:
    """The relation as it is now, with those keys alone that it had before: a later change may have brought the others,
    and they need not hold yet where the extents stand."""

    def numbers(relation: Relation, key: tuple[str, ...]) -> frozenset[int]:
        return frozenset(relation.column(name).number for name in key)

    then = {numbers(before, key) for key in before.keys} if before.oid == now.oid else set()
    return replace(now, keys=tuple(key for key in now.keys if numbers(now, key) in then))


def _concerns(moved: Collection[Moved], name: RelationName) -> bool:
    return any(one.change.relation == name for one in moved)
