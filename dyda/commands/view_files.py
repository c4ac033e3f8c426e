"""View files that read other views: each is read over what the others mean, and written down without them.

A version's text must mean the same for ever, so a view under a view is put in its place: what stands above follows
every change at the sources by itself, together with what stands below, and never waits for it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from dyda.errors import ConfigurationError, DydaError, UnsupportedSql
from dyda.model.algebra.nodes import ViewDefinition, in_place, scans
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.parse import parse_view, referenced_views
from dyda.model.sql.render import render_view
from dyda.open_project import OpenProject
from dyda.warehouse import ViewRecord

__all__ = ["ViewTexts", "read_as_rendered", "readers_of", "rehearsed"]


class ViewTexts:
    """The files of a project, read on demand. A view whose file is as it was last applied means what it has become."""

    def __init__(self, opened: OpenProject, files: Mapping[str, str]) -> None:
        self._house = opened
        self._files = files
        self._records = {record.name: record for record in opened.warehouse.views()}
        self._reading: list[str] = []

    def read(self, name: str, text: str) -> ViewDefinition:
        """The definition that the text of view `name` stands for."""
        numeric = self._house.project.settings.spark.numeric
        if name in self._reading:
            circle = " reads ".join([*self._reading[self._reading.index(name) :], name])
            raise ConfigurationError(
                f"views stand on each other in a circle: {circle}", "Let one of them read sources."
            )
        self._reading.append(name)
        try:
            definition = parse_view(name, text, self._house.describe, plain_numeric=numeric, views=self._under)
            if not referenced_views(name, text):
                return definition
            return replace(definition, sql=render_view(in_place(definition.tree), definition.preferences))
        finally:
            self._reading.pop()

    def _under(self, name: str) -> ViewDefinition:
        if name not in self._files:
            known = ", ".join(sorted(self._files))
            raise ConfigurationError(
                f"there is no view {name!r} to read from; this project has: {known}",
                "Write source.table for a table, or add the view's file.",
            )
        return self.read(name, _meant(self._files[name], self._records.get(name)))


def _meant(text: str, record: ViewRecord | None) -> str:
    untouched = record is not None and record.file_text == text and record.sql is not None
    return record.sql if untouched and record is not None and record.sql is not None else text


def read_as_rendered(definition: ViewDefinition, numeric: str) -> None:
    """Refuse now what could not be read once it has evolved: from then on the view's text is a rendered one."""
    known = {scan.relation.name: scan.relation for scan in scans(definition.tree)}

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return known[RelationName(source, schema or "", table)]

    text = render_view(in_place(definition.tree), definition.preferences)
    parse_view(definition.name, text, resolve, plain_numeric=numeric)


@contextmanager
def rehearsed(name: str) -> Iterator[None]:
    """Read a new view with half of the stack that there is. What is nested too deeply for that is refused now: the
    daemon reads it again and again, from places where less of the stack is left, and a rewriting may nest it deeper."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit // 2, _frames() + 100))
    try:
        yield
    except RecursionError:
        raise UnsupportedSql(
            name,
            "its conditions, joins or subqueries are nested too deeply",
            "Write it flatter: IN instead of many ORs and ANDs, fewer views that stand on each other.",
        ) from None
    finally:
        sys.setrecursionlimit(limit)


def _frames() -> int:
    frame, count = sys._getframe(), 1
    while frame.f_back is not None:
        frame, count = frame.f_back, count + 1
    return count


def _views_in(name: str, text: str) -> set[str]:
    """The views that a text names; none if it cannot be read, which is told when it is checked."""
    try:
        return {found for found, _ in referenced_views(name, text)}
    except DydaError:
        return set()


def readers_of(files: Mapping[str, str], names: set[str]) -> set[str]:
    """The views that stand on any of these, at any height."""
    below = {name: _views_in(name, text) for name, text in files.items()}
    found: set[str] = set()
    while more := {name for name, read in below.items() if read & (names | found)} - found:
        found |= more
    return found
