"""The knowledge follows the schemas: with the unit of a change or, where no view reads the source, at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dyda.maintenance.catalog_state import CatalogState
from dyda.model.knowledge.document import document_of, retirement
from dyda.model.relation import Relation, RelationName
from vs import evolve

__all__ = ["EvolvedKnowledge", "evolved_knowledge", "relations_after"]


@dataclass(frozen=True)
class EvolvedKnowledge:
    """What an installation says of the knowledge: nothing (None), or all of it and what has ended."""

    document: Mapping[str, Any] | None = None
    retired: tuple[Mapping[str, Any], ...] = ()


def relations_after(
    known: CatalogState,
    names: Iterable[RelationName],
    described: Mapping[RelationName, Relation],
    gone: Iterable[RelationName],
) -> dict[RelationName, Relation | None]:
    """Those of `names` that are others once the catalog knows the relations as `described`; None if they are `gone`."""
    by_oid = {(relation.name.source, relation.oid): relation for relation in described.values()}
    missing = set(gone)
    now: dict[RelationName, Relation | None] = {}
    for name in names:
        record = known.relations.get(name)
        if record is None:
            continue
        found = by_oid.get((name.source, record.relation.oid)) or described.get(name)
        if found is not None and found != record.relation:
            now[name] = found
        elif found is None and name in missing:
            now[name] = None
    return now


def evolved_knowledge(
    known: CatalogState, described: Mapping[RelationName, Relation], gone: Iterable[RelationName]
) -> EvolvedKnowledge:
    """The knowledge once the catalog knows the relations as `described`, and that others are `gone`."""
    now = relations_after(known, known.knowledge.relations, described, gone)
    if not now:
        return EvolvedKnowledge()
    relations = {name: record.relation for name, record in known.relations.items()}
    evolution = evolve(known.knowledge, relations, now)
    if evolution.knowledge == known.knowledge:
        return EvolvedKnowledge()
    retired = tuple(retirement(constraint, reason) for constraint, reason in evolution.retired)
    return EvolvedKnowledge(document_of(evolution.knowledge, known.unread), retired)
