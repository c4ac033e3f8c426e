"""What the relations that a view reads are once a unit is processed: the table that the view means, as it is then.

A view means the table (its oid), not the name, with one exception: a transaction that moves the old table away *and*
puts another under its name means the name, as online schema changers swap tables. The log marks such swaps
(dyda.sources), so the unit's messages, applied to what the catalog knows, lead to the table that is meant.

The source's own catalog may be ahead of that: it has the effects of messages that are still in the queue. Where it is,
the relation is described as the unit leaves it, so that the result does not depend on when the unit is processed. Then
nothing may read it: a unit that has to is abandoned, and merged with what it lacks (rule S3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dyda.errors import BrokenUnit, RelationRefused, UnknownRelation
from dyda.maintenance.observe.round import Round
from dyda.model.message import SchemaChange
from dyda.model.relation import Relation, RelationName
from dyda.model.schema_change import DropRelation, ReplaceRelation, apply
from scheduler import Queued

__all__ = ["RelationsAfter"]


@dataclass
class RelationsAfter:
    """The relations after `messages`, from the tables that the round has looked at."""

    round: Round
    messages: Sequence[Queued]
    found: dict[RelationName, Relation | None] = field(default_factory=dict)
    refused: dict[RelationName, str] = field(default_factory=dict)
    """Relations that are there and cannot be used any more, with the reason."""

    def of(self, relations: Iterable[Relation]) -> dict[RelationName, Relation | None]:
        """By the names that the catalog knows them by; None if the relation is gone or refused."""
        asked = list(relations)
        for known in asked:
            if known.name not in self.found:
                self.found[known.name] = self._after(known)
        return {known.name: self.found[known.name] for known in asked}

    def _after(self, known: Relation) -> Relation | None:
        pending = self._pending(known.name)
        changes = self._changes(known.name)
        if not all(map(_complete, changes)) or not (pending or self._mentioned(known.name)):
            return self._unexplained(known)
        after, dropped = known, False
        for change in changes:
            after = apply(after, change.steps)
            dropped = any(isinstance(step, DropRelation) for step in change.steps) or (
                dropped and not any(isinstance(step, ReplaceRelation) for step in change.steps)
            )
        if dropped:
            return None
        now = self.round.tables.by_oid[known.name.source, after.oid]
        if now is None and not pending:
            return self._unexplained(after)
        if now is not None and (not pending or _alike(after, now)):
            return self._usable(known.name, replace(now, succeeds=after.succeeds))
        if any(step.moves_rows or step.is_destructive for change in changes for step in change.steps):
            raise BrokenUnit(
                known.name.source, frozenset({str(known.name)}), f"later changes of {known.name} are visible already"
            )
        return after

    def _changes(self, name: RelationName) -> list[SchemaChange]:
        """What the unit changes about the relation. Steps go by names, and none may be applied twice."""
        catalog = self.round.catalog
        return [
            change
            for queued in self._messages()
            for change in queued.message.schema_changes
            if change.relation == name and not catalog.is_described_with(name, queued.message.xid)
        ]

    def _mentioned(self, name: RelationName) -> bool:
        return any(change.relation == name for queued in self._messages() for change in queued.message.schema_changes)

    def _pending(self, name: RelationName) -> bool:
        """Whether a message changes the relation that is neither the unit's nor known already: views that wait may
        lack it still."""
        own, catalog = {queued.number for queued in self._messages()}, self.round.catalog
        return any(
            change.relation == name
            for queued in self.round.moving
            if queued.number not in own and not catalog.is_described_with(name, queued.message.xid)
            for change in queued.message.schema_changes
        )

    def _messages(self) -> Iterator[Queued]:
        """Those that are more than rows: the unit's, and those of sources that no view reads: these have no position,
        and all of it is to be known."""
        yield from (queued for queued in self.messages if queued.message.kind != "data")
        yield from (queued for queued in self.round.moving if self.round.after.get(queued.message.source) is None)

    def _unexplained(self, known: Relation) -> Relation | None:
        """No message explains it: the table under the name, or else the one that had it."""
        match self.round.tables.by_name[known.name]:
            case Relation() as found:
                return found
            case RelationRefused() as error:
                self.refused[known.name] = error.what
                return None
        moved = self.round.tables.by_oid[known.name.source, known.oid]
        return None if moved is None else self._usable(known.name, moved)

    def _usable(self, name: RelationName, relation: Relation) -> Relation | None:
        """The relation, unless it has become something that cannot be captured exactly (rule C3)."""
        found = self.round.tables.by_name[relation.name]
        if isinstance(found, RelationRefused | UnknownRelation):
            self.refused[name] = found.what
            return None
        return relation


def _complete(change: SchemaChange) -> bool:
    """Whether the steps say all that happened."""
    return bool(change.steps) and not any(
        isinstance(step, ReplaceRelation) and step.described is None for step in change.steps
    )


def _alike(left: Relation, right: Relation) -> bool:
    def shape(relation: Relation) -> tuple[object, ...]:
        columns = sorted((c.number, c.name, c.type, c.generated) for c in relation.columns)
        return relation.oid, relation.name, tuple(columns)

    return shape(left) == shape(right)
