"""Causes as JSON, and back: the form in which the catalog keeps them and `--json` shows them."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_type_hints

from psycopg2.extras import Json

from dyda.model.cause import KINDS, Cause
from dyda.model.event import Event
from dyda.wording import sentence

__all__ = ["cause_from_json", "cause_to_json", "parts_of", "reason_of", "stored_cause"]


def cause_to_json(cause: Cause | None) -> dict[str, Any] | None:
    """The kind and the parts that the cause has."""
    return None if cause is None else _entry(cause)


def parts_of(value: Cause | Event) -> dict[str, Any]:
    """Its kind and the parts that it has, as JSON has them."""
    entry: dict[str, Any] = _entry(value)
    return entry


def reason_of(cause: Cause | None) -> str | None:
    """The sentence that is stored beside the cause, for those who read the catalog with SQL alone."""
    return None if cause is None else sentence(cause)


def _entry(value: Any) -> Any:
    if is_dataclass(value):
        named = {"kind": kind} if (kind := getattr(value, "kind", None)) is not None else {}
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return named | {name: _entry(part) for name, part in parts.items() if part is not None and part != ()}
    return [_entry(one) for one in value] if isinstance(value, tuple) else value


def stored_cause(cause: Cause | None) -> Json | None:
    """The cause as a parameter of a statement."""
    return None if cause is None else Json(cause_to_json(cause))


def cause_from_json(entry: Mapping[str, Any] | None) -> Cause | None:
    """The cause that `cause_to_json` wrote."""
    return None if entry is None else _read(KINDS[entry["kind"]], entry)


def _read(kind: Any, entry: Mapping[str, Any]) -> Any:
    """A value of this dataclass; a part that was not written is what it is by default."""
    types = _types(kind)
    return kind(**{name: _value(types[name], part) for name, part in entry.items() if name != "kind"})


def _value(kind: Any, part: Any) -> Any:
    if isinstance(part, list):
        return tuple(_value(get_args(kind)[0], one) for one in part)
    if isinstance(part, Mapping):
        return cause_from_json(part) if "kind" in part else _read((*get_args(kind), kind)[0], part)
    return kind(part) if isinstance(kind, type) and issubclass(kind, enum.Enum) else part


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
