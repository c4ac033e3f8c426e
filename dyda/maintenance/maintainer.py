"""One cycle of maintenance: poll, choose, compute, check, install, acknowledge.

    poll ──▶ something moved? ──▶ heal capture, poll again, build the views concerned ──┐
      │                                                                                 ▼
      └────▶ next unit ─────────▶ sweep the sources, ΔV on Spark ──▶ check ─▶ install ─▶ acknowledge

In `strong` mode a build takes the whole queue with it, so that all views stand at the same positions after it. In
`complete` mode the built view is ahead of the others, and joins them when they have gone through the same states.
"""

from __future__ import annotations

import datetime
import enum
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dyda import faults
from dyda.errors import (
    BrokenUnit,
    DydaError,
    EngineFailed,
    EvaluationFailed,
    InstallBlocked,
    PositionMoved,
    SourceBusy,
    SourceUnreachable,
    ValueDoesNotFit,
)
from dyda.house import House
from dyda.maintenance.building import Builder, Progress
from dyda.maintenance.live import Known, LiveView, Target, load
from dyda.maintenance.movement import find_movement
from dyda.maintenance.poll import Poll, poll
from dyda.maintenance.refresh import Refresh
from dyda.model.algebra import scans
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.warehouse import Installation, RelationState, SourceState, UnitRecord, ViewChange, Worker
from scheduler import Consistency, Unit, next_unit

__all__ = ["Maintainer", "Outcome"]

Positions = dict[str, dict[str, Position]]

UNSETTLED = -1
"""No gap has this number: views built while one was unsettled are built again when it has settled."""


class Outcome(enum.Enum):
    """How a cycle ended."""

    IDLE = "nothing to do"
    WORKED = "a unit was installed"
    BROKEN = "the unit was void: a schema moved under it"
    BLOCKED = "something that is needed is out of reach"


@dataclass
class Phases:
    """Where a unit's time went, in seconds."""

    started_at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    spent: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.perf_counter)

    def done(self, phase: str) -> None:
        now = time.perf_counter()
        self.spent[phase] = self.spent.get(phase, 0.0) + now - self._since
        self._since = now


