"""One plan in the making: what it learns of relations, and how the rows of a view get to another definition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dyda.errors import SourceUnreachable
from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.observe.round import Round
from dyda.maintenance.plan.analysis import Analysis
from dyda.maintenance.plan.knowledge_after import evolved_knowledge, relations_after
from dyda.maintenance.plan.left_behind import left_behind, renamed
from dyda.maintenance.plan.stay import Advance, advance, kept, new_names, stay, stays
from dyda.maintenance.plan.stored_state import obstacle
from dyda.maintenance.plan.unit_plan import Freeze, LeaveBehind, RelationFacts, UnitPlan, ViewPlan
from dyda.maintenance.plan.version_details import Moved
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import Cause
from dyda.model.message import DataUpdate
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.warehouse import EarlierCatalog
from scheduler import Unit
from va import Adaptation, FromExtent, Reaggregate, Recompute, adapt
from vs import World

__all__ = ["Planning"]


@dataclass
class Planning:
    """What a plan is made from, and what is learned on the way."""

    round: Round
    analysis: Analysis
    described: dict[RelationName, Relation] = field(default_factory=dict)
    forgotten: set[RelationName] = field(default_factory=set)
    gone: set[RelationName] = field(default_factory=set)
    known_as: dict[RelationName, RelationName] = field(default_factory=dict)
    looked_at: set[RelationName] = field(default_factory=set)
    captures: dict[tuple[str, int], Relation] = field(default_factory=dict)
    postponed: dict[str, Cause] = field(default_factory=dict)

    def finished(
        self,
        unit: Unit | None,
        plans: Sequence[ViewPlan],
        built: frozenset[str] = frozenset(),
        now: Mapping[RelationName, Relation | None] | None = None,
    ) -> UnitPlan:
        """`now`: what the views that are left behind are judged by, if that is more than the catalog learns."""
        learned = RelationFacts(
            dict(self.described),
            frozenset(self.forgotten),
            frozenset(self.gone),
            dict(self.known_as),
            frozenset(self.looked_at),
        )
        stored = self.round.stored
        advanced = advance(self.round, unit, learned)
        facts = advanced.facts
        taken = (built - set(self.postponed)) | {plan.name for plan in plans}
        waiting = [
            view
            for name, view in stored.views.items()
            if name not in taken and (name in self.round.waiting or view.record.earlier is not None)
        ]
        staying = [view for view in waiting if (facts.described or facts.gone) and stays(self.round, view, facts)]
        earlier: dict[str, EarlierCatalog | None] = {**stay(self.round, staying, facts)}
        ended = built.union(plan.name for plan in plans if isinstance(plan, Freeze))
        earlier |= self._earlier(taken, ended, advanced, learned)
        apart = taken.union(view.name for view in staying)
        behind: list[Freeze | LeaveBehind] = []
        for view in staying:
            if names := new_names(self.round, view, facts):
                behind.append(renamed(replace(self.round, catalog=stored.known_to(view.record.earlier)), view, names))
        for known in stored.worlds:
            changed = relations_after(known, known.relations, facts.described, facts.gone) if now is None else now
            behind += left_behind(replace(self.round, catalog=known), changed, apart)
        return UnitPlan(
            unit,
            (*plans, *behind),
            facts,
            evolved_knowledge(stored.known_to(None), facts.described, facts.gone),
            tuple(self.captures.values()),
            built,
            earlier,
            dict(self.postponed),
        )

    def _earlier(
        self, taken: Collection[str], ended: Collection[str], advanced: Advance, learned: RelationFacts
    ) -> dict[str, EarlierCatalog | None]:
        """What the views that are moved know from now on that the catalog has gone beyond, where that is news; nothing
        if they are built or break."""
        stored, known = self.round.stored, self.round.catalog
        found: dict[str, EarlierCatalog | None] = {}
        for name in taken:
            record = stored.records.get(name)  # a broken or held one that is built knows nothing older any more
            before = None if record is None else record.earlier
            if before is None:
                continue
            own = () if name in ended else advanced.own
            now = kept(known, own, learned.described, learned.gone) if own else None
            if now != before:
                found[name] = now
        return found

    def world(self, now: Mapping[RelationName, Relation | None]) -> World:
        """Every relation of the catalog, those of `now` as they are from now on."""
        relations = {name: record.relation for name, record in self.round.catalog.relations.items()}
        return World(relations, now, self.round.catalog.knowledge)

    # --- rows

    def adaptation(
        self, view: MaintainedView, definition: ViewDefinition, moved: Sequence[Moved], to: Mapping[str, Position]
    ) -> Adaptation | Reaggregate:
        """How the view's extent gets to `definition` at `to`, given what changed in between other than by images."""
        changes = [one.change for one in moved]
        found = adapt(view.definition, definition, changes, self.updated(view, definition, to), view.record.rows)
        if isinstance(found, Reaggregate) or (isinstance(found, FromExtent) and not definition.plain):
            why = obstacle(found, view, self.analysis.program(found.definition))
            return found if why is None else Recompute(definition, f"{found.reason}, but {why}")
        return found

    def updated(
        self, view: MaintainedView, definition: ViewDefinition, to: Mapping[str, Position]
    ) -> set[RelationName]:
        """The relations of `definition` with row images between the view's positions and `to`."""
        updated: set[RelationName] = set()
        for source, position in to.items():
            if (before := view.positions.get(source)) is not None:  # of what it did not read it has all there is
                for queued in self.round.arrivals.of_source(source).between(before, position):
                    changes = queued.message.changes
                    updated |= {change.relation for change in changes if isinstance(change, DataUpdate)}
        return {name for name in definition.relations if self.known_as.get(name, name) in updated}

    # --- what is learned of relations

    def learn_knowledge(self, world: World) -> None:
        """What the unit changes of relations that the knowledge names, whether or not a view reads them."""
        for name, relation in world.now.items():
            if name in self.round.catalog.knowledge.relations:
                self._learn(name, relation)

    def learn(self, world: World, before: ViewDefinition, after: ViewDefinition) -> None:
        """What is now known of the relations: those that changed under the view or the knowledge, and those that the
        view reads from now on."""
        concerned = before.relations | self.round.catalog.knowledge.relations
        for name, relation in world.now.items():
            if relation is None:
                self.gone.add(name)
            elif name in concerned or relation.name in after.relations:
                self._learn(name, relation)
                self.known_as[relation.name] = name
        for scan in scans(after.tree):
            if scan.relation.name not in before.relations:
                self.described.setdefault(scan.relation.name, scan.relation)

    def _learn(self, name: RelationName, relation: Relation | None) -> None:
        if relation is None:
            self.gone.add(name)
            return
        self.described[relation.name] = relation
        if relation.name != name:
            self.forgotten.add(name)

    def to_capture(self, relation: Relation) -> bool:
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

    def require_in_reach(self, source: str) -> None:
        away = self.round.away(source)
        if away is not None:
            raise SourceUnreachable(source, away)
