"""From a unit's plan and its changes to one installation."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dyda.maintenance.catalog_state import CatalogState
from dyda.maintenance.install.acknowledge import Positions, covered
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.phases import Phases
from dyda.maintenance.plan.unit_plan import RelationFacts, UnitPlan
from dyda.model.message import DataUpdate
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.warehouse import Installation, RelationState, SourceState, UnitRecord, ViewChange
from scheduler import Queued

__all__ = ["Installing", "adoption", "installation", "knowledge_installation", "moved_on", "positions_after"]

UNSETTLED = -1
"""No gap has this number: views built while one was unsettled are built again when it has settled."""


def positions_after(known: CatalogState, changes: Iterable[ViewChange]) -> Positions:
    """Each view's positions once `changes` are installed. Held views count: they resume from theirs. So do those that
    lanes are building: they begin at theirs."""
    positions = {view.name: dict(view.positions) for view in known.views.values()}
    positions |= {name: dict(record.positions) for name, record in known.held.items()}
    positions |= {name: dict(at) for name, at in known.reserved.items()}
    for change in changes:
        if change.state == ViewState.BROKEN:
            positions.pop(change.view, None)
        else:
            at = positions.setdefault(change.view, {})
            if change.version is not None:
                at.clear()  # the positions that come with a definition are all there are: the view may leave a source
            at.update({source: new for source, (_, new) in change.positions.items() if new is not None})
    return positions


def moved_on(known: CatalogState, changes: Iterable[ViewChange], polled: Poll) -> CatalogState:
    """The catalog after an installation that moves nothing but rows and positions."""
    views = dict(known.views)
    views |= {change.view: views[change.view].moved(change.positions) for change in changes}
    sources = {
        name: replace(
            record, capture=snapshot.state.capture, order=snapshot.state.order, mark=snapshot.mark or record.mark
        )
        if (snapshot := polled.snapshots.get(name)) is not None
        else record
        for name, record in known.sources.items()
    }
    return replace(known, views=views, sources=sources)


@dataclass(frozen=True)
class Installing:
    """A plan that was carried out: what it changes in each view, under which poll, and what it cost."""

    plan: UnitPlan
    changes: Sequence[ViewChange]
    catalog: CatalogState
    poll: Poll
    phases: Phases

    @property
    def positions(self) -> Positions:
        return positions_after(self.catalog, self.changes)


def installation(done: Installing, mode: str, jobs: int, *, with_sources: bool = True) -> Installation:
    """Everything that one transaction installs. What is known of the sources comes with the first one of a run."""
    plan, catalog, polled, phases = done.plan, done.catalog, done.poll, done.phases
    facts, unit = plan.facts, plan.unit
    messages = unit.messages if unit else ()
    unread = facts.gone - _read_after(catalog, done.changes)
    renamed = _renamed(catalog, facts)
    forgotten = (facts.forgotten | unread | renamed.keys()) - set(facts.described)
    return Installation(
        changes=tuple(done.changes),
        done=tuple(queued.number for queued in covered(polled.arrivals, done.positions)),
        sources=tuple(_source_state(catalog, polled, name) for name in polled.snapshots if with_sources),
        relations=(
            *(
                RelationState(
                    relation,
                    polled.snapshots[relation.name.source].kept(relation.name),
                    position=_described_with(done, relation.name),
                )
                for relation in facts.described.values()
            ),
            *(
                state
                for state in _without_keys(catalog, polled, messages)
                if state.relation.name not in facts.described and state.relation.name not in forgotten
            ),
        ),
        forgotten=tuple(sorted(forgotten)),
        renamed=renamed,
        knowledge=plan.knowledge.document,
        retired=plan.knowledge.retired,
        earlier=plan.earlier,
        unit=UnitRecord(
            started_at=phases.started_at,
            mode=mode,
            kind="build" if plan.built or unit is None else unit.kind.value,
            messages=len(messages),
            rows=sum(queued.message.rows for queued in messages),
            queries=polled.queries - phases.queries,
            jobs=jobs - phases.jobs,
            phases=phases.spent,
        ),
    )


def knowledge_installation(plan: UnitPlan, catalog: CatalogState, polled: Poll) -> Installation:
    """What a plan without a unit says of relations that only the knowledge names."""
    described = plan.facts.described
    return Installation(
        relations=tuple(
            RelationState(relation, polled.snapshots[name.source].kept(name)) for name, relation in described.items()
        ),
        forgotten=tuple(sorted(plan.facts.forgotten - set(described) - _read_after(catalog, ()))),
        renamed=_renamed(catalog, plan.facts),
        knowledge=plan.knowledge.document,
        retired=plan.knowledge.retired,
        earlier=plan.earlier,
    )


def adoption(
    plan: UnitPlan,
    change: ViewChange,
    catalog: CatalogState,
    read: Poll,
    polled: Poll,
    mode: str,
    started_at: datetime.datetime,
) -> Installation:
    """What a lane has built under the poll `read`; `polled` shows the sources as they are now.

    What the lane found of relations is new only where the catalog has recorded nothing yet, or something else: a drift.
    """
    relations = [
        RelationState(relation, kept, position=read.snapshots[name.source].position)
        for name, relation in plan.facts.described.items()
        if catalog.relations[name].fingerprint != (kept := read.snapshots[name.source].kept(name))
    ]
    sources = [_source_state(catalog, polled, source) for source in change.positions]
    unit = UnitRecord(started_at=started_at, mode=mode, kind="build")
    return Installation(changes=(change,), sources=tuple(sources), relations=tuple(relations), unit=unit)


def _renamed(catalog: CatalogState, facts: RelationFacts) -> dict[RelationName, RelationName]:
    """By the catalog's names, those that the relations have from now on."""
    called = {(name.source, relation.oid): name for name, relation in facts.described.items()}
    now = {name: called.get((name.source, record.relation.oid), name) for name, record in catalog.relations.items()}
    return {old: new for old, new in now.items() if new != old}


