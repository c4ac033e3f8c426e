"""Entries of the log about schema changes, as primitive steps (paper 002's pathways).

The event trigger logs the relation as it was before and after the command (sql/observing.sql). Columns are compared by
number; the entry itself says what that comparison cannot see: rewrites, tables that were added or removed, values of
types, another table under the name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dyda.model.message import SchemaChange
from dyda.model.relation import Column, RelationName
from dyda.model.schema_change import (
    ChangeType,
    DropRelation,
    Harmless,
    RenameRelation,
    ReplaceRelation,
    Rewrite,
    Step,
    compare,
)
from dyda.model.types import PgType

__all__ = ["SchemaEntry"]

REWRITES = {
    1: "rewrites its rows for another persistence",
    2: "rewrites its rows to fill a column",
    4: "rewrites its rows with other values",
    8: "rewrites its rows for another access method",
}
"""What pg_event_trigger_table_rewrite_reason() means."""
TYPE_REWRITE = 4


@dataclass(frozen=True)
class SchemaEntry:
    """One entry as it was logged; `root` is the oid of the relation it is about."""

    root: int
    entry: Mapping[str, Any]

    @classmethod
    def read(cls, root: int, image: str | None) -> SchemaEntry:
        return cls(root, json.loads(image or "{}"))

    def name(self, source: str) -> RelationName:
        """The name that the relation was asked for by."""
        return RelationName(source, self.entry["schema"], self.entry["table"])

    @property
    def replaces(self) -> bool:
        """Whether this relation took the name from another one."""
        return "new" in self.entry

    def left(self, source: str) -> RelationName | None:
        """What the relation was called before, if that is known."""
        before = self.entry.get("before")
        return RelationName(source, before["schema"], before["table"]) if before else None

    def change(self, name: RelationName, old: int | None = None) -> SchemaChange:
        """What happened to the relation that the reader knows as `name`; `old`: the table that had the name before."""
        return SchemaChange(name, self.entry["command"], self.entry["ddl"], tuple(self._steps(name.source, old)))

    def _steps(self, source: str, old: int | None) -> Iterator[Step]:
        entry = self.entry
        if self.replaces:
            described = tuple(_columns(entry["after"])) if entry.get("after") else None
            yield ReplaceRelation(entry["old"] if old is None else old, entry["new"], self.name(source), described)
            return
        before, after = entry.get("before"), entry.get("after")
        if before is None:
            return  # never described: unknown
        if after is None:
            yield DropRelation()
            return
        steps: list[Step] = []
        if (before["schema"], before["table"]) != (after["schema"], after["table"]):
            steps.append(RenameRelation(RelationName(source, after["schema"], after["table"])))
        steps += compare(_columns(before), _columns(after))
        steps += _expressions(before, after, {step.column for step in steps if isinstance(step, ChangeType)})
        steps += _types(before["types"], after["types"])
        steps += _parts(entry["came"], entry["went"])
        if before["parents"] != after["parents"]:
            steps.append(Rewrite(f"makes it a part of {', '.join(after['parents']) or 'nothing else'}"))
        steps += _rewriting(entry["rewritten"], any(isinstance(step, ChangeType) for step in steps))
        if entry["repaired"]:
            steps.append(Rewrite("disables its capture, so that rows may have changed uncaptured"))
        if entry["command"].endswith(" SUBSCRIPTION"):
            steps.append(Rewrite("makes it the target of a subscription or ends that, which changes rows uncaptured"))
        if entry["unseen"]:
            steps.append(Rewrite("comes after a change that was not logged"))
        rest = [what for what in after["rest"] if before["rest"].get(what) != after["rest"][what]]
        steps += [Harmless(f"changes its {what}", keys=what == "constraints") for what in sorted(rest)]
        yield from steps or [Harmless("changes something that no row shows")]


def _columns(description: Mapping[str, Any]) -> list[Column]:
    return [
        Column(name, PgType(bare, declared, builtin), number, not_null, generated)
        for number, name, bare, declared, builtin, not_null, generated in description["columns"]
    ]


def _expressions(before: Mapping[str, Any], after: Mapping[str, Any], retyped: set[str]) -> Iterator[Step]:
    """Defaults, and expressions of generated columns: a virtual column changes without any row being written."""
    old, new = before["defaults"], after["defaults"]
    known = {column.number for column in _columns(before)}
    for column in _columns(after):
        number = str(column.number)
        if column.number not in known or column.name in retyped or old.get(number) == new.get(number):
            continue
        if column.generated:
            yield Rewrite(f"computes column {column.name} in another way")
        elif number in new:
            yield Harmless(f"column {column.name} has the default {new[number]} now", keys=False)
        else:
            yield Harmless(f"column {column.name} has no default any more", keys=False)


def _types(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Step]:
    """Values that print differently because their type changed: an enum's label, a row type's fields."""
    for oid in sorted(before.keys() & after.keys(), key=int):
        was, now = before[oid], after[oid]
        shown = now["name"]
        old, new = was["labels"] or {}, now["labels"] or {}
        for label in sorted(old.keys() & new.keys(), key=int):
            if old[label] != new[label]:
                yield Rewrite(f"renames the value {old[label]} of type {shown} to {new[label]}")
        for label in sorted(new.keys() - old.keys(), key=int):
            yield Harmless(f"type {shown} gets the value {new[label]}", keys=False)
        fields, others = was["fields"] or {}, now["fields"] or {}
        if fields != others:
            renamed = {number: field[1:] for number, field in fields.items()} == {
                number: field[1:] for number, field in others.items()
            }
            what = f"type {shown} has other {'names for its fields' if renamed else 'fields'}"
            yield Harmless(what) if renamed else Rewrite(what)


def _parts(came: Sequence[tuple[str, bool]], went: Sequence[str | None]) -> Iterator[Step]:
    for part, empty in came:
        yield Harmless(f"gets the empty part {part}") if empty else Rewrite(f"gets the part {part} with its rows")
    for gone in went:
        yield Rewrite(f"loses the part {gone} with its rows" if gone else "loses a part with its rows")


def _rewriting(reason: int, retyped: bool) -> Iterator[Step]:
    for bit, what in REWRITES.items():
        if reason & bit and not (bit == TYPE_REWRITE and retyped):
            yield Rewrite(what)
    if reason and not reason & sum(REWRITES):
        yield Rewrite()
