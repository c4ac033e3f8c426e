"""Dyno's schedule: the queue as it fills and empties, and the next unit of it (paper 001, Section 6.3, Figure 6).

    add ─▶ ┌──────── entries, in arrival order ────────┐ ─▶ remove (installed, skipped)
           │  no schema change, nothing held: no graph │
           │  else: a Plan, used unit by unit, remade  │
           │  only when one of its grounds changes     │
           └──────────────── next_unit ────────────────┘

The grounds of a plan are the schema changes in the queue, the views, the messages' states and what was observed when a
unit broke. Data updates that arrive are appended to the plan; units that are installed are taken off its front.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dyda.model.message import MessageState
from dyda.model.relation import RelationName
from scheduler.batching import take_run, take_unit
from scheduler.deco import Plan, Planned
from scheduler.dependencies import Dependencies, Edge
from scheduler.footprint import EffectOf, Footprint, Footprints, ViewReads, effect_of, shape_of
from scheduler.graph import Drawing, draw
from scheduler.needs import Entry, Needs
from scheduler.queue import Consistency, Queued, Unit
from scheduler.stretches import Stretches

__all__ = ["Detection", "Schedule", "Waiting"]


class Detection(enum.Enum):
    """When unsafe dependencies are looked for (paper 001, Section 6.1.3)."""

    PESSIMISTIC = "pessimistic"
    """Before each unit, while a schema change is in the queue."""
    OPTIMISTIC = "optimistic"
    """Only after a unit broke; arrival order until then."""


@dataclass(frozen=True)
class Waiting:
    """A message that cannot be processed now, and why."""

    number: int
    state: MessageState
    reason: str


class Schedule:
    """The queue and its legal order. It holds the messages it is given, and removes one only when told to."""

    def __init__(
        self,
        views: Iterable[ViewReads] = (),
        detection: Detection = Detection.PESSIMISTIC,
        effect: EffectOf = effect_of,
    ) -> None:
        self.detection = detection
        self.plans = 0
        """How often a graph was built."""
        self._views = tuple(views)
        self._effect = effect
        self._entries: OrderedDict[int, Entry] = OrderedDict()
        self._schema: OrderedDict[int, Entry] = OrderedDict()
        self._stretches: Stretches | None = None
        """The entries as plans take them; None: a message must be alone, or need not, since they were made."""
        self._stopped: set[int] = set()
        self._observed: dict[int, Entry] = {}
        self._shapes: dict[frozenset[RelationName], frozenset[RelationName]] = {}
        self._relations: dict[RelationName, RelationName] = {}
        self._last = -1
        self._known: Footprints | None = None
        self._plan: Plan | None = None
        self._ahead: deque[Planned] = deque()
        self._unplanned = 0
        self._broke = False

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, number: int) -> bool:
        return number in self._entries

    @property
    def schema_change_flag(self) -> bool:
        """Whether a schema change is in the queue. Without one nothing can be unsafe (paper 001, Section 6.1.1)."""
        return bool(self._schema)

    @property
    def stopped(self) -> frozenset[int]:
        """The messages that are marked: they wait for an operator."""
        return frozenset(self._stopped)

    def add(self, messages: Iterable[Queued]) -> None:
        """Messages that arrived, in arrival order. Those that are here already are passed over."""
        for queued in messages:
            if queued.number in self._entries:
                continue
            if queued.number <= self._last:
                raise ValueError(f"message {queued.number} is added after message {self._last}: not arrival order")
            self._last = queued.number
            shape = shape_of(queued.message)
            if isinstance(shape, frozenset):
                shape = self._same(shape)
            entry = Entry(queued, queued.number, queued.message.source, shape, queued.message.rows)
            self._entries[entry.number] = entry
            if self._plan is not None and self.detection is Detection.OPTIMISTIC:
                self._plan.complete()  # it is about what was here when a unit broke
            if self._stretches is not None:
                self._stretches.add(entry)
            if entry.changes_schema:
                self._schema[entry.number] = entry
                self._known = None
                if self.detection is Detection.PESSIMISTIC:
                    self._forget_plan()
            if self._plan is None:
                continue
            if self.detection is Detection.PESSIMISTIC:
                self._plan.append(entry)
            else:
                self._unplanned += 1

    def remove(self, numbers: Iterable[int]) -> None:
        """Messages that are installed, acknowledged or skipped. The rest of the plan stays if its front was removed."""
        gone = {number for number in numbers if number in self._entries}
        answered = False
        for number in gone:
            entry = self._entries.pop(number)
            if self._stretches is not None:
                self._stretches.remove(entry)
            self._observed.pop(number, None)
            if self._schema.pop(number, None) is not None:
                self._known = None
                answered = True
            self._stopped.discard(number)
        while gone and self._ahead and gone.issuperset(entry.number for entry in self._ahead[0].entries):
            gone.difference_update(entry.number for entry in self._ahead.popleft().entries)
        if gone or not (self._schema or self._stopped):
            self._forget_plan()
        if answered and not self._schema:
            self._broke = False  # what breaks a unit may come with the next poll: until then there is none to answer
        if not self._entries:
            self._shapes.clear()

    def mark(self, number: int, state: MessageState) -> None:
        """Hold a message, or let it go. What depends on it waits with it, and nothing else does."""
        entry = self._entries[number]
        if entry.state is not state:
            entry.mark(state)
            self._stretches = None
            (self._stopped.discard if state is MessageState.WAITING else self._stopped.add)(number)
            self._forget_plan()

    def change_views(self, views: Iterable[ViewReads]) -> None:
        """The views as they are read from now on: after a rewriting, or when one was added, dropped or frozen."""
        changed = tuple(views)
        if changed != self._views:
            self._views = changed
            self._known = None
            if self.detection is Detection.PESSIMISTIC:
                self._forget_plan()

    def broken(self, numbers: Iterable[int], relations: Iterable[RelationName]) -> bool:
        """A unit broke while it read `relations`; whether a pending schema change explains it now.

        The edge that was observed is added (rule S3): where the footprint foresaw the read, for any column; where it
        did not, for every message of the unit. A relation's later schema changes count too, so this may be called
        before or after the poll that finds them. If it returns False, poll; if it still does, take locks.
        """
        unit = [self._entries[number] for number in numbers if number in self._entries]
        for relation in relations:
            own = self._footprints().names.relation(relation)
            readers = [e for e in unit if own in self.footprint(e).reads and relation not in e.observed]
            for entry in readers or unit:
                self.observe(entry.number, {relation})
        self._broke = True
        self._forget_plan()
        return self.interruption([entry.number for entry in unit]) is not None

    def observe(self, number: int, relations: Iterable[RelationName]) -> None:
        """Processing this message reads `relations`, whatever the views say."""
        entry = self._entries[number]
        entry.observe(relations)
        self._stretches = None
        self._observed[number] = entry
        self._known = None
        self._forget_plan()

    def interruption(self, numbers: Iterable[int], since: int = -1) -> Edge | None:
        """Why a running unit of these messages must break: an edge to a pending schema change after message `since`.
        This is early detection (paper 001, Section 6.1.2)."""
        unit = {number: self._entries[number] for number in numbers if number in self._entries}
        if not unit or not self._schema:
            return None
        entries = sorted({**self._schema, **unit}.values(), key=lambda entry: entry.number)
        dependencies = Dependencies(entries, Needs(self._schema.values(), self._footprints()))
        for entry in unit.values():
            for edge in dependencies.edges(entry):
                if edge.before not in unit and edge.before > since:
                    return edge
        return None

    def next_unit(self, consistency: Consistency, batch_rows: int) -> Unit | None:
        """What to process next; None if nothing can be. The same until something changes: `remove` it when done."""
        if not self._planned():
            return take_unit(self._arrival_order(), self._concerned, consistency, batch_rows)
        unit = take_unit(self._plan_order(), self._concerned, consistency, batch_rows)
        if unit is None and self._unplanned:
            self._forget_plan()
            self._broke = False
            return self.next_unit(consistency, batch_rows)
        return unit

    def next_run(self, limit: int) -> tuple[Unit, ...]:
        """The units of `complete` that can be processed in one pass (rule W6), each into its own state, with no schema
        change in between. Empty if nothing can be processed, or if the next unit changes a schema."""
        if self.next_unit(Consistency.COMPLETE, limit) is None:
            return ()
        order = self._plan_order() if self._planned() else self._arrival_order()
        return take_run(order, self._concerned, limit)

    def units(self, consistency: Consistency, batch_rows: int) -> Iterator[Unit]:
        """All units in the order in which they would be processed if nothing changed, for `pending plan`."""
        order = deque(self._fresh() if self._planned() else self._arrival_order())
        while order:
            unit = take_unit(order, self._concerned, consistency, batch_rows)
            if unit is None:
                return
            yield unit
            left = len(unit.messages)
            while left:
                left -= len(order.popleft().entries)

    def waiting(self) -> tuple[Waiting, ...]:
        """The messages that cannot be processed before an operator decides, in arrival order."""
        if not self._stopped:
            return ()
        plan = self._fresh()
        deque(plan, maxlen=0)
        return tuple(
            Waiting(entry.number, entry.state, edge.reason if edge else _stopped(entry)) for entry, edge in plan.left()
        )

    def drawing(self) -> Drawing:
        """The dependency graph of the whole queue, for `pending graph`, whether or not it is needed for the order."""
        return draw(tuple(self._entries.values()), self._fresh())

    def footprint(self, entry: Entry) -> Footprint:
        return self._footprints().of(entry.shape)

    def _planned(self) -> bool:
        pessimistic = self.detection is Detection.PESSIMISTIC
        return bool(self._stopped) or bool(self._schema and (pessimistic or self._broke))

    def _plan_order(self) -> Iterator[Planned]:
        """The plan from its front, made if there is none; what is looked at stays until it is removed."""
        if self._plan is None:
            self._plan = self._fresh()
            self.plans += 1
        yield from tuple(self._ahead)
        for planned in self._plan:
            self._ahead.append(planned)
            yield planned

    def _fresh(self) -> Plan:
        if self._stretches is None:
            self._stretches = Stretches(self._entries.values())
        return Plan(self._entries.values(), self._schema.values(), self._stretches, self._footprints())

    def _arrival_order(self) -> Iterator[Planned]:
        return (Planned((entry,), False, None, None, ()) for entry in self._entries.values())

    def _footprints(self) -> Footprints:
        if self._known is None:
            pending = (change for entry in self._schema.values() for change in entry.queued.message.changes)
            watched = {relation for entry in self._observed.values() for relation in entry.observed}
            self._known = Footprints(self._views, pending, self._effect, watched)
        return self._known

    def _concerned(self, entry: Entry) -> bool:
        return bool(entry.observed) or self._footprints().concerned(entry.shape)

    def _same(self, shape: frozenset[RelationName]) -> frozenset[RelationName]:
        """Equal shapes as one object made of one object per name: they are compared often, and then at no cost."""
        found = self._shapes.get(shape)
        if found is None:
            found = frozenset(self._relations.setdefault(name, name) for name in shape)
            self._shapes[found] = found
        return found

    def _forget_plan(self) -> None:
        self._plan = None
        self._ahead.clear()
        self._unplanned = 0


def _stopped(entry: Entry) -> str:
    if entry.state is MessageState.WAITING:
        return f"message {entry.number} is merged with a message that is held"
    return f"message {entry.number} is {entry.state.value}"
