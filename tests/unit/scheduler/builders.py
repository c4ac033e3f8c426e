"""Short ways to write queues, and a reading of schema changes from their command text."""

from __future__ import annotations

from collections.abc import Sequence

from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation, UpdateMessage
from dyda.model.relation import RelationName
from scheduler import Consistency, Effect, Queued, Schedule, Unit, ViewReads, effect_of

__all__ = ["changed", "data", "drained", "effect", "queued", "relation", "schema", "view"]


def relation(name: str) -> RelationName:
    """`crm.customer`."""
    source, _, table = name.partition(".")
    return RelationName(source, "public", table)


def data(number: int, *relations: str, rows: int = 1) -> Queued:
    """Message `number`: rows inserted into relations of one source."""
    return queued(number, [DataUpdate(relation(name), rows, 0) for name in relations])


def schema(number: int, name: str, command: str, *written: str) -> Queued:
    """Message `number`: a schema change of one relation, and rows inserted into others."""
    changes: list[Change] = [changed(name, command)]
    changes += [DataUpdate(relation(other), 1, 0) for other in written]
    return queued(number, changes)


def changed(name: str, command: str) -> Change:
    return Truncation(relation(name)) if command == "TRUNCATE" else SchemaChange(relation(name), command)


def queued(number: int, changes: Sequence[Change]) -> Queued:
    return Queued(number, UpdateMessage(changes[0].relation.source, 1000 + number, number, tuple(changes)))


def view(name: str, *reads: str, rereads: str = "", candidates: Sequence[str] = (), appends: str = "") -> ViewReads:
    """`view("v", "crm.customer(name,age)", "air.flight")`; without a list, every column."""
    return ViewReads(
        name,
        dict(_columns(text) for text in reads),
        frozenset(map(relation, rereads.split())),
        dict(_columns(text) for text in candidates),
        frozenset(map(relation, appends.split())),
    )


def _columns(text: str) -> tuple[RelationName, frozenset[str] | None]:
    name, bracket, rest = text.partition("(")
    return relation(name), frozenset(rest.rstrip(")").split(",")) - {""} if bracket else None


def effect(change: Change) -> Effect | None:
    """Of `DROP a`, `ADD a`, `RENAME a b`, `RENAME TO t`, `NOTHING`; all else concerns every reader."""
    if not isinstance(change, SchemaChange):
        return effect_of(change)
    name = change.relation
    match change.command.split():
        case ["DROP", column]:
            return Effect(name, frozenset({column}), f"drops column {column}")
        case ["ADD", column]:
            return Effect(name, frozenset({column}), f"adds column {column}", adds=True)
        case ["RENAME", "TO", table]:
            new = RelationName(name.source, name.schema, table)
            return Effect(name, None, f"renames it to {table}", metadata_only=True, renamed_to=new)
        case ["RENAME", old, new_column]:
            return Effect(
                name,
                frozenset({old, new_column}),
                f"renames column {old} to {new_column}",
                metadata_only=True,
                renamed_column=(old, new_column),
            )
        case ["NOTHING"]:
            return Effect(name, frozenset(), "leaves it as it is", metadata_only=True)
        case _:
            return Effect(name, None, {"DROP": "drops it", "REWRITE": "rewrites it"}.get(change.command, "changes it"))


def drained(schedule: Schedule, consistency: Consistency = Consistency.COMPLETE, batch_rows: int = 10) -> list[Unit]:
    """All units, each removed before the next is asked for."""
    units = []
    while (unit := schedule.next_unit(consistency, batch_rows)) is not None:
        units.append(unit)
        schedule.remove(unit.numbers)
    return units
