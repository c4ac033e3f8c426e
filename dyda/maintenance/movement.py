"""Which views must be read again, because something moved that no row image shows.

The causes: a TRUNCATE or a schema change in the log; a fingerprint that is not the one the view was planned with (R2,
C5); a gap in the log; a source that is not the one it was (P2). The views concerned are built again where their
definition still holds, and frozen as broken where it does not; until then their rows stay what they were.
"""

from __future__ import annotations

from dataclasses import dataclass

from dyda.maintenance.live import Known, LiveView
from dyda.maintenance.poll import Poll
from dyda.model.message import DataUpdate, SchemaChange, Truncation
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
        for relation in sorted(view.definition.relations):
            if relation.source not in poll.snapshots or view.name in again:
                continue
            record_of_relation = known.relations.get(relation)
            fingerprint = record_of_relation.fingerprint if record_of_relation else None
            explained = _explained(poll, view, relation)
            if explained is not None:
                again[view.name] = explained
            elif fingerprint != poll.snapshots[relation.source].fingerprints.get(relation):
                again[view.name] = f"{relation} is not as it was, and no logged change explains it"
    return Movement({name: reason for name, reason in again.items() if name not in waiting}, waiting)


def _explained(poll: Poll, view: LiveView, relation: RelationName) -> str | None:
    """The last logged change of this relation, not yet in the view, that no row image shows."""
    found = None
    for queued in poll.queue:
        message = queued.message
        if message.source != relation.source or view.has(message.source, message.xid):
            continue
        for change in message.changes:
            if change.relation != relation:
                continue
            match change:
                case Truncation():
                    found = f"{relation} was truncated"
                case SchemaChange():
                    found = f"{change.command} on {relation}" + (f": {change.ddl}" if change.ddl else "")
                case DataUpdate():
                    pass
    return found
