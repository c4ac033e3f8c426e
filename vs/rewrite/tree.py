"""Everything that must be dropped along with what the regions of a view lose, and the new tree.

    an inner item goes      ─▶ its column goes in every branch ─▶ all that reads it goes
    an aggregate, a key     ─▶ all that reads it goes
    a subquery's condition  ─▶ the condition, or EXISTS (…) as a whole

The effective preferences have allowed all of it beforehand (vs/view/region_preferences.py). Whole parts may be cut off:
a subquery, the padded side of an outer join, a branch, a derived table. The tree is in the names known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from dyda.errors import DydaError
from dyda.model.algebra.nodes import (
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    Group,
    Join,
    Node,
    OuterJoin,
    OutputColumn,
    Project,
    Query,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
    Some,
    rebuild,
)
from dyda.model.relation import Relation, RelationName
from vs.search.draft import Draft, DraftCondition, DraftOccurrence
from vs.search.join_paths import free_alias
from vs.search.substitution import with_instead
from vs.view.block import Component
from vs.view.region_preferences import Standing
from vs.view.regions import Anatomy, Path, Place, Region

__all__ = ["Consequences", "Solution", "Unwritable", "some_of"]


class Unwritable(DydaError):
    """What is left is not a query."""

    def __init__(self, what: str, remedy: str = "mark a column of the view replaceable, or leave it out") -> None:
        super().__init__(what, remedy)


@dataclass(frozen=True)
class Solution:
    """What a region becomes. `names`: other aliases for occurrences of its draft that are new."""

    region: Region
    draft: Draft
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def dropped(self) -> list[Place]:
        return [component.place for component in self.draft.dropped if component.place is not None]

    @property
    def occurrences(self) -> list[DraftOccurrence]:
        return [replace(one, alias=self.names.get(one.alias, one.alias)) for one in self.draft.occurrences]

    @property
    def kept(self) -> list[Component]:
        """The region's own conditions that stay."""
        absorbed = {component for departure in self.draft.departures for component in departure.absorbed}
        gone = absorbed | set(self.draft.dropped)
        return [component for component in self.draft.block.conditions if component not in gone]

    @property
    def added(self) -> list[DraftCondition]:
        """Conditions that are new."""
        new = self.draft.conditions[len(self.kept) :]
        return [DraftCondition(self.over(condition.expression), condition.preference) for condition in new]

    @property
    def substitution(self) -> dict[ColumnRef, Expression]:
        return {ref: self.over(expression) for ref, expression in self.draft.substitution}

    def over(self, expression: Expression) -> Expression:
        """An expression of the draft, under the aliases of this solution."""
        return expression.over(lambda ref: ColumnRef(self.names.get(ref.alias, ref.alias), ref.column))

    @property
    def new(self) -> list[str]:
        """The aliases that the region did not have."""
        old = dict(self.draft.block.occurrences)
        return [one.alias for one in self.occurrences if one.alias not in old]

    def apart_from(self, taken: Iterable[str]) -> Solution:
        """The same without these aliases for what is new."""
        names: dict[str, str] = {}
        for alias in self.new:
            names[alias] = free_alias(alias, (*taken, *self.draft.block.taken, *names.values()))
        return replace(self, names=names)


