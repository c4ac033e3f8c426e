"""What may be done about what is gone: every combination that the preferences and the knowledge allow.

occurrences   each one touched by the change stays, leaves, or gives its place to a relation that covers it
components    each one that loses a column is substituted, absorbed by a containment's selection, or dropped
columns       each one that must be had from elsewhere has one of its covers

Fewest drops come first. Combinations are bounded, so that the answer comes in time whatever the knowledge holds; the
order is that of the view and of the knowledge, so it is always the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    covers: tuple[tuple[ColumnRef, AttributeCover], ...] = field(default=())


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


def decisions(block: Block, passage: Passage, knowledge: Knowledge, obstacles: Obstacles) -> Iterator[Decision]:
    """All combinations, the natural ones first."""
    search = _Search(block, passage, knowledge, obstacles)
    touched = [alias for alias, _ in block.occurrences if search.gone(alias) or search.lost(alias)]
    choices = [search.places(alias) for alias in touched]
    for number, places in enumerate(islice(product(*choices), OCCURRENCE_CHOICES)):
        obstacles.natural = number == 0
        yield from _with_places(search, dict(zip(touched, places, strict=True)))


def _with_places(search: _Search, places: Mapping[str, Place]) -> Iterator[Decision]:
    block = search.block
    lost = frozenset(
        ref
        for alias, place in places.items()
        for ref in (block.references(alias) if place.leaves else search.lost(alias))
    )
    available = {ref: _covers(search, ref, places[ref.alias]) for ref in sorted(lost)}
    options: list[tuple[Component, list[str]]] = []
    for component in block.components:
        if not component.expression.columns & lost:
            continue
        allowed = _fates(component, lost, places, available)
        if not allowed:
            missing = [ref for ref in component.references if ref in lost]
            uncovered = [ref for ref in missing if not _is_covered(ref, places, available)]
            search.obstacles.component_must_stay(block, component, uncovered or missing)
            return
        options.append((component, allowed))
    for fates in _fewest_drops([allowed for _, allowed in options]):
        by_fate = [(component, fate) for (component, _), fate in zip(options, fates, strict=True)]
        yield from _with_fates(search, places, lost, available, by_fate)


def _covers(search: _Search, ref: ColumnRef, place: Place) -> list[AttributeCover]:
    """The covers of one column. A relation that leaves is covered by one containment, not by pieces of several,
    unless one has taken its place already."""
    found = attribute_covers(search.knowledge, search.passage, search.block.relation(ref.alias), ref.column)
    if place.leaves and place.cover is None:
        return [cover for cover in found if isinstance(cover.promise, FunctionConstraint)]
    return found


def _is_covered(
    ref: ColumnRef, places: Mapping[str, Place], available: Mapping[ColumnRef, Sequence[AttributeCover]]
) -> bool:
    return _stands(ref, places) or bool(available[ref])


def _fates(
    component: Component,
    lost: frozenset[ColumnRef],
    places: Mapping[str, Place],
    available: Mapping[ColumnRef, Sequence[AttributeCover]],
) -> list[str]:
    """What may become of a component: substitute, absorb, drop."""
    fates = []
    if component.preference.replaceable:
        if all(_is_covered(ref, places, available) for ref in component.expression.columns & lost):
            fates.append("substitute")
        elif absorber(component, places) is not None:
            fates.append("absorb")
    if component.preference.dispensable:
        fates.append("drop")
    return fates


def absorber(component: Component, places: Mapping[str, Place]) -> str | None:
    """The leaving occurrence whose containment selects by this very condition; None if there is none."""
    if component.kind != "condition" or len(component.expression.aliases) != 1:
        return None
    (alias,) = component.expression.aliases
    cover = places[alias].cover if alias in places else None
    if cover is None:
        return None
    selections = [placed(condition, alias) for condition in cover.promise.own.where]
    return alias if any(same(component.expression, selection) for selection in selections) else None


def _fewest_drops(options: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """Each component's fate; those that may be dropped but need not be are dropped in ever larger groups."""
    free = [index for index, fates in enumerate(options) if len(fates) > 1]
    groups = chain.from_iterable(combinations(free, size) for size in range(len(free) + 1))
    chosen = list(islice(groups, COMPONENT_CHOICES))
    if tuple(free) not in chosen:
        chosen.append(tuple(free))
    for dropped in chosen:
        yield tuple(fates[-1] if index in dropped else fates[0] for index, fates in enumerate(options))


def _with_fates(
    search: _Search,
    places: Mapping[str, Place],
    lost: frozenset[ColumnRef],
    available: Mapping[ColumnRef, Sequence[AttributeCover]],
    fates: Sequence[tuple[Component, str]],
) -> Iterator[Decision]:
    substituted = tuple(component for component, fate in fates if fate == "substitute")
    absorbed = tuple((component, absorber(component, places) or "") for component, fate in fates if fate == "absorb")
    dropped = tuple(component for component, fate in fates if fate == "drop")
    needed = dict.fromkeys(ref for component in substituted for ref in component.references if ref in lost)
    elsewhere = [ref for ref in needed if not _stands(ref, places)]
    for alias, place in places.items():
        if not place.leaves:
            continue
        provided = [ref for ref in needed if ref.alias == alias]
        if (
            place.cover is not None
            and search.block.references(alias)
            and not any(_stands(ref, places) for ref in provided)
        ):
            return  # a stand-in of which nothing is read: without it there is a rewriting that is cheaper
        if place.cover is None and not provided and not search.block.preferences[alias].dispensable:
            search.obstacles.relation_has_no_cover(search.block, alias)
            return
    choices = islice(product(*(available[ref] for ref in elsewhere)), COVER_CHOICES)
    for covers in sorted(choices, key=lambda chosen: len({cover.relation for cover in chosen})):
        yield Decision(places, lost, substituted, absorbed, dropped, tuple(zip(elsewhere, covers, strict=True)))


def _stands(ref: ColumnRef, places: Mapping[str, Place]) -> bool:
    cover = places[ref.alias].cover
    return cover is not None and cover.column(ref.column) is not None
