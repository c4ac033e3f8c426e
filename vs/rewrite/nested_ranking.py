"""Choosing among the legal rewritings of a nested view: the order of vs/rewrite/ranking.py, over the whole tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from dyda.model.relation import RelationName
from vs.proof.propagation import Moved
from vs.rewrite.nested_assembly import NestedAssembly
from vs.rewrite.ranking import EXTENTS, costs, draft_changes, joins_added
from vs.rewrite.tree import Consequences
from vs.schema_mapping import Passage
from vs.search.obstacles import short
from vs.view.descriptions import inside, said

__all__ = ["NestedCandidate", "changes", "ranked", "reason"]


@dataclass(frozen=True)
class NestedCandidate:
    """A choice for every region that lost something, what follows from it, and how the view's rows move."""

    found: Consequences
    assembly: NestedAssembly
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


def ranked(candidates: Iterable[NestedCandidate]) -> list[NestedCandidate]:
    """Best first; what comes out the same is kept once."""
    best: dict[str, NestedCandidate] = {}
    for candidate in sorted(candidates, key=_key):
        best.setdefault(candidate.sql, candidate)
    return list(best.values())


def _key(candidate: NestedCandidate) -> tuple[int | str, ...]:
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


def reason(candidate: NestedCandidate) -> str:
    """Why this one, in words: what it keeps and loses, its extent, what it costs more."""
    words = [f"keeps {name} (through {', '.join(map(short, by))})" for name, by in candidate.substituted.items()]
    words += [f"loses {name}" for name in candidate.lost]
    words += [f"appends {name}" for name in candidate.assembly.appended]
    if not words:
        words.append("keeps every column")
    words.append(f"extent {candidate.moved.extent}")
    before = sum(1 for node in candidate.found.anatomy.nodes.values() if not node.inputs)
    return ", ".join(words + costs(candidate.cost - (before - 1)))


def changes(candidate: NestedCandidate, passage: Passage) -> tuple[str, ...]:
    """What became of each component, in words."""
    found, words = candidate.found, list[str]()
    for solution in found.solutions:
        words += draft_changes(solution.draft)
    for path in sorted(found.cut):
        words.append(f"{inside(found.anatomy, (*path, 0))} was dropped")
    gone = sorted(found.gone, key=lambda place: (place.path, place.kind, place.number))
    words += [f"{said(found.anatomy, place)} was dropped" for place in gone]
    for solution in found.solutions:
        words += joins_added(solution.draft, passage)
    words += [f"column {name} was appended" for name in candidate.assembly.appended]
    return tuple(dict.fromkeys(words))
