"""Checks all new and changed files before anything is asked or done, and reports all their errors at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dyda.commands.knowledge import KnowledgeToApply, knowledge_to_apply
from dyda.commands.renames import with_renames
from dyda.commands.view_files import ViewTexts, read_as_rendered, rehearsed
from dyda.errors import (
    ConfigurationError,
    DydaError,
    NotComputable,
    RefusedFiles,
    RelationRefused,
    UnknownColumn,
    UnknownRelation,
    UnsupportedSql,
)
from dyda.maintenance.catalog_state import CatalogState
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.sql.positions import line_of
from dyda.open_project import OpenProject
from dyda.project import Project

__all__ = ["CheckedFiles", "check_files"]

ABOUT_FILES = (ConfigurationError, NotComputable, RelationRefused, UnknownColumn, UnknownRelation, UnsupportedSql)
"""Errors in a file itself. If a source or Spark does not answer, the check ends at once."""


@dataclass(frozen=True)
class CheckedFiles:
    """The definitions of new and changed views, and the knowledge if it is new or changed."""

    definitions: dict[str, ViewDefinition]
    knowledge: KnowledgeToApply | None


def check_files(
    opened: OpenProject, project: Project, known: CatalogState, names: Iterable[str], knowledge: str
) -> CheckedFiles:
    """Read knowledge.toml and the files of the views `names`; one error reports everything that is wrong."""
    errors: dict[str, DydaError] = {}
    definitions: dict[str, ViewDefinition] = {}
    read: KnowledgeToApply | None = None
    with _noted(opened, errors):
        read = knowledge_to_apply(opened, project, known, knowledge)
    texts = ViewTexts(opened, project.view_files)
    for name in names:
        with _noted(opened, errors), rehearsed(name):
            definitions[name] = texts.read(name, project.view_files[name])
    for name, definition in definitions.items():
        with _noted(opened, errors), rehearsed(name), _placed(project.view_files[name]):
            outputs = opened.engine.analyse(definition)
            opened.warehouse.check_types(name, [output.warehouse_type for output in outputs])
            read_as_rendered(definition, opened.engine.numeric)
    if len(errors) > 1:
        raise RefusedFiles(list(errors.values()))
    for error in errors.values():
        raise error
    return CheckedFiles(definitions, read)


@contextmanager
def _noted(opened: OpenProject, errors: dict[str, DydaError]) -> Iterator[None]:
    """Keep the error for later, once: a view over another one has that one's errors, too."""
    try:
        yield
    except ABOUT_FILES as error:
        explained = with_renames(opened, error)
        errors.setdefault(str(explained), explained)


@contextmanager
def _placed(text: str) -> Iterator[None]:
    """Add the line to Spark's errors about the text."""
    try:
        yield
    except UnsupportedSql as error:
        line = line_of(text, error.fragment) if error.line is None and error.fragment else None
        if line is None:
            raise
        raise UnsupportedSql(
            error.view, error.what.removeprefix(f"views/{error.view}.sql: "), error.remedy, line
        ) from None