@dataclass(frozen=True)
class Consequences:
    """`cuts`: the nodes that are cut off, by their paths."""

    anatomy: Anatomy
    standing: Standing
    solutions: tuple[Solution, ...]
    cuts: frozenset[Path]
    relations: Mapping[RelationName, Relation] = field(compare=False)

    @cached_property
    def by_region(self) -> dict[Path, Solution]:
        return {solution.region.path: solution for solution in self.solutions}

    @cached_property
    def _closed(self) -> tuple[frozenset[Place], frozenset[Path]]:
        """All places that go, and all nodes that are cut off: with what reads them."""
        gone: set[Place] = set()
        cuts: set[Path] = set(self.cuts)
        waiting = [place for solution in self.solutions for place in solution.dropped]
        for path in self.cuts:
            above = self.anatomy.nodes[path[:-1]]
            if not isinstance(above, SemiJoin | SetOperation):
                delivered = self.anatomy.nodes[path].columns
                readers = (reader for ref in delivered for reader in self.anatomy.users.get(ref, ()))
                waiting += [reader for reader in readers if not _within(reader.path, path)]
        while waiting:
            place = waiting.pop()
            if place in gone:
                continue
            gone.add(place)
            if place.kind == "item":
                waiting += self.anatomy.together(place)
            if place.kind in ("matching", "membership") and self._is_last(place, gone):
                cuts.add((*place.path, 1))
            waiting += self.anatomy.readers_of(place)
        return frozenset(place for place in gone if not any(_within(place.path, cut) for cut in cuts)), frozenset(cuts)

    def _is_last(self, place: Place, gone: set[Place]) -> bool:
        """Whether nothing would connect a subquery with what is outside: then it goes as a whole."""
        own = [one for one in self.anatomy.places if one.path == place.path]
        return place.kind == "membership" or all(one in gone for one in own)

    @property
    def gone(self) -> frozenset[Place]:
        return self._closed[0]

    @property
    def cut(self) -> frozenset[Path]:
        return self._closed[1]

    @property
    def is_different(self) -> bool:
        return bool(self.gone or self.cut) or any(solution.draft.is_different for solution in self.solutions)

    def is_cut(self, path: Path) -> bool:
        """Whether the node is in a part that is cut off."""
        return any(_within(path, cut) for cut in self.cut)

    @cached_property
    def substitution(self) -> dict[ColumnRef, Expression]:
        return {ref: put for solution in self.solutions for ref, put in solution.substitution.items()}

    def put(self, expression: Expression) -> Expression:
        return with_instead(expression, self.substitution)

    @cached_property
    def tree(self) -> Query:
        """The whole view; Unwritable says why there is none."""
        return self._query(())

    def _query(self, path: Path) -> Query:
        node = self.anatomy.nodes[path]
        match node:
            case Project(items=items):
                kept = tuple(item for number, item in enumerate(items) if not self._is_gone(path, "item", number))
                if path:  # of the view itself, columns that are appended count too
                    some_of(kept)
                return rebuild(replace(node, items=kept), [self._region((*path, 0))], self.put)
            case Distinct():
                return rebuild(node, [self._query((*path, 0))])
            case SetOperation(kind, all_):
                left, right = (*path, 0), (*path, 1)
                if left in self.cut and right in self.cut:
                    raise Unwritable(f"no branch would be left of {kind.upper()}")
                if left not in self.cut and right not in self.cut:
                    return rebuild(node, [self._query(left), self._query(right)])
                rest = self._query(left) if right in self.cut else _called(self._query(right), self._names(left, right))
                return rest if all_ else Distinct(rest)
            case _:
                raise AssertionError(f"{type(node).__name__} is not a query")

    def _names(self, left: Path, right: Path) -> list[str]:
        """What the left branch, which is cut off, calls the columns that the right one keeps."""
        path, first = next(iter(self.anatomy.branches(right)))
        names = [column.column for column in self.anatomy.nodes[left].columns]
        return [names[number] for number in range(len(first.items)) if not self._is_gone(path, "item", number)]

    def _region(self, path: Path) -> Node:
        solution = self.by_region.get(path)
        found = self._rows(path) if solution is None else self._joined_anew(solution)
        if found is None:
            raise Unwritable(
                "no relation would be left", "mark the relation replaceable and add a [[containment]] of it"
            )
        return found

    def _rows(self, path: Path) -> Node | None:
        """A leaf of a region, or a whole region that lost nothing itself, node by node."""
        if path in self.cut:
            return None
        node = self.anatomy.nodes[path]
        match node:
            case Select():
                below = self._rows((*path, 0))
                if below is None or self._is_gone(path, "condition", 0):
                    return below
                return rebuild(node, [below], self.put)
            case Join():
                left, right = self._rows((*path, 0)), self._rows((*path, 1))
                if left is None or right is None:
                    return left or right
                free = replace(node, condition=None) if self._is_gone(path, "condition", 0) else node
                return rebuild(free, [left, right], self.put)
            case SemiJoin():
                rows = self._rows((*path, 0))
                return None if rows is None else self._filtered(path, node, rows)
            case Scan():
                return node
            case Derived():
                return rebuild(node, [self._query((*path, 0))])
            case Group():
                keys = tuple(one for at, one in enumerate(node.keys) if not self._is_gone(path, "key", at))
                kept = tuple(one for at, one in enumerate(node.aggregates) if not self._is_gone(path, "aggregate", at))
                if not keys and not kept:
                    raise Unwritable("nothing would be left of the group")
                return rebuild(replace(node, keys=keys, aggregates=kept), [self._region((*path, 0))], self.put)
            case OuterJoin(kind=kind, conditions=several):
                for number in (0, 1):
                    if (*path, number) in self.cut:
                        return self._region((*path, 1 - number))
                on = tuple(c for number, c in enumerate(several) if not self._is_gone(path, "on", number))
                if several and not on:
                    raise Unwritable(f"no condition would be left of the {kind} join")
                sides = [self._region((*path, 0)), self._region((*path, 1))]
                return rebuild(replace(node, conditions=on), sides, self.put)
            case _:
                raise AssertionError(f"{type(node).__name__} is a query")

    def _filtered(self, path: Path, node: SemiJoin, rows: Node) -> Node:
        if (*path, 1) in self.cut:
            return rows
        kept = tuple(c for number, c in enumerate(node.conditions) if not self._is_gone(path, "matching", number))
        return rebuild(replace(node, conditions=kept), [rows, self._region((*path, 1))], self.put)

    def _joined_anew(self, solution: Solution) -> Node | None:
        """A region that lost something: its leaves in order, each condition where all that it reads is there."""
        region = solution.region
        leaves: list[Node] = []
        held = {column.alias: path for path, leaf in region.leaves for column in leaf.columns}
        done: set[Path] = set()
        for occurrence in solution.occurrences:
            path = held.get(occurrence.alias)
            if path is None or occurrence.alias in region.aliases:
                leaves.append(Scan(occurrence.alias, self.relations[occurrence.relation]))
            elif path not in done:
                done.add(path)
                leaf = self._rows(path)
                leaves += [leaf] if leaf is not None else []
        if not leaves:
            return None
        kept = [one for one in solution.kept if one.place is not None and one.place not in self.gone]
        own = [self.put(component.expression) for component in kept]
        node = joined(leaves, [*own, *(condition.expression for condition in solution.added)])
        for at, semi_join in region.filters:
            node = self._filtered(at, semi_join, node)
        return node

    def _is_gone(self, path: Path, kind: str, number: int) -> bool:
        return (path, kind, number) in self._gone_at

    @cached_property
    def _gone_at(self) -> frozenset[tuple[Path, str, int]]:
        return frozenset((place.path, place.kind, place.number) for place in self.gone)


