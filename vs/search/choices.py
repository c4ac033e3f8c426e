"""What may be done about what is gone: every combination that the preferences and the knowledge allow.

occurrences   each one touched by the change stays, leaves, or is replaced by a relation that covers it
components    each one that loses a column is substituted, absorbed by a containment's selection, or dropped
columns       each one that must come from elsewhere has one of its covers

Fewest drops come first. The number of combinations is bounded, however large the knowledge; their order is that of the
view and of the knowledge, so the answer is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, islice, product

from dyda.model.algebra.nodes import ColumnRef
from dyda.model.knowledge.constraints import FunctionConstraint, Knowledge
from vs.proof.implication import same
from vs.schema_mapping import Passage
from vs.search.covers import AttributeCover, RelationCover, attribute_covers, placed, relation_covers
from vs.search.obstacles import Obstacles
from vs.view.block import Block, Component

__all__ = ["Decision", "decisions"]

OCCURRENCE_CHOICES = 256
COMPONENT_CHOICES = 64
COVER_CHOICES = 64


@dataclass(frozen=True)
class Place:
    """What becomes of one occurrence: it leaves or stays; `cover` takes its place."""

    leaves: bool
    cover: RelationCover | None = None


@dataclass(frozen=True)
class Decision:
    """One combination. `lost` are the columns that cannot be read where they were."""

    places: Mapping[str, Place]
    lost: frozenset[ColumnRef]
    substituted: tuple[Component, ...]
    absorbed: tuple[tuple[Component, str], ...]
    dropped: tuple[Component, ...]
    covers: tuple[tuple[ColumnRef, AttributeCover], ...] = ()


def decisions(block: Block, passage: Passage, knowledge: Knowledge, obstacles: Obstacles) -> Iterator[Decision]:
    """All combinations, the natural ones first."""
    search = _Search(block, passage, knowledge, obstacles)
    touched = [alias for alias, _ in block.occurrences if search.gone(alias) or search.lost(alias)]
    choices = [search.places(alias) for alias in touched]
    for number, places in enumerate(islice(product(*choices), OCCURRENCE_CHOICES)):
        obstacles.natural = number == 0
        yield from _Placed(search, dict(zip(touched, places, strict=True))).decisions()


@dataclass(frozen=True)
class _Search:
    block: Block
    passage: Passage
    knowledge: Knowledge
    obstacles: Obstacles

    def gone(self, alias: str) -> bool:
        return self.passage.after(self.block.relation(alias)) is None

    def lost(self, alias: str) -> list[ColumnRef]:
        name = self.block.relation(alias)
        return [ref for ref in self.block.references(alias) if self.passage.column(name, ref.column) is None]

    def places(self, alias: str) -> list[Place]:
        """The natural one first: what is there stays, what is gone is replaced."""
        preference = self.block.preferences[alias]
        covers: list[Place] = []
        if preference.replaceable:
            found = relation_covers(self.knowledge, self.passage, self.block.relation(alias))
            covers = [Place(True, cover) for cover in found]
        if not self.gone(alias):
            return [Place(False), *covers]
        if not preference.replaceable and not preference.dispensable:
            self.obstacles.relation_must_stay(self.block, alias)
            return []
        return [*covers, Place(True)]


@dataclass(frozen=True)
class _Placed:
    """It is decided what becomes of each occurrence."""

    search: _Search
    places: Mapping[str, Place]

    @cached_property
    def lost(self) -> frozenset[ColumnRef]:
        """The columns that cannot be read where they were."""
        search = self.search
        lost = (search.block.references(a) if p.leaves else search.lost(a) for a, p in self.places.items())
        return frozenset(ref for refs in lost for ref in refs)

    @cached_property
    def available(self) -> dict[ColumnRef, list[AttributeCover]]:
        """The covers of each lost column. A relation that leaves is covered by one containment, not by pieces of
        several, unless one has taken its place already."""
        found = {}
        for ref in sorted(self.lost):
            name, place = self.search.block.relation(ref.alias), self.places[ref.alias]
            covers = attribute_covers(self.search.knowledge, self.search.passage, name, ref.column)
            whole = place.leaves and place.cover is None
            found[ref] = [cover for cover in covers if not whole or isinstance(cover.promise, FunctionConstraint)]
        return found

    def decisions(self) -> Iterator[Decision]:
        block = self.search.block
        touched = [component for component in block.components if component.expression.columns & self.lost]
        fates = []
        for component in touched:
            allowed = self.fates(component)
            if not allowed:
                missing = [ref for ref in component.references if ref in self.lost]
                uncovered = [ref for ref in missing if not self.is_covered(ref)]
                self.search.obstacles.component_must_stay(block, component, uncovered or missing)
                return
            fates.append(allowed)
        for chosen in _fewest_drops(fates):
            yield from self.with_fates(list(zip(touched, chosen, strict=True)))

    def fates(self, component: Component) -> list[str]:
        """What may become of a component: substitute, absorb, drop."""
        fates = []
        if component.preference.replaceable:
            if all(self.is_covered(ref) for ref in component.expression.columns & self.lost):
                fates.append("substitute")
            elif self.absorber(component) is not None:
                fates.append("absorb")
        if component.preference.dispensable:
            fates.append("drop")
        return fates

    def is_covered(self, ref: ColumnRef) -> bool:
        return self.is_replaced(ref) or bool(self.available[ref])

    def is_replaced(self, ref: ColumnRef) -> bool:
        """Whether the relation that takes the place of the column's own has it, too."""
        cover = self.places[ref.alias].cover
        return cover is not None and cover.column(ref.column) is not None

    def absorber(self, component: Component) -> str | None:
        """The leaving occurrence whose containment selects by this very condition; None if there is none."""
        if component.kind != "condition" or len(component.expression.aliases) != 1:
            return None
        (alias,) = component.expression.aliases
        cover = self.places[alias].cover if alias in self.places else None
        if cover is None:
            return None
        selections = [placed(condition, alias) for condition in cover.promise.own.where]
        return alias if any(same(component.expression, selection) for selection in selections) else None

    def with_fates(self, fates: Sequence[tuple[Component, str]]) -> Iterator[Decision]:
        block = self.search.block
        substituted = tuple(component for component, fate in fates if fate == "substitute")
        absorbed = tuple((component, self.absorber(component) or "") for component, fate in fates if fate == "absorb")
        dropped = tuple(component for component, fate in fates if fate == "drop")
        needed = dict.fromkeys(ref for component in substituted for ref in component.references if ref in self.lost)
        elsewhere = [ref for ref in needed if not self.is_replaced(ref)]
        for alias, place in self.places.items():
            if not place.leaves:
                continue
            provided = [ref for ref in needed if ref.alias == alias]
            if place.cover is not None and block.references(alias) and not any(map(self.is_replaced, provided)):
                return  # nothing is read of what would replace it: without it there is a rewriting that is cheaper
            if place.cover is None and not provided and not block.preferences[alias].dispensable:
                self.search.obstacles.relation_has_no_cover(block, alias)
                return
        choices = islice(product(*(self.available[ref] for ref in elsewhere)), COVER_CHOICES)
        for covers in sorted(choices, key=lambda chosen: len({cover.relation for cover in chosen})):
            pairs = tuple(zip(elsewhere, covers, strict=True))
            yield Decision(self.places, self.lost, substituted, absorbed, dropped, pairs)


def _fewest_drops(options: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Each component's fate; those that may be dropped but need not be are dropped in ever larger groups."""
    free = [index for index, fates in enumerate(options) if len(fates) > 1]
    groups = chain.from_iterable(combinations(free, size) for size in range(len(free) + 1))
    chosen = list(islice(groups, COMPONENT_CHOICES))
    if tuple(free) not in chosen:
        chosen.append(tuple(free))
    for dropped in chosen:
        yield tuple(fates[-1] if index in dropped else fates[0] for index, fates in enumerate(options))
