"""What each view would become after some schema changes: the plan of a unit that makes them, told view by view.

    Schemas (the relations before and after) ─▶ plan_changes ─▶ effect, definition, extent, cost

From the catalog alone: no source is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dyda.maintenance.catalog_state import CatalogState, MaintainedView
from dyda.maintenance.observe.poll import Arrivals
from dyda.maintenance.observe.round import Round, SourceNow
from dyda.maintenance.plan.analysis import SparkIfNeeded
from dyda.maintenance.plan.planner import plan_changes
from dyda.maintenance.plan.unit_plan import Adapt, FollowText, Freeze, LeaveBehind, Maintain, Rebuild, UnitPlan
from dyda.model.algebra.nodes import ViewDefinition, conjuncts, scans
from dyda.model.ddl.schemas import Schemas
from dyda.model.message import UpdateMessage
from dyda.model.position import Position
from dyda.open_project import OpenProject
from dyda.warehouse import ViewRecord
from dyda.wording import rows_follow
from scheduler import Queued, Unit, UnitKind
from va import MetadataOnly, adapt
from vm import flatten, plan_sweep
from vs import Holds, Rewritten

__all__ = ["Foretold", "foresee", "foretell", "told"]

AFTER_ALL = 2**62
"""The id of a transaction that no view has yet."""


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
    messages = [
        UpdateMessage(source, AFTER_ALL, 0, tuple(c for c in schemas.changes if c.relation.source == source))
        for source in sorted({change.relation.source for change in schemas.changes})
    ]
    queue = tuple(Queued(number, message) for number, message in enumerate(messages, 1))
    now = SourceNow(Position(AFTER_ALL + 1, AFTER_ALL + 1))
    sources = dict.fromkeys({*known.captured, *opened.sources}, now)
    after = {name: Position.meet(_positions(known, name)) for name in sources}
    round = Round(opened.project, known, Arrivals(queue), sources, after)
    unit = Unit(queue, "these changes, in one transaction", UnitKind.MERGED)
    plan = plan_changes(round, unit, schemas.now, SparkIfNeeded(opened.engine))
    return told(plan, known, opened.project.settings.spark.numeric)


def told(plan: UnitPlan, known: CatalogState, numeric: str) -> list[Foretold]:
    """The plan, view by view: every view of the catalog, by name."""
    found = {view.name: view for view in _told(plan, known, numeric)}
    for name, view in known.views.items():
        found.setdefault(name, _unchanged(view, numeric))
    for name, record in known.frozen.items():
        found.setdefault(name, Foretold(name, "none", record.sql, reason=_already(record)))
    return [found[name] for name in sorted(found)]


def _told(plan: UnitPlan, known: CatalogState, numeric: str) -> Iterator[Foretold]:
    for view in plan.views:
        match view:
            case Freeze(name, judgement):
                reason = f"{judgement.reason}. {judgement.remedy}" if judgement.remedy else judgement.reason
                yield Foretold(name, "broken", None, "unknown", None, reason)
            case Maintain():
                yield _unchanged(view.view, numeric)
            case FollowText():
                yield _followed(view.name, known, view.judgement, numeric, adapted=None)
            case LeaveBehind(change):
                details = change.version.details if change.version is not None else {}
                adapted = rows_follow() if details.get("behind") else None
                yield _followed(view.name, known, view.judgement, numeric, adapted=adapted)
            case Adapt():
                yield _followed(view.name, known, view.judgement, numeric, adapted=view.how.reason)
            case Rebuild():
                adapted = view.reason or view.request.reason
                yield _followed(view.name, known, view.judgement, numeric, adapted=adapted)


def _unchanged(view: MaintainedView, numeric: str) -> Foretold:
    definition = view.definition
    return Foretold(view.name, "none", definition.sql, "equivalent", _cost(definition, numeric), None, definition)


def _followed(
    name: str, known: CatalogState, judgement: Holds | Rewritten, numeric: str, *, adapted: str | None
) -> Foretold:
    after = judgement.definition
    if isinstance(judgement, Rewritten):
        before = known.views[name].definition if name in known.views else None
        effect = "adapted" if before is not None and _only_appends(before, after) else "rewritten"
        return Foretold(name, effect, after.sql, judgement.extent, judgement.cost, judgement.reason, after)
    cost = _cost(after, numeric)
    if adapted is not None:
        return Foretold(name, "adapted", after.sql, "equivalent", cost, adapted, after)
    effect = "renamed" if judgement.followed else "none"
    return Foretold(name, effect, after.sql, "equivalent", cost, "; ".join(judgement.followed) or None, after)


def _positions(known: CatalogState, source: str) -> Iterator[Position]:
    return (view.positions[source] for view in known.views.values() if source in view.positions)


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