def some_of(items: tuple[OutputColumn, ...]) -> tuple[OutputColumn, ...]:
    """The items, if there are any."""
    if not items:
        raise Unwritable(
            "no column would be left",
            "mark a column replaceable and add a [[function]] and a [[join]] for it",
        )
    return items


def joined(leaves: Iterable[Node], conditions: Iterable[Expression]) -> Node:
    """The leaves joined in order, each condition at the first join that has all it reads."""
    waiting = list(conditions)
    node: Node | None = None
    for leaf in leaves:
        node = leaf if node is None else Join(node, leaf)
        aliases = {column.alias for column in node.columns}
        for condition in [one for one in waiting if one.aliases <= aliases]:
            waiting.remove(condition)
            if isinstance(node, Join) and node.condition is None:
                node = replace(node, condition=condition)
            else:
                node = Select(node, condition)
    assert node is not None
    for condition in waiting:
        node = Select(node, condition)
    return node


def _within(path: Path, node: Path) -> bool:
    return path[: len(node)] == node


def _called(query: Some, names: list[str]) -> Some:
    """The query with its columns called like that."""
    if isinstance(query, Project):
        return replace(query, items=tuple(map(OutputColumn, names, (item.expression for item in query.items))))
    first, *others = query.inputs
    return rebuild(query, [_called(first, names), *others])
