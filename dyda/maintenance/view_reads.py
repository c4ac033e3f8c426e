"""From the catalog to the scheduler: what maintaining a view reads, and the queue with its messages' states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from dyda.maintenance.catalog_state import CatalogState, MaintainedView
from dyda.model.algebra.nodes import scans
from dyda.model.message import HOLDING, MessageState
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.warehouse import MessageRecord
from scheduler import Detection, Queued, Schedule, ViewReads
from vs import candidate_relations, effective_preferences

__all__ = ["common_positions", "lacked", "schedule_of", "view_reads"]


def view_reads(view: MaintainedView, known: CatalogState | None = None) -> ViewReads:
    """The view's relations with the columns that its maintenance asks for.

    A relation that occurs more than once is read when it changes itself: each occurrence meets the others. So is
    everything under an operator that keeps a state: a group whose extreme was deleted is read again. Sweeps prefer
    keys but do not rely on them, so no column is read for the sake of a key (rule S4). With `known`, also what
    any rewriting of the view might read (rule S2), of which the columns are not known yet.
    """
    reads: dict[RelationName, frozenset[str]] = {}
    for occurrence in view.program.occurrences:
        name = occurrence.relation.name
        reads[name] = reads.get(name, frozenset()).union(occurrence.columns)
    times = Counter(scan.relation.name for scan in scans(view.definition.tree))
    again = bool(view.program.states)
    rereads = frozenset(name for name, count in times.items() if count > 1 or again)
    if known is None:
        return ViewReads(view.name, reads, rereads)
    others = candidate_relations(view.definition, known.knowledge, known.defaults) - reads.keys()
    appending = effective_preferences(view.definition, known.defaults).new_columns == "append"
    return ViewReads(view.name, reads, rereads, dict.fromkeys(others), frozenset(reads if appending else ()))


def schedule_of(
    messages: Iterable[MessageRecord], known: CatalogState, detection: Detection = Detection.PESSIMISTIC
) -> Schedule:
    """The schedule of what the catalog holds and some view lacks, an operator's decisions included."""
    readers = known.views.values()
    schedule = Schedule([view_reads(view, known) for view in readers], detection)
    lacks = lacked(readers)
    records = [
        record for record in messages if record.state != MessageState.SKIPPED and lacks(record.source, record.xid)
    ]
    schedule.add(Queued(record.id, record.message) for record in records)
    for record in records:
        schedule.mark(record.id, record.state if record.state in HOLDING else MessageState.WAITING)
    return schedule


def common_positions(views: Iterable[MaintainedView]) -> dict[str, Position]:
    """By source, what all of the views have that read it."""
    positions: dict[str, set[Position]] = {}
    for view in views:
        for source, position in view.positions.items():
            positions.setdefault(source, set()).add(position)
    found = {source: Position.meet(those) for source, those in positions.items()}
    return {source: position for source, position in found.items() if position is not None}


def lacked(views: Iterable[MaintainedView]) -> Callable[[str, int], bool]:
    """Whether some view does not have the transaction (source, xid) yet."""
    common = common_positions(views)

    def lacks(source: str, xid: int) -> bool:
        position = common.get(source)
        return position is not None and not position.includes(xid)

    return lacks
