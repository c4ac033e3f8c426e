"""Choosing among legal rewritings: quality first, then cost. The order is total, and the same every time.

interface   fewest columns lost, then fewest that come from elsewhere
extent      equivalent, then superset or subset, then unknown; then fewest conditions and parts lost
cost        fewest maintenance queries per update, then fewest sources, then fewest expected rows
text        where all else is equal
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from dyda.model.relation import RelationName
from vs.proof.extent import multiplied
from vs.proof.propagation import Moved
from vs.rewrite.assembly import Assembly
from vs.rewrite.tree import Consequences, Solution
from vs.schema_mapping import Passage
from vs.search.draft import Draft
from vs.search.obstacles import short
from vs.view.descriptions import inside, said

__all__ = ["Candidate", "changes", "ranked", "reason"]

EXTENTS = {"equivalent": 0, "superset": 1, "subset": 1, "unknown": 2}


@dataclass(frozen=True)
class Candidate:
    """A choice for every region that lost something, what follows from it, and how the view's rows move."""

    found: Consequences
    assembly: Assembly
    moved: Moved

    @property
    def sql(self) -> str:
        return self.assembly.sql

    @property
    def cost(self) -> int:
        """Maintenance queries for one update: every other occurrence is asked once."""
        return len(self.assembly.relations) - 1

    @cached_property
    def lost(self) -> tuple[str, ...]:
        """The view's columns that are not there any more."""
        anatomy = self.found.anatomy
        at_the_top = [p for p in self.found.gone if p.kind == "item" and anatomy.delivers(p) is None]
        gone = {place.number for place in at_the_top}
        return tuple(name for number, name in enumerate(anatomy.definition.names) if number in gone)

    @cached_property
    def substituted(self) -> dict[str, tuple[RelationName, ...]]:
        """The view's columns that depend on something that comes from elsewhere."""
        found: dict[str, dict[RelationName, None]] = {}
        for solution in self.found.solutions:
            for component, relations in solution.draft.replaced:
                if component.place is None or component.place in self.found.gone:
                    continue
                for name in self.found.anatomy.shown(component.place):
                    if name not in self.lost:
                        found.setdefault(name, {}).update(dict.fromkeys(relations))
        return {name: tuple(relations) for name, relations in found.items()}


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first; what comes out the same is kept once."""
    best: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=_key):
        best.setdefault(candidate.sql, candidate)
    return list(best.values())


def _key(candidate: Candidate) -> tuple[int | str, ...]:
    relations = candidate.assembly.relations
    conditions = sum(place.filters or place.kind == "key" for place in candidate.found.gone)
    return (
        len(candidate.lost),
        len(candidate.substituted),
        EXTENTS[candidate.moved.extent],
        conditions + len(candidate.found.cut),
        candidate.cost,
        len({relation.name.source for relation in relations}),
        sum(relation.estimated_rows for relation in relations),
        candidate.sql,
    )


def reason(candidate: Candidate) -> str:
    """Why this one, in words: what it keeps and loses, its extent, what it costs more."""
    words = [f"keeps {name} (through {', '.join(map(short, by))})" for name, by in candidate.substituted.items()]
    words += [f"loses {name}" for name in candidate.lost]
    words += [f"appends {name}" for name in candidate.assembly.appended]
    if not words:
        words.append("keeps every column")
    words.append(f"extent {candidate.moved.extent}")
    before = sum(1 for node in candidate.found.anatomy.nodes.values() if not node.inputs)
    if more := candidate.cost - (before - 1):
        count = "one" if abs(more) == 1 else str(abs(more))
        noun = "relation" if abs(more) == 1 else "relations"
        words.append(f"{count} {'more' if more > 0 else 'fewer'} {noun} to query")
    return ", ".join(words)


def changes(candidate: Candidate, passage: Passage) -> tuple[str, ...]:
    """What became of each component, in words."""
    found, words = candidate.found, list[str]()
    for solution in found.solutions:
        words += _replacements(solution.draft)
    words += [f"{inside(found.anatomy, (*path, 0))} was dropped" for path in sorted(found.cut)]
    gone = sorted(found.gone, key=lambda place: (place.path, place.kind, place.number))
    words += [f"{said(found.anatomy, place)} was dropped" for place in gone]
    for solution in found.solutions:
        words += _joins_added(solution, passage)
    words += [f"column {name} was appended" for name in candidate.assembly.appended]
    return tuple(dict.fromkeys(words))


def _replacements(draft: Draft) -> list[str]:
    """What took the place of what."""
    words = []
    for departure in draft.departures:
        if departure.cover is None:
            words.append(f"{departure.relation} {departure.alias} was removed")
        else:
            words.append(
                f"{departure.cover.relation} {departure.stand_in} replaces {departure.relation} {departure.alias}"
            )
    words += [f"{component} comes from {', '.join(map(str, relations))}" for component, relations in draft.replaced]
    absorbed = [component for departure in draft.departures for component in departure.absorbed]
    words += [f"{component} is the containment's own selection" for component in absorbed]
    return words


def _joins_added(solution: Solution, passage: Passage) -> list[str]:
    """How what is new is joined, and whether rows may repeat because of it."""
    draft = solution.draft
    on = [" AND ".join(solution.over(one).sql for one in hop.conditions) for hop in draft.hops if hop.conditions]
    words = [f"joined on {conditions}" for conditions in on]
    words += [f"rows may repeat: no key limits {name} to one match" for name in multiplied(draft, passage)]
    return words
