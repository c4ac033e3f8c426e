"""View files that read other views: the definitions of those are put in their place.

The text of a version must keep its meaning for ever. So a view over a view reads only sources, and follows every change
there together with the view below, without waiting for it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from dyda.errors import ConfigurationError, DydaError, UnsupportedSql
from dyda.model.algebra.nodes import ViewDefinition, in_place, scans
from dyda.model.relation import Relation, RelationName
from dyda.model.sql.parse import parse_view, referenced_views
from dyda.model.sql.render import render_view
from dyda.open_project import OpenProject

__all__ = ["ViewTexts", "read_as_rendered", "readers_of", "rehearsed"]


class ViewTexts:
    """The files of a project, read on demand. An untouched file stands for the view's current, evolved definition."""

    def __init__(self, opened: OpenProject, files: Mapping[str, str]) -> None:
        self._opened = opened
        self._files = files
        self._records = {record.name: record for record in opened.warehouse.views()}
        self._reading: list[str] = []

    def read(self, name: str, text: str) -> ViewDefinition:
        """The definition of view `name` with this text."""
        numeric = self._opened.project.settings.spark.numeric
        if name in self._reading:
            circle = " reads ".join([*self._reading[self._reading.index(name) :], name])
            raise ConfigurationError(
                f"views read each other in a circle: {circle}", "Let one of them read only sources."
            )
        self._reading.append(name)
        try:
            definition = parse_view(name, text, self._opened.describe, plain_numeric=numeric, views=self._under)
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
        text, record = self._files[name], self._records.get(name)
        evolved = record.sql if record is not None and record.file_text == text else None
        return self.read(name, evolved or text)


def read_as_rendered(definition: ViewDefinition, numeric: str) -> None:
    """Refuse now what could not be read later: once the view evolves, its text is a rendered one."""
    known = {scan.relation.name: scan.relation for scan in scans(definition.tree)}
    text = render_view(in_place(definition.tree), definition.preferences)

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return known[RelationName(source, schema or "", table)]

    parse_view(definition.name, text, resolve, plain_numeric=numeric)


@contextmanager
def rehearsed(name: str) -> Iterator[None]:
    """Read a new view with half of the stack. What is nested too deeply for that is refused now: the daemon reads it
    again from places where less of the stack is left, and a rewriting may nest it deeper."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit // 2, len(inspect.stack(0)) + 100))
    try:
        yield
    except RecursionError:
        raise UnsupportedSql(
            name,
            "its conditions, joins or subqueries are nested too deeply",
            "Write it flatter: IN instead of many ORs and ANDs, fewer levels of views.",
        ) from None
    finally:
        sys.setrecursionlimit(limit)


def readers_of(files: Mapping[str, str], names: set[str]) -> set[str]:
    """The views that read any of these, directly or through other views."""
    below: dict[str, set[str]] = {}
    for name, text in files.items():
        with suppress(DydaError):  # a text that cannot be read is reported when it is checked
            below[name] = {view for view, _ in referenced_views(name, text)}
    readers: set[str] = set()
    while more := {name for name, read in below.items() if read & (names | readers)} - readers:
        readers |= more
    return readers
