"""From a unit's changes to one installation, and the acknowledgement after it."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dyda.maintenance.catalog_state import CatalogState
from dyda.maintenance.execute.recompute import Builder
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.plan.knowledge_after import evolved_knowledge
from dyda.model.message import DataUpdate
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.parallel import in_parallel
from dyda.warehouse import Installation, RelationState, SourceState, UnitRecord, ViewChange
from scheduler import Queued, Unit

__all__ = [
    "Phases",
    "Positions",
    "acknowledge",
    "common",
    "covered",
    "everywhere",
    "installation",
    "moved_on",
    "positions_after",
]

Positions = dict[str, dict[str, Position]]

UNSETTLED = -1
"""No gap has this number: views built while one was unsettled are built again when it has settled."""


@dataclass
class Phases:
    """Where a unit's time went, in seconds; `jobs` and `queries` are the counters' state when it began."""

    jobs: int = 0
    queries: int = 0
    started_at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    spent: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.perf_counter)

    def done(self, phase: str) -> None:
        now = time.perf_counter()
        self.spent[phase] = self.spent.get(phase, 0.0) + now - self._since
        self._since = now

    def after_installing(self) -> dict[str, float]:
        """What a unit's record cannot say when it is written."""
        return {phase: self.spent[phase] for phase in ("install", "acknowledge") if phase in self.spent}

    @property
    def total(self) -> float:
        return sum(self.spent.values()) + time.perf_counter() - self._since


def positions_after(known: CatalogState, changes: Iterable[ViewChange]) -> Positions:
    """Where each view stands once `changes` are installed, those included that are held and go on from there later."""
    positions = {view.name: dict(view.positions) for view in known.views.values()}
    positions |= {
        name: dict(record.positions) for name, record in known.frozen.items() if record.stored_state == ViewState.HELD
    }
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
    for change in changes:
        view = views[change.view]
        at = {source: new for source, (_, new) in change.positions.items() if new is not None}
        views[change.view] = replace(view, record=replace(view.record, positions={**view.positions, **at}))
    sources = {
        name: replace(record, capture=snapshot.capture, order=snapshot.order, mark=snapshot.mark or record.mark)
        if (snapshot := polled.snapshots.get(name)) is not None
        else record
        for name, record in known.sources.items()
    }
    return replace(known, views=views, sources=sources)


def installation(
    opened: OpenProject,
    known: CatalogState,
    polled: Poll,
    unit: Unit | None,
    changes: Sequence[ViewChange],
    builder: Builder,
    positions: Positions,
    phases: Phases,
    built: set[str],
    *,
    with_sources: bool = True,
) -> Installation:
    """Everything that one transaction installs. What is known of the sources comes with the first one of a run."""
    messages = unit.messages if unit else ()
    evolved = evolved_knowledge(known, builder.described, builder.gone)
    unread = builder.gone - _read_after(known, changes)
    forgotten = (builder.forgotten | unread) - set(builder.described)
    return Installation(
        changes=tuple(changes),
        done=tuple(queued.number for queued in covered(polled.queue, positions)),
        sources=tuple(_source_state(known, polled, name) for name in polled.snapshots if with_sources),
        relations=(
            *(
                RelationState(
                    relation,
                    polled.snapshots[relation.name.source].kept(relation.name),
                    position=_described_with(known, polled, unit if not built else None, builder, relation.name),
                )
                for relation in builder.described.values()
            ),
            *(
                state
                for state in _without_keys(known, polled, messages)
                if state.relation.name not in builder.described and state.relation.name not in forgotten
            ),
        ),
        forgotten=tuple(sorted(forgotten)),
        knowledge=evolved.document,
        retired=evolved.retired,
        unit=UnitRecord(
            started_at=phases.started_at,
            mode=opened.project.settings.maintenance.consistency,
            kind="build" if built or unit is None else unit.kind.value,
            messages=len(messages),
            rows=sum(queued.message.rows for queued in messages),
            queries=polled.queries - phases.queries,
            jobs=opened.engine.jobs - phases.jobs,
            phases=phases.spent,
        ),
    )


def _described_with(
    known: CatalogState, polled: Poll, unit: Unit | None, builder: Builder, name: RelationName
) -> Position:
    """The transactions that the relation's new description has in it: the unit's, and those that the old one had. What
    is built is described as the snapshot shows it."""
    snapshot = polled.snapshots[name.source].position
    if unit is None:
        return snapshot
    before = builder.refresh.known_as.get(name, name)
    return snapshot.without(
        queued.message.xid
        for queued in polled.moving
        if queued.message.source == name.source
        and queued.number not in unit.numbers
        and not known.is_described_with(before, queued.message.xid)
    )


def _without_keys(known: CatalogState, polled: Poll, messages: Iterable[Queued]) -> Iterator[RelationState]:
    """Relations whose rows the unit brought while their schema was already another: a key may have gone in between, by
    a change that comes later or was never told. Until that is known, no key of theirs is trusted."""
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


def acknowledge(opened: OpenProject, polled: Poll, positions: Positions, acknowledged: set[str]) -> None:
    """Let the sources forget what every view has. A crash before this is harmless: positions tell."""

    def tell(source: str) -> None:
        at = common(positions, source) or polled.snapshots[source].position
        if source not in acknowledged or any(map(at.includes, polled.xids(source))):
            opened.source(source).acknowledge(at)
            acknowledged.add(source)

    in_parallel(tell, polled.snapshots)


def common(positions: Positions, source: str) -> Position | None:
    """What everybody has who reads the source; None if nobody does."""
    return Position.meet({at[source] for at in positions.values() if source in at})


def everywhere(positions: Positions, source: str, xid: int) -> bool:
    """Whether nobody who reads the source waits for the transaction."""
    at = common(positions, source)
    return at is None or at.includes(xid)


def covered(queue: Iterable[Queued], positions: Positions) -> Iterator[Queued]:
    """The messages that nobody waits for who reads their source."""
    known: dict[str, Position | None] = {}
    for queued in queue:
        source = queued.message.source
        if source not in known:
            known[source] = common(positions, source)
        at = known[source]
        if at is None or at.includes(queued.message.xid):
            yield queued


def _source_state(known: CatalogState, polled: Poll, name: str) -> SourceState:
    """What is now known of a source. What happens to its identity and its gaps later is a drift, see there."""
    record, snapshot = known.sources.get(name), polled.snapshots[name]
    state = SourceState(name, capture=snapshot.capture, order=snapshot.order, mark=snapshot.mark)
    if record is not None and record.gap is not None:
        return state
    gap = snapshot.gap if snapshot.gap_settled else UNSETTLED
    return replace(state, identity=snapshot.identity, gap=gap)
