"""Synchronization: from a view and what happened to the relations it knows, to the view's best legal form.

    view ─▶ regions ─▶ each that lost something: drafts of a search of its own, parts that may be cut off
                   ─▶ every combination: consequences, the extent carried up (V1, V4), ranking ─▶ the best, or broken

A plain view is a view of one region. A rewriting is legal (P1-P4) by construction, except for its extent, which is
proven and then compared with what the view asks for. Several changes at once are one search: everything that is gone is
covered together (paper 001, Equation 6). Renames and types are followed everywhere in the tree at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product

from dyda.errors import DydaError
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.preferences import Preference
from dyda.model.relation import Relation, RelationName
from vs.judgement import Alternative, Holds, Judgement, Rewritten
from vs.knowledge_evolution import evolve
from vs.proof.extent import keeps_multiplicities, prove, satisfies
from vs.proof.propagation import Moved, carried
from vs.rewrite.assembly import assemble
from vs.rewrite.ranking import Candidate, changes, ranked, reason
from vs.rewrite.tree import Consequences, Solution, Unwritable
from vs.schema_mapping import Passage
from vs.search.drafts import drafts
from vs.search.join_paths import JoinGraph
from vs.search.obstacles import Obstacles
from vs.view.block import Block, lost
from vs.view.descriptions import inside
from vs.view.preferences import Defaults, appending, effective_preferences
from vs.view.region_blocks import cuts, parts, region_block
from vs.view.region_preferences import Standing
from vs.view.regions import Anatomy, Path, Region

__all__ = ["World", "synchronize"]

DRAFTS = 40
"""Candidates of one region that are combined with those of others, the most natural ones first."""

COMBINATIONS = 600
"""More than the candidates of one region and the parts around it that may be cut off."""

RUNNERS_UP = 10
"""Legal rewritings that are reported beside the best one."""


@dataclass(frozen=True)
class World:
    """The relations and the knowledge about them, before and after schema changes. `relations`: every relation that a
    view or the knowledge names, as known before. `now`: those that changed, by their names before; None if dropped."""

    relations: Mapping[RelationName, Relation]
    now: Mapping[RelationName, Relation | None]
    knowledge: Knowledge = field(default_factory=Knowledge)


def synchronize(
    definition: ViewDefinition, world: World, defaults: Defaults | None = None, plain_numeric: str = "decimal(38,18)"
) -> Judgement:
    """The view over the relations as they are now: unchanged, rewritten as its owner allows, or broken."""
    rules = defaults or Defaults()
    effective = effective_preferences(definition, rules)
    search = _search(definition, world, rules)
    anatomy, passage, asked = search.anatomy, search.passage, effective.extent
    obstacles = Obstacles(passage)
    blocks = ((region, search.block(region)) for region in anatomy.regions)
    touched = [(region, block, gone) for region, block in blocks if (gone := lost(block, passage))]
    because = "; ".join(dict.fromkeys(word for _, _, gone in touched for word in gone))
    options = []
    for region, block, gone in touched:
        own = Obstacles(passage, inside=inside(anatomy, region.path))
        options.append(search.options(region, block, own, COMBINATIONS if len(touched) == 1 else DRAFTS))
        if not options[-1]:
            return own.broken("; ".join(gone))
    order = ranked(search.candidates(options, appending(effective, rules), because, obstacles))
    legal = [candidate for candidate in order if satisfies(candidate.moved.extent, asked)]
    if order and not legal:
        obstacles.extent(because, asked, order[0].moved.extent, reason(order[0]))
    for number, best in enumerate(legal):
        try:
            read = best.assembly.read(plain_numeric)
        except DydaError as error:  # a type that the view cannot compute with, whatever it is cast to
            obstacles.unreadable(because, error.what, error.remedy)
            continue
        if not because and not best.assembly.appended:
            return Holds(read, best.assembly.followed)
        others = legal[number + 1 : number + 1 + RUNNERS_UP]
        return Rewritten(
            read,
            best.moved.extent,
            best.cost,
            reason(best),
            changes(best, passage),
            best.assembly.followed,
            tuple(Alternative(other.sql, other.moved.extent, other.cost, reason(other)) for other in others),
        )
    return obstacles.broken(because)


Option = Solution | Path
"""What may become of a region: a draft takes its place, or a part of the view that it is in is cut off."""


def _search(definition: ViewDefinition, world: World, defaults: Defaults) -> _Search:
    known = {**world.relations, **{scan.relation.name: scan.relation for scan in scans(definition.tree)}}
    anatomy = Anatomy(definition)
    return _Search(
        anatomy,
        Standing(anatomy, defaults.component),
        Passage({**known, **parts(anatomy)}, world.now),
        world.knowledge,
        _joins(world.knowledge, known, world.now),
    )


@dataclass(frozen=True)
class _Search:
    anatomy: Anatomy
    standing: Standing
    passage: Passage
    knowledge: Knowledge
    joins: JoinGraph

    def block(self, region: Region) -> Block:
        return region_block(self.anatomy, self.standing, region)

    def options(self, region: Region, block: Block, obstacles: Obstacles, most: int) -> list[Option]:
        """What may become of a region that lost something."""
        found = drafts(block, self.passage, self.knowledge, self.joins, obstacles)
        best = sorted(found, key=lambda draft: (len(draft.dropped), draft.cost))
        options: list[Option] = [Solution(region, draft) for draft in best[:most]]
        return [*options, *cuts(self.anatomy, self.standing, region, self.passage)]

    def candidates(
        self, options: Sequence[Sequence[Option]], append: Preference | None, because: str, obstacles: Obstacles
    ) -> Iterator[Candidate]:
        """Every combination, written down. `append`: what holds for columns that are new, None to leave them out."""
        for chosen in islice(product(*options), COMBINATIONS):
            solutions = _with_own_aliases([one for one in chosen if isinstance(one, Solution)])
            cut = frozenset(one for one in chosen if isinstance(one, tuple))
            within = [s for s in solutions if not any(s.region.path[: len(path)] == path for path in cut)]
            found = Consequences(self.anatomy, self.standing, tuple(within), cut, self.passage.relations)
            try:
                assembly = assemble(found, self.passage, append)
            except Unwritable as why:
                obstacles.unreadable(because, why.what, why.remedy)
                continue
            moves = {solution.region.path: self._proven(solution) for solution in within}
            yield Candidate(found, assembly, carried(found, moves))

    def _proven(self, solution: Solution) -> Moved:
        extent = prove(solution.draft, self.passage, self.knowledge)
        return Moved(extent, keeps_multiplicities(solution.draft, self.passage))


def _with_own_aliases(solutions: Sequence[Solution]) -> list[Solution]:
    """Regions are searched one by one; where two introduce the same alias, the later one gets another."""
    taken: set[str] = set()
    found = []
    for solution in solutions:
        free = solution.apart_from(taken)
        taken |= set(free.new)
        found.append(free)
    return found


def _joins(
    knowledge: Knowledge, known: Mapping[RelationName, Relation], now: Mapping[RelationName, Relation | None]
) -> JoinGraph:
    """The join constraints that still hold something, in the names known before."""
    retired = [constraint for constraint, _ in evolve(knowledge, known, now).retired]
    return JoinGraph(
        join for join in knowledge.joins if join not in retired and all(r in known for r in join.relations)
    )
