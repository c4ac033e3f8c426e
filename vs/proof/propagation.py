"""What is proven of a region's rows, carried up to the view (rules V1 and V4).

    inner joins, selections, EXISTS, UNION, the left of EXCEPT, the preserved side of an outer join    keep a direction
    NOT EXISTS, NOT IN, the right of EXCEPT                                                            reverse it
    an aggregate, the side of an outer join that is padded with NULLs, its ON                          keep nothing

Only "equivalent" gets through an aggregate; one that counts rows also needs unchanged multiplicities: a join that may
repeat rows, or a replacement without keys on both sides, changes sums (V4). DISTINCT, set operations without ALL and
EXISTS do not depend on multiplicities.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dyda.model.algebra.nodes import ColumnRef, Derived, Distinct, Group, OuterJoin, Project, Scan, SetOperation, scans
from vs.proof.extent import EQUIVALENT, SUBSET, SUPERSET, UNKNOWN, combine
from vs.rewrite.tree import Consequences
from vs.search.covers import REVERSED
from vs.view.regions import Path, Place

__all__ = ["Moved", "carried"]

REPEATABLE = frozenset({"min", "max", "bool_and", "bool_or"})
"""Aggregates that give the same however often a row is there."""


@dataclass(frozen=True)
class Moved:
    """How rows changed: as sets, and whether multiplicities changed only along with that."""

    extent: str = EQUIVALENT
    exact: bool = True


LOST = Moved(UNKNOWN, exact=False)
LARGER = Moved(SUPERSET)


def carried(found: Consequences, regions: Mapping[Path, Moved]) -> Moved:
    """How the view's rows changed, given how those of the regions that lost something did."""
    return _Carrying(found, regions).query(())


@dataclass(frozen=True)
class _Carrying:
    found: Consequences
    regions: Mapping[Path, Moved]

    def query(self, path: Path) -> Moved:
        node = self.found.anatomy.nodes[path]
        match node:
            case Project():
                return self.region((*path, 0))
            case Distinct():
                return Moved(self.query((*path, 0)).extent, exact=not self._narrower(path))
            case SetOperation(kind, all_):
                left, right = (*path, 0), (*path, 1)
                if left in self.found.cut or right in self.found.cut:
                    kept = right if left in self.found.cut else left
                    return joined([self.query(kept), Moved(SUBSET if kind == "union" else SUPERSET)])
                narrower = self._narrower(path)
                return set_operation(kind, self.query(left), self.query(right), all_=all_, narrower=narrower)
            case _:
                raise AssertionError(f"{type(node).__name__} is not a query")

    def region(self, path: Path) -> Moved:
        anatomy, gone = self.found.anatomy, self.found.gone
        region = next(region for region in anatomy.regions if region.path == path)
        known = self.found.by_region.get(path)
        moves = [self.regions.get(path, Moved())]
        for condition in region.conditions:
            if condition in gone and (known is None or condition not in known.dropped):
                moves.append(LARGER)
        moves += [self.leaf(leaf) for leaf, _ in region.leaves]
        for path, node in region.filters:
            if (*path, 1) in self.found.cut:
                moves.append(LARGER)
                continue
            lost = [LARGER for one in anatomy.places if one.path == path and one in gone]
            moves.append(matched([self.region((*path, 1)), *lost], anti=node.anti))
        return joined(moves)

    def leaf(self, path: Path) -> Moved:
        if path in self.found.cut:
            return Moved(SUPERSET, exact=False)  # how many rows of it met each of the others is not known
        node = self.found.anatomy.nodes[path]
        match node:
            case Scan():
                return Moved()
            case Derived():
                return self.query((*path, 0))
            case OuterJoin(kind=kind):
                for number in (0, 1):
                    if (*path, number) in self.found.cut:
                        kept = self.region((*path, 1 - number))
                        return Moved(kept.extent, exact=False)
                left, right = self.region((*path, 0)), self.region((*path, 1))
                lost = any(place.path == path for place in self.found.gone)
                return outer_joined(left, right, kind, conditions_lost=lost)
            case Group(aggregates=aggregates):
                at = [place for place in self.found.gone if place.path == path]
                without = {place.number for place in at if place.kind == "aggregate"}
                counting = [(a.function, a.distinct) for number, a in enumerate(aggregates) if number not in without]
                coarser = any(place.kind == "key" and not self._determined(node, place) for place in at)
                return aggregated(self.region((*path, 0)), counting, coarser=coarser)
            case _:
                raise AssertionError(f"{type(node).__name__} is not a leaf")

    def _narrower(self, query: Path) -> bool:
        """Whether the query has lost a column."""
        branches = {path for path, _ in self.found.anatomy.branches(query)}
        return any(place.kind == "item" and place.path in branches for place in self.found.gone)

    def _determined(self, group: Group, lost: Place) -> bool:
        """Whether the keys that stay tell the groups apart as before: one of them is a key of the same relation."""
        aliases = lost.expression.aliases
        gone = {place.number for place in self.found.gone if place.kind == "key" and place.path == lost.path}
        stay = {key.expression.column for number, key in enumerate(group.keys) if number not in gone}
        for scan in scans(group.input):
            if aliases == {scan.alias}:
                for key in scan.relation.keys:
                    strict = all(scan.relation.column(column).not_null for column in key)
                    if strict and {ColumnRef(scan.alias, column) for column in key} <= stay:
                        return True
        return False


def joined(moves: Iterable[Moved]) -> Moved:
    """Inner joins, selections, UNION ALL: all of it together."""
    found = list(moves)
    return Moved(combine(move.extent for move in found), all(move.exact for move in found))


def matched(moves: Iterable[Moved], *, anti: bool) -> Moved:
    """EXISTS and NOT EXISTS: how the rows that match changed. How often something matches does not matter."""
    extent = combine(move.extent for move in moves)
    return Moved(REVERSED.get(extent, extent) if anti else extent)  # fewer there is more here


def outer_joined(left: Moved, right: Moved, kind: str, *, conditions_lost: bool) -> Moved:
    """A new row of the padded side removes a row padded with NULLs, and a lost one adds it."""
    padded = {"left": [right], "right": [left], "full": [left, right]}[kind]
    if conditions_lost or any(move.extent != EQUIVALENT for move in padded):
        return LOST
    return joined([left, right])


def set_operation(kind: str, left: Moved, right: Moved, *, all_: bool, narrower: bool) -> Moved:
    """`narrower`: a column is gone on both sides, so that rows that differed may be one now: A − B loses those that now
    meet a row of B, and A ∩ B gains them."""
    if kind == "union":
        both = joined([left, right])
        return both if all_ else Moved(both.extent, exact=not narrower)
    if kind == "except":
        if all_ and not (left.exact and right.exact):
            return LOST  # a row is there if it is oftener on the left
        steps = [left.extent, REVERSED.get(right.extent, right.extent), *([SUBSET] if narrower else [])]
    else:
        steps = [left.extent, right.extent, *([SUPERSET] if narrower else [])]
    exact = not narrower and (not all_ or (left.exact and right.exact))
    return Moved(combine(steps), exact)


def aggregated(move: Moved, counting: Iterable[tuple[str, bool]], *, coarser: bool) -> Moved:
    """GROUP BY. `counting`: function and DISTINCT of each aggregate that stays; `coarser`: groups fell together."""
    functions = list(counting)
    if not functions:
        return Moved(move.extent, exact=not coarser)
    minds_repeats = any(not distinct and function not in REPEATABLE for function, distinct in functions)
    if move.extent != EQUIVALENT or coarser or (minds_repeats and not move.exact):
        return LOST
    return Moved()
