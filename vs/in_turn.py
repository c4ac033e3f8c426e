"""Changes that break a view together, taken one after the other.

A unit that merges messages is one search over everything that is gone (paper 001, Equation 6). It may fail where the
messages one by one would not: a column is dropped and added again, or a rewriting through a relation is replaced by
another when that relation changes. How messages are merged must not decide whether a view survives, so where the one
search finds nothing, each change gets its turn.

    stage 1 ─▶ rewritten ─▶ stage 2 ─▶ broken ─ ─ ─▶ stage 3 ─▶ what it reads exists again, by name ─▶ continues
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.parse import parse_view
from vs.judgement import Broken, Holds, Judgement, Rewritten
from vs.knowledge_evolution import evolve
from vs.proof.extent import combine
from vs.rewrite.assembly import resolver
from vs.synchronization import World, synchronize
from vs.view.preferences import Defaults

__all__ = ["Stage", "synchronize_in_turn"]

Stage = Mapping[RelationName, Relation | None]
"""What one change has made of relations, by the names known before all of them; None if gone."""


def synchronize_in_turn(
    definition: ViewDefinition,
    world: World,
    stages: Sequence[Stage],
    defaults: Defaults | None = None,
    plain_numeric: str = "decimal(38,18)",
) -> Judgement:
    """The view after the stages, each synchronized before the next. The last stage of a relation is what it is now."""
    turns = _Turns(definition, dict(world.relations), world.knowledge, defaults, plain_numeric)
    for stage in stages:
        turns.take(stage)
    return turns.outcome()


@dataclass
class _Turns:
    """Where the view has come so far; `relations` by the names known before all stages."""

    definition: ViewDefinition
    relations: dict[RelationName, Relation | None]
    knowledge: Knowledge
    defaults: Defaults | None
    plain_numeric: str
    taken: list[Holds | Rewritten] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    broken: Broken | None = None
    standing: dict[RelationName, Relation | None] = field(default_factory=dict)
    """The relations as they were when it broke."""

    def take(self, stage: Stage) -> None:
        before = self.relations
        self.relations = {**before, **stage}
        if self.broken is not None:
            self._return()
        else:
            judgement = self._judged(before, self._since(before), self.knowledge)
            if isinstance(judgement, Broken):
                self.broken, self.standing = judgement, before
            else:
                self._go_on(judgement)
        self.knowledge = evolve(self.knowledge, _present(before), self._since(before)).knowledge

    def _return(self) -> None:
        """A broken view means names (as `read`): it returns if they exist again, without what may be dropped."""
        then = _present(self.standing)
        now = self._since(self.standing)
        back = {name: _by_names(then[name], found) if found is not None else None for name, found in now.items()}
        judgement = self._judged(self.standing, back, Knowledge())
        if isinstance(judgement, Broken):
            return
        read = {
            (scan.relation.name, ref.column)
            for scan in scans(self.definition.tree)
            for ref in scan.columns
            if ref in self.definition.columns
        }
        self.returned += [
            f"column {column} of {found.name} was dropped and added again"
            for name, found in now.items()
            if found is not None
            for column in then[name].by_name
            if (name, column) in read and found.called(column, then[name]) is None and column in found.by_name
        ]
        self.broken = None
        self._go_on(judgement)

    def outcome(self) -> Judgement:
        if self.broken is not None:
            return self.broken
        rewritten = [judgement for judgement in self.taken if isinstance(judgement, Rewritten)]
        followed = tuple(dict.fromkeys(word for judgement in self.taken for word in judgement.followed))
        changes = tuple(change for judgement in rewritten for change in judgement.changes)
        reasons = [*self.returned, *(judgement.reason for judgement in rewritten)]
        if not reasons:
            return Holds(self.definition, followed)
        extent = combine([*(judgement.extent for judgement in rewritten), *(["unknown"] if self.returned else [])])
        cost = len(list(scans(self.definition.tree))) - 1
        return Rewritten(self.definition, extent, cost, "; ".join(reasons), (*self.returned, *changes), followed)

    def _judged(self, before: Stage, now: Stage, knowledge: Knowledge) -> Judgement:
        world = World(_present(before), now, knowledge)
        return synchronize(self.definition, world, self.defaults, self.plain_numeric)

    def _go_on(self, judgement: Holds | Rewritten) -> None:
        """Read again over the relations as they are: a column that came back is a new one."""
        found = judgement.definition
        present = _present(self.relations)
        relations = [present[scan.relation.name] for scan in scans(found.tree)]
        self.definition = parse_view(found.name, found.sql, resolver(relations), plain_numeric=self.plain_numeric)
        self.taken.append(judgement)

    def _since(self, before: Stage) -> dict[RelationName, Relation | None]:
        """What is not as it was `before`, by the names of then."""
        return {
            relation.name: self.relations[name]
            for name, relation in before.items()
            if relation is not None and self.relations[name] != relation
        }


def _present(relations: Stage) -> dict[RelationName, Relation]:
    return {relation.name: relation for relation in relations.values() if relation is not None}


def _by_names(before: Relation, now: Relation) -> Relation:
    """The relation with its columns known by their numbers, and by their names where the number is gone."""
    to = {}
    for column in before.columns:
        name = now.called(column.name, before) or (column.name if column.name in now.by_name else None)
        if name is not None:
            to[column.number] = now.column(name).number
    return replace(now, succeeds=tuple(to.items()))
