"""Model objects as JSON for the catalog, and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, assert_never

from dyda.model.layout import Layout
from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation, UpdateMessage
from dyda.model.operator_state import Accumulator, Counted, Grouped, Kept, State
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from dyda.warehouse.catalog.records import EarlierCatalog, StateTable, ViewColumn
from dyda.warehouse.catalog.schema_steps import step_from_json, step_to_json

__all__ = [
    "changes_from_json",
    "changes_to_json",
    "earlier_from_json",
    "earlier_to_json",
    "layout_from_json",
    "layout_to_json",
    "name_from_text",
    "name_to_text",
    "relation_from_json",
    "relation_to_json",
    "states_from_json",
    "states_to_json",
    "view_columns_from_json",
    "view_columns_to_json",
]


def name_to_text(name: RelationName) -> str:
    """One text per relation that cannot collide, whatever characters the names hold."""
    return json.dumps([name.source, name.schema, name.table], ensure_ascii=False, separators=(",", ":"))


def name_from_text(text: str) -> RelationName:
    source, schema, table = json.loads(text)
    return RelationName(source, schema, table)


def changes_to_json(message: UpdateMessage) -> list[dict[str, Any]]:
    return [_change_to_json(change) for change in message.changes]


def _change_to_json(change: Change) -> dict[str, Any]:
    place = {"schema": change.relation.schema, "table": change.relation.table}
    match change:
        case DataUpdate():
            return {"change": "data", **place, "inserted": change.inserted, "deleted": change.deleted}
        case Truncation():
            return {"change": "truncation", **place, "whole": change.whole}
        case SchemaChange():
            steps = [step_to_json(step) for step in change.steps]
            return {"change": "schema", **place, "command": change.command, "ddl": change.ddl, "steps": steps}
        case _:
            assert_never(change)


def changes_from_json(source: str, entries: Iterable[dict[str, Any]]) -> tuple[Change, ...]:
    return tuple(_change_from_json(source, entry) for entry in entries)


def _change_from_json(source: str, entry: dict[str, Any]) -> Change:
    relation = RelationName(source, entry["schema"], entry["table"])
    match entry["change"]:
        case "data":
            return DataUpdate(relation, entry["inserted"], entry["deleted"])
        case "truncation":
            return Truncation(relation, entry.get("whole", False))
        case _:
            steps = tuple(step_from_json(step) for step in entry.get("steps", ()))
            return SchemaChange(relation, entry["command"], entry["ddl"], steps)


def _column_to_json(column: Column) -> dict[str, Any]:
    kind = column.type
    return {**asdict(column), "type": kind.name, "declared": kind.declared, "builtin": kind.builtin}


def _column_from_json(entry: Mapping[str, Any]) -> Column:
    kind = PgType(entry["type"], entry["declared"], entry["builtin"])
    return Column(entry["name"], kind, entry["number"], entry["not_null"], entry["generated"])


def relation_to_json(relation: Relation) -> dict[str, Any]:
    """The row of dyda.relation that describes it."""
    return {
        "source": relation.name.source,
        "schema": relation.name.schema,
        "table": relation.name.table,
        "oid": relation.oid,
        "columns": [_column_to_json(column) for column in relation.columns],
        "keys": [list(key) for key in relation.keys],
        "estimated_rows": relation.estimated_rows,
    }


def relation_from_json(row: dict[str, Any]) -> Relation:
    return Relation(
        RelationName(row["source"], row["schema"], row["table"]),
        row["oid"],
        tuple(map(_column_from_json, row["columns"])),
        tuple(tuple(key) for key in row["keys"]),
        row["estimated_rows"],
    )


def earlier_to_json(earlier: EarlierCatalog) -> dict[str, Any]:
    return {
        "relations": [relation_to_json(relation) for relation in earlier.relations],
        "knowledge": json.loads(earlier.knowledge),
    }


def earlier_from_json(entry: dict[str, Any]) -> EarlierCatalog:
    knowledge = json.dumps(entry["knowledge"], sort_keys=True)
    return EarlierCatalog(tuple(map(relation_from_json, entry["relations"])), knowledge)


def view_columns_to_json(columns: Iterable[ViewColumn]) -> list[dict[str, Any]]:
    return [asdict(column) for column in columns]


def view_columns_from_json(entries: Iterable[dict[str, Any]]) -> tuple[ViewColumn, ...]:
    return tuple(ViewColumn(**entry) for entry in entries)


def layout_to_json(layout: Layout) -> dict[str, Any]:
    return {
        "key": None if layout.key is None else list(layout.key),
        "declared_key": None if layout.declared_key is None else list(layout.declared_key),
        "indexes": [list(index) for index in layout.indexes],
    }


def layout_from_json(entry: Mapping[str, Any] | None) -> Layout:
    """A version from before layouts were recorded has none: nothing is known of it."""
    if entry is None:
        return Layout()
    key, declared = (None if entry[name] is None else tuple(entry[name]) for name in ("key", "declared_key"))
    return Layout(key, declared, tuple(map(tuple, entry["indexes"])))


def states_to_json(states: Iterable[tuple[int, StateTable]]) -> list[dict[str, Any]]:
    """States with the numbers of the extents that hold them."""
    return [
        {"extent": number, "indexed": list(table.indexed), "state": _state_to_json(table.state)}
        for number, table in states
    ]


def states_from_json(entries: Iterable[dict[str, Any]]) -> tuple[tuple[int, StateTable], ...]:
    return tuple(
        (entry["extent"], StateTable(_state_from_json(entry["state"]), tuple(entry["indexed"]))) for entry in entries
    )


def _state_to_json(state: State) -> dict[str, Any]:
    match state:
        case Counted():
            return {"kind": "counted", "types": list(state.types), "rule": state.rule}
        case Grouped():
            return {
                "kind": "grouped",
                "keys": list(state.keys),
                "arguments": list(state.arguments),
                "accumulators": [asdict(accumulator) for accumulator in state.accumulators],
            }
        case Kept():
            return {"kind": "kept", "types": list(state.types)}
        case _:
            assert_never(state)


def _state_from_json(entry: dict[str, Any]) -> State:
    match entry["kind"]:
        case "counted":
            return Counted(tuple(entry["types"]), entry["rule"])
        case "grouped":
            accumulators = tuple(Accumulator(**accumulator) for accumulator in entry["accumulators"])
            return Grouped(tuple(entry["keys"]), tuple(entry["arguments"]), accumulators)
        case _:
            return Kept(tuple(entry["types"]))
