"""Types as PostgreSQL's grammar reads them, under the names of PostgreSQL's format_type."""

from __future__ import annotations

import re
from typing import Any

from dyda.model.ddl.words import LISTS, WORDS, Unreadable, text_of
from dyda.model.types import PgType

__all__ = ["keeps_values", "read_type", "serial_type"]

INTERVAL_OF_ALL_FIELDS = 0x7FFF
WIDENING = {"bit varying", "interval", "numeric"} | {
    f"{time} {zone} time zone" for time in ("time", "timestamp") for zone in ("with", "without")
}
"""Types whose first modifier can grow, or go, without a row being written."""


def read_type(written: Any) -> PgType:
    """The type that is named; `builtin` if it is PostgreSQL's own."""
    parts = text_of(written.names)
    shown = ".".join(part if part.isidentifier() and part == part.lower() else f'"{part}"' for part in parts)
    name = parts[-1] if len(parts) == 1 or parts[0] == "pg_catalog" else ""
    builtin = name in WORDS["types"] or name in LISTS["plain_types"]
    modifiers = [_modifier(modifier) for modifier in written.typmods]
    if name == "interval" and modifiers and modifiers.pop(0) != INTERVAL_OF_ALL_FIELDS:
        raise Unreadable("an interval of some fields only")
    if written.setof or written.pct_type or (builtin and not all(isinstance(m, int) for m in modifiers)):
        raise Unreadable(f"the type {shown} cannot be read")
    if name == "numeric" and len(modifiers) == 1:
        modifiers.append(0)
    array = "[]" if written.array_bounds else ""
    bare = WORDS["types"].get(name, shown.removeprefix("pg_catalog."))
    # Without a length, bpchar is not padded.
    declared = "bpchar" if name == "bpchar" and not modifiers else _declared(bare, modifiers)
    return PgType(bare + array, declared + array, builtin)


def keeps_values(old: PgType, new: PgType) -> bool:
    """Whether ALTER COLUMN … TYPE from one to the other writes no row. Where that depends on more than the types
    (timestamp to timestamptz on the session's time zone), it may, and the answer is no."""
    if old == new:
        return True
    before, after = _modifiers(old), _modifiers(new)
    if {old.name, new.name} <= {"text", "character varying"}:
        return not after or (bool(before) and before <= after)
    if old.name != new.name or old.name not in WIDENING:
        return False
    return not after or (bool(before) and before[0] <= after[0] and before[1:] == after[1:])


def _modifiers(type_: PgType) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", type_.declared)]


def serial_type(written: Any) -> PgType | None:
    """The type of a serial column, which is filled from its own sequence."""
    name = WORDS["serials"].get(".".join(text_of(written.names)))
    return None if name is None else PgType(name, name)


def _modifier(written: Any) -> int | str:
    if written.a_const.HasField("ival"):
        return int(written.a_const.ival.ival)
    return ".".join(text_of(written.column_ref.fields))  # geometry(Point,4326)


def _declared(name: str, modifiers: list[int | str]) -> str:
    if not modifiers:
        return name
    first, zone, rest = name.partition(" with")
    return f"{first}({','.join(map(str, modifiers))}){zone}{rest}"  # timestamp(3) with time zone
