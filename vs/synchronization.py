"""Synchronization: from a view and what happened to the relations it knows, to the view's best legal form.

    relations before ─┐                      nothing ─▶ followed
    relations now    ─┼─▶ what the view lost ┤
    knowledge        ─┘                      decisions ─▶ search ─▶ proof ─▶ ranking ─▶ the best one, or broken

A rewriting is legal (P1-P4) by construction, except for its extent, which is proven and then compared with what the
view asks for. Several changes at once are one search: everything that is gone is covered together (paper 001,
Equation 6).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dyda.errors import DydaError
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.relation import Relation, RelationName
from vs.judgement import Alternative, Holds, Judgement, Rewritten
from vs.knowledge_evolution import evolve
from vs.nested import synchronize_nested
from vs.proof.extent import prove, satisfies
from vs.rewrite.assembly import NothingLeft, assemble
from vs.rewrite.ranking import Candidate, changes, ranked, reason
from vs.schema_mapping import Passage
from vs.search.draft import as_it_stands
from vs.search.drafts import drafts
from vs.search.join_paths import JoinGraph
from vs.search.obstacles import Obstacles
from vs.view.block import block, lost
from vs.view.preferences import Defaults, appending

__all__ = ["World", "synchronize"]

RUNNERS_UP = 10
"""Legal rewritings that are told beside the best one."""


@dataclass(frozen=True)
class World:
    """The relations and the knowledge about them, before and after some schema changes.

    `relations`: every relation that a view or the knowledge speaks of, by the name and with the columns known before.
    `now`: those that changed, by the names known before; None if the relation is gone. Others are as they were.
    """

    relations: Mapping[RelationName, Relation]
    now: Mapping[RelationName, Relation | None]
    knowledge: Knowledge = field(default_factory=Knowledge)


def synchronize(
    definition: ViewDefinition,
    world: World,
    defaults: Defaults | None = None,
    plain_numeric: str = "decimal(38,18)",
) -> Judgement:
    """The view over the relations as they are now: as it stands, rewritten as its owner allows, or broken."""
    known = {**world.relations, **{scan.relation.name: scan.relation for scan in scans(definition.tree)}}
    passage = Passage(known, world.now)
    if not definition.plain:
        joins = _joins(world.knowledge, known, passage)
        rules = defaults or Defaults()
        return synchronize_nested(definition, passage, world.knowledge, joins, rules, plain_numeric)
    view = block(definition, defaults or Defaults())
    gone = lost(view, passage)
    obstacles = Obstacles(passage)
    if gone:
        found = drafts(view, passage, world.knowledge, _joins(world.knowledge, known, passage), obstacles)
    else:
        found = [as_it_stands(view)]
    because = "; ".join(gone)
    append = appending(view.preferences, defaults or Defaults())
    candidates = []
    for draft in found:
        try:
            assembly = assemble(draft, passage, append)
        except NothingLeft as error:
            obstacles.unreadable(because, error.what, error.remedy)
            continue
        candidates.append(Candidate(draft, assembly, prove(draft, passage, world.knowledge)))
    order = ranked(candidates)
    legal = [candidate for candidate in order if satisfies(candidate.extent, view.preferences.extent)]
    if order and not legal:
        obstacles.extent(because, view.preferences.extent, order[0].extent, reason(order[0]))
    for number, best in enumerate(legal):
        try:
            read = best.assembly.read(plain_numeric)
        except DydaError as error:  # a type that the view cannot compute with, whatever it is cast to
            obstacles.unreadable(because, error.what, error.remedy)
            continue
        if not gone and not best.assembly.appended:
            return Holds(read, best.assembly.followed)
        others = legal[number + 1 : number + 1 + RUNNERS_UP]
        return Rewritten(
            read,
            best.extent,
            best.draft.cost,
            reason(best),
            changes(best, passage),
            best.assembly.followed,
            tuple(Alternative(other.sql, other.extent, other.draft.cost, reason(other)) for other in others),
        )
    return obstacles.broken(because)


def _joins(knowledge: Knowledge, known: Mapping[RelationName, Relation], passage: Passage) -> JoinGraph:
    """The join constraints that still hold something, in the names known before."""
    retired = [constraint for constraint, _ in evolve(knowledge, known, passage.now).retired]
    return JoinGraph(
        join for join in knowledge.joins if join not in retired and all(r in known for r in join.relations)
    )
