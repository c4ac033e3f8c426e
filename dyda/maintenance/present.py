"""What the relations that a view reads are by now: the table that the view means, under whatever name.

A view means the table (its oid), not the name, with one exception: a transaction that moves the old table away *and*
puts another under its name means the name, as online schema changers swap tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dyda.errors import DydaError, SourceUnreachable
from dyda.house import House
from dyda.model.message import UpdateMessage
from dyda.model.relation import Relation, RelationName
from dyda.model.schema_change import RenameRelation, ReplaceRelation

__all__ = ["Present"]


@dataclass
class Present:
    """Looks relations up once per unit. Right for the unit because fingerprints are compared before and after (R2)."""

    house: House
    messages: Sequence[UpdateMessage] = ()
    found: dict[RelationName, Relation | None] = field(default_factory=dict)
    refused: dict[RelationName, str] = field(default_factory=dict)
    """Relations that are there and cannot be used any more, with the reason."""

    def of(self, relations: Iterable[Relation]) -> dict[RelationName, Relation | None]:
        """By the names that the catalog knows them by; None if the relation is gone or refused."""
        for known in relations:
            if known.name not in self.found:
                self.found[known.name] = self._look(known)
        return {known.name: self.found[known.name] for known in relations}

    def _look(self, known: Relation) -> Relation | None:
        source = self.house.source(known.name.source)
        if not self._follows_table(known.name):
            try:
                place = (known.name.schema, known.name.table)
                return source.describe([place])[place]
            except SourceUnreachable:
                raise
            except DydaError as error:
                self.refused[known.name] = error.what
        return source.find([known.oid])[known.oid]

    def _follows_table(self, name: RelationName) -> bool:
        """Whether the first transaction that moved the table took only the table away and left its name alone."""
        for message in self.messages:
            steps = [step for change in message.schema_changes if change.relation == name for step in change.steps]
            replaced = any(isinstance(step, ReplaceRelation) for step in steps)
            if replaced:
                return False
            if any(isinstance(step, RenameRelation) for step in steps):
                return True
        return False
