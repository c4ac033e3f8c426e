"""What to process next: the schedules over the views that can be maintained now, their breaks, and locks when need be.

Paper 001 leaves one hole: an endless stream of schema changes can abort the same unit again and again. After
`max_aborts` of them, the next poll locks the relations that the unit reads (ACCESS SHARE), for one attempt.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence

from dyda.errors import BrokenUnit
from dyda.maintenance.catalog_state import CatalogState, MaintainedView
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.programs import one_by_one
from dyda.maintenance.schedules import Schedules, Turn
from dyda.maintenance.view_reads import lacked, view_reads
from dyda.maintenance.waiting import Stops, stops_of
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.knowledge.constraints import Knowledge
from dyda.model.message import HOLDING
from dyda.model.relation import RelationName
from dyda.open_project import OpenProject
from dyda.warehouse import MessageRecord
from scheduler import Consistency, Detection, Queued, Schedule, Unit, UnitKind, ViewReads

__all__ = ["Planner"]


class Planner:
    """Dyno's memory between units. It survives polls; a schedule is made again when other views can be maintained."""

    def __init__(self, opened: OpenProject, log: Callable[[str], None]) -> None:
        settings = opened.project.settings.maintenance
        self.opened = opened
        self.log = log
        self.consistency = Consistency(settings.consistency)
        self.detection = Detection(settings.detection)
        self.aborts = 0
        self._schedules: Schedules | None = None
        self._turn: Turn | None = None
        self._holding: dict[int, MessageRecord] = {}
        """The messages that wait for an operator."""
        self._over: frozenset[str] = frozenset()
        self._polled: Poll | None = None
        self._knowledge: Knowledge | None = None
        self._read: dict[str, tuple[ViewDefinition, ViewReads]] = {}
        self._broken: Counter[int] = Counter()
        self._broken_builds = 0
        self._lock: frozenset[RelationName] = frozenset()
        self._at_most: int | None = None
        self._longest_run: int | None = None

    def forget(self) -> None:
        """An operator decided something, or a view was frozen: make new schedules."""
        self._schedules = None

    def next_turn(self, polled: Poll, current: Sequence[MaintainedView], known: CatalogState) -> Turn | None:
        """The next unit of what the poll shows and some view of `current` lacks, and the views that it moves."""
        schedules = self._refreshed(polled, current, known)
        batch_rows = self.opened.project.settings.maintenance.batch_rows
        turn = schedules.next_turn(self.consistency, batch_rows)
        if turn is not None and self._at_most is not None and turn.unit.kind is UnitKind.DATA:
            unit = turn.unit
            turn = Turn(Unit(unit.messages[: self._at_most], unit.reason, unit.kind, unit.idle), turn.groups)
        self._turn = turn
        return turn

    def free(self, polled: Poll, current: Sequence[MaintainedView]) -> list[MaintainedView]:
        """Those of the views that wait for no message, and are not behind the catalog."""
        self._know_holding()
        stops = self._stops(polled, current)
        return [view for view in current if view.name not in stops and view.record.earlier is None]

    def stopped(self, polled: Poll, known: CatalogState) -> frozenset[str]:
        """All views that wait for a message, also those that cannot be maintained now."""
        return frozenset(self.stops(polled, known))

    def stops(self, polled: Poll, known: CatalogState) -> Stops:
        """Of all views, the messages that they cannot go beyond now."""
        self._know_holding()
        return self._stops(polled, list(known.views.values())) if self._holding else {}

    def next_run(self, current: Sequence[MaintainedView]) -> tuple[Unit, ...]:
        """In `complete` mode the units of data that follow each other and can be computed together (rule W6): the next
        one and what comes right after it. What must be read again group by group takes one transaction at a time."""
        if self.consistency is not Consistency.COMPLETE or self._schedules is None or self._turn is None:
            return ()
        if any(one_by_one(view.program) for view in current):
            return ()
        rows = self.opened.project.settings.maintenance.batch_rows
        return self._schedules.next_run(self._turn, rows)[: self._longest_run]

    def narrow_run(self, units: Sequence[Unit]) -> None:
        """A value in one of these cannot be computed: look for it in the first half."""
        self._longest_run = max(1, len(units) // 2)

    def foresee(self, unit: Unit) -> None:
        """Optimistic detection has not asked yet what the unit would read. What the snapshots show of a pending schema
        change raises no error (R1), so a unit that would meet one is abandoned before it begins."""
        if self.detection is Detection.OPTIMISTIC:
            for schedule in self._moving():
                edge = schedule.interruption(unit.numbers)
                if edge is not None:
                    raise BrokenUnit(edge.source, frozenset({str(edge.relation)}), edge.reason)

    def _moving(self) -> list[Schedule]:
        """The schedules that the unit under way is from."""
        if self._schedules is None or self._turn is None:
            return []
        return [group.schedule for group in self._turn.groups]

    def everything(self, polled: Poll, current: Sequence[MaintainedView]) -> Unit | None:
        """All messages at once, for views that come along with a build. None in `complete` mode: they go by steps."""
        missing = self._missing(polled, current)
        if self.consistency is Consistency.COMPLETE or not missing:
            return None
        return Unit(tuple(missing), "all messages received: the views being built contain them too", UnitKind.MERGED)

    def installed(self, unit: Unit) -> None:
        if self._turn is not None:
            Schedules.installed(self._turn, unit.messages)
        for number in unit.numbers:
            self._broken.pop(number, None)
        self._lock = frozenset()
        self._at_most = None
        self._longest_run = None

    def narrow(self, unit: Unit) -> None:
        """A value in one of these messages cannot be computed: look for it in the first half."""
        self._at_most = max(1, len(unit.messages) // 2)

    def broken(self, unit: Unit, error: BrokenUnit, known: CatalogState) -> frozenset[RelationName]:
        """The unit was abandoned. Remember the edge that was observed (S3), and lock after too many times.

        Returns the relations, to be recorded: a restart must not forget them.
        """
        self.aborts += 1
        named = {str(name): name for name in known.relations}
        relations = frozenset(named[text] for text in error.relations if text in named)
        if not relations:  # a name that the catalog has yet to learn: all that is read there may be meant
            relations = frozenset(
                n for v in known.views.values() for n in v.definition.relations if n.source == error.source
            )
        for schedule in self._moving():
            schedule.broken(unit.numbers, relations)
        self._broken.update(unit.numbers)
        most = max(self._broken[number] for number in unit.numbers)
        if most >= self.opened.project.settings.maintenance.max_aborts:
            touched = {relation for queued in unit.messages for relation in queued.message.relations}
            readers = [view for view in known.views.values() if touched & view.definition.relations]
            self._lock_next(most, {relation for view in readers for relation in view.definition.relations})
        return relations

    def build_broken(self, relations: Collection[RelationName]) -> None:
        """The tables changed while views were being built from `relations`; that can repeat, too."""
        self.aborts += 1
        self._broken_builds += 1
        if self._broken_builds >= self.opened.project.settings.maintenance.max_aborts:
            self._lock_next(self._broken_builds, relations)

    def _lock_next(self, times: int, relations: Collection[RelationName]) -> None:
        self._lock = frozenset(relations)
        self.log(f"abandoned {times} times: the next attempt locks {', '.join(sorted(map(str, self._lock)))}")

    def built(self) -> None:
        self._broken_builds = 0
        self.forget()

    def locks(self) -> frozenset[RelationName]:
        """The relations that the next poll must hold still, for one attempt."""
        locked, self._lock = self._lock, frozenset()
        return locked

    def lock_again(self, relations: frozenset[RelationName]) -> None:
        """The poll that locked these was not used for an attempt: the next one is."""
        self._lock |= relations

    def early_check(self, polled: Poll) -> Callable[[Collection[RelationName]], None]:
        """In-exec detection by arrival: a unit that takes long asks now and then whether it is still worth it, given
        what it is about to read and what it has read since the schemas were last compared.

        A unit that is quicker than a poll never asks, so detection costs it no query.
        """
        patience = self.opened.project.settings.maintenance.poll_max
        last = time.monotonic()

        def check(reading: Collection[RelationName]) -> None:
            nonlocal last
            if time.monotonic() - last < patience:
                return
            last = time.monotonic()
            for source, snapshot in polled.snapshots.items():
                arrived = snapshot.arrivals() & (frozenset(reading) | snapshot.unchecked | snapshot.scanned)
                if arrived:
                    raise BrokenUnit(source, frozenset(map(str, arrived)), "a schema change arrived")

        return check

    def _missing(self, polled: Poll, current: Sequence[MaintainedView]) -> list[Queued]:
        lacks = lacked(current)
        return [queued for queued in polled.queue if lacks(queued.message.source, queued.message.xid)]

    def _refreshed(self, polled: Poll, current: Sequence[MaintainedView], known: CatalogState) -> Schedules:
        """The schedules over `current`. Within one poll only units leave them, and `installed` has taken those out."""
        names = frozenset(view.name for view in current)
        if self._schedules is not None and self._over == names and self._polled is polled:
            return self._schedules
        self._know_holding()
        if self._schedules is None:
            self._schedules = Schedules(self.detection, self._recall)
        stops = self._stops(polled, current)
        reads = dict(zip((view.name for view in current), self._reads(current, known), strict=True))
        states = {number: record.state for number, record in self._holding.items()}
        self._schedules.refresh(polled.arrivals, current, stops, states, lambda view: reads[view.name])
        self._over, self._polled = names, polled
        return self._schedules

    def _know_holding(self) -> None:
        """Whoever decides about a message has `forget` called."""
        if self._schedules is None:
            self._holding = {record.id: record for record in self.opened.warehouse.messages(states=HOLDING)}

    def _stops(self, polled: Poll, current: Sequence[MaintainedView]) -> Stops:
        causes = {number: record.cause for number, record in self._holding.items()}
        if not causes:
            return {}
        moving = polled.moving
        held_rows = causes.keys() - {queued.number for queued in moving}
        rows = [queued for queued in polled.queue if queued.number in held_rows] if held_rows else []
        return stops_of(causes, [*moving, *rows], current)

    def _reads(self, current: Sequence[MaintainedView], known: CatalogState) -> list[ViewReads]:
        """What each view reads and might read; asked again only of views that are others now, or of all under other
        knowledge."""
        if self._knowledge != known.knowledge:
            self._knowledge = known.knowledge
            self._read.clear()
        for view in current:
            if self._read.get(view.name, (None,))[0] is not view.definition:
                self._read[view.name] = (view.definition, view_reads(view, known.known_to(view.record.earlier)))
        return [self._read[view.name][1] for view in current]

    def _recall(self, schedule: Schedule) -> None:
        """What earlier aborts have shown about the messages that are still in the queue (S3)."""
        found: Counter[int] = Counter()
        for record in self.opened.warehouse.aborts_of_waiting():
            waiting = [number for number in record.messages if number in schedule]
            found.update(waiting)
            schedule.broken(waiting, record.relations)
        self._broken |= found
