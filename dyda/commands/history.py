"""A view's history: its versions with their causes, and what changed between two of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dyda.commands.status import time_text
from dyda.errors import DydaError
from dyda.model.layout import LayoutChange, LayoutEvent
from dyda.open_project import OpenProject
from dyda.warehouse import VersionRecord, cause_to_json
from dyda.wording import layout_sentence, lost_index, sentence

__all__ = ["views_diff", "views_history"]


def views_history(folder: Path, name: str) -> list[dict[str, Any]]:
    """Every version of the view, the oldest first: its cause, its alternatives, and how its rows followed."""
    with OpenProject.open(folder) as opened:
        opened.warehouse.view(name)
        return [_as_dict(version) for version in opened.warehouse.versions(name)]


def views_diff(folder: Path, name: str, before: int | None = None, after: int | None = None) -> dict[str, Any]:
    """What changed from version `before` to version `after` (default: the last two)."""
    with OpenProject.open(folder) as opened:
        opened.warehouse.view(name)
        versions = {version.version: version for version in opened.warehouse.versions(name)}
    if after is None:
        after = max(versions, default=0)
    if before is None:
        before = max((number for number in versions if number < after), default=after)
    for number in (before, after):
        if number not in versions:
            known = ", ".join(map(str, versions)) or "none yet"
            raise DydaError(f"view {name} has no version {number}; it has: {known}", f"See: dyda views history {name}")
    old, new = versions[before], versions[after]
    return {
        "name": name,
        "from": before,
        "to": after,
        "before": old.sql,
        "after": new.sql,
        "diff": _diff(old, new),
        "columns": {
            "added": [column.name for column in new.columns if column not in old.columns],
            "removed": [column.name for column in old.columns if column not in new.columns],
        },
    }


def _as_dict(version: VersionRecord) -> dict[str, Any]:
    details = version.details
    return {
        "version": version.version,
        "installed_at": time_text(version.installed_at),
        "cause": sentence(version.cause),
        "because": cause_to_json(version.cause),
        "evolved": bool(details.get("evolved")),
        "sql": version.sql,
        "columns": [{"name": column.name, "type": column.type} for column in version.columns],
        **{key: details.get(key, []) for key in ("changes", "followed", "components", "runners_up")},
        "lost_indexes": [lost_index(cause) for cause in version.lost_indexes],
        **{key: details.get(key) for key in ("rewriting", "adaptation")},
        "layout": [_relaid(entry) for entry in details.get("layout", ())],
    }


def _relaid(entry: Mapping[str, Any]) -> dict[str, Any]:
    """What came or went of keys and indexes."""
    change = LayoutChange(LayoutEvent(entry["event"]), tuple(entry["columns"]))
    return {**entry, "text": layout_sentence(change)}


def _diff(old: VersionRecord, new: VersionRecord) -> list[str]:
    """The lines of a unified diff with the whole text as context; both versions are formatted the same way."""
    before, after = _formatted(old.sql), _formatted(new.sql)
    names = f"version {old.version}", f"version {new.version}"
    return list(difflib.unified_diff(before, after, *names, n=max(len(before), len(after)), lineterm=""))


def _formatted(text: str) -> Sequence[str]:
    """A file is formatted by its author and a rewriting by a program: only other differences are to show."""
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return text.splitlines()
    for identifier in tree.find_all(exp.Identifier):
        if re.fullmatch("[a-z_][a-z0-9_]*", identifier.name):
            identifier.set("quoted", False)
    for paren in list(tree.find_all(exp.Paren)):
        if isinstance(paren.parent, exp.And | exp.Where | exp.Join) and not isinstance(paren.this, exp.Or):
            paren.this.add_comments(paren.pop_comments())
            paren.replace(paren.this)
    return tree.sql(dialect="spark", pretty=True).splitlines()
