"""`schema_changes = "approve"`: a schema change that would cost a view something waits until an operator agrees.

Dangerous is what would rewrite or break a view, or what cannot be foreseen; a dropped column that no view uses is not.
A dangerous message has the state `approval` in the catalog until it is approved, and the schedule holds what depends
on it and nothing else. A unit sees the relations as they are at the sources, so an earlier schema change of the same
relation waits with it: it would carry the dangerous one along. So would a view that is built over the relation: it is
not built before the operator has decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyda.errors import DydaError
from dyda.maintenance.catalog_state import BuildRequest, CatalogState
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.plan.impact import Foretold, foretell
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import Cause, Effect, NeedsApproval, WaitsWith
from dyda.model.ddl.schemas import Schemas
from dyda.model.message import MessageState, UpdateMessage
from dyda.model.relation import Relation, RelationName
from dyda.open_project import OpenProject
from dyda.warehouse import Writer
from dyda.wording import sentence

__all__ = ["Approval", "Foreseen", "NotDecided", "Undecided", "foresee_messages"]

DANGEROUS = ("rewritten", "broken", "unknown")


@dataclass(frozen=True)
class Undecided:
    """A schema change that waits for approval: what it would cost which views, and the tables that it changes."""

    number: int
    cause: Cause
    views: frozenset[str]
    relations: tuple[Relation, ...]

    def changes(self, relation: Relation) -> bool:
        """Whether this is one of its tables, under whatever name, or has taken the name of one."""
        return any(
            relation.name == known.name or (relation.name.source, relation.oid) == (known.name.source, known.oid)
            for known in self.relations
        )


class NotDecided(DydaError):
    """A view cannot be built before an operator has decided about a schema change."""

    def __init__(self, view: str, undecided: Undecided) -> None:
        super().__init__(
            f"view {view} cannot be built now: it reads a table whose schema change is not approved"
            f" ({sentence(undecided.cause)})",
            f"Decide about it first: dyda pending approve {undecided.number} (or reject)",
        )


@dataclass(frozen=True)
class Foreseen:
    """What one message adds to what the messages before it do: the views it concerns, each with its effect."""

    views: tuple[Mapping[str, Any], ...]

    @property
    def dangerous(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(view for view in self.views if view["effect"] in DANGEROUS)


def foresee_messages(
    opened: OpenProject, known: CatalogState, messages: Sequence[tuple[int, UpdateMessage]]
) -> dict[int, Foreseen]:
    """What each message that changes a schema would do, given that those before it have been processed."""
    schemas = Schemas({name: record.relation for name, record in known.relations.items()})
    before: dict[str, Foretold] = {}
    found: dict[int, Foreseen] = {}
    unclear: set[str] = set()
    for number, message in messages:
        if not message.schema_changes:
            continue
        try:
            schemas.apply(message, lambda name: _standing(opened, name))
            views = {view.name: view for view in foretell(opened, known, schemas) if view.name in known.views}
        except DydaError as error:
            concerned = set(_readers(known, message.moved_without_rows))
            unclear |= concerned
            views = {name: Foretold(name, "unknown", extent="unknown", reason=error.what) for name in concerned}
        added = [
            view.as_dict()
            for name, view in sorted(views.items())
            if name not in unclear or view.effect == "unknown"
            if view.effect != "none" and not (name in before and view.costs_no_more_than(before[name]))
        ]
        found[number] = Foreseen(tuple(added))
        before |= views
    return found


class Approval:
    """Keeps the states of waiting schema changes; looks again only if the queue or the catalog is another."""

    def __init__(self, opened: OpenProject, writer: Writer) -> None:
        self.opened = opened
        self.writer = writer
        self._seen: tuple[tuple[int, ...], CatalogState | None] = ((), None)
        self.undecided: tuple[Undecided, ...] = ()
        """What waits for approval because of what it would do itself."""

    def mark(self, polled: Poll, known: CatalogState) -> bool:
        """Stop what must wait and let go what need not; whether any message's state is another now."""
        queue = [(queued.number, queued.message) for queued in polled.moving if queued.message.schema_changes]
        numbers = tuple(number for number, _ in queue)
        if not queue:
            self.undecided = ()
        if not queue or (numbers == self._seen[0] and known is self._seen[1]):
            return False
        self._seen = (numbers, known)
        self.undecided = ()
        wanted = self.opened.project.settings.maintenance.schema_changes == "approve"
        states = None if wanted else (MessageState.APPROVAL,)
        records = {record.id: record for record in self.opened.warehouse.messages(numbers=numbers, states=states)}
        stopped: dict[int, Cause] = {}
        if wanted:
            approved = {number for number in numbers if number in records and records[number].approved}
            foreseen = foresee_messages(self.opened, known, queue)
            stopped = _stopped(queue, foreseen, approved, known)
            self.undecided = tuple(
                Undecided(number, stopped[number], frozenset(view["name"] for view in dangers), _tables(known, message))
                for number, message in queue
                if (dangers := foreseen[number].dangerous) and number in stopped and number not in approved
            )
        changed = False
        for number in numbers:
            record, cause = records.get(number), stopped.get(number)
            if record is None or record.state not in (MessageState.WAITING, MessageState.APPROVAL):
                continue
            if cause is not None and (record.state, record.cause) != (MessageState.APPROVAL, cause):
                self.writer.mark_messages([number], MessageState.APPROVAL, cause)
                changed = True
            elif cause is None and record.state == MessageState.APPROVAL:
                self.writer.mark_messages([number], MessageState.WAITING)
                changed = True
        return changed

    def put_off(
        self, known: CatalogState, again: Mapping[str, BuildRequest], requested: Mapping[str, BuildRequest]
    ) -> dict[str, Cause]:
        """Which of these maintained views would carry a change along that somebody has yet to decide about, and why:
        they are built when that is done. Who asked for one of them is told at once."""
        found: dict[str, Cause] = {}
        for name, target in {**again, **requested}.items():
            view = known.views.get(name)
            record = known.frozen.get(name) if view is None else view.record
            if record is None or target.file_text is not None:
                continue  # a text from a file is judged by what it reads from now on: `permit`
            relations = [known.relations[read].relation for read in record.relations if read in known.relations]
            undecided = self._undecided_about(relations)
            if undecided is not None:
                found[name] = undecided.cause
                if name in requested:
                    raise NotDecided(name, undecided)
        return found

    def permit(self, targets: Mapping[str, BuildRequest]) -> Callable[[BuildRequest, ViewDefinition], None]:
        """Raises if a view with a text from its file would carry such a change along; for other views, that is: those
        whose files are applied with it are what their owners want."""
        given = frozenset(name for name, target in targets.items() if target.file_text is not None)

        def check(target: BuildRequest, definition: ViewDefinition) -> None:
            if target.file_text is None:
                return
            undecided = self._undecided_about((scan.relation for scan in scans(definition.tree)), apart=given)
            if undecided is not None:
                raise NotDecided(target.name, undecided)

        return check

    def _undecided_about(self, relations: Iterable[Relation], apart: frozenset[str] = frozenset()) -> Undecided | None:
        concerned = list(relations)
        for one in self.undecided:
            if one.views - apart and any(map(one.changes, concerned)):
                return one
        return None


