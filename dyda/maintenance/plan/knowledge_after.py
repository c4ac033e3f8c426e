"""The knowledge follows the schemas: with the unit that brings a change, and where no view reads, at once.

A relation that only the knowledge names has no position and no unit of its own at a source that no view reads. It is
compared with its fingerprint at every poll instead, so that a rewriting finds it as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dyda.errors import DydaError, SourceUnreachable
from dyda.maintenance.catalog_state import CatalogState
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.observe.round import Round
from dyda.maintenance.observe.tables import look_at
from dyda.maintenance.plan.relations_after import RelationsAfter
from dyda.model.knowledge.document import document_of, retirement
from dyda.model.relation import Relation, RelationName
from dyda.open_project import OpenProject
from dyda.sources.catalog import is_uncaptured, look
from dyda.warehouse import Installation, RelationState
from vs import evolve

__all__ = ["EvolvedKnowledge", "KnowledgeWatch", "evolved_knowledge", "relations_after"]


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


class KnowledgeWatch:
    """Remembers under which fingerprint each relation was looked at last, so that one in vain is not repeated."""

    def __init__(self, opened: OpenProject) -> None:
        self.opened = opened
        self._seen: dict[RelationName, str | None] = {}

    def notice(self, polled: Poll, known: CatalogState) -> Installation | None:
        """What to install because relations that only the knowledge names are not as the catalog says."""
        strays = [name for name in sorted(_unread(known)) if self._moved(polled, known, name)]
        if not strays:
            return None
        relations = [known.relations[name].relation for name in strays]
        tables = look_at(self.opened, relations, (queued.message for queued in polled.moving))
        now = RelationsAfter(Round.of(self.opened.project, known, polled, tables), ()).of(relations)
        described: dict[RelationName, Relation] = {}
        forgotten: set[RelationName] = set()
        for name, relation in now.items():
            if relation is None:
                forgotten.add(name)
                continue
            described[relation.name] = relation
            if relation.name != name:
                forgotten.add(name)
            self._attach(polled, name, relation)
        evolved = evolved_knowledge(known, described, forgotten)
        held = {name for record in known.frozen.values() for name in record.relations}
        return Installation(
            relations=tuple(
                RelationState(relation, polled.snapshots[name.source].kept(name))
                for name, relation in described.items()
            ),
            forgotten=tuple(sorted(forgotten - set(described) - held)),
            knowledge=evolved.document,
            retired=evolved.retired,
        )

    def _moved(self, polled: Poll, known: CatalogState, name: RelationName) -> bool:
        snapshot = polled.snapshots.get(name.source)
        record = known.relations.get(name)
        if snapshot is None or record is None:
            return False
        seen = look(snapshot.fingerprints.get(name))
        if snapshot.agrees(name, record.fingerprint) or self._seen.get(name, "") == seen:
            return False
        if polled.after.get(name.source) is not None and any(
            name in queued.message.moved_without_rows for queued in polled.moving
        ):
            return False  # its message waits for its unit
        self._seen[name] = seen
        return True

    def _attach(self, polled: Poll, name: RelationName, relation: Relation) -> None:
        found = polled.snapshots[name.source].fingerprints.get(name)
        if relation.name == name and found is not None and not is_uncaptured(found):
            return
        try:
            self.opened.source(name.source).attach([relation])
        except SourceUnreachable:
            raise
        except DydaError:
            return  # a rewriting that needs it will say so


def _unread(known: CatalogState) -> set[RelationName]:
    """What the knowledge names and no maintained view reads."""
    read = {name for view in known.views.values() for name in view.definition.relations}
    return {name for name in known.knowledge.relations if name not in read}
