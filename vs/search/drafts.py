"""Candidates: for each combination of covers, the ways to join them with what is left of the view (CVS).

decision ─▶ provisions: every cover is joined with the occurrence whose column it offers
         ─▶ substitution in items and conditions, the containment's selection on the new side
         ─▶ bridges: what the old view joined is joined again, through the fewest relations first
         ─▶ draft

Cross products are never made: occurrences that the old view connected stay connected, by conditions of the view or by
join constraints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.preferences import Preference
from dyda.model.relation import RelationName
from vs.proof.implication import same
from vs.schema_mapping import Passage
from vs.search.choices import Decision, decisions
from vs.search.covers import AttributeCover, placed
from vs.search.draft import Departure, Draft, DraftCondition, DraftOccurrence, Provision
from vs.search.join_paths import Hop, Joined, JoinGraph, instantiated
from vs.search.obstacles import Obstacles
from vs.search.substitution import with_instead
from vs.view.block import Block, Component, connected, lost

__all__ = ["drafts"]

DRAFTS = 500
"""Candidates looked at. The most natural ones come first."""

DECISIONS = 2000
"""Combinations looked at for them, also those that come to nothing."""

PATHS = 4
"""Ways to join two relations that are tried, shortest first."""

WAYS = 64
"""Ways to join all covers of one decision."""

Covers = Sequence[tuple[ColumnRef, AttributeCover]]

BRIDGE = Preference(dispensable=False, replaceable=True)


def drafts(block: Block, passage: Passage, knowledge: Knowledge, joins: JoinGraph, obstacles: Obstacles) -> list[Draft]:
    """The candidates, in the names known before. `knowledge` as it was, `joins` as they are now."""
    search = _Search(block, passage, knowledge, joins, obstacles)
    combinations = islice(decisions(block, passage, knowledge, obstacles), DECISIONS)
    found = (draft for decision in combinations for draft in search.of(decision))
    return list(islice(found, DRAFTS))


@dataclass(frozen=True)
class _Candidate:
    """A decision on its way to a draft. `stand_ins`: the alias that takes each leaving occurrence's place."""

    decision: Decision
    joined: Joined
    stand_ins: dict[str, str] = field(default_factory=dict)
    provisions: tuple[Provision, ...] = ()
    bridges: tuple[Hop, ...] = ()

    def provided(
        self, joined: Joined, of: str, by: str, covers: Covers, hops: tuple[Hop, ...] = (), *, met: bool
    ) -> _Candidate:
        """With one more provision: the occurrence `by` provides columns of `of`."""
        provision = Provision(of, by, dict(joined.occurrences)[by], tuple(covers), hops, met)
        return replace(self, joined=joined, provisions=(*self.provisions, provision))

    @cached_property
    def substitution(self) -> dict[ColumnRef, Expression]:
        """What each lost column is read as."""
        found: dict[ColumnRef, Expression] = {}
        for ref in self.decision.lost:
            cover = self.decision.places[ref.alias].cover
            column = cover.column(ref.column) if cover is not None else None
            if column is not None:
                found[ref] = Expression.of(ColumnRef(self.stand_ins[ref.alias], column))
        for provision in self.provisions:
            for ref, offered in provision.covers:
                found[ref] = placed(offered.expression, provision.by)
        return found

    def sources(self, component: Component) -> tuple[RelationName, ...]:
        """The relations that a substituted component's lost columns come from now."""
        names = dict(self.joined.occurrences)
        refs = [ref for ref in component.references if ref in self.decision.lost]
        aliases = dict.fromkeys(alias for ref in refs for alias in sorted(self.substitution[ref].aliases))
        return tuple(dict.fromkeys(names[alias] for alias in aliases))

    @cached_property
    def serving(self) -> dict[str, Preference]:
        """Preferences of joins with a cover, by alias and by condition: they may go if all they serve may."""
        found: dict[str, Preference] = {}
        for provision in self.provisions:
            refs = {ref for ref, _ in provision.covers}
            served = [component for component in self.decision.substituted if component.expression.columns & refs]
            dispensable = all(component.preference.dispensable for component in served)
            for hop in provision.hops:
                for key in (hop.end, *(condition.sql for condition in hop.conditions)):
                    before = found.get(key, Preference(dispensable=True, replaceable=True))
                    found[key] = Preference(dispensable and before.dispensable, replaceable=True)
        return found


