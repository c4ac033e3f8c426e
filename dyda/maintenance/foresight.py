"""What each view would become after some schema changes: from the catalog alone, no source is asked.

Schemas (the relations before and after) ─▶ vs, view by view ─▶ effect, definition, extent, cost
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyda.house import House
from dyda.maintenance.live import Known, held_definition
from dyda.model.algebra import ViewDefinition, conjuncts, scans
from dyda.model.message import SchemaChange, Truncation
from dyda.model.schemas import Schemas
from dyda.warehouse import ViewRecord
from va import MetadataOnly, adapt
from vm import flatten, plan_sweep
from vs import Broken, Holds, Rewritten, World, synchronize

__all__ = ["foresee"]


def foresee(house: House, known: Known, schemas: Schemas) -> list[dict[str, Any]]:
    """Every view with what the changes would do to it, by name."""
    world = World(schemas.before, schemas.now, known.knowledge)
    changes = schemas.changes
    records = {name: view.record for name, view in known.views.items()} | dict(known.frozen)
    answers = []
    for name in sorted(records):
        definition = (
            known.views[name].definition if name in known.views else held_definition(house, known, records[name])
        )
        if definition is None:
            answers.append(_told(name, "none", records[name].sql, None, None, _already(records[name])))
        else:
            answers.append(_judge(house, known, definition, world, changes))
    return answers


def _judge(
    house: House, known: Known, definition: ViewDefinition, world: World, changes: Sequence[SchemaChange | Truncation]
) -> dict[str, Any]:
    numeric = house.project.settings.spark.numeric
    name = definition.name
    judgement = synchronize(definition, world, known.defaults, numeric)
    match judgement:
        case Broken(reason, _, remedy):
            return _told(name, "broken", None, "unknown", None, f"{reason}. {remedy}" if remedy else reason)
        case Rewritten(rewritten, extent, cost, reason):
            effect = "adapted" if _only_appends(definition, rewritten) else "rewritten"
            return _told(name, effect, rewritten.sql, extent, cost, reason)
        case Holds(held, followed):
            mine = [change for change in changes if change.relation in definition.relations]
            adaptation = adapt(definition, held, mine) if mine else None
            moved = adaptation is not None and not isinstance(adaptation, MetadataOnly)
            cost = _cost(held, numeric)
            if adaptation is not None and moved:
                return _told(name, "adapted", held.sql, "equivalent", cost, adaptation.reason)
            if followed:
                return _told(name, "renamed", held.sql, "equivalent", cost, "; ".join(followed))
            return _told(name, "none", held.sql, "equivalent", cost, None)


def _only_appends(before: ViewDefinition, after: ViewDefinition) -> bool:
    """Whether the view only takes new columns in: all that it had is there as it was."""
    old, new = (definition.names for definition in (before, after))
    aliases = ([scan.alias for scan in scans(definition.tree)] for definition in (before, after))
    conditions = (len(list(conjuncts(definition.tree))) for definition in (before, after))
    return (
        len(new) > len(old) == len(set(old) & set(new)) and len(set(map(tuple, aliases))) == len(set(conditions)) == 1
    )


def _told(
    name: str, effect: str, definition: str | None, extent: str | None, cost: int | None, reason: str | None
) -> dict[str, Any]:
    return {
        "name": name,
        "effect": effect,
        "definition": definition,
        "extent": extent,
        "cost": cost,
        "reason": reason,
    }


def _cost(definition: ViewDefinition, numeric: str) -> int:
    """Source queries per update, of whichever relation costs most."""
    if not definition.plain:
        return len(list(scans(definition.tree))) - 1
    block = flatten(definition, numeric)
    plan = plan_sweep(block)
    return max(plan.queries(occurrence.alias) for occurrence in block.occurrences)


def _already(record: ViewRecord) -> str:
    return f"it is {record.stored_state} already: {record.reason}"
