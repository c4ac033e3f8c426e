"""Definitions 2 to 7 of paper 001 written down as they stand: pair by pair, for comparison with what is fast."""

from __future__ import annotations

from collections.abc import Sequence

import networkx

from dyda.model.message import DataUpdate
from dyda.model.relation import RelationName
from scheduler import Queued, ViewReads
from tests.unit.scheduler.builders import effect

__all__ = ["is_legal", "legal_order", "merged", "pair_graph"]

Columns = frozenset[str] | None
Observed = dict[int, frozenset[RelationName]]


def pair_graph(
    queue: Sequence[Queued], views: Sequence[ViewReads], observed: Observed | None = None
) -> networkx.DiGraph:
    """An edge m1 → m2 wherever m1 depends on m2 (Definition 4), between all pairs."""
    graph = networkx.DiGraph()
    graph.add_nodes_from(queued.number for queued in queue)
    names = _Names(queue)
    for one in queue:
        for other in queue:
            if one is not other and (
                _semantic(one, other, views, names, observed or {})
                or _concurrent(one, other, views, names, observed or {})
            ):
                graph.add_edge(one.number, other.number)
    return graph


def merged(graph: networkx.DiGraph) -> set[frozenset[int]]:
    """The cycles of Definition 6, as large as they get."""
    return {frozenset(found) for found in networkx.strongly_connected_components(graph)}


def legal_order(graph: networkx.DiGraph, held: frozenset[int] = frozenset()) -> list[frozenset[int]]:
    """The legal order nearest to arrival order: of the groups that wait for nothing, always the earliest."""
    groups = merged(graph)
    order: list[frozenset[int]] = []
    done: set[int] = set()
    while True:
        ready = [
            group
            for group in groups
            if group not in order
            and not group & held
            and all(before in done or before in group for member in group for before in graph.successors(member))
        ]
        if not ready:
            return order
        order.append(min(ready, key=min))
        done |= order[-1]


def is_legal(order: Sequence[frozenset[int]], graph: networkx.DiGraph) -> bool:
    """Definition 7: every dependency points to what is processed before, or together."""
    place = {number: index for index, group in enumerate(order) for number in group}
    return all(place[before] <= place[after] for after, before in graph.edges)


class _Names:
    """Relations and columns that pending renames connect are the same thing."""

    def __init__(self, queue: Sequence[Queued]) -> None:
        found = [e for queued in queue for change in queued.message.changes if (e := effect(change)) is not None]
        self.relations = networkx.Graph((e.relation, e.renamed_to) for e in found if e.renamed_to)
        self.columns = networkx.Graph(
            (((one, e.renamed_column[0])), (other, e.renamed_column[1]))
            for e in found
            if e.renamed_column
            for one in self.same(e.relation)
            for other in self.same(e.relation)
        )

    def same(self, name: RelationName) -> set[RelationName]:
        return networkx.node_connected_component(self.relations, name) if name in self.relations else {name}

    def meet(self, name: RelationName, changed: Columns, read: Columns) -> bool:
        if changed is None or read is None:
            return True
        for column in changed:
            found = {(name, column)}
            if (name, column) in self.columns:
                found = networkx.node_connected_component(self.columns, (name, column))
            if any(other in read for _, other in found):
                return True
        return False


def _concerns(queued: Queued, views: Sequence[ViewReads], names: _Names, observed: Observed) -> bool:
    known = {relation for found in observed.values() for relation in found}
    known |= {relation for view in views for relation in (*view.reads, *view.candidates)}
    touched = set(queued.message.relations)
    touched |= {e.renamed_to for c in queued.message.changes if (e := effect(c)) is not None and e.renamed_to}
    return queued.number in observed or any(names.same(relation) & known for relation in touched)


def _semantic(one: Queued, other: Queued, views: Sequence[ViewReads], names: _Names, observed: Observed) -> bool:
    """Definition 3 under rule S1: the shared resource is the source."""
    return (
        one.message.source == other.message.source
        and other.number < one.number
        and _concerns(one, views, names, observed)
        and _concerns(other, views, names, observed)
    )


def _concurrent(one: Queued, other: Queued, views: Sequence[ViewReads], names: _Names, observed: Observed) -> bool:
    """Definition 2, cases 3 and 4: processing `one` may read what `other` changes."""
    reads = [*_reads(one, views, names)]
    reads += [(relation, None) for relation in observed.get(one.number, ())]
    for change in other.message.changes:
        found = effect(change)
        if found is None:
            continue
        for relation, columns in reads:
            if relation in names.same(found.relation) and names.meet(relation, found.columns, columns):
                return True
    return False


def _reads(queued: Queued, views: Sequence[ViewReads], names: _Names) -> list[tuple[RelationName, Columns]]:
    reads: list[tuple[RelationName, Columns]] = []
    for change in queued.message.changes:
        found = effect(change)
        for view in views:
            for own in names.same(change.relation) & set(view.reads):
                if isinstance(change, DataUpdate):
                    reads += [(r, c) for r, c in view.reads.items() if r != own or r in view.rereads]
                elif found is not None and not found.metadata_only:
                    appended = found.adds and own in view.appends
                    if appended or names.meet(own, found.columns, view.reads[own]):
                        reads += [*view.reads.items(), *view.candidates.items()]
    return reads
