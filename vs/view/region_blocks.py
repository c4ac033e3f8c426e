"""The regions of a view as blocks, so that each is searched like a view of its own.

What the rest of the view reads of a region are its items; a leaf that is no relation is an occurrence that nothing can
happen to. Besides the drafts of the search, whole parts that the region is in may be cut off, where their author
allows it:

    EXISTS (…) /* dispensable */                    as a condition
    LEFT JOIN booking.flight f /* dispensable */    with the columns it shows; nothing happens to the other side's rows
    UNION SELECT … FROM x /* dispensable */         the branch; its columns are there in the other one
    (SELECT … FROM x /* dispensable */) d           with all that reads d
"""

from __future__ import annotations

from collections.abc import Iterator

from dyda.model.algebra.nodes import Derived, Expression, Group, Node, OuterJoin, Scan, SemiJoin, SetOperation
from dyda.model.preferences import Preference
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from vs.schema_mapping import Passage
from vs.view.block import Block, Component, connected
from vs.view.descriptions import mark, said
from vs.view.region_preferences import Standing, consistent
from vs.view.regions import Anatomy, Path, Place, Region

__all__ = ["cuts", "parts", "region_block"]

TEXT = PgType("text", "text")


class Part(RelationName):
    """Stands for a part of the view where a search expects a relation."""

    def __str__(self) -> str:
        return self.table


def parts(anatomy: Anatomy) -> dict[RelationName, Relation]:
    """A relation for every alias that is not a scan's."""
    found: dict[RelationName, Relation] = {}
    for region in anatomy.regions:
        for _, leaf in region.leaves:
            if not isinstance(leaf, Scan):
                for alias in _aliases(leaf):
                    names = [ref.column for ref in leaf.columns if ref.alias == alias]
                    columns = tuple(Column(name, TEXT, number) for number, name in enumerate(names, 1))
                    found[_part(alias)] = Relation(_part(alias), 0, columns)
    return found


def region_block(anatomy: Anatomy, standing: Standing, region: Region) -> Block:
    """The region's relations, what reads them, and its conditions."""
    occurrences: list[tuple[str, RelationName]] = []
    links: list[Component] = []
    for _, leaf in region.leaves:
        if isinstance(leaf, Scan):
            occurrences.append((leaf.alias, leaf.relation.name))
            continue
        aliases = _aliases(leaf)
        occurrences += [(alias, _part(alias)) for alias in aliases]
        if len(aliases) > 1:  # an outer join holds its own relations together
            links.append(Component("condition", "", _link(leaf, aliases), Preference(), None))

    def component(place: Place, kind: str) -> Component:
        preference, written = standing.of(place), standing.written(place)
        name = mark(anatomy, place)
        return Component(kind, name, place.expression, preference, written, said(anatomy, place), place)

    items = tuple(component(place, "item") for place in anatomy.readers(region))
    conditions = tuple(component(place, "condition") for place in region.conditions)
    relations = {}
    for scan in region.scans:
        using = [c.preference for c in (*items, *conditions) if scan.alias in c.expression.aliases]
        said_of_it = anatomy.definition.preferences.of_relation(scan.alias) or standing.default
        relations[scan.alias] = consistent(said_of_it, using)
    return Block(
        anatomy.definition,
        tuple(occurrences),
        items,
        (*conditions, *links),
        relations,
        taken=frozenset(n.alias for n in anatomy.nodes.values() if isinstance(n, Scan | Derived | Group)),
    )


def cuts(anatomy: Anatomy, standing: Standing, region: Region, passage: Passage) -> Iterator[Path]:
    """The parts of the view around a region that lost something, and itself, that may be cut off."""
    touched = [
        scan.alias
        for scan in region.scans
        if passage.after(scan.relation.name) is None
        or any(passage.column(scan.relation.name, r.column) is None for r in anatomy.users if r.alias == scan.alias)
    ]
    for length in range(len(region.path), 0, -1):
        path = region.path[:length]
        above, number = anatomy.nodes[path[:-1]], path[-1]
        dispensable = all(_may_go(anatomy, standing, alias) for alias in touched)
        match above:
            case SemiJoin() if number == 1:
                if standing.subquery(path[:-1]).dispensable:
                    yield path
            case OuterJoin(kind=kind) if kind == ("left", "right")[number == 0]:
                own = [place for place in anatomy.places if place.path == path[:-1]]
                if dispensable and _unread(anatomy, standing, path, own):
                    yield path
            case SetOperation(kind=kind) if kind != "except" or number == 1:
                inner = [p for p in anatomy.places if p.kind == "condition" and p.path[:length] == path]
                using = [p for p in inner if p.expression.aliases & set(touched)]
                if dispensable and all(standing.of(place).dispensable for place in using):
                    yield path
        node = anatomy.nodes[path]
        if isinstance(node, Derived) and (dispensable or _may_go(anatomy, standing, node.alias)):
            around = next((r for r in anatomy.regions if path in [leaf for leaf, _ in r.leaves]), None)
            if around is not None and _unread(anatomy, standing, path, []) and _stays_together(around, node.alias):
                yield path


def _may_go(anatomy: Anatomy, standing: Standing, alias: str) -> bool:
    return (anatomy.definition.preferences.of_relation(alias) or standing.default).dispensable


def _unread(anatomy: Anatomy, standing: Standing, path: Path, apart_from: list[Place]) -> bool:
    """Whether all that reads the part may go."""
    delivered = anatomy.nodes[path].columns
    readers = {reader for ref in delivered for reader in anatomy.users.get(ref, ())} - set(apart_from)
    return all(standing.of(reader).dispensable for reader in readers if reader.path[: len(path)] != path)


def _stays_together(region: Region, without: str) -> bool:
    """Whether the region is more than this leaf, and no cross product without it that it was not with it."""
    aliases = [alias for _, leaf in region.leaves for alias in _aliases(leaf)]
    conditions = [place.expression for place in region.conditions]
    conditions += [_link(leaf, _aliases(leaf)) for _, leaf in region.leaves if len(_aliases(leaf)) > 1]
    rest = [alias for alias in aliases if alias != without]
    kept = [condition for condition in conditions if without not in condition.aliases]
    return bool(rest) and len(connected(rest, kept)) <= len(connected(aliases, conditions))


def _aliases(leaf: Node) -> list[str]:
    return list(dict.fromkeys(ref.alias for ref in leaf.columns))


def _part(alias: str) -> Part:
    return Part("", "", alias)


def _link(leaf: Node, aliases: list[str]) -> Expression:
    refs = [next(ref for ref in leaf.columns if ref.alias == alias) for alias in aliases]
    return Expression(" ".join(map(str, refs)), frozenset(refs), parts=tuple(refs))
