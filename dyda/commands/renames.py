"""Names in a file that its source has renamed: which message did it, and what the new name is.

Installed changes are in the versions of the views, pending ones in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dyda.errors import DydaError, UnknownColumn, UnknownRelation
from dyda.maintenance.plan.version_details import Moved, changed
from dyda.model.message import SchemaChange
from dyda.open_project import OpenProject

__all__ = ["with_renames"]

LONGEST_DDL = 200


def with_renames(opened: OpenProject, error: DydaError) -> DydaError:
    """The same error, with the rename that explains it if one is known."""
    if isinstance(error, UnknownColumn) and error.relations:
        for relation, columns in error.relations.items():
            remedy = _column(_changes(opened), relation, error.column, columns)
            if remedy is not None:
                return UnknownColumn(error.what, remedy)
    if isinstance(error, UnknownRelation) and len(error.written) > 1:
        source, *schema, table = error.written
        name = str(opened.relation_name(source, schema[0] if schema else None, table))
        remedy = _relation(_changes(opened), name)
        if remedy is not None:
            return UnknownRelation(error.what, remedy)
    return error


def _changes(opened: OpenProject) -> list[Mapping[str, Any]]:
    """Every known schema change, the oldest first."""
    changes: dict[tuple[object, ...], Mapping[str, Any]] = {}
    for record in opened.warehouse.views():
        for version in opened.warehouse.versions(record.name):
            for change in version.details.get("changes", ()):
                if change.get("message") is not None:
                    changes[change["message"], change["relation"], change["ddl"]] = change
    for queued in opened.warehouse.messages():
        for pending in queued.message.changes:
            if isinstance(pending, SchemaChange):
                change = changed(Moved(pending, queued.message.committed_at, queued.id))
                changes[queued.id, change["relation"], change["ddl"]] = change
    return sorted(changes.values(), key=lambda change: int(change["message"]))


def _column(changes: list[Mapping[str, Any]], relation: str, column: str, columns: frozenset[str]) -> str | None:
    names = {relation}
    for change in reversed(changes):  # its earlier names are the same table
        if change["renamed"]["relation"] in names:
            names.add(change["relation"])
    now, last = column, None
    for change in changes:
        if change["relation"] in names and now in change["renamed"]["columns"]:
            now, last = change["renamed"]["columns"][now], change
    if last is None or now not in columns:
        return None
    return f"{column} of {relation} was renamed to {now} by {_described(last)}: write {now}."


def _relation(changes: list[Mapping[str, Any]], relation: str) -> str | None:
    now, last = relation, None
    for change in changes:
        if change["relation"] == now and change["renamed"]["relation"] is not None:
            now, last = change["renamed"]["relation"], change
    if last is None or now == relation:
        return None
    return f"{relation} was renamed to {now} by {_described(last)}: write {now}."


def _described(change: Mapping[str, Any]) -> str:
    ddl = " ".join((change["ddl"] or change["command"]).split())
    if len(ddl) > LONGEST_DDL:
        ddl = ddl[:LONGEST_DDL] + " …"
    at = f", {change['committed_at']}" if change["committed_at"] else ""
    return f"message {change['message']} ({ddl}{at})"
