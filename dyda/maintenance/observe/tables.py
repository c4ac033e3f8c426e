"""Tables as their sources' catalogs show them now: looked at once, before anything is planned.

Right for the unit because fingerprints are compared before the snapshot and after the last read (R2), those of the
tables looked at here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dyda.errors import RelationRefused, UnknownRelation
from dyda.model.message import UpdateMessage
from dyda.model.relation import Relation, RelationName
from dyda.model.schema_change import RenameRelation, ReplaceRelation
from dyda.open_project import OpenProject

__all__ = ["Table", "TablesNow", "look_at", "sizes_of"]

Table: TypeAlias = tuple[str, int]
"""A source, and the oid that a table has in it, whatever it is called."""


@dataclass(frozen=True)
class TablesNow:
    """What was found under the oids and the names that a plan may ask for."""

    by_oid: Mapping[Table, Relation | None] = field(default_factory=dict)
    """As it is and as it is called now; None: gone."""
    by_name: Mapping[RelationName, Relation | RelationRefused | UnknownRelation] = field(default_factory=dict)
    """The table under the name, or why it cannot be used."""


def look_at(opened: OpenProject, relations: Iterable[Relation], messages: Iterable[UpdateMessage] = ()) -> TablesNow:
    """These relations, and what `messages` made of them: the tables with the oids that are or were meant, and what is
    there under every name that any of them has or had."""
    wanted: dict[str, list[Relation]] = {}
    for relation in relations:
        wanted.setdefault(relation.name.source, []).append(relation)
    oids: dict[RelationName, set[int]] = {}
    names: dict[RelationName, set[RelationName]] = {}
    for message in messages:
        for change in message.schema_changes:
            for step in change.steps:
                if isinstance(step, ReplaceRelation):
                    oids.setdefault(change.relation, set()).add(step.new_oid)
                    names.setdefault(change.relation, set()).update([step.name] if step.name is not None else [])
                elif isinstance(step, RenameRelation):
                    names.setdefault(change.relation, set()).add(step.new)
    by_oid: dict[Table, Relation | None] = {}
    by_name: dict[RelationName, Relation | RelationRefused | UnknownRelation] = {}
    for source, known in wanted.items():
        meant = {relation.oid for relation in known}.union(*(oids.get(relation.name, ()) for relation in known))
        found = opened.source(source).find(sorted(meant))
        by_oid |= {(source, oid): relation for oid, relation in found.items()}
        called = {relation.name for relation in [*known, *found.values()] if relation is not None}
        by_name |= _named(opened, source, sorted(called.union(*(names.get(relation.name, ()) for relation in known))))
    return TablesNow(by_oid, by_name)


def sizes_of(opened: OpenProject, tables: Iterable[Table]) -> dict[Table, int]:
    """How many bytes these tables have now. Asking waits for whoever has one locked, so ask only for those that are to
    be read."""
    wanted: dict[str, set[int]] = {}
    for source, oid in tables:
        wanted.setdefault(source, set()).add(oid)
    return {
        (source, oid): size
        for source, oids in wanted.items()
        for oid, size in opened.source(source).sizes(sorted(oids)).items()
    }


def _named(
    opened: OpenProject, source: str, names: list[RelationName]
) -> dict[RelationName, Relation | RelationRefused | UnknownRelation]:
    """One question for all of them; one for each where that fails, so that every refusal is its own."""
    try:
        found = opened.source(source).describe([(name.schema, name.table) for name in names])
    except (RelationRefused, UnknownRelation) as error:
        if len(names) == 1:
            return {names[0]: error}
        return {name: relation for one in names for name, relation in _named(opened, source, [one]).items()}
    return {name: found[name.schema, name.table] for name in names}
