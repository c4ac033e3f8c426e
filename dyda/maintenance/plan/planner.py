"""From what a round knows to the plan of a unit: pure, so that `impact` shows the plan that is executed.

schema changes of the unit ─▶ vs.synchronize ─▶ no legal form, message by message neither: Freeze
                                   │
                                   ▼ holds, or rewritten
                               va.adapt ─▶ Adapt, Rebuild; Adapt, too, if it becomes empty with a relation;
                                   │       LeaveBehind, if that takes long and lanes run
                                   ▼ metadata only, or untouched
                               FollowText, Maintain
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from dyda.errors import BrokenUnit, DydaError, UnsupportedSql
from dyda.maintenance.catalog_state import BuildRequest, MaintainedView
from dyda.maintenance.observe.round import Round
from dyda.maintenance.observe.tables import Table
from dyda.maintenance.plan.analysis import Analysis
from dyda.maintenance.plan.emptied import emptying
from dyda.maintenance.plan.knowledge_after import evolved_knowledge
from dyda.maintenance.plan.left_behind import left_for_a_lane
from dyda.maintenance.plan.planning import Planning
from dyda.maintenance.plan.positions import Destinations
from dyda.maintenance.plan.relations_after import RelationsAfter
from dyda.maintenance.plan.stay import stay
from dyda.maintenance.plan.unit_plan import (
    Adapt,
    FollowText,
    Freeze,
    Maintain,
    Rebuild,
    RelationFacts,
    UnitPlan,
    ViewPlan,
    read_whole,
)
from dyda.maintenance.plan.version_details import Moved, because, relaid, story, unseen
from dyda.maintenance.programs import fingerprint_of, recorded, state_tables
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import BuildReason, Followed, LayoutChanged, ToBeBuilt
from dyda.model.layout import Layout, layout_changes, layout_of
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.model.schema_change import DropRelation, ReplaceRelation, apply
from dyda.warehouse import ViewVersion
from scheduler import Unit
from va import Adaptation, Emptied, MetadataOnly, Recompute
from vs import Broken, Holds, Judgement, Rewritten, Stage, World, synchronize, synchronize_in_turn

__all__ = ["UnitPlanner", "plan_changes", "plan_knowledge", "plan_measured", "plan_run", "plan_unit"]


def plan_unit(round: Round, unit: Unit, views: Sequence[MaintainedView], analysis: Analysis) -> UnitPlan:
    """What the unit does to `views`, and to the others as far as they are left behind."""
    planning = Planning(round, analysis)
    return planning.finished(unit, UnitPlanner(planning, unit).plans(views))


def plan_measured(
    round: Round, measure: Callable[[Collection[Table]], Mapping[Table, int]], plan: Callable[[Round], UnitPlan]
) -> UnitPlan:
    """What `plan` makes of the round; if that reads tables whole, of one that knows how large they are. Only these are
    measured: that waits for whoever has a table locked."""
    draft = plan(round)
    if round.lane_size is None or draft.captures or not draft.read_whole:
        return draft
    return plan(replace(round, sizes=measure(draft.read_whole)))


def plan_run(
    round: Round, units: Sequence[Unit], views: Sequence[MaintainedView], analysis: Analysis
) -> list[UnitPlan]:
    """One plan after the other, for units of data alone: each begins where the one before ends."""
    plans = []
    for unit in units:
        plan = plan_unit(round, unit, views, analysis)
        views = [one.view.moved(one.moves) for one in plan.views if isinstance(one, Maintain)]
        plans.append(plan)
    return plans


def plan_changes(round: Round, unit: Unit, now: Mapping[RelationName, Relation | None], analysis: Analysis) -> UnitPlan:
    """What the unit would do to every view if it made `now` of the relations: no source is asked."""
    planning = Planning(round, analysis)
    views = list(round.catalog.views.values())
    return planning.finished(unit, UnitPlanner(planning, unit).over(planning.world(now), views, {}), now=now)


def plan_knowledge(round: Round, relations: Sequence[Relation], uncaptured: Collection[RelationName]) -> UnitPlan:
    """What the catalog says from now on of relations that only the knowledge names, without a unit."""
    now = RelationsAfter(round, ()).of(relations)
    described = {relation.name: relation for relation in now.values() if relation is not None}
    forgotten = frozenset(name for name, relation in now.items() if relation is None or relation.name != name)
    captures = tuple(
        relation for name, relation in now.items() if relation is not None and name in {*uncaptured, *forgotten}
    )
    evolved = evolved_knowledge(round.catalog, described, forgotten)
    facts = RelationFacts(described, forgotten)
    lagging = [view for view in round.catalog.views.values() if view.record.earlier is not None]
    return UnitPlan(None, (), facts, evolved, captures, earlier=stay(round, lagging, facts))


@dataclass
class UnitPlanner:
    """What one unit of the schedule does to views."""

    planning: Planning
    unit: Unit

    def __post_init__(self) -> None:
        self.destinations = Destinations(self.planning.round, self.unit)

    @property
    def round(self) -> Round:
        return self.planning.round

    def plans(self, views: Sequence[MaintainedView]) -> list[ViewPlan]:
        present = RelationsAfter(self.round, self.unit.messages)
        world = self._world(present, views)
        self.planning.looked_at |= set(present.found)
        return self.over(world, views, present.refused)

    def over(
        self, world: World, views: Sequence[MaintainedView], refusals: Mapping[RelationName, str]
    ) -> list[ViewPlan]:
        """What becomes of the views over the relations as the unit leaves them."""
        self.planning.learn_knowledge(world)
        plans: list[ViewPlan] = []
        for view in views:
            moved = unseen(self.unit.messages, view.positions, view.definition.relations)
            if not moved:
                plans.append(Maintain(view, self.destinations.moves(view)))
                continue
            judgement = self._judged(view, world)
            if isinstance(judgement, Broken):
                changed = {one.change.relation for one in moved}
                refused = next((why for name, why in refusals.items() if name in changed), None)
                plans.append(Freeze(view.name, judgement, because(judgement, moved, refused)))
                continue
            if not self._readable(view, judgement.definition, world):
                # Its rewriting needs a source that is out of reach: its text is left behind, its rows follow later.
                self.planning.learn(world, view.definition, view.definition)
                continue
            self.planning.learn(world, view.definition, judgement.definition)
            plans.append(self._followed(view, judgement, moved))
        return plans

    def _world(self, present: RelationsAfter, views: Sequence[MaintainedView]) -> World:
        """What vs must know: every relation of the catalog, and those of `views` that the unit's schema changes touched
        as they are now."""
        relations = {name: record.relation for name, record in self.round.catalog.relations.items()}
        ours = frozenset(self.unit.numbers)
        moving = [
            (queued.number in ours, change)
            for queued in self.round.moving
            for change in queued.message.schema_changes
            if change.may_move_keys and not self.round.catalog.is_described_with(change.relation, queued.message.xid)
        ]
        later = {change.relation for own, change in moving if not own}
        own = {change.relation for own, change in moving if own}
        now = {
            name: _with_keys_of(relations[name], found, name in own) if found is not None and name in later else found
            for name, found in present.of(self.round.touched_by(self.unit, views)).items()
        }
        return self.planning.world(now)

    def _judged(self, view: MaintainedView, world: World) -> Judgement:
        """What becomes of the view: by all changes of the unit together, or else, where they were merged, in turn."""
        defaults, numeric = self.round.catalog.defaults, self.round.numeric
        judgement = synchronize(view.definition, world, defaults, numeric)
        if isinstance(judgement, Broken):
            stages = self._stages(world)
            if len(stages) > 1:
                found = synchronize_in_turn(view.definition, world, stages, defaults, numeric)
                return judgement if isinstance(found, Broken) else found
        return judgement

    def _stages(self, world: World) -> list[Stage]:
        """What each message of the unit makes of the relations; none if the log does not have it in steps."""
        stages: list[dict[RelationName, Relation | None]] = []
        relations: dict[RelationName, Relation | None] = dict(world.relations)
        for queued in sorted(self.unit.messages, key=lambda queued: queued.number):
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
            last[name] = relation  # with its keys, which are in no step
        return list(stages)

    def _readable(self, view: MaintainedView, definition: ViewDefinition, world: World) -> bool:
        """A rewriting may bring in relations that the view did not read. Each must be captured and polled, and must be
        readable at the unit's position: a schema change that the unit leaves out cannot be taken back (P5). Whether
        their sources are in reach."""
        read = [scan.relation for scan in scans(view.definition.tree)]
        read += [now for name in view.definition.relations if (now := world.now.get(name)) is not None]
        mine = {(relation.name.source, relation.oid) for relation in read}
        for scan in scans(definition.tree):
            relation, source = scan.relation, scan.relation.name.source
            if (source, relation.oid) in mine or self.planning.to_capture(relation):
                continue
            if self.round.away(source) is not None:
                return False
            captured = self.round.catalog.captured[source]
            position = self.destinations.position(view, source, anew=True)
            for queued in self.round.moving:
                if queued.message.source == source and not position.includes(queued.message.xid):
                    left = {n for n in queued.message.moved_without_rows if captured.get(n) == relation.oid}
                    if left:
                        raise BrokenUnit(source, frozenset(map(str, left)), "a schema change is pending")
        return True

    def _followed(self, view: MaintainedView, judgement: Holds | Rewritten, moved: Sequence[Moved]) -> ViewPlan:
        """How the rows get to the new definition."""
        to = {} if self.planning.captures else self.destinations.of(view, judgement.definition, self.planning.known_as)
        try:
            how = self.planning.adaptation(view, judgement.definition, moved, to)
            if isinstance(how, Recompute):
                how = self._emptying(view, judgement.definition, moved, to) or how
            if isinstance(how, MetadataOnly):
                following = self._following(view, how.definition)
                if not isinstance(following, Recompute):
                    moves = self.destinations.moves(view)
                    layout = self._layout(following)
                    if following.definition.sql == view.definition.sql and layout == view.record.layout:
                        return Maintain(following, moves)
                    # A new version has all of the view's positions, also those that stay.
                    moves = {source: (at, at) for source, at in view.positions.items()} | dict(moves)
                    version = self._version(following, judgement, moved, how, layout)
                    return FollowText(following, version, judgement, moves)
                how = following
            self.planning.analysis.require_computable(view.definition, how.definition)
        except UnsupportedSql as error:  # the sides of a UNION, say, that are of different types now
            broken = Broken(error.what)
            return Freeze(view.name, broken, because(broken, moved))
        detail = judgement.reason if isinstance(judgement, Rewritten) else how.reason
        request = BuildRequest(view.name, how.definition.sql, None, ToBeBuilt(BuildReason.EVOLVED, detail))
        untrusted = self._untrusted(view, how.definition)
        plan: Rebuild | Adapt
        if isinstance(how, Recompute):
            plan = Rebuild(request, how.definition, judgement, tuple(moved), to, how.reason, untrusted)
        else:
            plan = Adapt(view, how, request, judgement, tuple(moved), to, untrusted)
        lane = view.name not in self.round.stopped and self.round.takes_long(read_whole(plan))
        return left_for_a_lane(view.record, plan) if lane else plan

    def _layout(self, after: MaintainedView) -> Layout:
        """What is unique in the view's rows once the unit is processed."""
        types = {column.name: column.type for column in after.record.columns}
        untrusted = self._untrusted(after, after.definition)
        return layout_of(after.definition, types, self.round.numeric, untrusted, after.record.layout)

    def _untrusted(self, view: MaintainedView, definition: ViewDefinition) -> frozenset[RelationName]:
        """Relations that the catalog describes as a later state has them: other views have processed changes of their
        keys that this one still waits for."""
        ours, catalog = frozenset(self.unit.numbers), self.round.catalog
        ahead = {
            change.relation
            for queued in self.round.moving
            if queued.number not in ours and not view.has(queued.message.source, queued.message.xid)
            for change in queued.message.schema_changes
            if change.may_move_keys and catalog.is_described_with(change.relation, queued.message.xid)
        }
        return frozenset(name for name in definition.relations if self.planning.known_as.get(name, name) in ahead)

    def _emptying(
        self, view: MaintainedView, definition: ViewDefinition, moved: Sequence[Moved], to: Mapping[str, Position]
    ) -> Emptied | None:
        changes = [one.change for one in moved]
        known_as = self.planning.known_as
        return emptying(view, definition, changes, self.round.arrivals, to, known_as, self.round.numeric)

    def _following(self, view: MaintainedView, definition: ViewDefinition) -> MaintainedView | Recompute:
        """The view under another text, with its rows and states as they are, if these are what the text asks for."""
        try:
            program = recorded(self.round.numeric, definition, view.record)
        except DydaError as error:
            return Recompute(definition, error.what)
        return view.following(definition, program)

    def _version(
        self,
        after: MaintainedView,
        judgement: Holds | Rewritten,
        moved: Sequence[Moved],
        how: Adaptation,
        layout: Layout,
    ) -> ViewVersion:
        definition, columns, states = after.definition, after.record.columns, state_tables(after.program)
        changes = layout_changes(after.record.layout, layout)
        text_alone = Followed(judgement.followed, how.reason)
        return ViewVersion(
            sql=definition.sql,
            columns=columns,
            states=states,
            program=fingerprint_of(self.round.project, definition, definition.sql, states, columns),
            relations=tuple(sorted(definition.relations)),
            cause=text_alone if judgement.followed or not changes else LayoutChanged(changes),
            details={
                "evolved": definition.sql != after.record.sql or bool(after.record.details.get("evolved")),
                **story(judgement, moved, how),
                **relaid(changes),
            },
            layout=layout,
        )


def _with_keys_of(before: Relation, now: Relation, moved: bool) -> Relation:
    """The relation as it is now, and a later change may have moved its keys: with those that it had before, unless the
    unit itself may have `moved` them. They need not hold yet at the extents' positions, or no longer."""
    known = {} if moved or before.oid != now.oid else {column.number: column for column in before.columns}
    named = {column.number: column.name for column in now.columns}
    numbers = [[before.column(name).number for name in key] for key in (before.keys if known else ())]
    return replace(
        now,
        columns=tuple(replace(c, not_null=c.number in known and known[c.number].not_null) for c in now.columns),
        keys=tuple(tuple(named[number] for number in key) for key in numbers if named.keys() >= set(key)),
    )
