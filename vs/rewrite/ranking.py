"""Choosing among legal rewritings: quality first, then cost. The order is total, and the same every time.

interface   fewest columns lost, then fewest that come from elsewhere
extent      equivalent, then superset or subset, then unknown; then fewest conditions lost
cost        fewest maintenance queries per update, then fewest sources, then fewest expected rows
text        where all else is equal
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vs.proof.extent import multiplied
from vs.rewrite.assembly import Assembly
from vs.schema_mapping import Passage
from vs.search.draft import Draft
from vs.search.obstacles import short

__all__ = ["EXTENTS", "Candidate", "changes", "costs", "draft_changes", "joins_added", "ranked", "reason"]

EXTENTS = {"equivalent": 0, "superset": 1, "subset": 1, "unknown": 2}


@dataclass(frozen=True)
class Candidate:
    """A rewriting written down, with what is proven about its extent."""

    draft: Draft
    assembly: Assembly
    extent: str

    @property
    def sql(self) -> str:
        return self.assembly.sql


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first; what comes out the same is kept once."""
    best: dict[str, Candidate] = {}
    for candidate in sorted(candidates, key=_key):
        best.setdefault(candidate.sql, candidate)
    return list(best.values())


def _key(candidate: Candidate) -> tuple[int | str, ...]:
    draft, relations = candidate.draft, candidate.assembly.relations
    return (
        len(draft.lost),
        len(draft.substituted),
        EXTENTS[candidate.extent],
        sum(component.kind == "condition" for component in draft.dropped),
        draft.cost,
        len({relation.name.source for relation in relations}),
        sum(relation.estimated_rows for relation in relations),
        candidate.sql,
    )


def reason(candidate: Candidate) -> str:
    """Why this one, in words: what it keeps and loses, its extent, what it costs more."""
    draft = candidate.draft
    words = []
    for component, relations in draft.replaced:
        if component.kind == "item":
            words.append(f"keeps {component.name} (through {', '.join(map(short, relations))})")
    words += [f"loses {name}" for name in draft.lost]
    words += [f"appends {name}" for name in candidate.assembly.appended]
    if not draft.lost and not draft.substituted and not candidate.assembly.appended:
        words.append("keeps every column")
    words.append(f"extent {candidate.extent}")
    return ", ".join(words + costs(draft.cost - (len(draft.block.occurrences) - 1)))


def costs(more: int) -> list[str]:
    """What is asked more, or less, in words; nothing if it is the same."""
    return [f"{_number(abs(more))} {'more' if more > 0 else 'less'} to ask"] if more else []


def _number(count: int) -> str:
    return "one relation" if count == 1 else f"{count} relations"


def changes(candidate: Candidate, passage: Passage) -> tuple[str, ...]:
    """What became of each component, in words."""
    draft = candidate.draft
    words = draft_changes(draft)
    words += [f"{component} was dropped" for component in draft.dropped]
    words += joins_added(draft, passage)
    words += [f"column {name} was appended" for name in candidate.assembly.appended]
    return tuple(dict.fromkeys(words))


def draft_changes(draft: Draft) -> list[str]:
    """What took the place of what."""
    words = []
    for departure in draft.departures:
        if departure.cover is None:
            words.append(f"{departure.relation} {departure.alias} left the view")
        else:
            words.append(
                f"{departure.cover.relation} {departure.stand_in} took the place of"
                f" {departure.relation} {departure.alias}"
            )
    for component, relations in draft.replaced:
        words.append(f"{component} comes from {', '.join(map(str, relations))}")
    absorbed = [component for departure in draft.departures for component in departure.absorbed]
    words += [f"{component} is what the containment selects by" for component in absorbed]
    return words


def joins_added(draft: Draft, passage: Passage) -> list[str]:
    """How what is new is joined, and whether rows may repeat because of it."""
    words = []
    hops = [hop for provision in draft.provisions for hop in provision.hops] + list(draft.bridges)
    for hop in hops:
        if hop.conditions:
            on = " AND ".join(condition.sql for condition in hop.conditions)
            words.append(f"joined on {on}")
    words += [f"rows may repeat: no key says that {name} has only one match" for name in multiplied(draft, passage)]
    return words
