"""Schedules by view: views that wait for the same messages, and know the same of their sources, share one.

    stops ──▶ groups of views ──▶ a Schedule each ──▶ units ──▶ one turn: the unit that comes first, and who it moves

Units of several groups go together where they can.
Nothing waits: there is one group, and its schedule is the queue's (O(1) without a schema change).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.lacked_messages import LackedMessages
from dyda.maintenance.waiting import Stops
from dyda.model.message import MessageState
from dyda.warehouse import EarlierCatalog
from scheduler import Consistency, Detection, Queued, Schedule, Unit, UnitKind, ViewReads

__all__ = ["Group", "Schedules", "Turn"]

PLAIN = (UnitKind.DATA, UnitKind.IDLE)


@dataclass
class Group:
    """Views that stop at the same messages, and the schedule of what they lack."""

    views: frozenset[str]
    schedule: Schedule
    earlier: EarlierCatalog | None = None
    """What they all know that the catalog has gone beyond."""
    lacked: LackedMessages = field(default_factory=LackedMessages)
    """What is in the schedule."""
    last: int = -1
    """The last message that was ever scheduled: others are added in arrival order."""


@dataclass(frozen=True)
class Turn:
    """A unit, and the groups whose views it moves."""

    unit: Unit
    groups: tuple[Group, ...]

    @property
    def views(self) -> frozenset[str]:
        return frozenset(name for group in self.groups for name in group.views)


class Schedules:
    """The schedules of all groups. A group's is kept as long as it has the same views."""

    def __init__(self, detection: Detection, recall: Callable[[Schedule], None] = lambda schedule: None) -> None:
        self.detection = detection
        self.groups: tuple[Group, ...] = ()
        self._recall = recall
        """Tells a new schedule what earlier aborts have shown."""

    def refresh(
        self,
        arrivals: Arrivals,
        views: Sequence[MaintainedView],
        stops: Stops,
        states: Mapping[int, MessageState],
        reads: Callable[[MaintainedView], ViewReads],
    ) -> None:
        """The queue as it is now; what has not changed stays scheduled.

        `states` are those of the messages that wait for an operator."""
        before = {group.views: group for group in self.groups}

        def group_of(views: Sequence[MaintainedView]) -> Group | None:
            return before.get(frozenset(view.name for view in views))

        members: dict[tuple[frozenset[int], EarlierCatalog | None], list[MaintainedView]] = {}
        for view in views:
            members.setdefault((stops.get(view.name, frozenset()), view.record.earlier), []).append(view)
        self.groups = tuple(
            self._refreshed(
                before.get(frozenset(view.name for view in mine)),
                arrivals,
                mine,
                stopped,
                states,
                list(map(reads, mine)),
            )
            for (stopped, _), mine in members.items()
        )

    def _refreshed(
        self,
        group: Group | None,
        arrivals: Arrivals,
        views: Sequence[MaintainedView],
        stopped: Collection[int],
        states: Mapping[int, MessageState],
        reads: Sequence[ViewReads],
    ) -> Group:
        added, removed = group.lacked.follow(arrivals, views) if group is not None else ([], set())
        if group is None or (added and added[0].number <= group.last):
            # A view that has come to read another source may lack what only other groups lacked so far.
            group = Group(frozenset(view.name for view in views), Schedule(reads, self.detection))
            added, _ = group.lacked.follow(arrivals, views)
            group.schedule.add(added)
            self._mark(group, stopped, states)
            self._recall(group.schedule)
        else:
            group.schedule.change_views(reads)
            group.schedule.remove(removed)
            group.schedule.add(added)
            self._mark(group, stopped, states)
        group.earlier = views[0].record.earlier
        if added:
            group.last = max(group.last, added[-1].number)
        return group

    def _mark(self, group: Group, stopped: Collection[int], states: Mapping[int, MessageState]) -> None:
        for number in group.lacked.numbers.intersection(stopped):
            group.schedule.mark(number, states.get(number, MessageState.HELD))
        for number in group.schedule.stopped - set(stopped):
            group.schedule.mark(number, MessageState.WAITING)

    def next_turn(self, consistency: Consistency, batch_rows: int) -> Turn | None:
        """What comes first in arrival order; the units of all groups as one where none takes a message too early."""
        found = [
            (group, unit)
            for group in self.groups
            if (unit := group.schedule.next_unit(consistency, batch_rows)) is not None
        ]
        if len(found) < 2:
            return Turn(found[0][1], (found[0][0],)) if found else None
        found.sort(key=lambda one: one[1].messages[0].number)
        # One name may mean two descriptions of a relation in one unit otherwise.
        found = [(group, unit) for group, unit in found if group.earlier == found[0][0].earlier]
        if consistency is Consistency.STRONG and all(unit.kind in PLAIN for _, unit in found):
            together = _sum([unit for _, unit in found])
            if all(group.lacked.numbers.intersection(together.numbers) <= set(unit.numbers) for group, unit in found):
                return Turn(together, tuple(group for group, _ in found))
        (first, unit), *others = found
        joined = [first]
        for group, other in others:
            shorter, longer = sorted((unit, other), key=lambda one: len(one.messages))
            if shorter.numbers != longer.numbers[: len(shorter.numbers)]:
                continue
            if shorter.numbers == longer.numbers or (shorter.kind in PLAIN and longer.kind in PLAIN):
                unit = _sum([shorter, other]) if shorter.numbers == other.numbers else shorter
                joined.append(group)
        return Turn(unit, tuple(joined))

    def next_run(self, turn: Turn, limit: int) -> tuple[Unit, ...]:
        """The units that can be processed in one pass (W6): as far as the groups of the turn agree."""
        runs = [group.schedule.next_run(limit) for group in turn.groups]
        length = 0
        while all(len(run) > length for run in runs) and len({run[length].numbers for run in runs}) == 1:
            length += 1
        return runs[0][:length]

    def turns(self, consistency: Consistency, batch_rows: int) -> Iterator[Turn]:
        """All turns in the order in which they would come if nothing changed. It empties the schedules."""
        while (turn := self.next_turn(consistency, batch_rows)) is not None:
            yield turn
            self.installed(turn, turn.unit.messages)

    @staticmethod
    def installed(turn: Turn, messages: Sequence[Queued]) -> None:
        gone = {queued.number for queued in messages}
        for group in turn.groups:
            group.schedule.remove(gone)
            group.lacked.installed(messages)


def _sum(units: Sequence[Unit]) -> Unit:
    """The messages of these units at once; idle are those that no unit has to work for."""
    messages = {queued.number: queued for unit in units for queued in unit.messages}
    works = {number for unit in units for number in unit.numbers if number not in unit.idle}
    kinds = {unit.kind for unit in units}
    kind = UnitKind.DATA if kinds == set(PLAIN) else units[0].kind
    reason = "; ".join(dict.fromkeys(unit.reason for unit in units))
    idle = frozenset(messages) - works
    return Unit(tuple(messages[number] for number in sorted(messages)), reason, kind, idle)
