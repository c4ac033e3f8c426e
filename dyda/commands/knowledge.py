"""knowledge.toml: applied like a view file, listed, and tested against the live data."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyda.commands.handover import named_relations
from dyda.commands.knowledge_check import examine
from dyda.errors import ConfigurationError, UnknownRelation
from dyda.model.knowledge.constraints import Constraint
from dyda.model.relation import Relation, RelationName
from dyda.open_project import OpenProject
from dyda.project import Project
from dyda.warehouse import Installation

if TYPE_CHECKING:
    from dyda.engine import Engine
    from dyda.maintenance.catalog_state import CatalogState
    from dyda.warehouse.writer import Writer

__all__ = ["CHANGED", "KnowledgeToApply", "knowledge", "knowledge_check", "knowledge_to_apply", "plan_knowledge"]

Resolve = Callable[[str, str | None, str], Relation]

PLAIN = re.compile(r"`([a-z_][a-z0-9_]*)`")
CHANGED = ("create", "change", "drop", "recover")


def knowledge(folder: Path) -> list[dict[str, Any]]:
    """The constraints that were applied: active, unread (they cannot be understood now) and retired ones."""
    from dyda.maintenance.catalog_state import load
    from dyda.model.knowledge.document import single_entries

    with OpenProject.open(folder) as opened:
        known = load(opened)
        listed = []
        for _, entry in single_entries(known.knowledge_record.document):
            reason = next((unread.reason for unread in known.unread if unread.document == entry), None)
            listed.append(_listed(entry, "unread" if reason else "active", reason))
        return listed + [_listed(ended, "retired", ended["reason"]) for ended in known.knowledge_record.retired]


def knowledge_check(folder: Path, engine: Engine | None = None) -> list[dict[str, Any]]:
    """Test each constraint against the live data: as in the file if it is not applied yet, else as it has evolved."""
    from dyda.maintenance.catalog_state import load
    from dyda.model.knowledge.file import parse_knowledge

    with OpenProject.open(folder, engine) as opened:
        record, text = opened.warehouse.knowledge(), opened.project.knowledge_file
        if text is not None and text != record.file_text:
            tested, applied = parse_knowledge(opened.project.knowledge_document(), _resolver(opened)), False
        else:
            tested, applied = load(opened).knowledge, True
        findings = examine(opened, tested)
        return [
            {**_described(constraint), "applied": applied, **asdict(finding), "samples": list(finding.samples)}
            for constraint, finding in zip(tested.constraints, findings, strict=True)
        ]


def _listed(document: Mapping[str, Any], state: str, reason: str | None) -> dict[str, Any]:
    ((kind, (entry,)),) = ((kind, entries) for kind, entries in document.items() if kind != "reason")
    return {"kind": kind, "constraint": _words(kind, entry), "state": state, "reason": reason, "entry": entry}


def _described(constraint: Constraint) -> dict[str, Any]:
    from dyda.model.knowledge.document import retirement

    listed = _listed(retirement(constraint, ""), "active", None)
    return {"kind": listed["kind"], "constraint": listed["constraint"]}


def _words(kind: str, entry: Mapping[str, Any]) -> str:
    match kind:
        case "join":
            text = f"{entry['between'][0]} meets {entry['between'][1]} on {entry['on']}"
        case "containment":
            sides = [
                f"{entry[side]} where {entry[f'{side}_where']}" if f"{side}_where" in entry else entry[side]
                for side in ("of", "in")
            ]
            relation = {"subset": "is in", "equivalent": "is the same as", "superset": "contains"}[entry["is"]]
            text = f"{sides[0]} {relation} {sides[1]}"
        case _:
            text = f"{entry['attribute']} = {entry['equals']}"
    return PLAIN.sub(r"\1", text)


def plan_knowledge(opened: OpenProject, project: Project) -> str:
    """What `apply` does with knowledge.toml: compared, like a view file, with the text last applied."""
    record = opened.warehouse.knowledge()
    text = project.knowledge_file
    if text != record.file_text:
        return "create" if record.file_text is None else "drop" if text is None else "change"
    if text is None:
        return "none"
    captured = {known.relation.name for known in opened.warehouse.relations() if known.captured}
    if not named_relations(opened.project, record.document) <= captured:
        return "recover"  # a source was detached
    return "evolved" if record.evolved else "unchanged"


@dataclass(frozen=True)
class KnowledgeToApply:
    """A valid knowledge.toml: the relations to capture for it, and how to save it in the catalog."""

    relations: tuple[Relation, ...]
    keep: Callable[[Writer], None]


def knowledge_to_apply(
    opened: OpenProject, project: Project, known: CatalogState, plan: str
) -> KnowledgeToApply | None:
    """The file checked against the relations; None if it is left alone. An error names the wrong entry.

    Captured relations are taken as the catalog knows them: the knowledge evolves with the pending messages.
    """
    from dyda.model.knowledge.file import parse_knowledge, render_knowledge

    if plan not in CHANGED:
        return None
    if plan == "recover":
        return _recovered(opened, known)
    text, document = project.knowledge_file, project.knowledge_document()
    relations: dict[RelationName, Relation] = {}
    try:
        knowledge = parse_knowledge(document, _resolver(opened, relations, known))
    except ConfigurationError:
        _blame_the_queue(opened, document)
        raise
    kept = render_knowledge(knowledge)
    return KnowledgeToApply(tuple(relations.values()), lambda writer: writer.save_knowledge(kept, text))


def _resolver(
    opened: OpenProject, found: dict[RelationName, Relation] | None = None, known: CatalogState | None = None
) -> Resolve:
    """How to find a relation: in the catalog if it is `known` and captured, else at its source. Added to `found`."""

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        if source not in opened.sources:  # an error that is reported with the entry
            raise UnknownRelation(f"there is no source {source!r}", f"This project has: {', '.join(opened.sources)}.")
        name = opened.relation_name(source, schema, table)
        record = known.relations.get(name) if known else None
        relation = record.relation if record and record.captured else opened.describe(source, schema, table)
        return relation if found is None else found.setdefault(name, relation)

    return resolve


def _recovered(opened: OpenProject, known: CatalogState) -> KnowledgeToApply:
    """Capture for the knowledge as it has evolved; entries that cannot be understood any more are retired."""
    from dyda.model.knowledge.document import document_of, read_document

    found: dict[RelationName, Relation] = {}
    knowledge, unread = read_document(known.knowledge_record.document, _resolver(opened, found))
    retired = tuple({**entry.document, "reason": entry.reason} for entry in unread)
    relations = tuple(relation for name, relation in found.items() if name in knowledge.relations)
    change = Installation(knowledge=document_of(knowledge), retired=retired)
    return KnowledgeToApply(relations, lambda writer: writer.install(change))


def _blame_the_queue(opened: OpenProject, document: dict[str, Any]) -> None:
    """A special error if the file matches the sources as they are now: the catalog has not caught up."""
    from dyda.model.knowledge.file import parse_knowledge

    try:
        parse_knowledge(document, _resolver(opened))
    except ConfigurationError:
        return
    raise ConfigurationError(
        "knowledge.toml refers to schema changes that are not installed yet",
        "Process them first: dyda daemon --until-idle, then dyda apply",
    )
