"""SWEEP in both directions over a join tree (paper 003, Section 5.1, for batches; rules W1 to W5).

    a ──x──▶ b ──y──▶ c        leaves to root …
    a ◀──x── b ◀──y── c        … then root to leaves

Keys travel outward from changed rows; at each hop the source returns only the rows those keys reach. What comes back is
turned into two worlds: for every row its count before and after *our* changes, with S as read in the snapshot, P the
captured changes that are not ours yet, D ours:

    new = S − P              old = S − P − D              ΔV = ⋈ new − ⋈ old

Entries are additive, so nothing needs to be consolidated before the join:

    fetched row m                        (m, m)
    not ours p, covered by a hop         (−p, −p)
    ours d, covered by a hop             (−d, 0)
    ours d, covered by none              (0, d)

The last line is exact although the row's true counts are unknown: no key of another changed row reached it, so
in every combination that it joins it is the only changed one, and there only the difference d counts. A covered row
must never be treated so (W4): the combination may hold a second changed row, and then old counts matter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import networkx as nx
import pyarrow as pa
import pyarrow.compute as pc

from dyda.model.bag import COUNT, Bag
from vm.block import JoinBlock, Occurrence
from vm.keys import KeyPredicate, distinct_keys

__all__ = [
    "NEW",
    "OLD",
    "Ask",
    "Component",
    "Edge",
    "SweepLimits",
    "SweepPlan",
    "Whole",
    "Worlds",
    "plan_sweep",
    "sweep",
]

OLD = "#old"
NEW = "#new"

Ask: TypeAlias = Callable[[str, Sequence[str], Sequence[str], pa.Table], Bag]
"""ask(alias, columns, key, values): rows of that occurrence's relation, at least those with one of these keys."""


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
class Component:
    """Occurrences that lookups connect. `edges` lead from the root outward, each parent before its children."""

    aliases: tuple[str, ...]
    edges: tuple[Edge, ...]

    @property
    def root(self) -> str:
        return self.aliases[0]


@dataclass(frozen=True)
class SweepPlan:
    """How a block is swept. With several components, a change in one needs the others as a whole."""

    block: JoinBlock
    components: tuple[Component, ...]

    def queries(self, changed: str) -> int:
        """Maintenance queries for a change of one occurrence: n − 1 (Table 1 of paper 003)."""
        return len(self.block.occurrences) - 1


@dataclass(frozen=True)
class SweepLimits:
    """Where a parallel scan becomes cheaper than a lookup."""

    keys: int = 50_000
    share: float = 0.2
    share_from: int = 1_000

    def exceeded(self, keys: int, estimated_rows: int) -> bool:
        return keys > self.keys or (keys > self.share_from and keys > self.share * estimated_rows)


@dataclass(frozen=True)
class Worlds:
    """Everything of one occurrence that matters: its columns as text, then old and new counts (by position)."""

    table: pa.Table


@dataclass(frozen=True)
class Whole:
    """This occurrence must be scanned, each row with counts (1, 1); `table` are the entries to add to the scan."""

    table: pa.Table
    reason: str


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


def sweep(
    plan: SweepPlan,
    deltas: Mapping[str, Bag],
    pending: Mapping[str, Bag],
    ask: Ask,
    limits: SweepLimits | None = None,
) -> dict[str, Worlds | Whole]:
    """Read what ΔV needs and nothing else. `deltas` are ours, `pending` is captured, visible and not ours.

    `ask` must answer from the very snapshot in which both were read. It is called once per directed tree edge at the
    most, and not at all where no key travels.
    """
    limits = limits or SweepLimits()
    state = {occurrence.alias: _State(occurrence, deltas, pending) for occurrence in plan.block.occurrences}
    changed = [c for c in plan.components if any(len(state[alias].ours) for alias in c.aliases)]
    if not changed:
        return {alias: one.worlds() for alias, one in state.items()}
    result: dict[str, Worlds | Whole] = {}
    for component in plan.components:
        reason = ""
        if component not in changed:
            reason = f"no pushable equality leads to {_named(component)}"
        elif len(changed) > 1:
            reason = "rows changed on both sides of a join that has no pushable equality"
        else:
            reason = _sweep_component(component, state, ask, limits)
        for alias in component.aliases:
            result[alias] = state[alias].whole(reason) if reason else state[alias].worlds()
    return result


def _named(component: Component) -> str:
    return ", ".join(component.aliases)


