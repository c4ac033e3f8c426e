"""`schema_changes = "approve"`: a schema change that would cost a view something waits until an operator agrees.

Dangerous is what would rewrite or break a view, or what cannot be foreseen; a dropped column that no view uses is not.
A dangerous message has the state `approval` in the catalog until it is approved, and the schedule holds what depends
on it and nothing else. A unit sees the relations as they are at the sources, so an earlier schema change of the same
relation waits with it: it would carry the dangerous one along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyda.errors import DydaError
from dyda.house import House
from dyda.maintenance.foresight import foresee
from dyda.maintenance.live import Known
from dyda.maintenance.poll import Poll
from dyda.model.message import UpdateMessage
from dyda.model.relation import Relation, RelationName
from dyda.model.schemas import Schemas
from dyda.warehouse import Worker

__all__ = ["Approval", "Foreseen", "foresee_messages"]

DANGEROUS = ("rewritten", "broken", "unknown")


@dataclass(frozen=True)
class Foreseen:
    """What one message adds to what the messages before it do: the views it concerns, each with its effect."""

    views: tuple[Mapping[str, Any], ...]

    @property
    def dangerous(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(view for view in self.views if view["effect"] in DANGEROUS)


def foresee_messages(house: House, known: Known, messages: Sequence[tuple[int, UpdateMessage]]) -> dict[int, Foreseen]:
    """What each message that changes a schema would do, given that those before it have been processed."""
    schemas = Schemas({name: record.relation for name, record in known.relations.items()})
    before: dict[str, Mapping[str, Any]] = {}
    found: dict[int, Foreseen] = {}
    unclear: set[str] = set()
    for number, message in messages:
        if not message.schema_changes:
            continue
        try:
            schemas.apply(message, lambda name: _standing(house, name))
            views = {view["name"]: view for view in foresee(house, known, schemas) if view["name"] in known.views}
        except DydaError as error:
            concerned = set(_readers(known, message.moved_without_rows))
            unclear |= concerned
            views = {name: {**_unknown(name, error.what)} for name in concerned}
        added = [
            view
            for name, view in sorted(views.items())
            if name not in unclear or view["effect"] == "unknown"
            if view["effect"] != "none" and not _same(view, before.get(name))
        ]
        found[number] = Foreseen(tuple(added))
        before |= views
    return found


class Approval:
    """Keeps the states of waiting schema changes; looks again only if the queue or the catalog is another."""

    def __init__(self, house: House, worker: Worker) -> None:
        self.house = house
        self.worker = worker
        self._seen: tuple[tuple[int, ...], Known | None] = ((), None)

    def mark(self, polled: Poll, known: Known) -> bool:
        """Stop what must wait and let go what need not; whether any message's state is another now."""
        queue = [(queued.number, queued.message) for queued in polled.moving if queued.message.schema_changes]
        numbers = tuple(number for number, _ in queue)
        if not queue or (numbers == self._seen[0] and known is self._seen[1]):
            return False
        self._seen = (numbers, known)
        wanted = self.house.project.settings.maintenance.schema_changes == "approve"
        states = None if wanted else ("approval",)
        records = {record.id: record for record in self.house.warehouse.messages(numbers=numbers, states=states)}
        stopped: dict[int, str] = {}
        if wanted:
            approved = {number for number in numbers if number in records and records[number].approved}
            stopped = _stopped(queue, foresee_messages(self.house, known, queue), approved, known)
        changed = False
        for number in numbers:
            record, reason = records.get(number), stopped.get(number)
            if record is None or record.state not in ("waiting", "approval"):
                continue
            if reason is not None and (record.state, record.reason) != ("approval", reason):
                self.worker.mark_messages([number], "approval", reason)
                changed = True
            elif reason is None and record.state == "approval":
                self.worker.mark_messages([number], "waiting")
                changed = True
        return changed


def _stopped(
    queue: Sequence[tuple[int, UpdateMessage]], foreseen: Mapping[int, Foreseen], approved: set[int], known: Known
) -> dict[int, str]:
    """The messages that must wait, each with its reason."""
    stopped: dict[int, str] = {}
    for number, _ in queue:
        dangers = foreseen[number].dangerous
        if dangers and number not in approved:
            told = "; ".join(f"{_VERBS[view['effect']]} {view['name']}" for view in dangers)
            stopped[number] = f"message {number} waits for approval: {told}"
    for number, message in queue:
        relations = message.moved_without_rows
        later = [
            other
            for other, later in queue
            if other > number and other in stopped and relations & later.moved_without_rows
        ]
        if number not in stopped and later and any(_readers(known, relations)):
            stopped[number] = f"message {number} waits with message {later[0]}, which changes the same table"
    return stopped


_VERBS = {"broken": "it breaks", "rewritten": "it rewrites", "unknown": "nobody can tell what it does to"}


def _readers(known: Known, relations: Iterable[RelationName]) -> Iterable[str]:
    moved = frozenset(relations)
    return (view.name for view in known.views.values() if moved & view.definition.relations)


def _standing(house: House, name: RelationName) -> Relation | None:
    """The table under the name as it is now; None if the source cannot tell."""
    try:
        return house.describe(name.source, name.schema, name.table)
    except DydaError:
        return None


def _unknown(name: str, reason: str) -> dict[str, Any]:
    return {"name": name, "effect": "unknown", "definition": None, "extent": "unknown", "cost": None, "reason": reason}


def _same(view: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Whether an earlier message has done this to the view already."""
    return before is not None and (view["effect"], view["definition"]) == (before["effect"], before["definition"])
