"""From the catalog to the scheduler: what maintaining a view reads, and the queue with its messages' states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dyda.maintenance.live import LiveView
from dyda.model.relation import RelationName
from dyda.warehouse import MessageRecord
from scheduler import Detection, Queued, Schedule, State, ViewReads

__all__ = ["STATES", "schedule_of", "view_reads"]

STATES = {
    "waiting": State.PENDING,
    "running": State.PENDING,
    "held": State.HELD,
    "approval": State.APPROVAL,
    "quarantined": State.QUARANTINED,
    "broken": State.QUARANTINED,
}
"""What a message's state in the catalog means to the schedule. A `skipped` one is not in it: it holds nobody."""


def view_reads(view: LiveView) -> ViewReads:
    """The view's relations with the columns that its maintenance asks for.

    A relation that occurs more than once is read when it changes itself: each occurrence meets the others. Sweeps
    prefer keys but do not rely on them, so no column is read for the sake of a key (rule S4).
    """
    reads: dict[RelationName, frozenset[str]] = {}
    for occurrence in view.block.occurrences:
        name = occurrence.relation.name
        reads[name] = reads.get(name, frozenset()).union(occurrence.columns)
    times = Counter(occurrence.relation.name for occurrence in view.block.occurrences)
    return ViewReads(view.name, reads, rereads=frozenset(name for name, count in times.items() if count > 1))


def schedule_of(
    messages: Iterable[MessageRecord],
    views: Iterable[LiveView],
    detection: Detection = Detection.PESSIMISTIC,
) -> Schedule:
    """The schedule of what the catalog holds, an operator's decisions included."""
    schedule = Schedule([view_reads(view) for view in views], detection)
    records = [record for record in messages if record.state in STATES]
    schedule.add(Queued(record.id, record.message) for record in records)
    for record in records:
        schedule.mark(record.id, STATES[record.state])
    return schedule