@dataclass(frozen=True)
class _Search:
    block: Block
    passage: Passage
    knowledge: Knowledge
    joins: JoinGraph
    obstacles: Obstacles

    def of(self, decision: Decision) -> Iterator[Draft]:
        untouched = [c.expression for c in self.block.conditions if not c.expression.columns & decision.lost]
        staying = tuple(
            (a, n) for a, n in self.block.occurrences if a not in decision.places or not decision.places[a].leaves
        )
        taken = frozenset(alias for alias, _ in self.block.occurrences) | self.block.taken
        joined, stand_ins = Joined(staying, tuple(untouched), taken), {}
        for alias, place in decision.places.items():
            if place.cover is not None:
                joined, stand_ins[alias] = joined.with_occurrence(place.cover.relation)
        for provided in self._with_provisions(_Candidate(decision, joined, stand_ins)):
            for bridged in self._bridged(self._with_conditions(provided)):
                yield self._draft(bridged)

    def _with_provisions(self, candidate: _Candidate) -> list[_Candidate]:
        """Every cover joined with what it covers, in every way; covers over one relation share its occurrence."""
        groups: dict[tuple[str, RelationName], list[tuple[ColumnRef, AttributeCover]]] = {}
        for ref, cover in candidate.decision.covers:
            groups.setdefault((ref.alias, cover.relation), []).append((ref, cover))
        candidates = [candidate]
        for (alias, relation), covers in groups.items():
            join = self._for_leaving if candidate.decision.places[alias].leaves else self._for_staying
            ways = (provided for before in candidates for provided in join(before, alias, relation, covers))
            candidates = list(islice(ways, WAYS))
        return candidates

    def _for_leaving(
        self, candidate: _Candidate, alias: str, relation: RelationName, covers: Covers
    ) -> Iterator[_Candidate]:
        """Its stand-in, an occurrence that the old view joined it with, or a new one that bridges will connect."""
        joined, by = candidate.joined, candidate.stand_ins.get(alias)
        met = None
        if by is None or dict(joined.occurrences)[by] != relation:
            by = met = self._met(joined, alias, relation)
        if by is None:
            joined, by = joined.with_occurrence(relation)
        yield candidate.provided(joined, alias, by, covers, met=met is not None)

    def _met(self, joined: Joined, alias: str, relation: RelationName) -> str | None:
        """An occurrence that stays and that the old view joined with `alias` as a join constraint said."""
        own = self.block.relation(alias)
        old = Joined(self.block.occurrences, tuple(c.expression for c in self.block.conditions), frozenset())
        for join in self.knowledge.joins:
            if join.relations != {own, relation}:
                continue
            for other, name in joined.occurrences:
                known = other in dict(self.block.occurrences)
                if name == relation and known and old.has(instantiated(join, alias, relation, other)):
                    return other
        return None

    def _for_staying(
        self, candidate: _Candidate, alias: str, relation: RelationName, covers: Covers
    ) -> Iterator[_Candidate]:
        paths = self.joins.paths(self.block.relation(alias), relation, PATHS)
        if not paths:
            self.obstacles.no_path(self.block, covers[0][0], relation)
        for path in paths:
            joined, hops = candidate.joined.walk(alias, path)
            met = not any(hop.fresh or hop.conditions for hop in hops)
            yield candidate.provided(joined, alias, hops[-1].end, covers, hops, met=met)

    def _with_conditions(self, candidate: _Candidate) -> _Candidate:
        """With the substituted conditions, and the selections of the containments used."""
        conditions = [
            with_instead(component.expression, candidate.substitution)
            for component in candidate.decision.substituted
            if component.kind == "condition"
        ]
        for alias, by in candidate.stand_ins.items():
            cover = candidate.decision.places[alias].cover
            assert cover is not None
            conditions += [placed(condition, by) for condition in cover.promise.other.where]
        return replace(candidate, joined=candidate.joined.with_conditions(conditions))

    def _bridged(self, candidate: _Candidate) -> Iterator[_Candidate]:
        """What the old view connected, connected again."""
        old = connected([alias for alias, _ in self.block.occurrences], [c.expression for c in self.block.conditions])
        joined = candidate.joined
        pieces = connected([alias for alias, _ in joined.occurrences], joined.conditions)
        for component in old:
            members = set(component) & {alias for alias, _ in joined.occurrences}
            members |= {by for alias, by in candidate.stand_ins.items() if alias in component}
            members |= {provision.by for provision in candidate.provisions if provision.of in component}
            parts = [piece for piece in pieces if piece & members]
            if len(parts) > 1:
                yield from self._bridge(candidate, parts)
                return
        yield candidate

    def _bridge(self, candidate: _Candidate, parts: Sequence[frozenset[str]]) -> Iterator[_Candidate]:
        """The first part joined with any of the others, through the fewest relations first; then what is left."""
        joined = candidate.joined
        aliases = [alias for alias, _ in joined.occurrences]
        names = dict(joined.occurrences)
        others = frozenset().union(*parts[1:])
        ways = [
            (len(path), aliases.index(start), aliases.index(end), number, path)
            for start in parts[0]
            for end in others
            for number, path in enumerate(self.joins.paths(names[start], names[end], PATHS))
        ]
        if not ways:
            start, end = min(parts[0], key=aliases.index), min(others, key=aliases.index)
            because = "; ".join(lost(self.block, self.passage))
            self.obstacles.disconnected(names[start], names[end], because)
        for _, start_at, end_at, _, path in sorted(ways, key=lambda way: way[:4])[:PATHS]:
            wider, hops = joined.walk(aliases[start_at], path, aliases[end_at])
            yield from self._bridged(replace(candidate, joined=wider, bridges=(*candidate.bridges, *hops)))

    def _draft(self, candidate: _Candidate) -> Draft:
        block, decision = self.block, candidate.decision
        gone = set(decision.dropped) | {component for component, _ in decision.absorbed}
        kept = [c for c in block.conditions if c not in gone]
        own = [DraftCondition(with_instead(c.expression, candidate.substitution), c.written) for c in kept]
        added = [
            DraftCondition(condition, candidate.serving.get(condition.sql, BRIDGE))
            for condition in candidate.joined.conditions
            if not any(same(condition, kept.expression) for kept in own)
        ]
        departures = tuple(
            Departure(
                alias,
                block.relation(alias),
                candidate.stand_ins.get(alias),
                place.cover,
                tuple(component for component, absorber in decision.absorbed if absorber == alias),
            )
            for alias, place in decision.places.items()
            if place.leaves
        )
        return Draft(
            block,
            self._occurrences(candidate),
            (*own, *added),
            decision.dropped,
            tuple((component, candidate.sources(component)) for component in decision.substituted),
            departures,
            candidate.provisions,
            candidate.bridges,
            tuple(candidate.substitution.items()),
        )

    def _occurrences(self, candidate: _Candidate) -> tuple[DraftOccurrence, ...]:
        """Those that stay, the stand-ins in the places of those that leave, then the others."""
        names = dict(candidate.joined.occurrences)
        written = self.block.definition.preferences
        found: list[DraftOccurrence] = []
        for alias, _ in self.block.occurrences:
            present = alias if alias in names else candidate.stand_ins.get(alias)
            if present is not None:
                found.append(DraftOccurrence(present, names.pop(present), written.of_relation(alias)))
        for alias, name in names.items():
            leaving = next((p.of for p in candidate.provisions if p.by == alias and not p.hops), None)
            preference = written.of_relation(leaving) if leaving is not None else candidate.serving.get(alias, BRIDGE)
            found.append(DraftOccurrence(alias, name, preference))
        return tuple(found)
