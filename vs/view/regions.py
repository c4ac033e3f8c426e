"""A view taken apart: regions of inner joins, and the places of its expressions.

    Project ─ Select ─ Group ─ Join ─ Scan f         two regions: what the select list and HAVING read of the group,
                                  └─ Scan c          and f, c with what the keys and aggregates read of them

A region is what commutes: scans, selections, inner joins, and the left sides of EXISTS and NOT EXISTS, which only let
rows through. Everything else (a derived table, an outer join, a group) is a leaf of its region and holds regions of its
own. A lost column is lost in one region; what reads it from outside is what that region must still deliver. A plain
view is one region.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, assert_never

from dyda.model.algebra.nodes import (
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    Group,
    Join,
    Node,
    OuterJoin,
    Project,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
    ViewDefinition,
)

__all__ = ["Anatomy", "Path", "Place", "Region"]

Path: TypeAlias = tuple[int, ...]
"""Which way to go from the top of the tree: the number of the input, node by node."""

Kind: TypeAlias = Literal["condition", "on", "matching", "membership", "item", "key", "aggregate"]


@dataclass(frozen=True)
class Place:
    """One expression of the node at `path`, by its number there.

    condition   of a selection or an inner join         item    of a select list
    on          of an outer join                        key     of GROUP BY
    matching    between a subquery and what is outside  aggregate
    membership  both sides of NOT IN
    """

    path: Path
    kind: Kind
    number: int
    expression: Expression

    @property
    def filters(self) -> bool:
        return self.kind in ("condition", "on", "matching", "membership")


@dataclass(frozen=True)
class Region:
    """`leaves` are scans and what holds regions of its own; `filters` the subqueries that let rows through."""

    path: Path
    leaves: tuple[tuple[Path, Node], ...]
    conditions: tuple[Place, ...]
    filters: tuple[tuple[Path, SemiJoin], ...]

    @property
    def scans(self) -> tuple[Scan, ...]:
        return tuple(leaf for _, leaf in self.leaves if isinstance(leaf, Scan))

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(scan.alias for scan in self.scans)


@dataclass(frozen=True)
class Anatomy:
    """The view's tree, addressed by paths."""

    definition: ViewDefinition

    @cached_property
    def nodes(self) -> dict[Path, Node]:
        return dict(_nodes(self.definition.tree, ()))

    @cached_property
    def places(self) -> tuple[Place, ...]:
        return tuple(place for path, node in self.nodes.items() for place in _places(node, path))

    @cached_property
    def users(self) -> dict[ColumnRef, tuple[Place, ...]]:
        """Who reads each column."""
        found: dict[ColumnRef, list[Place]] = {}
        for place in self.places:
            for ref in sorted(place.expression.columns):
                found.setdefault(ref, []).append(place)
        return {ref: tuple(places) for ref, places in found.items()}

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        tops = [(*path, 0) for path, node in self.nodes.items() if isinstance(node, Project | Group)]
        for path, node in self.nodes.items():
            if isinstance(node, OuterJoin):
                tops += [(*path, 0), (*path, 1)]
            if isinstance(node, SemiJoin):
                tops.append((*path, 1))
        return tuple(self._region(path) for path in sorted(tops))

    def _region(self, top: Path) -> Region:
        leaves: list[tuple[Path, Node]] = []
        conditions: list[Place] = []
        filters: list[tuple[Path, SemiJoin]] = []

        def gather(path: Path) -> None:
            node = self.nodes[path]
            match node:
                case Select():
                    gather((*path, 0))
                    conditions.extend(_places(node, path))
                case Join():
                    gather((*path, 0))
                    gather((*path, 1))
                    conditions.extend(_places(node, path))
                case SemiJoin():
                    gather((*path, 0))
                    filters.append((path, node))
                case _:
                    leaves.append((path, node))

        gather(top)
        return Region(top, tuple(leaves), tuple(conditions), tuple(filters))

    def readers(self, region: Region) -> list[Place]:
        """What reads the region's own relations from outside."""
        inside = set(region.conditions)
        return [place for place in self.places if place not in inside and place.expression.aliases & region.aliases]

    def query(self, path: Path) -> Path:
        """The query that the Project at `path` is a branch of: itself, or the topmost DISTINCT or set operation."""
        while path and isinstance(self.nodes[path[:-1]], Distinct | SetOperation):
            path = path[:-1]
        return path

    def branches(self, query: Path) -> Iterator[tuple[Path, Project]]:
        """The select lists of a query, left to right."""
        node = self.nodes[query]
        if isinstance(node, Project):
            yield query, node
        elif isinstance(node, Distinct | SetOperation):
            for number in range(len(node.inputs)):
                yield from self.branches((*query, number))

    def together(self, place: Place) -> list[Place]:
        """The items of one column of a query: one in each branch."""
        query = self.query(place.path)
        return [_items(path, branch)[place.number] for path, branch in self.branches(query)]

    def delivers(self, place: Place) -> ColumnRef | None:
        """The column under which an item, a key or an aggregate is read above; None for what readers see."""
        node = self.nodes[place.path]
        if isinstance(node, Group):
            names = [key.name for key in node.keys], [aggregate.name for aggregate in node.aggregates]
            return ColumnRef(node.alias, names[place.kind == "aggregate"][place.number])
        query = self.query(place.path)
        above = self.nodes[query[:-1]] if query else None
        return above.columns[place.number] if isinstance(above, Derived) else None

    def readers_of(self, place: Place) -> tuple[Place, ...]:
        """Who reads what the place delivers."""
        ref = self.delivers(place)
        return self.users.get(ref, ()) if ref is not None else ()

    def shown(self, place: Place) -> list[str]:
        """The view's columns that depend on the place."""
        if place.kind == "item" and self.delivers(place) is None:
            return [self.definition.names[place.number]]
        if place.filters:
            return []
        return list(dict.fromkeys(name for reader in self.readers_of(place) for name in self.shown(reader)))


