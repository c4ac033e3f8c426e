"""Commands about the project and its sources."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dyda.commands.handover import named_relations
from dyda.errors import DydaError
from dyda.model.cause import Detached
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject, open_sources
from dyda.project import Project

__all__ = ["init", "sources_check", "sources_detach"]


CREATED = (".gitignore", "dyda.toml")


def init(folder: Path) -> dict[str, Any]:
    """Create a project folder that runs as it is."""
    before = {name for name in CREATED if os.path.lexists(folder / name)}
    project = Project.create(folder)
    return {"created": [str(project.folder / name) for name in CREATED if name not in before]}


def sources_check(folder: Path) -> list[dict[str, Any]]:
    """Connection, rights and capture of every source, for the tables that views read or knowledge.toml names.

    Without the warehouse, only the owner of a source's capture cannot be checked.
    """
    from dyda.model.sql.parse import referenced_tables

    project = Project.load(folder)
    owner, answers = _owner(folder)
    tables: dict[str, set[tuple[str, str]]] = {name: set() for name in project.settings.sources}
    for view, text in project.view_files.items():
        try:
            for named, schema, table, _ in referenced_tables(view, text):
                relation = project.relation_name(named, schema, table)
                tables[named].add((relation.schema, relation.table))
        except DydaError as error:
            answers.append(_finding(error))
    try:
        for relation in named_relations(project, project.knowledge_document()):
            tables[relation.source].add((relation.schema, relation.table))
    except DydaError as error:
        answers.append(_finding(error))
    with open_sources(project, owner or "") as sources:
        for name, source in sources.items():
            for finding in source.check(sorted(tables[name]), owner_known=owner is not None):
                answers.append({"source": name, **asdict(finding)})
    return answers


def _owner(folder: Path) -> tuple[str | None, list[dict[str, Any]]]:
    """The project's id at its sources; None, and the reason, if the warehouse does not answer."""
    try:
        with OpenProject.open(folder) as opened:
            return str(opened.warehouse.project_id), []
    except DydaError as error:
        finding = _finding(error)
        return None, [
            {**finding, "what": f"{error.what}; not checked: whether capture at the sources belongs to this project"}
        ]


def _finding(error: DydaError) -> dict[str, Any]:
    return {"source": "", "level": "error", "what": error.what, "remedy": error.remedy}


def sources_detach(folder: Path, name: str) -> dict[str, Any]:
    """Remove everything DyDa installed at a source. Its views break with reason "detached" and keep their rows."""
    from dyda.maintenance.loop import Maintainer

    with OpenProject.open(folder) as opened:
        source = opened.source(name)
        with opened.warehouse.lock(role="detach") as writer:
            known = Maintainer(opened, writer).known
            views = sorted(view.name for view in known.views.values() if name in view.positions)
            for view in views:
                writer.set_state(view, ViewState.BROKEN, Detached(name))
            source.detach()
            writer.forget_source(name)
        return {"source": name, "views": views}