def _sweep_component(component: Component, state: Mapping[str, _State], ask: Ask, limits: SweepLimits) -> str:
    """Leaves to root, then root to leaves (W1). Returns why the component must be scanned instead, or ''."""
    upward = [(edge, edge.right, edge.left) for edge in reversed(component.edges)]
    downward = [(edge, edge.left, edge.right) for edge in component.edges]
    for edge, sender, target in upward + downward:
        at_sender, at_target = edge.toward(target)
        # W2: what the target itself brought to the sender must not be sent back as if it were news.
        rows = state[sender].known_from_others(target)
        relation = state[target].occurrence.relation
        types = [relation.column(column).type.name for column in at_target]
        keys = distinct_keys(rows, at_sender, at_target, edge.families, types)
        if not len(keys):
            continue
        if limits.exceeded(len(keys), relation.estimated_rows):
            return f"{len(keys)} distinct keys travel from {sender} to {target}: a scan is cheaper than a lookup"
        predicate = KeyPredicate(at_target, edge.families, keys)
        fetched = ask(target, state[target].columns, at_target, keys.values)
        state[target].learn(sender, predicate, fetched)
    return ""


class _State:
    """What is known of one occurrence while keys travel."""

    def __init__(self, occurrence: Occurrence, deltas: Mapping[str, Bag], pending: Mapping[str, Bag]) -> None:
        self.occurrence = occurrence
        self.columns = list(occurrence.columns)
        none = Bag.empty(self.columns)
        self.ours = deltas.get(occurrence.alias, none).select(self.columns).consolidate()
        self.pending = pending.get(occurrence.alias, none).select(self.columns).consolidate()
        self.hops: dict[str, tuple[KeyPredicate, Bag]] = {}

    def learn(self, neighbour: str, predicate: KeyPredicate, answer: Bag) -> None:
        rows = answer.select(self.columns)
        self.hops[neighbour] = (predicate, rows.filter(predicate(rows.table)))

    def known_from_others(self, neighbour: str) -> list[pa.Table]:
        """Our changed rows, and what other neighbours' keys reached, compensated before it travels on (W3).

        A row that a not-ours update inserted is gone by then; one that it deleted is back, and its key travels.
        """
        rows = [self.ours.table]
        for sender, (predicate, fetched) in self.hops.items():
            if sender != neighbour:
                covered = self.pending.filter(predicate(self.pending.table))
                rows.append((fetched - covered).consolidate().table)
        return rows

    def worlds(self) -> Worlds:
        """The entries of the table in this module's head."""
        covered_ours = _nothing(self.ours)
        covered_pending = _nothing(self.pending)
        entries = []
        seen: list[KeyPredicate] = []
        for predicate, fetched in self.hops.values():
            # W5: two hops may fetch the same row. Unite them by predicate; adding would count it twice.
            fresh = fetched
            for earlier in seen:
                fresh = fresh.filter(pc.invert(earlier(fresh.table)))
            entries.append(_entries(fresh, fresh.counts, fresh.counts))
            covered_ours = pc.or_(covered_ours, predicate(self.ours.table))
            covered_pending = pc.or_(covered_pending, predicate(self.pending.table))
            seen.append(predicate)
        restored = -self.pending.filter(covered_pending)
        before = -self.ours.filter(covered_ours)
        alone = self.ours.filter(pc.invert(covered_ours))
        entries.append(_entries(restored, restored.counts, restored.counts))
        entries.append(_entries(before, before.counts, _zeros(before)))
        entries.append(_entries(alone, _zeros(alone), alone.counts))
        return Worlds(_consolidated(pa.concat_tables(entries)))

    def whole(self, reason: str) -> Whole:
        """A scan covers every row."""
        restored = -self.pending
        before = -self.ours
        entries = [
            _entries(restored, restored.counts, restored.counts),
            _entries(before, before.counts, _zeros(before)),
        ]
        return Whole(pa.concat_tables(entries), reason)


def _entries(bag: Bag, old: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.Table:
    rows = bag.table.drop_columns([COUNT]) if bag.columns else bag.table.select([])
    return rows.append_column(OLD, old).append_column(NEW, new)


def _consolidated(entries: pa.Table) -> pa.Table:
    """Each row once, and none that is in neither world: Spark must not fail on a row that is not there."""
    width = entries.num_columns - 2
    names = [f"c{i}" for i in range(width)]
    if not names:
        return entries
    grouped = entries.rename_columns([*names, "o", "n"]).group_by(names, use_threads=False)
    summed = grouped.aggregate([("o", "sum"), ("n", "sum")]).select([*names, "o_sum", "n_sum"])
    there = pc.or_(pc.not_equal(summed.column(width), 0), pc.not_equal(summed.column(width + 1), 0))
    return summed.filter(there).rename_columns(entries.column_names)


def _zeros(bag: Bag) -> pa.ChunkedArray:
    return pc.multiply(bag.counts, 0)


def _nothing(bag: Bag) -> pa.ChunkedArray:
    return pc.not_equal(bag.counts, bag.counts)
