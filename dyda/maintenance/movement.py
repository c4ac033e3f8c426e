"""Which views must be read again, because something moved that neither a row image nor a message shows.

The causes: a fingerprint that is not the one the view was planned with and that no logged schema change explains (R2,
C5); a gap in the log; a source that is not the one it was (P2). The views concerned are built again where their
definition still holds, and frozen as broken where it does not; until then their rows stay what they were. Logged
schema changes and truncations are no movement: they are messages, and the schedule has a place for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from dyda.maintenance.live import Known, LiveView
from dyda.maintenance.poll import Poll
from dyda.model.relation import RelationName

__all__ = ["Movement", "find_movement"]


@dataclass(frozen=True)
class Movement:
    """Views to build again now, and views that must wait until a gap has settled; each with its reason."""

    again: dict[str, str]
    waiting: dict[str, str]


def find_movement(poll: Poll, known: Known) -> Movement:
    """Compare what the snapshots show with what the catalog expects.

    The mark of a gap survives a rollback, so it shows before the transaction that left it commits. A build is right
    only under a snapshot in which every such transaction has ended.
    """
    again: dict[str, str] = {}
    waiting: dict[str, str] = {}
    for source, snapshot in poll.snapshots.items():
        record = known.sources.get(source)
        readers = [view for view in known.views.values() if source in view.positions]
        if record is None or not readers:
            continue
        if record.identity is not None and record.identity != snapshot.identity:
            reason = f"source {source} is not the server it was: restored, promoted or replaced"
            again |= {view.name: reason for view in readers}
        ahead = [view for view in readers if view.positions[source].xmax > snapshot.position.xmax]
        again |= {view.name: f"source {source} is older than this view: restored from a backup" for view in ahead}
        if record.gap is not None and record.gap != snapshot.gap:
            reason = f"source {source} has changes that were not captured"
            (again if snapshot.gap_settled else waiting).update({view.name: reason for view in readers})
    for view in known.views.values():
        if view.record.stored_state == "resync":
            again.setdefault(view.name, view.record.reason or "a resync is due")
        for relation in sorted(view.definition.relations):
            if relation.source not in poll.snapshots or view.name in again:
                continue
            record_of_relation = known.relations.get(relation)
            expected = record_of_relation.fingerprint if record_of_relation else None
            found = poll.snapshots[relation.source].fingerprints.get(relation)
            if found != expected and not _explained(poll, view, relation):
                again[view.name] = f"{relation} is not as it was, and no logged change explains it"
    return Movement({name: reason for name, reason in again.items() if name not in waiting}, waiting)


def _explained(poll: Poll, view: LiveView, relation: RelationName) -> bool:
    """Whether a logged schema change that the view has yet to see left the relation just as it is found (C5)."""
    pending = any(
        change.relation == relation
        for queued in poll.moving
        if queued.message.source == relation.source and not view.has(relation.source, queued.message.xid)
        for change in queued.message.schema_changes
    )
    snapshot = poll.snapshots[relation.source]
    return pending and snapshot.logged_fingerprints.get(relation) == snapshot.fingerprints.get(relation)