def bundled(expressions: Iterable[Expression]) -> Expression:
    """Several expressions as one, to speak of what they read together."""
    found = list(expressions)
    if len(found) == 1:
        return found[0]
    refs = [part for expression in found for part in expression.parts if isinstance(part, ColumnRef)]
    parts = tuple(part for ref in refs for part in (ref, ", "))[:-1]
    return Expression(", ".join(map(str, refs)), frozenset(refs), parts=parts)


def _nodes(node: Node, path: Path) -> Iterator[tuple[Path, Node]]:
    yield path, node
    for number, below in enumerate(node.inputs):
        yield from _nodes(below, (*path, number))


def _places(node: Node, path: Path) -> Iterator[Place]:
    match node:
        case Scan() | Derived() | Distinct() | SetOperation():
            return
        case Select(condition=condition):
            yield Place(path, "condition", 0, condition)
        case Join(condition=condition):
            if condition is not None:
                yield Place(path, "condition", 0, condition)
        case OuterJoin(conditions=several):
            yield from (Place(path, "on", number, condition) for number, condition in enumerate(several))
        case SemiJoin(conditions=several, membership=membership):
            yield from (Place(path, "matching", number, condition) for number, condition in enumerate(several))
            if membership is not None:
                yield Place(path, "membership", 0, bundled(membership))
        case Group(keys=keys, aggregates=aggregates):
            yield from (Place(path, "key", number, key.expression) for number, key in enumerate(keys))
            for number, aggregate in enumerate(aggregates):
                yield Place(path, "aggregate", number, bundled(aggregate.expressions))
        case Project():
            yield from _items(path, node)
        case _:
            assert_never(node)


def _items(path: Path, node: Project) -> list[Place]:
    return [Place(path, "item", number, item.expression) for number, item in enumerate(node.items)]
