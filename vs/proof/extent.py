"""What a rewriting does to the extent, as far as the constraints prove it.

Compared are the distinct rows over the columns that old and new have in common. Inner joins and selections are
monotone, so each step of a derivation moves the extent in one direction, and steps combine:

    dropping a condition, or a relation with all that uses it      superset
    adding a join                                                  subset, and equivalent if every row finds a match
    a relation's place taken under a containment                   as the containment says
    opposite directions, and whatever is not proven                unknown
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.knowledge.constraints import FunctionConstraint, Knowledge
from dyda.model.relation import RelationName
from vs.proof.implication import follows, not_null
from vs.schema_mapping import Passage
from vs.search.covers import REVERSED, Oriented, oriented, placed
from vs.search.draft import Departure, Draft, Provision
from vs.search.join_paths import Hop
from vs.view.block import Component

__all__ = ["combine", "keeps_multiplicities", "multiplied", "prove", "satisfies"]

EQUIVALENT, SUPERSET, SUBSET, UNKNOWN = "equivalent", "superset", "subset", "unknown"


def satisfies(extent: str, asked: str) -> bool:
    """Whether what is proven is what the view asks for; nothing proven satisfies only `any`."""
    return asked == "any" or extent in (EQUIVALENT, asked)


def combine(steps: Iterable[str]) -> str:
    """The direction of several steps together."""
    moving = {step for step in steps if step != EQUIVALENT}
    if not moving:
        return EQUIVALENT
    return moving.pop() if len(moving) == 1 else UNKNOWN


def prove(draft: Draft, passage: Passage, knowledge: Knowledge) -> str:
    """How the new rows relate to the old ones, by what the constraints promise."""
    return combine(_Proof(draft, passage, knowledge).steps())


def multiplied(draft: Draft, passage: Passage) -> list[RelationName]:
    """The new relations of which no key says that there is one row at the most: a row of the view may repeat."""
    names = {occurrence.alias: occurrence.relation for occurrence in draft.occurrences}
    found: dict[RelationName, None] = {}

    def unless_key(name: RelationName, columns: Iterable[str]) -> None:
        if not any(key <= frozenset(columns) for key in passage.keys(name)):
            found[name] = None

    for departure in draft.departures:
        if departure.cover is not None:
            unless_key(departure.cover.relation, [other for _, other in departure.cover.columns])
    for hop in draft.hops:
        if hop.fresh:
            unless_key(names[hop.end], [other for _, other in _equated(hop, names[hop.start]) or ()])
    return list(found)


def keeps_multiplicities(draft: Draft, passage: Passage) -> bool:
    """Whether multiplicities change only as the extent says: new joins find at most one row, and where a relation
    replaces another, the containment's columns include keys of both (V4)."""
    for departure in draft.departures:
        if departure.cover is None:
            return False  # how many rows of it met each of the others is not known
        promise, old = departure.cover.promise, passage.relations[departure.relation]
        sides = [
            (promise.own, old.keys),
            (promise.other, [tuple(key) for key in passage.keys(departure.cover.relation)]),
        ]
        for projection, keys in sides:
            here = [key for key in keys if set(key) <= set(projection.columns)]
            # Rows whose key is NULL may repeat in spite of it.
            if not any(all(passage.not_null(projection.relation, column) for column in key) for key in here):
                return False
    return not multiplied(draft, passage)


