"""`schema_changes = "approve"`: a schema change that would cost a view something waits until an operator agrees.

Dangerous is what would rewrite or break a view, or what cannot be foreseen; a dropped column that no view uses is not.
A dangerous message has the state `approval` in the catalog until it is approved, and stops the views that it concerns
(`waiting`); all others follow it. A unit sees the relations as they are at the sources, so for these views an earlier
schema change of the same relation waits with it: it would carry the dangerous one along. So would a view that is built
over the relation: it is not built before the operator has decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dyda.errors import DydaError
from dyda.maintenance.catalog_state import BuildRequest, CatalogState
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.plan.impact import Impact, impact_of_messages, readers
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import Cause, Effect, NeedsApproval, WaitsWith
from dyda.model.message import MessageState, UpdateMessage
from dyda.model.relation import Relation
from dyda.open_project import OpenProject
from dyda.warehouse import MessageRecord, is_hidden
from dyda.wording import sentence

__all__ = ["Approval", "Mark", "NotDecided", "Undecided"]


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
class Mark:
    """The state that a message is to have in the catalog."""

    number: int
    state: MessageState
    cause: Cause | None = None


class Approval:
    """Judges pending schema changes; again only if the queue or the catalog is not what it was."""

    def __init__(self, opened: OpenProject) -> None:
        self.opened = opened
        self._seen = _Seen()
        self.undecided: tuple[Undecided, ...] = ()
        """What waits for approval because of what it would do itself."""

    def marks(self, polled: Poll, known: CatalogState) -> list[Mark]:
        """What must wait from now on, and what need not any more."""
        queue = [(queued.number, queued.message) for queued in polled.moving if queued.message.schema_changes]
        numbers = tuple(number for number, _ in queue)
        if not queue:
            self.undecided = ()
        seen = _Seen.of(queue, known)
        if not queue or seen == self._seen:
            return []
        self._seen = seen
        self.undecided = ()
        wanted = self.opened.project.settings.maintenance.schema_changes == "approve"
        states = None if wanted else (MessageState.APPROVAL,)
        records = self.opened.warehouse.messages(numbers=numbers, states=states)
        stopped: dict[int, Cause] = {}
        if wanted:
            approved = {record.id for record in records if record.approved}
            dangers = {
                number: [view for view in views if view.dangerous and not is_hidden(view.name)]
                for number, views in impact_of_messages(self.opened, known, queue).items()
            }
            stopped = _stopped(queue, dangers, approved, known)
            self.undecided = tuple(
                Undecided(number, cause, frozenset(view.name for view in dangers[number]), _tables(known, message))
                for number, message in queue
                if isinstance(cause := stopped.get(number), NeedsApproval)
            )
        return [mark for record in records if (mark := _mark(record, stopped.get(record.id))) is not None]

    def put_off(
        self, known: CatalogState, again: Mapping[str, BuildRequest], requested: Mapping[str, BuildRequest]
    ) -> dict[str, Cause]:
        """Which of these views cannot be built before a schema change is decided about, and why. One that was requested
        is an error."""
        found: dict[str, Cause] = {}
        for name, target in {**again, **requested}.items():
            record = known.records.get(name)
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
        matching = (one for one in self.undecided if one.views - apart and any(map(one.changes, concerned)))
        return next(matching, None)


@dataclass(frozen=True)
class _Seen:
    """What a judgement depends on. Rows and positions alone change none of it, so objects are compared by identity."""

    lacked: tuple[tuple[int, frozenset[str]], ...] = ()
    """By schema change, the views that lack it."""
    known: tuple[int, ...] = ()
    kept: tuple[object, ...] = field(default=(), compare=False)
    """What `known` are the identities of, so that no other object gets them."""

    @classmethod
    def of(cls, queue: Iterable[tuple[int, UpdateMessage]], known: CatalogState) -> _Seen:
        views = known.views.values()
        lacked = tuple(
            (number, frozenset(view.name for view in views if not view.has(message.source, message.xid)))
            for number, message in queue
        )
        kept = (known.relations, known.knowledge, known.earlier, *(view.definition for view in views))
        return cls(lacked, tuple(map(id, kept)), kept)


def _mark(record: MessageRecord, cause: Cause | None) -> Mark | None:
    """None if the message's state is what it has to be, or an operator's."""
    if record.state not in (MessageState.WAITING, MessageState.APPROVAL):
        return None
    if cause is None:
        return Mark(record.id, MessageState.WAITING) if record.state == MessageState.APPROVAL else None
    marked = (record.state, record.cause) == (MessageState.APPROVAL, cause)
    return None if marked else Mark(record.id, MessageState.APPROVAL, cause)


def _stopped(
    queue: Sequence[tuple[int, UpdateMessage]],
    dangers: Mapping[int, Sequence[Impact]],
    approved: set[int],
    known: CatalogState,
) -> dict[int, Cause]:
    """The messages that must wait, each with its cause."""
    stopped: dict[int, Cause] = {
        number: NeedsApproval(number, tuple(Effect(view.name, view.effect) for view in views))
        for number, views in dangers.items()
        if views and number not in approved
    }
    for number, message in queue:
        relations = message.moved_without_rows
        lacking = {name for name in readers(known, relations) if not known.views[name].has(message.source, message.xid)}
        later = [
            other
            for other, later in queue
            if other > number
            and isinstance(stopped.get(other), NeedsApproval)
            and relations & later.moved_without_rows
            and not lacking.isdisjoint(view.name for view in dangers[other])
        ]
        if number not in stopped and later:
            stopped[number] = WaitsWith(number, later[0])
    return stopped


def _tables(known: CatalogState, message: UpdateMessage) -> tuple[Relation, ...]:
    names = sorted(message.moved_without_rows)
    return tuple(known.relations[name].relation for name in names if name in known.relations)
