"""Deco: a legal order of the queue (paper 001, Section 6.2, Figure 4; Definition 7).

The paper corrects one unsafe dependency after the other. The result is described directly here: messages that depend on
each other in a cycle, which are the strongly connected components of the dependency graph, are merged and nothing more;
of the orders that are then legal, the one nearest to arrival order is taken: the next unit is always the one, of those
that wait for nothing, whose first message arrived first.

    dependencies ──▶ components ──▶ groups ──heap──▶ Planned, Planned, …      one by one, as they are asked for

As long as the first message of the queue waits for none that came later, it is next, and there is no graph: no cycle
leads through it, and of all messages that are ready it came first. So a queue of renames, after each of which the rest
is planned again, is never looked at as a whole.

What is held never comes up, nor what depends on it; everything else does.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import networkx

from dyda.model.message import MessageState
from scheduler.dependencies import Dependencies, Edge, EdgeKind, Run
from scheduler.footprint import Footprints
from scheduler.needs import Entry, Needs
from scheduler.queue import numbers
from scheduler.stretches import Stretches

__all__ = ["Plan", "Planned"]


@dataclass(slots=True, eq=False)
class _Group:
    """Runs that are processed together: one, message by message, or several that form a cycle, at once."""

    index: int
    runs: list[Run]
    held: bool = False
    emitted: int = 0
    waiting: int = 0
    done: bool = False
    dependents: list[_Group] = field(default_factory=list)
    wanted: list[Edge] = field(default_factory=list)
    """The edges on which others wait for this group."""

    @property
    def merged(self) -> bool:
        return len(self.runs) > 1

    @property
    def next_number(self) -> int:
        if self.merged:
            return min(run.entries[0].number for run in self.runs)
        return self.runs[0].entries[self.emitted].number


@dataclass(frozen=True)
class Planned:
    """The next messages of the order, in arrival order: one, or several that are merged. `overtaken`: an earlier
    message that still waits, on the edge `waits_on`. `because`: the edges that put later messages first; if merged, a
    cycle."""

    entries: tuple[Entry, ...]
    merged: bool
    overtaken: Entry | None
    waits_on: Edge | None
    because: tuple[Edge, ...]

    @cached_property
    def reason(self) -> str:
        """Why these and why now, in words."""
        shown = numbers(entry.number for entry in self.entries)
        if self.merged:
            cycle = "; ".join(edge.reason for edge in self.because)
            return f"{shown} merged because they depend on each other: {cycle}"
        if self.overtaken is None:
            return f"message {shown} in arrival order"
        if self.because:
            earlier = numbers(edge.after for edge in self.because)
            return f"message {shown} before {earlier}: " + "; ".join(edge.reason for edge in self.because[:3])
        before, edge = self.overtaken.number, self.waits_on
        if edge is None:
            held = self.overtaken.state
            why = "merged with a message that is held" if held is MessageState.WAITING else held.value
            return f"message {shown} before {before}, which is {why}"
        if edge.before > self.entries[0].number and edge.source == self.entries[0].source:
            return (
                f"message {shown} before {before}: {edge.reason}; message {edge.before} comes after {shown} "
                f"from source {edge.source}"
            )
        return f"message {shown} before {before}: {before} waits for {edge.before} ({edge.reason}), {shown} need not"


class Plan:
    """The order of messages, computed up to where it is asked for. `arrived` has all of them in arrival order, and
    `changes` the schema changes; `stretches` are the same messages source by source."""

    def __init__(
        self, arrived: Iterable[Entry], changes: Iterable[Entry], stretches: Stretches, footprints: Footprints
    ) -> None:
        self._changes = list(changes)
        self._needs = Needs(self._changes, footprints)
        self._stretches = stretches
        self._dependencies: Dependencies | None = None
        """None as long as messages come up from the front of the queue."""
        self._arrived = list(arrived)
        self._first = 0
        self._emitted: set[int] = set()
        self._group_of: dict[int, _Group] = {}
        self._groups: list[_Group] = []
        self._ready: list[tuple[int, int]] = []
        self._graph = networkx.DiGraph()

    @property
    def dependencies(self) -> Dependencies:
        """The graph, built when it is first asked for."""
        self.complete()
        assert self._dependencies is not None
        return self._dependencies

    def complete(self) -> None:
        """Build the graph if there is none, of what is in the queue now."""
        if self._dependencies is not None:
            return
        # A schema change that came up from the front may be gone from the queue already; nothing waits for it any more.
        left = [entry for entry in self._changes if entry.number not in self._emitted]
        needs = self._needs if len(left) == len(self._changes) else Needs(left, self._needs.footprints)
        self._dependencies = Dependencies(self._stretches, needs)
        self._merge()
        while self._ready and self._ready[0][0] in self._emitted:  # what came up from the front
            group, _ = self._take()
            self._release(group)

    def __iter__(self) -> Iterator[Planned]:
        return self

    def __next__(self) -> Planned:
        """The next messages to process, those before them being processed. Ends where all that is left is held."""
        if self._dependencies is None and self._first == len(self._arrived):
            raise StopIteration
        if self._dependencies is None and self._waits_for_nothing(first := self._arrived[self._first]):
            self._first += 1
            self._emitted.add(first.number)
            return Planned((first,), False, None, None, ())
        self.complete()
        if not self._ready:
            raise StopIteration
        group, entries = self._take()
        because = self._cycle(group) if group.merged else tuple(edge for edge in group.wanted if not edge.safe)
        overtaken = self._overtaken(entries[0])
        planned = Planned(entries, group.merged, overtaken, self._waits_on(overtaken), because)
        self._release(group)
        return planned

    def _waits_for_nothing(self, first: Entry) -> bool:
        return first.state is MessageState.WAITING and not self._needs.waits(first)

    def _take(self) -> tuple[_Group, tuple[Entry, ...]]:
        """What comes up next of the groups."""
        _, index = heapq.heappop(self._ready)
        group = self._groups[index]
        if group.merged:
            entries = tuple(sorted((e for run in group.runs for e in run.entries), key=lambda entry: entry.number))
        else:
            entries = (group.runs[0].entries[group.emitted],)
        group.emitted += len(entries)
        self._emitted.update(entry.number for entry in entries)
        return group, entries

    def _release(self, group: _Group) -> None:
        """What `_take` returned has come up: on to what is next of the group, or to what waits for it."""
        if not group.merged and group.emitted < len(group.runs[0].entries):
            heapq.heappush(self._ready, (group.next_number, group.index))
        else:
            self._finish(group)

    def append(self, entry: Entry) -> None:
        """Plan a message with data updates only, which has just arrived. Nothing depends on it, so all else stays."""
        self._arrived.append(entry)
        dependencies = self._dependencies
        if dependencies is None:
            return
        tail = dependencies.tail(entry)
        # A run that has come up is over. One that is merged is never last in its source, unless a schema change is.
        run = dependencies.append(entry, extend=tail is None or not self._group_of[tail.index].done)
        if run.index not in self._group_of:
            self._add_group([run])
            self._connect(self._groups[-1])

    def merged(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of the messages that are merged, group by group."""
        groups = (group.runs for group in self._groups if group.merged)
        return tuple(sorted(tuple(sorted(e.number for run in runs for e in run.entries)) for runs in groups))

    def left(self) -> Iterator[tuple[Entry, Edge | None]]:
        """What has not come up yet, in arrival order, with the edge that it waits on (None: it is held itself)."""
        for entry in self._arrived[self._first :]:
            if entry.number not in self._emitted:
                yield entry, self._waits_on(entry)

    def _merge(self) -> None:
        """Strongly connected components; everything else waits in a heap by arrival."""
        runs = self.dependencies.runs
        self._graph.add_nodes_from(range(len(runs)))
        for run in runs:
            self._graph.add_edges_from((run.index, before) for before in self._before(run))
        for component in networkx.strongly_connected_components(self._graph):
            self._add_group([runs[index] for index in sorted(component)])
        for group in self._groups:
            self._connect(group)

    def _before(self, run: Run) -> Iterator[int]:
        """The runs that `run` directly depends on."""
        if run.previous is not None:
            yield run.previous.index
        for edge in run.edges:
            yield self.dependencies.run_of_change[edge.before].index

    def _add_group(self, runs: list[Run]) -> None:
        held = any(run.entries[0].state is not MessageState.WAITING for run in runs)
        group = _Group(len(self._groups), runs, held)
        self._groups.append(group)
        for run in runs:
            self._group_of[run.index] = group

    def _connect(self, group: _Group) -> None:
        """Count what the group waits for; if for nothing, it is ready."""
        for run in group.runs:
            for edge in run.edges:
                self._group_of[self.dependencies.run_of_change[edge.before].index].wanted.append(edge)
        before = {self._group_of[index].index for run in group.runs for index in self._before(run)} - {group.index}
        for index in before:
            if not self._groups[index].done:
                self._groups[index].dependents.append(group)
                group.waiting += 1
        self._offer(group)

    def _offer(self, group: _Group) -> None:
        if not group.waiting and not group.held:
            heapq.heappush(self._ready, (group.next_number, group.index))

    def _finish(self, group: _Group) -> None:
        group.done = True
        for dependent in group.dependents:
            dependent.waiting -= 1
            self._offer(dependent)

    def _overtaken(self, first: Entry) -> Entry | None:
        """The earliest message that has not come up, if it is earlier than `first`."""
        while self._first < len(self._arrived) and self._arrived[self._first].number in self._emitted:
            self._first += 1
        if self._first == len(self._arrived) or self._arrived[self._first].number > first.number:
            return None
        return self._arrived[self._first]

    def _waits_on(self, entry: Entry | None) -> Edge | None:
        """Why `entry` has to wait; None if it does not, or is held itself or together with another."""
        if entry is None or entry.state is not MessageState.WAITING or not self.dependencies.concerned(entry):
            return None
        run = self.dependencies.run_of(entry)
        group = self._group_of[run.index]
        others = [edge for other in group.runs if other is not run for edge in other.edges]
        for edge in (*self.dependencies.edges(entry), *others):
            target = self._group_of[self.dependencies.run_of_change[edge.before].index]
            if not target.done and target is not group:
                return edge
        for other in (run, *group.runs):
            if other.previous is not None:
                before = self._group_of[other.previous.index]
                if not before.done and before is not group:
                    return _semantic(other.previous.entries[-1], other.entries[0])
        return None

    def _cycle(self, group: _Group) -> tuple[Edge, ...]:
        """A shortest cycle through the first concurrency edge inside the group, as edges between messages."""
        runs, targets = self.dependencies.runs, self.dependencies.run_of_change
        inside = (
            (run, edge)
            for run in group.runs
            for edge in run.edges
            if self._group_of[targets[edge.before].index] is group
        )
        run, edge = min(inside, key=lambda found: (found[1].after, found[1].before))
        path = networkx.bidirectional_shortest_path(self._graph, targets[edge.before].index, run.index)
        return edge, *(self._edge(runs[after], runs[before]) for after, before in pairwise(path))

    def _edge(self, after: Run, before: Run) -> Edge:
        """The edge on which one run directly depends on another."""
        found = (edge for edge in after.edges if self.dependencies.run_of_change[edge.before] is before)
        return next(found, None) or _semantic(before.entries[-1], after.entries[0])


def _semantic(before: Entry, after: Entry) -> Edge:
    return Edge(before.number, after.number, EdgeKind.SEMANTIC, after.source)
