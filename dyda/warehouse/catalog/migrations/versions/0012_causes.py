"""Why views and messages are in their states, as data. What an older DyDa wrote keeps its text; sentences that it went
by get their parts, so that a rejected view stays rejected, and a quarantined message can still be tried again."""

import json
import re
from collections.abc import Callable
from typing import Any

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    execute = op.get_bind().exec_driver_sql
    for table, key in (("view", "name"), ("message", "id")):
        execute(f"ALTER TABLE dyda.{table} RENAME COLUMN reason TO cause")
        execute(
            f"ALTER TABLE dyda.{table} ALTER COLUMN cause TYPE jsonb"
            " USING CASE WHEN cause IS NOT NULL THEN jsonb_build_object('kind', 'text', 'text', cause) END"
        )
        for row, state, text in list(
            execute(f"SELECT {key}, state, cause ->> 'text' FROM dyda.{table} WHERE cause IS NOT NULL")
        ):
            cause = cause_of(table, state, text)
            if cause is not None:
                execute(f"UPDATE dyda.{table} SET cause = %s WHERE {key} = %s", (json.dumps(cause), row))


def cause_of(table: str, state: str, text: str) -> dict[str, Any] | None:
    """The parts of a sentence as it was written until now; None of one that no code depended on."""
    for of, among, pattern, parts in SENTENCES:
        found = re.fullmatch(pattern, text, re.DOTALL)
        if of == table and state in among and found:
            return parts(*found.groups())
    return None


def _text(text: str) -> dict[str, Any]:
    return {"kind": "text", "text": text}


def _uncomputable(detail: str, row: str | None = None) -> dict[str, Any]:
    return {"kind": "uncomputable", "detail": detail} | ({"row": row} if row else {})


def _quarantined(numbers: str, detail: str, row: str | None) -> dict[str, Any]:
    messages = [int(number) for number in numbers.split(", ")]
    return {"kind": "quarantined", "messages": messages, "because": _uncomputable(detail, row)}


def _rejected(message: str, source: str, ddl: str) -> dict[str, Any]:
    return {"kind": "rejected", "message": int(message), "source": source, "ddl": ddl}


def _rows_in_the_way(why: str, detail: str) -> dict[str, Any]:
    return {"kind": "rows_in_the_way", "to_be_built": _text(why), "because": _uncomputable(detail)}


def _dependents(detail: str, dependents: str) -> dict[str, Any]:
    return {"kind": "dependent_objects", "detail": detail, "dependents": dependents.split(", ")}


def _held(message: str) -> dict[str, Any]:
    return {"kind": "held_by_operator", "message": int(message)}


def _waits_with(message: str, other: str) -> dict[str, Any]:
    return {"kind": "waits_with", "message": int(message), "other": int(other)}


SENTENCES: tuple[tuple[str, tuple[str, ...], str, Callable[..., dict[str, Any]]], ...] = (
    ("view", ("broken",), r"rejected by an operator: message (\d+) of (.*?): (.*)", _rejected),
    (
        "view",
        ("broken",),
        r"(.*?); it cannot be built over the rows that its sources have now: (.*); correct or delete the row at the"
        r" source, and it is built by itself; or change the view's file: dyda apply",
        _rows_in_the_way,
    ),
    ("view", ("held",), r"messages? (\d+(?:, \d+)*) (?:is|are) quarantined: (.*?)(?: \[(row of .*)\])?", _quarantined),
    ("view", ("held",), r"(view .*?: (.*) stands on .*)", _dependents),
    ("message", ("quarantined",), r"(.*?)(?: \[(row of .*)\])?", _uncomputable),
    ("message", ("approval",), r"message (\d+) waits with message (\d+),.*", _waits_with),
    ("message", ("held",), r"message (\d+) is held by an operator", _held),
)
