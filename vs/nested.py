"""Synchronization of views that are more than one select-project-join block.

    tree ─▶ regions ─▶ each that lost something: drafts of a search of its own, parts that may be cut off
                   ─▶ every combination: consequences, the extent carried up (V1, V4), ranking ─▶ the best, or broken

Renames and types are followed everywhere in the tree at once; a column is known by its number, wherever it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from dyda.errors import DydaError
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.preferences import Preference
from vs.judgement import Alternative, Broken, Holds, Judgement, Rewritten
from vs.proof.extent import keeps_multiplicities, prove, satisfies
from vs.proof.propagation import Moved, carried
from vs.rewrite.nested_assembly import NestedAssembly, assemble_nested
from vs.rewrite.nested_ranking import NestedCandidate, changes, ranked, reason
from vs.rewrite.tree import Consequences, Solution, Unwritable
from vs.schema_mapping import Passage
from vs.search.draft import Draft
from vs.search.drafts import drafts
from vs.search.join_paths import JoinGraph
from vs.search.obstacles import Obstacles
from vs.view.block import lost
from vs.view.descriptions import inside
from vs.view.preferences import Defaults, EffectivePreferences, appending, effective_preferences
from vs.view.region_blocks import cuts, parts, region_block
from vs.view.region_preferences import Standing
from vs.view.regions import Anatomy, Path, Region

__all__ = ["synchronize_nested"]

DRAFTS = 40
"""Candidates of one region that are combined with those of others, the most natural ones first."""

COMBINATIONS = 500

RUNNERS_UP = 10


def synchronize_nested(
    definition: ViewDefinition,
    known: Passage,
    knowledge: Knowledge,
    joins: JoinGraph,
    defaults: Defaults,
    plain_numeric: str,
) -> Judgement:
    """As `synchronize`. `known`: what the view and the knowledge speak of; `joins`: those that still hold something."""
    anatomy = Anatomy(definition)
    passage = Passage({**known.relations, **parts(anatomy)}, known.now)
    effective = effective_preferences(definition, defaults)
    standing, append = Standing(anatomy, defaults.component), appending(effective, defaults)
    search = _Search(anatomy, standing, passage, knowledge, joins, effective, append)
    regions = [(region, search.lost(region)) for region in anatomy.regions]
    because = "; ".join(dict.fromkeys(word for _, words in regions for word in words))
    options = []
    for region, words in regions:
        if words:
            found = search.options(region)
            if isinstance(found, Broken):
                return found
            options.append(found)
    obstacles = Obstacles(passage)
    order = ranked(search.candidates(options, because, obstacles))
    legal = [candidate for candidate in order if satisfies(candidate.moved.extent, effective.extent)]
    if order and not legal:
        obstacles.extent(because, effective.extent, order[0].moved.extent, reason(order[0]))
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


@dataclass(frozen=True)
class _Search:
    anatomy: Anatomy
    standing: Standing
    passage: Passage
    knowledge: Knowledge
    joins: JoinGraph
    effective: EffectivePreferences
    append: Preference | None

    def lost(self, region: Region) -> list[str]:
        return lost(region_block(self.anatomy, self.standing, region, self.effective), self.passage)

    def options(self, region: Region) -> list[Option] | Broken:
        """What may become of a region that lost something; if nothing may, why."""
        block = region_block(self.anatomy, self.standing, region, self.effective)
        obstacles = Obstacles(self.passage, inside=inside(self.anatomy, region.path))
        found = drafts(block, self.passage, self.knowledge, self.joins, obstacles)
        best = sorted(enumerate(found), key=lambda pair: (len(pair[1].dropped), pair[1].cost, pair[0]))
        options: list[Option] = [Solution(region, draft) for _, draft in best[:DRAFTS] if draft.occurrences]
        options += list(cuts(self.anatomy, self.standing, region, self.passage))
        return options or obstacles.broken("; ".join(lost(block, self.passage)))

    def candidates(
        self, options: Sequence[Sequence[Option]], because: str, obstacles: Obstacles
    ) -> Iterator[NestedCandidate]:
        for chosen in islice(product(*options), COMBINATIONS):
            solutions = _with_own_aliases([one for one in chosen if isinstance(one, Solution)])
            cut = frozenset(one for one in chosen if isinstance(one, tuple))
            within = [s for s in solutions if not any(s.region.path[: len(path)] == path for path in cut)]
            found = Consequences(self.anatomy, self.standing, tuple(within), cut, self.passage.relations)
            try:
                assembly = self._assembled(found)
            except Unwritable as why:
                obstacles.unreadable(because, str(why), "mark a column of the view replaceable, or leave it out")
                continue
            moves = {solution.region.path: self._proven(solution.draft) for solution in within}
            yield NestedCandidate(found, assembly, carried(found, moves))

    def _assembled(self, found: Consequences) -> NestedAssembly:
        return assemble_nested(found, self.passage, self.append)

    def _proven(self, draft: Draft) -> Moved:
        extent = prove(draft, self.passage, self.knowledge)
        return Moved(extent, keeps_multiplicities(draft, self.passage))


def _with_own_aliases(solutions: Sequence[Solution]) -> list[Solution]:
    """Regions are searched one by one; where two bring in the same alias, the later one takes another."""
    taken: set[str] = set()
    found = []
    for solution in solutions:
        free = solution.apart_from(taken)
        taken |= set(free.new)
        found.append(free)
    return found
