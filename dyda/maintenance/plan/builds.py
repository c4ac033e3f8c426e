"""Views that are built whole: requested ones, and those that owe a build. The plan is at what the snapshots show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dyda.errors import DydaError, SourceUnreachable, UnsupportedSql
from dyda.maintenance.catalog_state import BuildRequest, MaintainedView
from dyda.maintenance.observe.round import Round
from dyda.maintenance.plan.analysis import Analysis
from dyda.maintenance.plan.planner import UnitPlanner
from dyda.maintenance.plan.planning import Planning
from dyda.maintenance.plan.relations_after import RelationsAfter
from dyda.maintenance.plan.unit_plan import Adapt, Freeze, Rebuild, UnitPlan, ViewPlan
from dyda.maintenance.plan.version_details import unseen
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import BuildReason, Following, NotBuilt, SourceAway, ToBeBuilt
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from scheduler import Unit
from va import FromExtent, MetadataOnly, Recompute
from vs import Broken, Holds, Judgement, Rewritten, synchronize

__all__ = ["BrokenDefinition", "Builds", "NameInUse", "Reading", "plan_builds", "reachable_relations"]


@dataclass(frozen=True)
class Reading:
    """What a text from a file means over the tables as they are now, and these."""

    judgement: Judgement
    described: Mapping[RelationName, Relation]


@dataclass(frozen=True)
class Builds:
    """Views to be built. `requested`: by a command, which reports what is wrong with them."""

    requests: Mapping[str, BuildRequest]
    requested: frozenset[str] = frozenset()
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """Of those that are not maintained, or that a file asks for."""
    permit: Callable[[BuildRequest, ViewDefinition], None] = lambda request, definition: None
    """Raises if a view may not be built with this definition now."""


class BrokenDefinition(DydaError):
    """The definition does not hold over the relations as they are now."""


def plan_builds(
    round: Round, builds: Builds, unit: Unit | None, views: Sequence[MaintainedView], analysis: Analysis
) -> UnitPlan:
    """The builds at everything that the snapshots show; with `unit`, `views` come along."""
    planning = Planning(round, analysis)
    plans = _Builder(planning, builds).plans()
    plans += UnitPlanner(planning, unit).plans(views) if unit is not None else []
    return planning.finished(unit, plans, frozenset(builds.requests))


def reachable_relations(round: Round, view: MaintainedView) -> list[Relation]:
    """What judging the view at present looks at: its relations and the knowledge's, where sources are in reach."""
    catalog = round.catalog
    mine = {scan.relation.name: scan.relation for scan in scans(view.definition.tree)}
    named = {n: catalog.relations[n].relation for n in catalog.knowledge.relations if n in catalog.relations}
    return [relation for relation in {**named, **mine}.values() if relation.name.source in round.sources]


class NameInUse(DydaError):
    """A view cannot be built over a table while another one is known under its name."""

    def __init__(self, view: str, waiting: str, relation: RelationName) -> None:
        super().__init__(
            f"view {view} cannot be built now: view {waiting} waits for a message"
            f" and needs the table that was called {relation} before",
            "Decide about that message first: dyda pending",
        )


@dataclass(frozen=True)
class _Builder:
    planning: Planning
    builds: Builds

    @property
    def round(self) -> Round:
        return self.planning.round

    def plans(self) -> list[ViewPlan]:
        plans: list[ViewPlan] = []
        for name, request in self.builds.requests.items():
            try:
                plans.append(self._build(request))
            except SourceUnreachable as error:
                if name in self.builds.requested:
                    raise
                self.planning.postponed[name] = SourceAway(error.source, error.what)
            except NameInUse as error:
                if name in self.builds.requested:
                    raise
                self.planning.postponed[name] = ToBeBuilt(BuildReason.DUE, error.what)
            except (BrokenDefinition, UnsupportedSql) as error:
                # A file's request never freezes a view: the error goes to whoever applies it.
                if request.file_text is not None:
                    raise
                plans.append(Freeze(name, Broken(error.what), NotBuilt(request.cause, error.what)))
        return plans

    def _build(self, request: BuildRequest) -> ViewPlan:
        view = self.round.catalog.views.get(request.name)
        if view is None or request.file_text is not None:
            reading = self.builds.readings[request.name]
            self._require_free(request.name, reading.described.values())
            self.planning.described = {**reading.described, **self.planning.described}
            judgement = reading.judgement
        else:
            judgement = self._judged_at_present(view)
        if isinstance(judgement, Broken):
            raise BrokenDefinition(judgement.reason)
        self.builds.permit(request, judgement.definition)
        return self._at_present(view, request, judgement)

    def _require_free(self, name: str, relations: Iterable[Relation]) -> None:
        """A name means one table: no view that waits may need another one under it."""
        stored = self.round.stored
        for view in (stored.views[waiting] for waiting in sorted(self.round.waiting & stored.views.keys())):
            known = stored.known_to(view.record.earlier).relations
            for relation in relations:
                if relation.name in view.definition.relations and known[relation.name].relation.oid != relation.oid:
                    raise NameInUse(name, view.name, relation.name)

    def _judged_at_present(self, view: MaintainedView) -> Judgement:
        """A maintained view follows what it means."""
        catalog = self.round.catalog
        pending = [
            queued
            for queued in self.round.moving
            if queued.message.source not in view.positions or not view.has(queued.message.source, queued.message.xid)
        ]
        present = RelationsAfter(self.round, pending)
        world = self.planning.world(present.of(reachable_relations(self.round, view)))
        self.planning.looked_at |= set(present.found)
        judgement = synchronize(view.definition, world, catalog.defaults, self.round.numeric)
        if isinstance(judgement, Broken):
            refused = next((why for name, why in present.refused.items() if name in view.definition.relations), None)
            return judgement if refused is None else Broken(refused)
        for scan in scans(judgement.definition.tree):
            if not self.planning.to_capture(scan.relation):
                self.planning.require_in_reach(scan.relation.name.source)
        self.planning.learn(world, view.definition, judgement.definition)
        return judgement

    def _at_present(self, view: MaintainedView | None, request: BuildRequest, judgement: Holds | Rewritten) -> ViewPlan:
        """The whole view at everything that the snapshots show."""
        definition = judgement.definition
        if self.planning.captures:
            return Rebuild(request, definition, judgement, (), {})
        if judgement.followed:
            following = Following(request.cause, tuple(judgement.followed))
            request = BuildRequest(request.name, definition.sql, None, following)
        for source in definition.sources:
            self.planning.require_in_reach(source)
        to = {source: self.round.sources[source].position for source in sorted(definition.sources)}
        self.planning.analysis.require_computable(None, definition)
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
                    self.planning.known_as[scan.relation.name] = name
        moved = unseen(self.round.moving, view.positions, view.definition.relations)
        how = self.planning.adaptation(view, definition, moved, to)
        if isinstance(how, MetadataOnly):
            updated = self.planning.updated(view, definition, to)
            if not definition.plain and updated:
                how = Recompute(definition, f"rows of {', '.join(map(str, sorted(updated)))} changed meanwhile")
            else:
                every = tuple(range(len(view.record.columns)))
                how = FromExtent(how.kind, definition, how.reason, columns=every)
        if isinstance(how, Recompute):
            return Rebuild(request, definition, judgement, (), to, how.reason)
        return Adapt(view, how, request, judgement, (), to)
