"""What each view would become after some schema changes: from the catalog alone, no source is asked.

Schemas (the relations before and after) ─▶ vs, view by view ─▶ its types, where they may not fit any more
                                                            ─▶ effect, definition, extent, cost
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dyda.errors import UnsupportedSql
from dyda.maintenance.catalog_state import CatalogState, held_definition
from dyda.model.algebra.nodes import ColumnRef, ViewDefinition, conjuncts, expressions, scans
from dyda.model.ddl.schemas import Schemas
from dyda.model.message import SchemaChange, Truncation
from dyda.model.types import PgType
from dyda.open_project import OpenProject
from dyda.warehouse import ViewRecord
from va import MetadataOnly, adapt
from vm import flatten, plan_sweep
from vs import Broken, Rewritten, World, synchronize

__all__ = ["Foretold", "foresee", "foretell"]


@dataclass(frozen=True)
class Foretold:
    """What the changes would do to one view; `becomes` is the definition that it would have."""

    name: str
    effect: str
    definition: str | None = None
    extent: str | None = None
    cost: int | None = None
    reason: str | None = None
    becomes: ViewDefinition | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "effect": self.effect,
            "definition": self.definition,
            "extent": self.extent,
            "cost": self.cost,
            "reason": self.reason,
        }

    def costs_no_more_than(self, before: Foretold) -> bool:
        """Whether this is what earlier changes do to the view already, but for what things are called."""
        if self.effect != before.effect:
            return False
        if self.definition == before.definition:
            return True
        if self.becomes is None or before.becomes is None or self.becomes.names != before.becomes.names:
            return False
        return isinstance(adapt(before.becomes, self.becomes, ()), MetadataOnly)


def foresee(opened: OpenProject, known: CatalogState, schemas: Schemas) -> list[dict[str, Any]]:
    """Every view with what the changes would do to it, by name."""
    return [view.as_dict() for view in foretell(opened, known, schemas)]


def foretell(opened: OpenProject, known: CatalogState, schemas: Schemas) -> list[Foretold]:
    """Every view with what the changes would do to it, by name."""
    world = World(schemas.before, schemas.now, known.knowledge)
    changes = schemas.changes
    records = {name: view.record for name, view in known.views.items()} | dict(known.frozen)
    answers = []
    for name in sorted(records):
        definition = (
            known.views[name].definition if name in known.views else held_definition(opened, known, records[name])
        )
        if definition is None:
            answers.append(Foretold(name, "none", records[name].sql, reason=_already(records[name])))
        else:
            answers.append(_judge(opened, known, definition, world, changes))
    return answers


def _judge(
    opened: OpenProject,
    known: CatalogState,
    definition: ViewDefinition,
    world: World,
    changes: Sequence[SchemaChange | Truncation],
) -> Foretold:
    numeric = opened.project.settings.spark.numeric
    name = definition.name
    judgement = synchronize(definition, world, known.defaults, numeric)
    if isinstance(judgement, Broken):
        return _broken(name, f"{judgement.reason}. {judgement.remedy}" if judgement.remedy else judgement.reason)
    after = judgement.definition
    if _may_not_compute(definition, after):  # otherwise Spark need not start, which takes seconds
        try:
            opened.engine.analyse(after)
        except UnsupportedSql as error:  # its names hold, its types do not
            return _broken(name, error.what)
    if isinstance(judgement, Rewritten):
        effect = "adapted" if _only_appends(definition, after) else "rewritten"
        return Foretold(name, effect, after.sql, judgement.extent, judgement.cost, judgement.reason, after)
    mine = [change for change in changes if change.relation in definition.relations]
    adaptation = adapt(definition, after, mine) if mine else None
    cost = _cost(after, numeric)
    if adaptation is not None and not isinstance(adaptation, MetadataOnly):
        return Foretold(name, "adapted", after.sql, "equivalent", cost, adaptation.reason, after)
    if judgement.followed:
        return Foretold(name, "renamed", after.sql, "equivalent", cost, "; ".join(judgement.followed), after)
    return Foretold(name, "none", after.sql, "equivalent", cost, None, after)


def _broken(name: str, reason: str) -> Foretold:
    return Foretold(name, "broken", None, "unknown", None, reason)


def _may_not_compute(before: ViewDefinition, after: ViewDefinition) -> bool:
    """Whether Spark may refuse the types that the view has now: it computes with a column that it did not read, or not
    as this type. A plain view may pass any column on, and joins are made of sides that can be compared: a view's own
    are cast to what they were, the knowledge's are checked when it is read."""
    known = _typed(before).values()
    new = {ref for ref, typed in _typed(after).items() if typed not in known}
    if not after.plain:
        return bool(new)
    computed = [expression for expression in expressions(after.tree) if not (expression.column or expression.equality)]
    return any(new & expression.columns for expression in computed)


def _typed(definition: ViewDefinition) -> dict[ColumnRef, tuple[str, int, int, PgType]]:
    """The sources' columns that the view reads: each with the column that it is, under whatever name, and its type."""
    relations = {scan.alias: scan.relation for scan in scans(definition.tree)}
    found = {}
    for ref in definition.columns:
        relation = relations.get(ref.alias)
        if relation is not None:
            column = relation.column(ref.column)
            found[ref] = (relation.name.source, relation.oid, column.number, column.type)
    return found


def _only_appends(before: ViewDefinition, after: ViewDefinition) -> bool:
    """Whether the view only takes new columns in: all that it had is there as it was."""
    old, new = (definition.names for definition in (before, after))
    aliases = ([scan.alias for scan in scans(definition.tree)] for definition in (before, after))
    conditions = (len(list(conjuncts(definition.tree))) for definition in (before, after))
    return (
        len(new) > len(old) == len(set(old) & set(new)) and len(set(map(tuple, aliases))) == len(set(conditions)) == 1
    )


def _cost(definition: ViewDefinition, numeric: str) -> int:
    """Source queries per update, of whichever relation costs most."""
    if not definition.plain:
        return len(list(scans(definition.tree))) - 1
    block = flatten(definition, numeric)
    plan = plan_sweep(block)
    return max(plan.queries(occurrence.alias) for occurrence in block.occurrences)


def _already(record: ViewRecord) -> str:
    return f"it is {record.stored_state} already: {record.reason}"
