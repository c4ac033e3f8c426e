"""Blocks that are swept alike: over the same relations in the same order, joined along the same edges.

    view 1   π x      r ──a── s        ┐
    view 2   π y, z   r ──a── s        ┘   one sweep over x, y and z, of which each gets its own columns

The same keys travel for all of them: those of rows that any of them may keep (vm/limits.py). A sweep that reads more
columns distinguishes more rows and may fetch more. Entries are additive: rows that one view cannot tell apart add up to
what its own sweep would have fetched, for every row that can take part in a change of that view (W4 holds row by row).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from vm.join_block import CarriedColumn, Occurrence
from vm.join_tree import Component, Edge, SweepPlan
from vm.program import state_number
from vm.worlds import NEW, OLD, Whole, Worlds

__all__ = ["course", "own_worlds", "together"]


def course(plan: SweepPlan) -> Hashable | None:
    """Equal for plans that are swept alike; None if the block reads what an operator of its own view keeps."""
    occurrences = plan.block.occurrences
    if any(state_number(occurrence.relation) is not None for occurrence in occurrences):
        return None
    places = {occurrence.alias: place for place, occurrence in enumerate(occurrences)}

    def placed(edge: Edge) -> Hashable:
        return places[edge.left], places[edge.right], edge.pairs, edge.families

    def component(one: Component) -> Hashable:
        return tuple(places[alias] for alias in one.aliases), tuple(map(placed, one.edges))

    return tuple(one.relation for one in occurrences), tuple(map(component, plan.components))


def together(plans: Sequence[SweepPlan]) -> SweepPlan:
    """The plan of the first, reading the columns of all; they are on one course."""
    first, *others = plans
    if not others:
        return first
    each = zip(*(plan.block.occurrences for plan in plans), strict=True)
    occurrences = tuple(_united(alike) for alike in each)
    return replace(first, block=replace(first.block, occurrences=occurrences))


def _united(occurrences: Sequence[Occurrence]) -> Occurrence:
    carried: dict[str, CarriedColumn] = {}
    for occurrence in occurrences:
        carried |= {one.column.name: one for one in occurrence.carried if one.column.name not in carried}
    return replace(occurrences[0], carried=tuple(carried.values()))


def own_worlds(worlds: Mapping[str, Worlds | Whole], swept: SweepPlan, plan: SweepPlan) -> dict[str, Worlds | Whole]:
    """What a sweep along `swept` fetched, in the columns of `plan`: rows that those do not tell apart are added up."""
    found = {}
    for theirs, mine in zip(swept.block.occurrences, plan.block.occurrences, strict=True):
        world = worlds[theirs.alias]
        if mine.columns != theirs.columns:
            entries = world.table.select([*mine.columns, OLD, NEW])
            world = replace(world, table=world.counting.consolidated(entries))
        found[mine.alias] = world
    return found
