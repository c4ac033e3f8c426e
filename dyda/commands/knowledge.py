"""knowledge.toml: applied like a view file, listed, and tested against the live data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dyda.commands.work import named_relations
from dyda.errors import ConfigurationError, UnknownRelation
from dyda.house import House
from dyda.maintenance.knowing import document_of, read_document
from dyda.maintenance.live import Known
from dyda.model.knowledge_file import parse_knowledge, render_knowledge
from dyda.model.relation import Relation
from dyda.project import Project
from dyda.warehouse import Installation, Worker

__all__ = ["CHANGED", "KnowledgeToApply", "knowledge_to_apply", "plan_knowledge"]

Resolve = Callable[[str, str | None, str], Relation]

CHANGED = ("create", "change", "drop", "recover")


def plan_knowledge(house: House, project: Project) -> str:
    """What `apply` does with knowledge.toml: compared, like a view file, with the text last applied."""
    record = house.warehouse.knowledge()
    text = project.knowledge_file
    if text != record.file_text:
        return "create" if record.file_text is None else "drop" if text is None else "change"
    if text is None:
        return "none"
    captured = {known.relation.name for known in house.warehouse.relations() if known.captured}
    if not named_relations(house, record.document) <= captured:
        return "recover"  # a source was detached
    return "evolved" if record.evolved else "unchanged"


@dataclass(frozen=True)
class KnowledgeToApply:
    """A knowledge.toml that was found right: what is to be captured for it, and what the catalog is to keep."""

    relations: tuple[Relation, ...]
    keep: Callable[[Worker], None]


def knowledge_to_apply(house: House, project: Project, known: Known, plan: str) -> KnowledgeToApply | None:
    """The file checked against the relations; None if it is left alone, an error that names the entry if it is wrong.

    Relations that are captured are taken as the catalog knows them: the knowledge evolves with the messages that wait.
    """
    if plan not in CHANGED:
        return None
    if plan == "recover":
        return _recovered(house, known)
    text, document = project.knowledge_file, project.knowledge_document()
    found: dict[tuple[str, str | None, str], Relation] = {}

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        if source not in house.sources:
            raise UnknownRelation(f"there is no source {source!r}", f"This project has: {', '.join(house.sources)}.")
        name = house.relation_name(source, schema, table)
        record = known.relations.get(name)
        relation = record.relation if record and record.captured else house.describe(source, schema, table)
        return found.setdefault((source, schema, table), relation)

    try:
        knowledge = parse_knowledge(document, resolve)
    except ConfigurationError:
        _blame_the_queue(house, document)
        raise
    kept = render_knowledge(knowledge)
    return KnowledgeToApply(tuple(found.values()), lambda worker: worker.save_knowledge(kept, text))


def _recovered(house: House, known: Known) -> KnowledgeToApply:
    """Capture for the knowledge as it has evolved; what has no meaning at the sources any more is retired."""
    found: dict[tuple[str, str | None, str], Relation] = {}

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return found.setdefault((source, schema, table), house.describe(source, schema, table))

    knowledge, unread = read_document(known.knowledge_record.document, resolve)
    retired = tuple({**entry.document, "reason": entry.reason} for entry in unread)
    relations = tuple(relation for relation in found.values() if relation.name in knowledge.relations)
    change = Installation(knowledge=document_of(knowledge), retired=retired)
    return KnowledgeToApply(relations, lambda worker: worker.install(change))


def _blame_the_queue(house: House, document: dict[str, Any]) -> None:
    """An error of its own if the file is right about the sources as they are: the catalog has not caught up."""
    try:
        parse_knowledge(document, house.describe)
    except ConfigurationError:
        return
    raise ConfigurationError(
        "knowledge.toml speaks of schema changes that are not installed yet",
        "Let them be processed first: dyda daemon --until-idle, then dyda apply",
    )
