"""The lanes that run: begin, adopt what they have built, show it when it has caught up. See the package for why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dyda import faults
from dyda.errors import BrokenUnit, InstallBlocked, NotInstallable
from dyda.maintenance.catalog_state import BuildRequest, Catalog, CatalogState, MaintainedView
from dyda.maintenance.cycle import Cycle, Due
from dyda.maintenance.install.installation import adoption
from dyda.maintenance.lanes.lane import Lane
from dyda.maintenance.lanes.rewriting import Rewriting
from dyda.maintenance.lanes.worker import Worker
from dyda.maintenance.next_unit import Planner
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.observe.recovery import Recovery
from dyda.maintenance.plan.builds import Builds
from dyda.maintenance.plan.unit_plan import Adapt, Rebuild, RelationFacts, UnitPlan, read_whole, tables_of
from dyda.maintenance.units import Units
from dyda.model.cause import Behind, Cause, Rejected
from dyda.model.relation import Relation, RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import Installation, hidden_name, is_hidden, visible_name
from dyda.warehouse.writer import Writer
from vs import Broken

__all__ = ["Lanes"]

PATIENCE = 0.5
"""Seconds for which showing a view waits for its readers."""

SHORTEST, LONGEST = 0.5, 8.0
"""Seconds until it is tried again."""

NOTE_AGAIN = 0.5
"""Seconds between two notes of a lane's progress."""


