"""The dependency graph of the queue (paper 001, Definitions 2 to 5), near linear in the queue's length.

By definition it has an edge m1 ← m2 (m2 must be processed before m1)

- *semantic*: between any two messages of one source that concern a view, m2 having arrived first (Definition 3, rule
  S1: the shared resource is the source);
- *concurrency*: if processing m1 may read a relation whose schema m2 changes (Definition 2, cases 3 and 4), whichever
  came first; also where a broken query has shown it (rule S3).

That is quadratic. Built here are *runs* instead of messages, and far fewer edges. Same reachability, therefore the same
strongly connected components and the same constraints on the order:

1. *Neighbours only.* A semantic edge to the message before in the same source implies those to all earlier ones.
2. *The last change only.* Of the messages that change what m1 reads in one relation, only the last one, x, gets an
   edge. The others belong to the same source and came before x, so x ← them by 1, and m1 ← x ← them. If x is m1
   itself, or came before m1 in the same source, 1 implies them too. Nothing is added: m1 ← x is an edge by definition.
3. *Already implied.* If a message d' before m1 in the same source has reached x (d' ← x, or ← a later message of x's
   source), then m1 ← d' ← x: no edge.
4. *Runs.* Data messages of one source with nothing in between and of which only the first, d1, has edges by 2 and 3
   become one node d1…dk. By 1 to 3 only its successor in the source has an edge to a data message (concurrency edges
   lead to schema changes), so a path enters the run at dk, passes d1, and leaves from d1. Hence a cycle through one of
   them passes all of them, and what depends on one from outside depends on the run. Messages that change a schema, are
   held, or broke are runs of their own, since these arguments are not about them.

A message has at most as many edges as it reads relations; a run starts only where an edge is not implied, so there are
as many runs as schema changes and waits for them, not as messages. Each edge says in words why it is there.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from dyda.model.message import MessageState
from dyda.model.relation import RelationName
from scheduler.footprint import Effect, Footprint, Shape, meet
from scheduler.needs import Entry, Need, Needs
from scheduler.rename_classes import Columns

__all__ = ["Dependencies", "Edge", "EdgeKind", "Entry", "Run"]


class EdgeKind(enum.Enum):
    SEMANTIC = "semantic"
    CONCURRENCY = "concurrency"


@dataclass(frozen=True)
class Edge:
    """Message `after` depends on message `before`, which does something to `relation`: `does` says what."""

    before: int
    after: int
    kind: EdgeKind
    source: str
    relation: RelationName | None = None
    does: str = ""
    observed: bool = False

    @property
    def safe(self) -> bool:
        """Whether arrival order respects it (paper 001, Definition 5)."""
        return self.before < self.after

    @property
    def reason(self) -> str:
        if self.relation is None:
            return f"{self.after} came after {self.before} from source {self.source}"
        reads = "broke while it read" if self.observed else "would query"
        return f"processing {self.after} {reads} {self.relation}, and message {self.before} {self.does}"


@dataclass(slots=True, eq=False)
class Run:
    """Consecutive messages of one source that the graph cannot tell apart; `edges` are those of the first one."""

    index: int
    source: str
    entries: list[Entry]
    edges: tuple[Edge, ...] = ()
    previous: Run | None = None


@dataclass(slots=True)
class _Chain:
    """The runs of one source so far. `reached`: per source, the last message that they wait for."""

    runs: list[Run] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)
    absorbed: set[Shape] = field(default_factory=set)
    """Shapes of data messages that wait for nothing which those before do not wait for."""
    open: list[Entry] | None = None
    """The messages of the last run if it can be extended."""

    @property
    def last(self) -> Run | None:
        return self.runs[-1] if self.runs else None


class Dividing(Protocol):
    """Data messages of one source, none of which must be a run of its own (stretches)."""

    def divided(self, concerned: Callable[[Entry], bool]) -> tuple[list[Entry], list[int], list[Entry]]: ...


class Dependencies:
    """The graph over messages that are given one by one or in stretches, those of each source in arrival order, and the
    schema changes among them, all in arrival order. Messages with data only can be appended later."""

    def __init__(self, parts: Iterable[Dividing | Entry], needs: Needs) -> None:
        self.needs = needs
        self.runs: list[Run] = []
        self.run_of_change: dict[int, Run] = {}
        self._chains: dict[str, _Chain] = {}
        self._idle = _Chain()
        idle: list[Entry] = []
        for part in parts:
            if isinstance(part, Entry):
                if self.concerned(part):
                    self.append(part)
                else:
                    idle.append(part)
            else:
                entries, firsts, others = part.divided(self.concerned)
                self._extend(entries, firsts)
                idle += others
        for entry in sorted(idle, key=lambda entry: entry.number):
            self.append(entry)

    def _extend(self, entries: Sequence[Entry], firsts: Sequence[int]) -> None:
        """Data messages of one source with nothing in between; at the places `firsts` a shape comes up first. All that
        follow have shapes that the last run has absorbed by then, so they join it (points 3 and 4)."""
        for start, end in pairwise([*firsts, len(entries)]):
            self.append(entries[start]).entries.extend(entries[start + 1 : end])

    def append(self, entry: Entry, extend: bool = True) -> Run:
        """Add the message that arrived last; the run that it joined, or (always unless `extend`) a new one."""
        chain = self._chains.get(entry.source)
        if (
            chain is not None
            and extend
            and chain.open is not None
            and entry.shape in chain.absorbed
            and not entry.alone
        ):
            chain.open.append(entry)
            return chain.runs[-1]
        if not self.concerned(entry):
            return self._append_idle(entry, extend)
        if chain is None:
            chain = self._chains[entry.source] = _Chain()
        edges = []
        for need in self._needed(entry):
            changer = need[2]
            if changer.number > chain.reached.get(changer.source, -1):
                chain.reached[changer.source] = changer.number
                edges.append(self._edge(entry, need))
        if not entry.alone:
            chain.absorbed.add(entry.shape)
            if extend and not edges and chain.open is not None:
                chain.open.append(entry)
                return chain.runs[-1]
        run = self._run(entry, tuple(edges), chain.last)
        chain.runs.append(run)
        chain.open = None if entry.alone else run.entries
        return run

    def edges(self, entry: Entry) -> Iterator[Edge]:
        """The concurrency edges of one message by point 2, those that its source's order implies left out."""
        return (self._edge(entry, need) for need in dict.fromkeys(self._needed(entry)))

    def chains(self) -> Iterator[Edge]:
        """The semantic edges, neighbour by neighbour."""
        for run in self.runs:
            before = run.previous.entries[-1] if run.previous is not None else None
            for entry in run.entries if self.concerned(run.entries[0]) else ():
                if before is not None:
                    yield Edge(before.number, entry.number, EdgeKind.SEMANTIC, entry.source)
                before = entry

    def footprint(self, entry: Entry) -> Footprint:
        return self.needs.footprints.of(entry.shape)

    def concerned(self, entry: Entry) -> bool:
        """Whether it takes part in the order at all."""
        return self.needs.concerned(entry)

    def tail(self, entry: Entry) -> Run | None:
        """The run that `entry`, if it came now, would follow or join."""
        chain = self._chains.get(entry.source) if self.concerned(entry) else self._idle
        return chain.last if chain is not None else None

    def run_of(self, entry: Entry) -> Run:
        """The run of a message that concerns a view."""
        runs = self._chains[entry.source].runs
        return runs[bisect.bisect_right(runs, entry.number, key=lambda run: run.entries[0].number) - 1]

    def _needed(self, entry: Entry) -> Iterator[Need]:
        for need in self.needs.of(entry):
            changer = need[2]
            if changer.number > entry.number or changer.source != entry.source:
                yield need

    def _edge(self, entry: Entry, need: Need) -> Edge:
        relation, columns, changer = need
        return Edge(
            before=changer.number,
            after=entry.number,
            kind=EdgeKind.CONCURRENCY,
            source=changer.source,
            relation=relation,
            does=self._met(changer, relation, columns).does,
            observed=bool(entry.observed) and not self._foreseen(entry, relation, changer),
        )

    def _append_idle(self, entry: Entry, extend: bool) -> Run:
        """Messages that concern no view order nothing. Each is free to go, so together they go in arrival order."""
        if entry.state is not MessageState.WAITING:
            return self._run(entry, (), None)
        if not self._idle.runs or not extend:
            self._idle.runs.append(self._run(entry, (), None))
        else:
            self._idle.runs[-1].entries.append(entry)
        return self._idle.runs[-1]

    def _run(self, entry: Entry, edges: tuple[Edge, ...], previous: Run | None) -> Run:
        run = Run(len(self.runs), entry.source, [entry], edges, previous)
        self.runs.append(run)
        if entry.changes_schema:
            self.run_of_change[entry.number] = run
        return run

    def _met(self, changer: Entry, relation: RelationName, columns: Columns) -> Effect:
        """The effect that a reader of `columns` would meet: what a reason names."""
        names = self.needs.footprints.names
        effects = [found for found in self.footprint(changer).effects if names.relation(found.relation) == relation]
        met = (effect for effect in effects if meet(names.columns(relation, effect.columns), columns))
        return next(met, effects[0])

    def _foreseen(self, entry: Entry, relation: RelationName, changer: Entry) -> bool:
        reads = self.footprint(entry).reads
        return relation in reads and meet(self.footprint(changer).schema[relation], reads[relation])