class Maintainer:
    """Keeps the views of one project; holds the project's lock through its worker."""

    def __init__(self, house: House, worker: Worker, log: Callable[[str], None] = lambda text: None) -> None:
        self.house = house
        self.worker = worker
        self.log = log
        self.consistency = Consistency(house.project.settings.maintenance.consistency)
        self.obstacle: DydaError | None = None
        """What stood in the way of the last cycle that was blocked."""
        self._known: Known | None = None
        self._loaded: Known | None = None
        self._acknowledged: set[str] = set()
        self._at_most: int | None = None

    @property
    def known(self) -> Known:
        """The catalog; only this process writes it, so it is read again only after a write."""
        if self._known is None:
            self._known = self._loaded = load(self.house, self._loaded)
        return self._known

    def forget(self) -> None:
        """Read the catalog again before the next unit."""
        self._known = None

    def cycle(self, targets: Sequence[Target] = (), progress: Progress = lambda text, done, total: None) -> Outcome:
        """One unit, or none. `targets` are views to build: new ones, changed ones, those to resync."""
        requested = {target.name: target for target in targets}
        healed: set[str] = set(requested)
        try:
            while True:
                phases = Phases()
                with poll(self.house, self.worker, self.known) as polled:
                    phases.done("capture")
                    self._note_sources(polled)
                    movement = find_movement(polled, self.known)
                    again = {name: self._again(name, reason) for name, reason in movement.again.items()}
                    if set(again) <= healed:
                        return self._run(polled, {**again, **requested}, movement.waiting, progress, phases)
                self._heal(self.known.views[name] for name in again)
                healed |= set(again)
        except (BrokenUnit, PositionMoved) as error:
            self.log(f"unit abandoned: {error.what}")
            self._abandon()
            return Outcome.BROKEN
        except (SourceUnreachable, SourceBusy, InstallBlocked, EngineFailed) as error:
            self._abandon()
            return self._blocked(error)

    def _abandon(self) -> None:
        """A unit that is not installed leaves no trace."""
        self.worker.discard_stagings()
        self.forget()

    def _blocked(self, error: DydaError) -> Outcome:
        if self.obstacle is None or self.obstacle.what != error.what:
            self.log(str(error))
        self.obstacle = error
        return Outcome.BLOCKED

    def _again(self, name: str, reason: str) -> Target:
        return Target(name, self.known.views[name].record.sql or "", None, reason)

    def _note_sources(self, polled: Poll) -> None:
        for name in polled.snapshots:
            self.worker.note_source(name, reachable=True)
        for name, error in polled.unreachable.items():
            self.worker.note_source(name, reachable=False, error=error)

    def _heal(self, views: Iterable[LiveView]) -> None:
        """Attach capture again to whatever these views read and still exists (C5); before the next snapshot (C6)."""
        wanted: dict[str, dict[RelationName, Relation]] = {}
        for view in views:
            for scan in scans(view.definition.tree):
                name = scan.relation.name
                try:
                    relation = self.house.describe(name.source, name.schema, name.table)
                except SourceUnreachable:
                    raise
                except DydaError:
                    continue  # gone or no longer to be captured: building the view will say so
                wanted.setdefault(name.source, {})[name] = relation
        for source, relations in wanted.items():
            self.house.source(source).attach(relations.values())

    def _run(
        self,
        polled: Poll,
        targets: Mapping[str, Target],
        waiting: Mapping[str, str],
        progress: Progress,
        phases: Phases,
    ) -> Outcome:
        for name, reason in waiting.items():
            if self.known.views[name].record.stored_state != "resync":
                self.worker.set_state(name, "resync", reason)
                self.forget()
        away = set(polled.unreachable)
        current = [
            view
            for view in self.known.views.values()
            if view.name not in targets and view.name not in waiting and not away & set(view.positions)
        ]
        unit = self._choose(polled, current, building=bool(targets))
        if unit is None and not targets:
            self._acknowledge(polled, self._positions(()))
            for source in sorted(away & {name for view in self.known.views.values() for name in view.positions}):
                return self._blocked(SourceUnreachable(source, polled.unreachable[source]))
            self.obstacle = None
            return Outcome.IDLE
        jobs = self.house.engine.jobs
        builder = Builder(self.house, self.worker, polled, self.known, progress)
        changes = [builder.build(target) for target in targets.values()]
        try:
            changes += self._maintain(polled, unit, current, phases) if unit else []
        except (ValueDoesNotFit, EvaluationFailed) as error:
            return self._poisoned(polled, unit, current, error)
        faults.point("unit.evaluated")
        self._check(polled, {name for view in current for name in view.definition.relations} | set(builder.described))
        faults.point("unit.checked")
        phases.done("check")
        positions = self._positions(changes)
        queries = sum(snapshot.queries for snapshot in polled.snapshots.values())
        messages = unit.messages if unit else ()
        self.worker.install(
            Installation(
                changes=tuple(changes),
                done=tuple(
                    queued.number
                    for queued in polled.queue
                    if _installed_everywhere(positions, queued.message.source, queued.message.xid)
                ),
                sources=tuple(self._source_update(polled, name, targets) for name in polled.snapshots),
                relations=tuple(
                    RelationState(relation, polled.snapshots[name.source].fingerprints.get(name))
                    for name, relation in builder.described.items()
                ),
                unit=UnitRecord(
                    started_at=phases.started_at,
                    mode=self.consistency.value,
                    messages=len(messages),
                    rows=sum(queued.message.rows for queued in messages),
                    queries=queries,
                    jobs=self.house.engine.jobs - jobs,
                    phases=phases.spent,
                ),
            )
        )
        self.forget()
        self._at_most = None
        self._acknowledge(polled, positions)
        return Outcome.WORKED

    def _choose(self, polled: Poll, current: Sequence[LiveView], building: bool) -> Unit | None:
        queue = [
            queued
            for queued in polled.queue
            if any(not view.has(queued.message.source, queued.message.xid) for view in current)
        ]
        if building:
            if self.consistency is Consistency.COMPLETE or not queue:
                return None
            return Unit(tuple(queue), "all messages received: the views being built contain them too")
        batch_rows = self.house.project.settings.maintenance.batch_rows
        return next_unit(queue[: self._at_most], self.consistency, batch_rows)

    def _maintain(self, polled: Poll, unit: Unit, views: Sequence[LiveView], phases: Phases) -> list[ViewChange]:
        """ΔV of every view, and the positions that the unit's messages take it to (P3: what is left out is listed)."""
        ours: dict[str, set[int]] = {}
        for queued in unit.messages:
            ours.setdefault(queued.message.source, set()).add(queued.message.xid)
        refresh = Refresh(self.house, polled)
        refresh.read_images(view.block for view in views)
        phases.done("images")
        deltas = refresh.changes(views, ours, phases.done)
        changes = []
        for view in views:
            positions = {}
            for source, xids in ours.items():
                if all(view.has(source, xid) for xid in xids):
                    continue
                left = [
                    queued.message.xid
                    for queued in polled.queue
                    if queued.message.source == source
                    and queued.message.xid not in xids
                    and not view.has(source, queued.message.xid)
                ]
                positions[source] = (view.positions[source], polled.snapshots[source].position.without(left))
            if positions:
                changes.append(ViewChange(view=view.name, delta=deltas.get(view.name), positions=positions))
        return changes

    def _poisoned(self, polled: Poll, unit: Unit | None, views: Sequence[LiveView], error: DydaError) -> Outcome:
        """A value that Spark cannot hold or compute: narrow the unit down to its message, then quarantine that.

        The views that need the message are held where they are, and say why; everything else goes on.
        """
        if unit is None:
            raise error
        if len(unit.messages) > 1:
            self._at_most = len(unit.messages) // 2
            return Outcome.WORKED
        (queued,) = unit.messages
        self._at_most = None
        phases = Phases()
        for view in views:
            if view.has(queued.message.source, queued.message.xid):
                continue
            try:
                self._maintain(polled, unit, [view], phases)
            except (ValueDoesNotFit, EvaluationFailed) as own:
                reason = f"message {queued.number} is quarantined: {own.what}"
                self.log(f"view {view.name} is held: {reason}")
                self.worker.mark_messages([queued.number], "quarantined", own.what)
                self.worker.set_state(view.name, "held", reason)
        self.forget()
        return Outcome.WORKED

    def _check(self, polled: Poll, read: set[RelationName]) -> None:
        """R2: the schemas are what they were before the snapshots. P2: what was read cannot be lost any more."""
        for source, snapshot in polled.snapshots.items():
            after = snapshot.fingerprint_again()
            moved = {
                name for name in read if name.source == source and after.get(name) != snapshot.fingerprints.get(name)
            }
            if moved:
                raise BrokenUnit(source, frozenset(map(str, moved)), "the schema moved while it was being read")
            snapshot.make_durable()

    def _positions(self, changes: Iterable[ViewChange]) -> Positions:
        """Where each maintained view stands once `changes` are installed."""
        positions = {view.name: dict(view.positions) for view in self.known.views.values()}
        for change in changes:
            if change.state == "broken":
                positions.pop(change.view, None)
            else:
                at = positions.setdefault(change.view, {})
                at.update({source: new for source, (_, new) in change.positions.items() if new is not None})
        return positions

    def _source_update(self, polled: Poll, name: str, targets: Mapping[str, Target]) -> SourceState:
        """What is now known of a source. Its identity and its gaps count as seen once every reader is built anew."""
        readers = {view.name for view in self.known.views.values() if name in view.positions}
        record = self.known.sources.get(name)
        if record is not None and record.gap is not None and not readers <= set(targets):
            return SourceState(name)
        snapshot = polled.snapshots[name]
        source = self.house.source(name)
        return SourceState(
            name,
            identity=snapshot.identity,
            gap=snapshot.gap if snapshot.gap_settled else UNSETTLED,
            capture=source.capture_state(),
            order=source.order(),
        )

    def _acknowledge(self, polled: Poll, positions: Positions) -> None:
        """Let the sources forget what every view has. A crash before this is harmless: positions tell."""
        for source, snapshot in polled.snapshots.items():
            common = Position.meet(at[source] for at in positions.values() if source in at) or snapshot.position
            covered = any(q.message.source == source and common.includes(q.message.xid) for q in polled.queue)
            if not covered and source in self._acknowledged:
                continue
            self.house.source(source).acknowledge(common)
            self._acknowledged.add(source)


def _installed_everywhere(positions: Positions, source: str, xid: int) -> bool:
    return all(at[source].includes(xid) for at in positions.values() if source in at)
