"""The join tree along which keys travel: a spanning tree of what may be pushed to a source (rules W1, R4).

a ──x── b ──y── c        a, b and c are one component: lookups connect them
        │
        z                conditions outside the tree, and those that no source can look up, are Spark's alone
        │
        d        e       e is a component of its own: it must be scanned
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import networkx as nx

from vm.join_block import JoinBlock

__all__ = ["Component", "Edge", "Hop", "SweepPlan", "plan_sweep"]

INEXACT = frozenset({"real", "double"})
"""Families whose values Spark may spell otherwise than PostgreSQL."""


@dataclass(frozen=True)
class Edge:
    """A tree edge: equalities between two occurrences that may be pushed to a source (rule R4)."""

    left: str
    right: str
    pairs: tuple[tuple[str, str], ...]
    families: tuple[str, ...]

    def toward(self, target: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Key columns at the sender and at the target."""
        senders = tuple(pair[0] for pair in self.pairs)
        targets = tuple(pair[1] for pair in self.pairs)
        return (senders, targets) if target == self.right else (targets, senders)


@dataclass(frozen=True)
class Hop:
    """One direction of an edge: keys travel from the sender, rows come back from the target."""

    edge: Edge
    sender: str
    target: str


@dataclass(frozen=True)
class Component:
    """Occurrences that lookups connect. `edges` lead from the root outward, each parent before its children."""

    aliases: tuple[str, ...]
    edges: tuple[Edge, ...]

    @property
    def root(self) -> str:
        return self.aliases[0]

    @cached_property
    def hops(self) -> tuple[Hop, ...]:
        """Both directions of every edge, leaves to root, then root to leaves: each after those that it builds on."""
        upward = [Hop(edge, edge.right, edge.left) for edge in reversed(self.edges)]
        return (*upward, *(Hop(edge, edge.left, edge.right) for edge in self.edges))

    def outward(self, alias: str) -> tuple[Hop, ...]:
        """One direction of every edge: away from `alias`, each after the one that it builds on."""
        found: list[Hop] = []
        reached = [alias]
        for sender in reached:
            for hop in self.hops:
                if hop.sender == sender and hop.target not in reached:
                    found.append(hop)
                    reached.append(hop.target)
        return tuple(found)


@dataclass(frozen=True)
class SweepPlan:
    """How a block is swept. With several components, a change in one needs the others as a whole."""

    block: JoinBlock
    components: tuple[Component, ...]

    def queries(self, changed: str) -> int:
        """Maintenance queries for a change of one occurrence: n − 1 (Table 1 of paper 003)."""
        return len(self.block.occurrences) - 1

    def component(self, alias: str) -> Component:
        return next(component for component in self.components if alias in component.aliases)


def plan_sweep(block: JoinBlock) -> SweepPlan:
    """A spanning tree per connected component of the pushable equalities; other conditions are Spark's alone."""
    graph = nx.Graph()
    graph.add_nodes_from(occurrence.alias for occurrence in block.occurrences)
    for edge in _pushable(block):
        graph.add_edge(edge.left, edge.right, edge=edge, weight=_weight(block, edge))
    tree = nx.minimum_spanning_tree(graph)
    components: list[Component] = []
    for occurrence in block.occurrences:
        root = occurrence.alias
        if any(root in component.aliases for component in components):
            continue
        steps = list(nx.bfs_edges(tree, root))
        edges = tuple(_directed(tree.edges[parent, child]["edge"], child) for parent, child in steps)
        components.append(Component((root, *(child for _, child in steps)), edges))
    return SweepPlan(block, tuple(components))


def _pushable(block: JoinBlock) -> list[Edge]:
    """One edge per pair of occurrences, with every equality of R4 between them as a composite key."""
    found: dict[tuple[str, str], dict[tuple[str, str], str]] = {}
    for conjunct in block.conjuncts:
        if conjunct.equality is None:
            continue
        one, other = conjunct.equality
        families = block.carried(one).family, block.carried(other).family
        if one.alias == other.alias or families[0] is None or families[0] != families[1]:
            continue
        # What a step of ours computed has no source, and is spelled by Spark.
        computed = any(not block.by_alias[ref.alias].relation.name.source for ref in (one, other))
        if computed and families[0] in INEXACT:
            continue
        if block.by_alias[one.alias].index > block.by_alias[other.alias].index:
            one, other = other, one
        pairs = found.setdefault((one.alias, other.alias), {})
        # A column once per side: `x = y AND x = z` as a key (x, x) is no key a source can be asked for.
        if all(one.column != left and other.column != right for left, right in pairs):
            pairs[one.column, other.column] = families[0]
    return [Edge(*aliases, tuple(pairs), tuple(pairs.values())) for aliases, pairs in found.items()]


def _weight(block: JoinBlock, edge: Edge) -> int:
    """Prefer edges along a key: they fetch fewest rows."""
    for alias, side in ((edge.left, 0), (edge.right, 1)):
        columns = {pair[side] for pair in edge.pairs}
        if any(set(key) <= columns for key in block.by_alias[alias].relation.keys):
            return 0
    return 1


def _directed(edge: Edge, child: str) -> Edge:
    if edge.right == child:
        return edge
    return Edge(edge.right, edge.left, tuple((right, left) for left, right in edge.pairs), edge.families)
