"""A schedule that follows the queue decides as one that is made afresh, unit by unit.

Meanwhile messages arrive, units are installed for all views or some, views are rewritten, read other sources or come to
other positions without a unit, and operators hold messages or let them go.

Two things are not part of this, for a schedule is meant to keep them: what a broken unit has shown under the views of
that moment (rule S3), and, in optimistic mode, a plan that what arrives later does not touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from dyda.maintenance.arrivals import Arrivals, Waiting
from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.schedules import Schedules, Turn
from dyda.model.message import MessageState, UpdateMessage
from dyda.model.position import Position
from scheduler import Consistency, Detection, Queued, ViewReads
from tests.properties.test_scheduler import COMMANDS, RENAMES, SOURCES, message, view_reads

FIRST = 100
"""No transaction of these queues has a smaller number."""


@dataclass(frozen=True)
class _Record:
    earlier: None = None


@dataclass(frozen=True)
class _View:
    """As much of a maintained view as schedules ask for."""

    name: str
    reads: ViewReads
    positions: Mapping[str, Position]
    record: _Record = _Record()


@dataclass
class _Story:
    """A warehouse without rows: a queue, views at their positions, and what operators and broken units have shown."""

    views: dict[str, _View]
    queue: dict[int, Queued] = field(default_factory=dict)
    held: dict[str, set[int]] = field(default_factory=dict)
    shown: Arrivals = field(default_factory=Arrivals)

    def __post_init__(self) -> None:
        self.kept = Schedules(Detection.PESSIMISTIC)

    def poll(self) -> None:
        """The next arrivals, which say what is new."""
        before = {queued.number for queued in self.shown.queue}
        lacked = {n: one for n, one in self.queue.items() if any(_lacks(view, one) for view in self.views.values())}
        queue = [lacked[number] for number in sorted(lacked)]
        parts: dict[str, list[Queued]] = {source: [] for source in SOURCES}
        for queued in queue:
            parts[queued.message.source].append(queued)
        self.shown = Arrivals(
            {source: Waiting.of(mine) for source, mine in parts.items()},
            tuple(queued for queued in queue if queued.number not in before),
            frozenset(before - lacked.keys()),
            self.shown.state or object(),
            object(),
        )

    def next_turn(self, mode: Consistency, rows: int) -> Turn | None:
        kept = self._asked(self.kept, self.shown, mode, rows)
        fresh = self._asked(Schedules(Detection.PESSIMISTIC), Arrivals.of(self.shown.queue), mode, rows)
        assert _told(kept) == _told(fresh)
        return kept

    def _asked(self, schedules: Schedules, arrivals: Arrivals, mode: Consistency, rows: int) -> Turn | None:
        views = [cast("MaintainedView", view) for view in self.views.values()]
        there = {queued.number for queued in arrivals.queue}
        stops = {name: frozenset(held & there) for name, held in self.held.items() if held & there}
        states = {number: MessageState.HELD for held in self.held.values() for number in held}
        schedules.refresh(arrivals, views, stops, states, lambda view: self.views[view.name].reads)
        return schedules.next_turn(mode, rows)

    def install(self, turn: Turn) -> None:
        """Positions move as a unit moves them (P3)."""
        for name in turn.views:
            view = self.views[name]
            positions = dict(view.positions)
            for source, at in view.positions.items():
                taken = {q.message.xid for q in turn.unit.messages if q.message.source == source}
                if taken and not all(map(at.includes, taken)):
                    end = max(at.xmax - 1, *taken)
                    had = [q.message.xid for q in self.queue.values() if q.message.source == source]
                    left = [x for x in had if x <= end and x not in taken and not at.includes(x)]
                    positions[source] = Position(end + 1, end + 1).without(left)
            self.views[name] = replace(view, positions=positions)
        Schedules.installed(turn, turn.unit.messages)


def _lacks(view: _View, queued: Queued) -> bool:
    at = view.positions.get(queued.message.source)
    return at is not None and not at.includes(queued.message.xid)


def _told(turn: Turn | None) -> object:
    if turn is None:
        return None
    return turn.unit.numbers, turn.unit.kind, turn.unit.idle, turn.views, turn.unit.reason


def _view(reads: ViewReads) -> _View:
    sources = {relation.source for relation in reads.reads}
    return _View(reads.view, reads, {source: Position(FIRST, FIRST) for source in sources})


OFTEN = ("arrive", "install")
STEPS = (*OFTEN, *OFTEN, *OFTEN, "rewrite", "reread", "hold", "release", "build")


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_kept_schedule_decides_as_a_fresh_one(choice: st.DataObject) -> None:
    draw = choice.draw
    reads = [draw(view_reads(f"v{index}")) for index in range(draw(st.integers(1, 3)))]
    story = _Story({each.view: _view(each) for each in reads})
    rarity = draw(st.sampled_from((2, 6, 12)))
    mode, rows = draw(st.sampled_from(Consistency)), draw(st.integers(1, 12))
    number = 0
    for _ in range(draw(st.integers(1, 25))):
        _step(story, draw, draw(st.sampled_from(STEPS)), mode, rows)
        if draw(st.booleans()):
            for _ in range(draw(st.integers(1, 6))):
                number += 1
                queued = draw(message(number, COMMANDS + RENAMES, rarity))
                one = queued.message
                # Transactions are received as they commit, not by their numbers.
                xid = FIRST + number + draw(st.sampled_from((0, 0, 0, 1000)))
                story.queue[number] = Queued(number, UpdateMessage(one.source, xid, number, one.changes))
            story.poll()
        elif draw(st.booleans()):
            story.poll()
        story.next_turn(mode, rows)


def _step(story: _Story, draw: Any, what: str, mode: Consistency, rows: int) -> None:
    name = draw(st.sampled_from(sorted(story.views)))
    match what:
        case "install":
            turn = story.next_turn(mode, rows)
            if turn is not None:
                story.install(turn)
        case "rewrite":
            before = story.views[name]
            after = _view(draw(view_reads(name)))
            positions = {source: before.positions.get(source, at) for source, at in after.positions.items()}
            story.views[name] = replace(after, positions=positions)
        case "reread":  # the same relations, with other columns
            before, other = story.views[name], draw(view_reads(name))
            reads = {one: other.reads.get(one, columns) for one, columns in before.reads.reads.items()}
            story.views[name] = replace(before, reads=replace(before.reads, reads=reads))
        case "hold":
            if story.shown.queue:
                story.held.setdefault(name, set()).add(draw(st.sampled_from(story.shown.queue)).number)
        case "build":  # the view goes to another state of its sources, or back to one
            ends = {source: FIRST + draw(st.integers(0, 60)) for source in sorted(story.views[name].positions)}
            positions = {source: Position(end, end) for source, end in ends.items()}
            story.views[name] = replace(story.views[name], positions=positions)
        case "release":
            story.held.pop(name, None)
