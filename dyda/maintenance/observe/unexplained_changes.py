"""Which views must be read again, because something moved that neither a row image nor a message shows.

The causes: a fingerprint that is not the one the view was planned with and that no logged schema change explains (R2,
C5); capture or its log gone or changed by hand; a gap in the log; a source that is not the one it was, or has lost
what is installed here (P2). The views concerned owe a build: they are built again where their definition still holds,
and frozen as broken where it does not; until then their rows stay what they were. Logged schema changes and
truncations are no movement: they are messages, and the schedule has a place for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from dyda.maintenance.catalog_state import CatalogState, MaintainedView
from dyda.maintenance.observe.poll import Poll
from dyda.model.cause import BuildReason, Cause, RelationDrift, RelationDrifted, SourceDrift, SourceDrifted, ToBeBuilt
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.sources.adapter import Snapshot
from dyda.sources.fingerprints import is_uncaptured
from dyda.warehouse import SourceRecord

__all__ = ["LOST", "Movement", "find_movement"]

LOST = (SourceDrift.REPLACED, SourceDrift.TRANSACTIONS_LOST)
"""After these a source is not the history that we know."""


@dataclass(frozen=True)
class Movement:
    """Views to build again now, and views that must wait until a gap has settled; each with its cause."""

    again: dict[str, Cause]
    waiting: dict[str, Cause]
    drifts: tuple[SourceDrifted, ...] = ()
    """What has to be accounted for before anything is built."""
    held: frozenset[str] = frozenset()
    """Views that are held and owe a build too, when they are let go."""
    deaf: tuple[str, ...] = field(default=())
    """Sources whose event triggers are gone: schema changes are found on polls only, as if there had been none."""


def find_movement(poll: Poll, known: CatalogState) -> Movement:
    """Compare what the snapshots show with what the catalog expects.

    The mark of a gap survives a rollback, so it shows before the transaction that left it commits. A build is right
    only under a snapshot in which every such transaction has ended.
    """
    again: dict[str, Cause] = {}
    waiting: dict[str, Cause] = {}
    drifts = []
    deaf = []
    for source, snapshot in poll.snapshots.items():
        record = known.sources.get(source)
        if record is None:
            continue
        readers = [view for view in known.views.values() if source in view.positions]
        if snapshot.state.capture == "polling" and record.capture == "attached":
            deaf.append(source)
        drift = _drift(source, snapshot, record, readers)
        if drift is None:
            continue
        if not snapshot.state.unsettled:
            drifts.append(drift)
            again |= {view.name: drift for view in readers}
        else:
            waiting |= {view.name: replace(drift, unsettled=True) for view in readers}
    for view in known.views.values():
        if view.record.stored_state == ViewState.RESYNC:
            again[view.name] = view.record.cause or view.outdated or ToBeBuilt(BuildReason.DUE)
        elif view.outdated is not None:
            again.setdefault(view.name, view.outdated)
        for relation in sorted(view.definition.relations):
            if relation.source not in poll.snapshots or view.name in again:
                continue
            if _unexplained(poll, known, relation, view):
                drifted = _relation_drift(poll, known, relation)
                again[view.name] = RelationDrifted(relation.source, str(relation), drifted)
    again = {name: cause for name, cause in again.items() if name not in waiting}
    held = frozenset(
        name
        for name, record in known.held.items()
        if any(
            relation.source in poll.snapshots and _unexplained(poll, known, relation) for relation in record.relations
        )
    )
    return Movement(again, waiting, tuple(drifts), held, tuple(deaf))


def _drift(
    source: str, snapshot: Snapshot, record: SourceRecord, readers: list[MaintainedView]
) -> SourceDrifted | None:
    if not snapshot.state.attached:
        return None if record.gap is None else SourceDrifted(source, SourceDrift.CAPTURE_LOST)
    if record.identity is not None and record.identity != snapshot.identity:
        return SourceDrifted(source, SourceDrift.REPLACED)
    current = [view for view in readers if view.record.stored_state != ViewState.RESYNC]
    ahead = any(view.positions[source].xmax > snapshot.position.xmax for view in current)
    if ahead or (record.mark is not None and record.mark not in snapshot.state.marks):
        return SourceDrifted(source, SourceDrift.TRANSACTIONS_LOST)
    if record.gap is not None and record.gap != snapshot.gap:
        return SourceDrifted(source, SourceDrift.CHANGES_MISSED)
    return None


def _recorded(known: CatalogState, relation: RelationName) -> str | None:
    record = known.relations.get(relation)
    return record.fingerprint if record is not None else None


def _relation_drift(poll: Poll, known: CatalogState, relation: RelationName) -> RelationDrift:
    found = poll.snapshots[relation.source].fingerprints.get(relation)
    if found is not None and is_uncaptured(found):
        return RelationDrift.UNCAPTURED
    if found is not None and (_recorded(known, relation) or "").startswith(found):
        return RelationDrift.ROWS_UNSEEN
    return RelationDrift.UNEXPLAINED


def _unexplained(poll: Poll, known: CatalogState, relation: RelationName, view: MaintainedView | None = None) -> bool:
    """Whether the relation is not as it was, and no logged schema change that the view has yet to see left it just as
    it is found (C5). Without a view: no logged change at all; the poll knows nothing of what held ones wait for."""
    snapshot = poll.snapshots[relation.source]
    if snapshot.agrees(relation, _recorded(known, relation)):
        return False
    pending = view is None or any(
        change.relation == relation
        for queued in poll.moving
        if queued.message.source == relation.source and not view.has(relation.source, queued.message.xid)
        for change in queued.message.schema_changes
    )
    return not pending or snapshot.logged_fingerprints.get(relation) != snapshot.fingerprints.get(relation)