def _stopped(
    queue: Sequence[tuple[int, UpdateMessage]],
    foreseen: Mapping[int, Foreseen],
    approved: set[int],
    known: CatalogState,
) -> dict[int, Cause]:
    """The messages that must wait, each with its cause."""
    stopped: dict[int, Cause] = {}
    for number, _ in queue:
        dangers = foreseen[number].dangerous
        if dangers and number not in approved:
            effects = tuple(Effect(view["name"], view["effect"]) for view in dangers)
            stopped[number] = NeedsApproval(number, effects)
    for number, message in queue:
        relations = message.moved_without_rows
        later = [
            other
            for other, later in queue
            if other > number and other in stopped and relations & later.moved_without_rows
        ]
        if number not in stopped and later and any(_readers(known, relations)):
            stopped[number] = WaitsWith(number, later[0])
    return stopped


def _readers(known: CatalogState, relations: Iterable[RelationName]) -> Iterable[str]:
    moved = frozenset(relations)
    return (view.name for view in known.views.values() if moved & view.definition.relations)


def _standing(opened: OpenProject, name: RelationName) -> Relation | None:
    """The table under the name as it is now; None if the source cannot tell."""
    try:
        return opened.describe(name.source, name.schema, name.table)
    except DydaError:
        return None


def _tables(known: CatalogState, message: UpdateMessage) -> tuple[Relation, ...]:
    names = sorted(message.moved_without_rows)
    return tuple(known.relations[name].relation for name in names if name in known.relations)