@dataclass(frozen=True)
class _Proof:
    draft: Draft
    passage: Passage
    knowledge: Knowledge

    @cached_property
    def dropped(self) -> list[Component]:
        return [c for c in self.draft.dropped if c.kind == "condition" and not self._selected(c)]

    @cached_property
    def kept(self) -> list[Expression]:
        """Conditions of the old view that the new one keeps, or that a containment's selection replaces."""
        return [component.expression for component in self.draft.block.conditions if component not in self.dropped]

    def _selected(self, component: Component) -> bool:
        """Whether a dropped condition is one that a containment in use selects by: its new side implies it."""
        for departure in self.draft.departures:
            if departure.cover is not None and component.expression.aliases == {departure.alias}:
                own = [placed(condition, departure.alias) for condition in departure.cover.promise.own.where]
                if follows(component.expression, own):
                    return True
        return False

    def steps(self) -> Iterable[str]:
        for _ in self.dropped:
            yield SUPERSET
        for departure in self.draft.departures:
            yield self.departure(departure)
        for provision in self.draft.provisions:
            if provision.hops:
                yield self.provision(provision)
        for hop in self.draft.bridges:
            yield self.hop(hop)

    def departure(self, departure: Departure) -> str:
        provisions = [provision for provision in self.draft.provisions if provision.of == departure.alias]
        if departure.cover is None:
            # Each old row is a row of the rest: it has its columns from there, for rows that met.
            return SUPERSET if all(self._promised(provision) for provision in provisions) else UNKNOWN
        if provisions:
            return UNKNOWN  # V2: one containment must cover all columns, jointly
        promise = departure.cover.promise
        # If R is a subset of S, then with S in R's place the view can only grow.
        return REVERSED[promise.is_] if self._lies_inside(promise, departure.alias) else UNKNOWN

    def _promised(self, provision: Provision) -> bool:
        return provision.met and all(isinstance(cover.promise, FunctionConstraint) for _, cover in provision.covers)

    def _lies_inside(self, promise: Oriented, alias: str) -> bool:
        """Whether the view uses only rows that the containment's selection on this side lets through (V2)."""
        return all(follows(placed(condition, alias), self.kept) for condition in promise.own.where)

    def provision(self, provision: Provision) -> str:
        """Joining a relation that offers a column of another, which stays."""
        if len(provision.hops) > 1:
            return UNKNOWN  # a promise is about rows that meet directly
        (hop,) = provision.hops
        return combine(
            self.hop(hop)
            if isinstance(cover.promise, FunctionConstraint)
            else self._by_containment(hop, cover.promise, provision)
            for _, cover in provision.covers
        )

    def _by_containment(self, hop: Hop, promise: Oriented, provision: Provision) -> str:
        """The row that is found has the covered column's value if a key says that there is only one."""
        own_name, other_name = self._names(hop)
        columns = _equated(hop, own_name)
        if columns is None or any(promise.pairs.get(own) != other for own, other in columns):
            return UNKNOWN
        covered = {ref.column for ref, cover in provision.covers if cover.promise == promise}
        if len(covered) < len(provision.covers) or not self._lies_inside(promise, hop.start):
            return UNKNOWN
        joined = frozenset(own for own, _ in columns)
        found = frozenset(other for _, other in columns)
        own_key = any(key <= joined for key in self.passage.keys(own_name))
        other_key = any(key <= found for key in self.passage.keys(other_name))
        contained, containing = promise.is_ != "superset", promise.is_ != "subset" and not promise.other.where
        every_row_found = contained and self._not_null(hop, joined)
        only_its_value = (contained and other_key) or (containing and own_key)
        if not hop.fresh:
            # The view reads the other row already: it must be the right one, not just one among those that match.
            return EQUIVALENT if only_its_value else UNKNOWN
        return combine(([] if every_row_found else [SUBSET]) + ([] if only_its_value else [SUPERSET]))

    def hop(self, hop: Hop) -> str:
        """One more join: it can only lose rows, and loses none if every row finds a match."""
        if not hop.fresh and not hop.conditions:
            return EQUIVALENT
        return EQUIVALENT if hop.fresh and self._is_total(hop) else SUBSET

    def _is_total(self, hop: Hop) -> bool:
        """Whether a containment says that every row of the one side finds one of the other, by keys not NULL (V3)."""
        own_name, other_name = self._names(hop)
        columns = _equated(hop, own_name)
        if columns is None:
            return False
        for promise in oriented(self.knowledge, own_name):
            if promise.other.relation != other_name or promise.is_ == "superset":
                continue
            covered = all(promise.pairs.get(own) == other for own, other in columns)
            own_columns = frozenset(own for own, _ in columns)
            if covered and self._lies_inside(promise, hop.start) and self._not_null(hop, own_columns):
                return True
        return False

    def _names(self, hop: Hop) -> tuple[RelationName, RelationName]:
        names = {occurrence.alias: occurrence.relation for occurrence in self.draft.occurrences}
        return names[hop.start], names[hop.end]

    def _not_null(self, hop: Hop, columns: frozenset[str]) -> bool:
        own_name, _ = self._names(hop)
        return all(
            self.passage.not_null(own_name, column) or not_null(ColumnRef(hop.start, column), self.kept)
            for column in columns
        )


def _equated(hop: Hop, start: RelationName) -> Sequence[tuple[str, str]] | None:
    """The pairs of columns that the join equates, the start's first; None if it asks for anything else."""
    pairs = []
    for condition in hop.join.on:
        if condition.equality is None:
            return None
        one, other = condition.equality
        own, found = (one, other) if one.alias == str(start) else (other, one)
        pairs.append((own.column, found.column))
    return pairs