def _described_with(done: Installing, name: RelationName) -> Position:
    """The transactions that the relation's new description has in it: the unit's, and those that the old one had. What
    is built is described as the snapshot shows it."""
    snapshot, unit = done.poll.snapshots[name.source].position, done.plan.unit
    if unit is None or done.plan.built:
        return snapshot
    before, ours = done.plan.facts.called(name), frozenset(unit.numbers)
    return snapshot.without(
        queued.message.xid
        for queued in done.poll.moving
        if queued.message.source == name.source
        and queued.number not in ours
        and not done.catalog.is_described_with(before, queued.message.xid)
    )


def _without_keys(known: CatalogState, polled: Poll, messages: Iterable[Queued]) -> Iterator[RelationState]:
    """Relations with rows in the unit whose schema has changed since: a key may be gone, by a change that comes later
    or was never logged. Until that is known, none of their keys is trusted."""
    for name in {
        change.relation for queued in messages for change in queued.message.changes if isinstance(change, DataUpdate)
    }:
        record = known.relations.get(name)
        if record is None or polled.snapshots[name.source].agrees(name, record.fingerprint):
            continue
        if record.relation.keys:
            yield RelationState(replace(record.relation, keys=()), record.fingerprint, record.captured)


def _read_after(known: CatalogState, changes: Iterable[ViewChange]) -> set[RelationName]:
    """What the views name once `changes` are installed, broken and held ones included."""
    read = {view.name: set(view.definition.relations) for view in known.views.values()}
    read |= {name: set(record.relations) for name, record in known.frozen.items()}
    read |= {change.view: set(change.version.relations) for change in changes if change.version is not None}
    return {name for names in read.values() for name in names}


def _source_state(known: CatalogState, polled: Poll, name: str) -> SourceState:
    """What is now known of a source. What happens to its identity and its gaps later is a drift, see there."""
    record, snapshot = known.sources.get(name), polled.snapshots[name]
    state = SourceState(name, capture=snapshot.state.capture, order=snapshot.state.order, mark=snapshot.mark)
    if record is not None and record.gap is not None:
        return state
    gap = UNSETTLED if snapshot.state.unsettled else snapshot.gap
    return replace(state, identity=snapshot.identity, gap=gap)
