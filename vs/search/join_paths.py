"""Ways to join: paths over the join constraints, and occurrences joined along them.

    f ──flight_res.name = tour.tour_name──▶ tour ──tour.tour_id = guide.tour_id──▶ guide

A path may pass through relations that are not in the view. Where the view already joins two occurrences as a
constraint says, the path goes along them and adds nothing; elsewhere it adds occurrences of its own, so that nothing
that is in the view is restricted by a condition its author did not write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice, pairwise, product

import networkx

from dyda.model.algebra.nodes import Expression
from dyda.model.knowledge.constraints import JoinConstraint
from dyda.model.relation import RelationName
from vs.proof.implication import same
from vs.search.substitution import under

__all__ = ["Hop", "JoinGraph", "Joined", "free_alias", "instantiated"]

Path = tuple[tuple[JoinConstraint, RelationName], ...]
"""The join constraints to follow, each with the relation that it leads to."""


class JoinGraph:
    """The join constraints between relations that are there."""

    def __init__(self, joins: Iterable[JoinConstraint]) -> None:
        self._joins: dict[frozenset[RelationName], list[JoinConstraint]] = {}
        self._graph = networkx.Graph()
        self._found: dict[tuple[RelationName, RelationName, int], list[Path]] = {}
        for join in joins:
            self._joins.setdefault(join.relations, []).append(join)
            self._graph.add_edge(join.left, join.right)

    def paths(self, start: RelationName, end: RelationName, limit: int) -> list[Path]:
        """The first ways from one relation to the other, shortest first, then in the order of the knowledge."""
        if start == end or start not in self._graph or end not in self._graph:
            return []
        if (start, end, limit) not in self._found:
            self._found[start, end, limit] = list(islice(self._paths(start, end), limit))
        return self._found[start, end, limit]

    def _paths(self, start: RelationName, end: RelationName) -> Iterator[Path]:
        try:
            for nodes in networkx.shortest_simple_paths(self._graph, start, end):
                choices = [[(join, to) for join in self._joins[frozenset({at, to})]] for at, to in pairwise(nodes)]
                yield from product(*choices)
        except networkx.NetworkXNoPath:
            return


@dataclass(frozen=True)
class Hop:
    """One join along a path. `fresh`: its end is a new occurrence; `conditions`: those the view did not have."""

    start: str
    join: JoinConstraint
    end: str
    fresh: bool
    conditions: tuple[Expression, ...]


@dataclass(frozen=True)
class Joined:
    """Occurrences by alias and the conditions between them, growing along paths. `taken`: aliases not to use."""

    occurrences: tuple[tuple[str, RelationName], ...]
    conditions: tuple[Expression, ...]
    taken: frozenset[str]

    def with_occurrence(self, relation: RelationName) -> tuple[Joined, str]:
        """One more occurrence, under an alias derived from the table's name."""
        alias = free_alias(relation.table, self.taken)
        return replace(self, occurrences=(*self.occurrences, (alias, relation)), taken=self.taken | {alias}), alias

    def with_conditions(self, conditions: Iterable[Expression]) -> Joined:
        """With those conditions that are not there yet."""
        new = list(self.conditions)
        for condition in conditions:
            if not any(same(condition, other) for other in new):
                new.append(condition)
        return replace(self, conditions=tuple(new))

    def walk(self, start: str, path: Path, end: str | None = None) -> tuple[Joined, tuple[Hop, ...]]:
        """Joined along the path; its last step leads to the occurrence `end` if there is one."""
        joined, hops, at = self, [], start
        for number, (join, relation) in enumerate(path, 1):
            to = end if number == len(path) and end is not None else joined._met(at, join, relation)
            fresh = to is None
            if to is None:
                joined, to = joined.with_occurrence(relation)
            wider = joined.with_conditions(instantiated(join, at, relation, to))
            hops.append(Hop(at, join, to, fresh, wider.conditions[len(joined.conditions) :]))
            joined, at = wider, to
        return joined, tuple(hops)

    def _met(self, start: str, join: JoinConstraint, relation: RelationName) -> str | None:
        """An occurrence of the relation that is already joined with `start` as the constraint says."""
        for alias, name in self.occurrences:
            if name == relation and alias != start and self.has(instantiated(join, start, relation, alias)):
                return alias
        return None

    def has(self, conditions: Sequence[Expression]) -> bool:
        return all(any(same(condition, other) for other in self.conditions) for condition in conditions)


def free_alias(wanted: str, taken: Iterable[str]) -> str:
    """The name itself, or with a number behind it. To Spark, T and t are one name."""
    names = {name.casefold() for name in taken}
    numbered = (f"{wanted}_{number}" for number in count(2))
    return next(alias for alias in chain([wanted], numbered) if alias.casefold() not in names)


def instantiated(join: JoinConstraint, start: str, relation: RelationName, end: str) -> list[Expression]:
    """The constraint's conditions between two occurrences; `end` is the one of `relation`."""
    alias: Callable[[str], str] = lambda name: end if name == str(relation) else start  # noqa: E731
    return [under(condition, alias) for condition in join.on]
