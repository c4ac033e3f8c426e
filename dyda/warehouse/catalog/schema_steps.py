"""Steps of schema changes as JSON, and back: the queue is durable, so its messages are written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from dyda.model import schema_change
from dyda.model.relation import Column, RelationName
from dyda.model.schema_change import Step
from dyda.model.types import PgType

__all__ = ["step_from_json", "step_to_json"]

_VALUES = {"Column": Column, "PgType": PgType, "RelationName": RelationName}


def step_to_json(step: Step) -> dict[str, Any]:
    """The step's name and what it says."""
    return {"step": type(step).__name__, **asdict(step)}


def step_from_json(entry: Mapping[str, Any]) -> Step:
    kind = getattr(schema_change, entry["step"])
    found: Step = kind(**{field.name: _value(str(field.type), entry.get(field.name)) for field in fields(kind)})
    return found


def _value(kind: str, entry: Any) -> Any:
    """A field's value; `kind` is its annotation. What an older DyDa did not write is None."""
    if entry is None:
        return None
    kind = kind.removesuffix(" | None")
    if kind == "tuple[Column, ...]":
        return tuple(_value("Column", column) for column in entry)
    if kind == "Column":
        return Column(**{**entry, "type": PgType(**entry["type"])})
    return _VALUES[kind](**entry) if kind in _VALUES else entry
