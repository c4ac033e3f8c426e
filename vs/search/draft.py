"""A rewriting before it is a tree, in the names known before: what it consists of, and how it came about. Its extent is
proven and its reason is given from the latter."""

from __future__ import annotations

from dataclasses import dataclass

from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.preferences import Preference
from dyda.model.relation import RelationName
from vs.search.covers import AttributeCover, RelationCover
from vs.search.join_paths import Hop
from vs.view.block import Block, Component

__all__ = ["Departure", "Draft", "DraftCondition", "DraftOccurrence", "Provision"]


@dataclass(frozen=True)
class Provision:
    """Columns of the occurrence `of` that the occurrence `by` provides. `hops`: how the two are joined, if `of` stays;
    `met`: the old view itself joined them as the knowledge says."""

    of: str
    by: str
    relation: RelationName
    covers: tuple[tuple[ColumnRef, AttributeCover], ...]
    hops: tuple[Hop, ...] = ()
    met: bool = False


@dataclass(frozen=True)
class Departure:
    """An occurrence that leaves the view, and the one that takes its place, if any does."""

    alias: str
    relation: RelationName
    stand_in: str | None = None
    cover: RelationCover | None = None
    absorbed: tuple[Component, ...] = ()
    """Conditions that the containment's own selections imply."""


@dataclass(frozen=True)
class DraftOccurrence:
    alias: str
    relation: RelationName
    preference: Preference | None


@dataclass(frozen=True)
class DraftCondition:
    expression: Expression
    preference: Preference | None


@dataclass(frozen=True)
class Draft:
    """`replaced`: components that read other occurrences now, with those; `bridges`: joins that reconnect the rest."""

    block: Block
    occurrences: tuple[DraftOccurrence, ...]
    conditions: tuple[DraftCondition, ...]
    dropped: tuple[Component, ...] = ()
    replaced: tuple[tuple[Component, tuple[RelationName, ...]], ...] = ()
    departures: tuple[Departure, ...] = ()
    provisions: tuple[Provision, ...] = ()
    bridges: tuple[Hop, ...] = ()
    substitution: tuple[tuple[ColumnRef, Expression], ...] = ()
    """What each lost column is read as."""

    @property
    def is_different(self) -> bool:
        return bool(self.dropped or self.replaced or self.departures or self.bridges)

    @property
    def hops(self) -> list[Hop]:
        """All joins that are new, or that the view made already."""
        return [*(hop for provision in self.provisions for hop in provision.hops), *self.bridges]

    @property
    def cost(self) -> int:
        """Maintenance queries for one update: every other occurrence is asked once."""
        return len(self.occurrences) - 1