@dataclass
class Lanes:
    """Made by whoever runs the loop for long; without it everything is built in the loop."""

    opened: OpenProject
    writer: Writer
    catalog: Catalog
    units: Units
    planner: Planner
    recovery: Recovery
    log: Callable[[str], None]
    stopping: Callable[[], bool] = lambda: False
    """Whether the process is to end: then nobody waits for a lane."""
    _running: dict[str, Lane] = field(default_factory=dict, init=False)
    _queued: set[str] = field(default_factory=set, init=False)
    """Views that are to be built in a lane when one is free."""
    _texts: dict[str, str | None] = field(default_factory=dict, init=False)
    """By view, the file that is being built, or was; None: no file asked for it."""
    _put_off: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)
    """Views that wait for these messages to be processed first."""
    _delayed: bool = field(default=False, init=False)
    _rewriting: dict[str, Rewriting] = field(default_factory=dict, init=False)
    """Views that wait while their narrowed extents are rewritten."""
    _locked: dict[str, tuple[float, float]] = field(default_factory=dict, init=False)
    """Views that readers keep locked: when it is tried again to show what was built, and the pause after that."""
    _noted: dict[str, tuple[int, float, dict[str, Any]]] = field(default_factory=dict, init=False)
    """By view, the number under which `status` finds its progress, when that was written, and what."""

    @property
    def limit(self) -> int:
        return self.opened.project.settings.maintenance.lanes

    @property
    def free(self) -> bool:
        return len(self._running) < self.limit

    @property
    def hidden(self) -> list[str]:
        """The views that catch up, by the names that they will have."""
        return [visible_name(name) for name in self.catalog.state.records if is_hidden(name)]

    @property
    def active(self) -> bool:
        """Whether something is being built, or catches up."""
        return bool(self._running) or bool(self._rewriting) or bool(self.hidden)

    def busy(self, name: str) -> bool:
        """Whether the view is being built beside the units, or catches up."""
        return name in self._running or name in self._rewriting or hidden_name(name) in self.catalog.state.records

    def waits(self, name: str) -> bool:
        """Whether nothing more is to be done for the view now: it is being built, or waits for a free lane."""
        return self.busy(name) or (name in self._queued and not self.free)

    def delayed(self) -> bool:
        """Whether a view was put off since this was asked last. If nothing else is to be done, the next round builds
        it."""
        delayed, self._delayed = self._delayed, False
        return delayed

    def wait(self, seconds: float) -> None:
        """Until the first of them has ended, or for so long."""
        lane = next(iter(self._running.values()), None)
        if lane is not None:
            lane.wait(seconds)

    def running(self, name: str) -> Lane | None:
        return self._running.get(name)

    def close(self) -> None:
        """Give up everything that runs."""
        workers: list[Worker] = [*self._running.values(), *self._rewriting.values()]
        for worker in workers:
            worker.cancel()
        for worker in workers:
            worker.close()
        self._running.clear()
        self._rewriting.clear()

    def prefer(self, requests: Mapping[str, BuildRequest]) -> None:
        """A text from a file comes before what is being built for another reason."""
        for name, request in requests.items():
            if request.file_text is not None and self.busy(name) and self._texts.get(name) != request.file_text:
                self._throw_away(name, "its file was applied")

    def give_up(self, sources: set[str]) -> None:
        """These are no longer what they were when a lane began to read them: they may have lost what it has read."""
        for name in [name for name, lane in self._running.items() if sources & set(lane.at)]:
            self._throw_away(name, "a source was changed outside capture, or has lost transactions")

    # --- narrowed extents

    def waiting(self) -> dict[str, Cause]:
        """The views that wait while lanes rewrite their extents, or take rows from them."""
        self._begin_rewriting()
        waiting: dict[str, Cause] = {name: Behind("columns were dropped") for name in self._rewriting}
        return waiting | {name: lane.build.request.cause for name, lane in self._running.items() if lane.adapts}

    def _begin_rewriting(self) -> None:
        known, size = self.catalog.state, self.opened.project.settings.maintenance.lane_size
        for name, view in known.views.items():
            large = view.record.narrowed is not None and view.record.narrowed >= size
            if large and not self.busy(name) and view.record.stored_state == ViewState.LIVE and not is_hidden(name):
                self._rewriting[name] = Rewriting(self.opened, view)
                self._rewriting[name].start()

    def _rewritten(self) -> bool:
        """Install the first extent that is rewritten; whether there is one."""
        name = next((name for name, rewriting in self._rewriting.items() if rewriting.ended), None)
        if name is None:
            return False
        done = self._rewriting.pop(name)
        try:
            if done.error is not None:
                raise done.error
            view = self.catalog.state.views.get(name)
            if done.change is not None and view is not None and view.record.version == done.view.record.version:
                self.writer.install(Installation(changes=(done.change,)))
        finally:
            done.close()
            self.catalog.forget()
        return True

    # --- begin

    def begin(self, polled: Poll, due: Due, cycle: Cycle, current: Sequence[MaintainedView]) -> bool:
        """Begin the first build that takes long, if a lane is free; then the poll's snapshots are the lane's."""
        for name, request in due.builds.items():
            if self.busy(name):
                continue
            builds = self.units.builds(replace(due, builds={name: request}), cycle)
            if not self._takes_long(polled, name, builds):
                self._queued.discard(name)
                continue
            if not self.free:
                self._queued.add(name)
                continue
            plan = self.units.plan_builds(polled, builds, waiting={view.name for view in current})
            build = self._alone(plan, polled)
            if build is None or not self._fits(plan, polled, build):
                self._later(name, polled, current)
                continue
            self._texts[name] = request.file_text
            self._run(polled, plan, build)
            return True
        return False

    def adapt(self, polled: Poll, left: Sequence[tuple[UnitPlan, Adapt]]) -> None:
        """Do under the poll of a unit what that has left for a lane: then its snapshots are the lane's. One view can
        have them; those for which no lane is free, or that are not the first, are built whole."""
        for plan, adapt in left:
            name, record = adapt.name, self.catalog.state.records[adapt.name]
            apart = adapt.view.record.earlier is not None or record.earlier is not None
            unsettled = any(polled.snapshots[source].state.unsettled for source in adapt.to)
            if self.busy(name) or apart or unsettled or not self.free:
                continue
            read, facts = adapt.definition.relations, plan.facts
            facts = RelationFacts(
                {one: found for one, found in facts.described.items() if one in read},
                known_as=facts.known_as,
                looked_at=facts.looked_at.intersection(map(facts.called, read)),
            )
            self._texts[name] = None
            self._run(polled, UnitPlan(None, (adapt,), facts), adapt)
            return

    def put_off(self, due: Due) -> Due:
        """What is left to be built in the loop."""
        waiting = {name for name in due.builds if self.busy(name) or name in self._queued or name in self._put_off}
        self.recovery.forget(waiting)
        causes = {name: due.builds[name].cause for name in waiting if self._owes(name)}
        return Due(
            {name: request for name, request in due.again.items() if name not in waiting},
            {name: request for name, request in due.builds.items() if name not in waiting},
            {**due.waiting, **causes},
        )

    def _owes(self, name: str) -> bool:
        """Whether its rows cannot be maintained until it is built."""
        view = self.catalog.state.views.get(name)
        return view is not None and (view.record.stored_state == ViewState.RESYNC or view.outdated is not None)

    def _takes_long(self, polled: Poll, name: str, builds: Builds) -> bool:
        reading = builds.readings.get(name)
        if reading is None:
            read = self.catalog.state.records[name].relations
            oids = (
                (one.source, polled.snapshots[one.source].oid(one)) for one in read if one.source in polled.snapshots
            )
            tables = {(source, oid) for source, oid in oids if oid is not None}
        elif isinstance(reading.judgement, Broken):
            return False
        else:
            tables = {one for one in tables_of(reading.judgement.definition) if one[0] in polled.snapshots}
        return self.units.takes_long(polled, tables)

    def _alone(self, plan: UnitPlan, polled: Poll) -> Rebuild | Adapt | None:
        """The one view of a plan that does nothing else, unless that does not take long after all."""
        one = next(iter(plan.views), None)
        if len(plan.views) != 1 or not isinstance(one, Rebuild | Adapt):
            return None
        return one if isinstance(one, Rebuild) or self.units.takes_long(polled, read_whole(one)) else None

    def _fits(self, plan: UnitPlan, polled: Poll, build: Rebuild | Adapt) -> bool:
        """Whether the others can go on without knowing of it: it changes nothing that the catalog says of relations
        that they read."""
        facts = plan.facts
        same = not self._read_by_others(plan, build.name)
        settled = not any(polled.snapshots[source].state.unsettled for source in build.to)
        return same and settled and not facts.forgotten and not facts.gone and not plan.postponed

    def _read_by_others(self, plan: UnitPlan, name: str) -> list[RelationName]:
        """Relations that the plan describes otherwise than the catalog does, and that are known by other views, too,
        or by the knowledge."""
        known = self.catalog.state
        read = set(known.knowledge.relations)
        follows = name in known.views and not self._owes(name)  # its own text, too, is about what the catalog says
        for other, record in known.records.items():
            if visible_name(other) != name or follows:
                read |= set(record.relations)
        return [
            relation.name
            for relation in plan.facts.described.values()
            if relation.name not in known.relations
            or (relation.name in read and not _alike(known.relations[relation.name].relation, relation))
        ]

    def _later(self, name: str, polled: Poll, current: Sequence[MaintainedView]) -> None:
        """A schema change that the others have yet to follow goes first; if it does not go, the view is built in the
        loop, ahead of the others."""
        lacked = tuple(
            queued.number
            for queued in polled.moving
            if any(not view.has(queued.message.source, queued.message.xid) for view in current)
        )
        if lacked and self._put_off.get(name) != lacked:
            self._put_off[name] = lacked
            self._delayed = True
        else:
            self._put_off.pop(name, None)
            self._queued.discard(name)

    def _run(self, polled: Poll, plan: UnitPlan, build: Rebuild | Adapt) -> None:
        name = build.name
        number = self.writer.note_lane(name, build.request.reason)  # first: it may fail, and a lane must be started
        lane = Lane(self.opened, self.writer, self.catalog.state, plan, build, polled)
        self._queued.discard(name)
        self._put_off.pop(name, None)
        self._running[name] = lane
        self.catalog.reserve(hidden_name(name), lane.at)
        self._noted[name] = (number, 0.0, {})
        how = "adapted" if lane.adapts else "built"
        self.log(f"view {name} is being {how} beside the others: {build.request.reason}")
        lane.start()

    # --- adopt, show

    def advance(self, polled: Poll) -> bool:
        """Adopt what is finished and show what has caught up; whether anything was done."""
        self._note_progress(polled)
        if self._rewritten():
            return True
        for name, lane in self._running.items():
            if lane.ended_at < polled.began:  # an older poll does not know the mark that the lane has left (P2)
                del self._running[name]
                try:
                    self._adopt(lane, polled)
                finally:
                    lane.close()
                    self.catalog.reserve(hidden_name(name), None)
                    self.units.untidy()
                    self.planner.forget()
                    if not self.busy(name):
                        self._no_longer_noted(name)
                return True
        return False

    def _note_progress(self, polled: Poll) -> None:
        for name, (number, at, noted) in self._noted.items():
            if time.monotonic() - at < NOTE_AGAIN:
                continue
            lane, view = self._running.get(name), self.catalog.state.views.get(hidden_name(name))
            news = dict(noted)
            if lane is not None:
                news |= {"step": lane.step, "done": lane.done, "total": lane.total, "rows": lane.rows}
            elif view is not None:
                left = sum(not view.has(queued.message.source, queued.message.xid) for queued in polled.queue)
                news |= {"step": "catching up", "done": None, "total": None, "left": left}
            if news != noted:
                self.writer.progress(number, news)
            self._noted[name] = (number, time.monotonic(), news)

    def _no_longer_noted(self, name: str) -> None:
        self._locked.pop(name, None)
        if name in self._noted:
            self.writer.finish(self._noted.pop(name)[0])

    def show(self, polled: Poll, current: Sequence[MaintainedView], *, idle: bool) -> list[str]:
        """Show what has caught up, and throw away what cannot; returns the views that readers see now.

        `idle`: the others cannot go further under this poll, so nobody waits for them."""
        shown = []
        for name in self.hidden:
            view = self.catalog.state.views.get(hidden_name(name))
            if view is None or view.record.stored_state != ViewState.LIVE or view.outdated is not None:
                self._throw_away(name, "what was built cannot follow its sources")
            elif name not in self.catalog.state.records:
                self._throw_away(name, "it was dropped")
            elif isinstance(self.catalog.state.records[name].cause, Rejected) and self._texts.get(name) is None:
                # Its file brings it back, and nothing else does.
                self._throw_away(name, "a schema change that it would follow was rejected")
            elif self._caught_up(view, polled, current, idle=idle) and self._show(name):
                shown.append(name)
        return shown

    def _adopt(self, lane: Lane, polled: Poll) -> None:
        name, change = lane.name, lane.change
        if lane.error is not None or change is None:
            self.recovery.forget([name])
            if isinstance(lane.error, BrokenUnit):
                self.planner.build_broken(lane.reads)
                self.writer.record_abort((), lane.error.what, lane.seconds)
                lane.error.recorded = True
            raise lane.error or BrokenUnit("", frozenset(), f"view {name} was not built")
        obstacle = self._obstacle(lane, polled)
        if obstacle is not None:
            self.log(f"view {name} is built again: {obstacle}")
            self.recovery.forget([name])
            self.planner.build_broken(lane.reads)
            self.writer.record_abort((), obstacle, lane.seconds)
            return
        if not is_hidden(change.view):  # it cannot be computed over these rows
            self.writer.install(Installation(changes=(change,)))
            self.catalog.forget()
            self.recovery.tried(lane.poll, self.catalog.state, [change])
            return
        polled.settle()  # leaves the mark that is recorded: the lane's own may be gone by now
        mode = self.opened.project.settings.maintenance.consistency
        self.writer.install(adoption(lane.plan, change, self.catalog.state, lane.poll, polled, mode, lane.since))
        self.planner.built()
        faults.point("lane.adopted")

    def _obstacle(self, lane: Lane, polled: Poll) -> str | None:
        """Why the result is not what the view would be at the lane's positions, for all that is known now."""
        before, now = lane.catalog, self.catalog.state
        then, record = before.records.get(lane.name), now.records.get(lane.name)
        if record is None or (then is not None and (then.sql, then.version) != (record.sql, record.version)):
            return "its definition has changed meanwhile"
        if record.stored_state == ViewState.BROKEN and (then is None or then.stored_state != ViewState.BROKEN):
            return "it broke meanwhile"
        if lane.adapts and then is not None and then.positions != record.positions:
            return "its rows have changed meanwhile"
        for name in sorted(lane.reads):
            if not _same_record(before, now, lane, name):
                return f"{name} has changed meanwhile"
        if others := self._read_by_others(lane.plan, lane.name):
            return f"{others[0]} is read by another view now"
        for source, at in lane.at.items():
            fresh, old = polled.snapshots.get(source), lane.poll.snapshots[source]
            if fresh is None:
                return f"source {source} is out of reach"
            if (fresh.identity, fresh.gap) != (old.identity, old.gap) or fresh.state.unsettled:
                return f"source {source} has changes that were not captured"
            recorded = now.sources.get(source)
            kept = old.mark in fresh.state.marks or (
                recorded is not None and recorded.mark != lane.poll.marks.get(source)
            )
            if not fresh.position.covers(at) or not kept:
                return f"source {source} has lost transactions"
        return None

    def _caught_up(self, view: MaintainedView, polled: Poll, current: Sequence[MaintainedView], *, idle: bool) -> bool:
        """Whether the view has what every other view has that reads its sources, up to where a message stops it, and
        what readers see of it now; unless `idle`, also nothing that all others lack."""
        if not view.record.sources <= set(polled.snapshots):
            return False
        name = visible_name(view.name)
        others = [other for other in current if other.name != view.name and not is_hidden(other.name)]
        record = self.catalog.state.records[name]
        stops = self.planner.stops(polled, self.catalog.state).get(view.name, frozenset())
        ends: dict[str, int] = {}
        for queued in polled.queue:
            if queued.number in stops:
                ends[queued.message.source] = min(queued.number, ends.get(queued.message.source, queued.number))
        for queued in polled.queue:
            source, xid = queued.message.source, queued.message.xid
            if source not in view.positions:
                continue
            mine = view.positions[source].includes(xid)
            seen = source in record.positions and record.positions[source].includes(xid)
            have = [other.positions[source].includes(xid) for other in others if source in other.positions]
            beyond = source in ends and queued.number >= ends[source]
            if not mine and (seen or (any(have) and not beyond)):
                return False
            if not idle and mine and have and not any(have):
                return False
        return True

    def _show(self, name: str) -> bool:
        """Whether readers let it: the units must not wait for one who keeps the view locked."""
        until, pause = self._locked.get(name, (0.0, SHORTEST))
        if time.monotonic() < until:
            return False
        try:
            self.writer.show_hidden(name, PATIENCE)
        except InstallBlocked as error:
            if name not in self._locked:
                self.log(error.in_one_line)
            self._locked[name] = (time.monotonic() + pause, min(2 * pause, LONGEST))
            return False
        except NotInstallable:
            self._throw_away(name, "it cannot be installed")
            raise
        self._texts.pop(name, None)
        self._no_longer_noted(name)
        self.catalog.forget()
        self.planner.forget()
        self.units.untidy()
        self.log(f"view {name} has caught up with the others")
        faults.point("lane.shown")
        return True

    def _throw_away(self, name: str, why: str) -> None:
        self.log(f"view {name}: what was built beside the others is discarded: {why}")
        rewriting = self._rewriting.pop(name, None)
        if rewriting is not None:
            rewriting.close()
        lane = self._running.pop(name, None)
        if lane is not None:
            lane.close()
            self.catalog.reserve(hidden_name(name), None)
        self._texts.pop(name, None)
        self._no_longer_noted(name)
        self.writer.drop_hidden(name)
        self.recovery.forget([name])
        self.catalog.forget()
        self.planner.forget()
        self.units.untidy()


def _alike(left: Relation, right: Relation) -> bool:
    return replace(left, estimated_rows=0) == replace(right, estimated_rows=0)


def _same_record(before: CatalogState, now: CatalogState, lane: Lane, name: RelationName) -> bool:
    """Whether the catalog knows the relation as it did; or, since another build, just as the lane has found it."""
    then, record = before.relations.get(name), now.relations.get(name)
    if then is None or record is None:
        return False
    if (then.fingerprint, then.captured) == (record.fingerprint, record.captured) and _alike(
        then.relation, record.relation
    ):
        return True
    described = lane.plan.facts.described.get(name)
    kept = lane.poll.snapshots[name.source].kept(name)
    return described is not None and _alike(described, record.relation) and record.fingerprint == kept
