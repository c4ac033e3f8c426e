"""A region as its search sees it: its components with their effective preferences.

One block is one SELECT of inner joins: occurrences, select items, and conditions that all commute. A view has one for
each of its regions (vs/view/regions.py); their items are what the rest of the view reads of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx

from dyda.model.algebra.nodes import ColumnRef, Expression, ViewDefinition
from dyda.model.preferences import Preference
from dyda.model.relation import RelationName
from vs.schema_mapping import Passage
from vs.view.regions import Place

__all__ = ["Block", "Component", "connected", "lost"]


@dataclass(frozen=True)
class Component:
    """A select item (`name` is its output name) or a condition (its text). `written`: what its file says, None if
    nothing; `preference`: what is in force."""

    kind: str
    name: str
    expression: Expression
    preference: Preference
    written: Preference | None
    said: str = ""
    """How a sentence calls it."""
    place: Place | None = None
    """Its place in the view; None for what only holds an outer join's relations together."""

    def __str__(self) -> str:
        return self.said

    @property
    def references(self) -> list[ColumnRef]:
        """The columns it reads, in order of first use."""
        return list(dict.fromkeys(part for part in self.expression.parts if isinstance(part, ColumnRef)))


@dataclass(frozen=True)
class Block:
    """`occurrences` are relations by alias, in the order of FROM."""

    definition: ViewDefinition
    occurrences: tuple[tuple[str, RelationName], ...]
    items: tuple[Component, ...]
    conditions: tuple[Component, ...]
    preferences: Mapping[str, Preference]
    """What is in force for each relation, by its alias."""
    taken: frozenset[str]
    """Aliases in the view, which no new occurrence may have."""

    @property
    def components(self) -> tuple[Component, ...]:
        return self.items + self.conditions

    def relation(self, alias: str) -> RelationName:
        return dict(self.occurrences)[alias]

    def references(self, alias: str) -> list[ColumnRef]:
        """The columns of the occurrence that the view uses, in order of first use."""
        used = (ref for component in self.components for ref in component.references)
        return list(dict.fromkeys(ref for ref in used if ref.alias == alias))


def lost(view: Block, passage: Passage) -> list[str]:
    """What the view reads and what is gone, in words."""
    words: dict[str, None] = {}
    for alias, name in view.occurrences:
        if passage.after(name) is None:
            words[f"{name} was dropped"] = None
        for ref in view.references(alias):
            if passage.column(name, ref.column) is None:
                words[passage.why_gone(name, ref.column)] = None
    return list(words)


def connected(aliases: Iterable[str], conditions: Iterable[Expression]) -> list[frozenset[str]]:
    """The occurrences that conditions connect, in the order of their first alias."""
    order = list(aliases)
    graph = networkx.Graph()
    graph.add_nodes_from(order)
    for condition in conditions:
        first, *others = sorted(condition.aliases, key=order.index) or [""]
        graph.add_edges_from((first, other) for other in others)
    pieces = [frozenset(piece) for piece in networkx.connected_components(graph)]
    return sorted(pieces, key=lambda piece: min(order.index(alias) for alias in piece))
