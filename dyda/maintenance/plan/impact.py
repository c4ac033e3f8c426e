"""What each view becomes after some schema changes: the plan of a unit that makes them, view by view.

    DDL, pending messages, the next unit ─▶ plan_changes ─▶ UnitPlan ─▶ per view: effect, definition, extent, cost

From the catalog alone. A source is asked only to describe a table that took another's name, and how large the tables
are that would be read whole: the daemon leaves that to a lane if its settings say so, whether or not it runs now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from dyda.errors import DydaError
from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import CatalogState, MaintainedView
from dyda.maintenance.observe.round import Round, SourceNow
from dyda.maintenance.observe.tables import Table, sizes_of
from dyda.maintenance.plan.analysis import SparkIfNeeded
from dyda.maintenance.plan.planner import plan_changes, plan_measured
from dyda.maintenance.plan.unit_plan import (
    Adapt,
    FollowText,
    Freeze,
    LeaveBehind,
    Maintain,
    Rebuild,
    UnitPlan,
    ViewPlan,
)
from dyda.model.algebra.nodes import ViewDefinition, conjuncts, scans
from dyda.model.cause import (
    Behind,
    BuildReason,
    Cause,
    Followed,
    LayoutChanged,
    NotMaintained,
    SchemaChanged,
    ToBeBuilt,
    Unforeseen,
)
from dyda.model.ddl.schemas import Schemas
from dyda.model.message import SchemaChange, UpdateMessage
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.open_project import OpenProject
from dyda.warehouse import cause_to_json
from dyda.wording import sentence
from scheduler import Queued, Unit, UnitKind
from va import MetadataOnly, adapt
from vm import flatten, plan_sweep
from vs import Rewritten

__all__ = ["Impact", "impact_of_changes", "impact_of_messages", "impact_of_unit", "impacts", "readers"]

AFTER_ALL = 2**62
"""The id of a transaction that no view has yet."""


@dataclass(frozen=True)
class Impact:
    """What the changes do to one view; `becomes` is the definition that it has then."""

    name: str
    effect: str
    plan: str | None = None
    """The kind of its plan; None: it is not part of the unit, or its plan cannot be foreseen."""
    definition: str | None = None
    extent: str | None = None
    cost: int | None = None
    cause: Cause | None = None
    becomes: ViewDefinition | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "effect": self.effect,
            "plan": self.plan,
            "definition": self.definition,
            "extent": self.extent,
            "cost": self.cost,
            "reason": None if self.cause is None else sentence(self.cause),
            "cause": cause_to_json(self.cause),
        }

    @property
    def dangerous(self) -> bool:
        """Whether an operator may want to decide about it first."""
        return self.effect in ("rewritten", "broken", "unknown")

    def costs_no_more_than(self, before: Impact) -> bool:
        """Whether earlier changes do the same to the view already, names aside."""
        if self.effect != before.effect:
            return False
        if self.definition == before.definition:
            return True
        if self.becomes is None or before.becomes is None or self.becomes.names != before.becomes.names:
            return False
        return isinstance(adapt(before.becomes, self.becomes, ()), MetadataOnly)


def impact_of_changes(opened: OpenProject, known: CatalogState, schemas: Schemas) -> list[Impact]:
    """Every view with what these changes would do to it in one transaction, by name."""
    messages = [
        UpdateMessage(source, AFTER_ALL, 0, tuple(c for c in schemas.changes if c.relation.source == source))
        for source in sorted({change.relation.source for change in schemas.changes})
    ]
    queue = tuple(Queued(number, message) for number, message in enumerate(messages, 1))
    unit = Unit(queue, "these changes, in one transaction", UnitKind.MERGED)
    return impacts(_planned(opened, known, queue, unit, schemas.now), known, opened.project.settings.spark.numeric)


def impact_of_messages(
    opened: OpenProject, known: CatalogState, messages: Sequence[tuple[int, UpdateMessage]]
) -> dict[int, list[Impact]]:
    """What each message that changes a schema adds to what the messages before it do: the views it concerns. Views that
    wait are judged by what they know, and what they lack."""
    found: dict[int, list[Impact]] = {number: [] for number, message in messages if message.schema_changes}
    for world in known.worlds:
        positions = [view.positions for view in world.views.values()]
        lacking = [
            (number, _not_yet_known(world, message))
            for number, message in messages
            if not all(message.source in at and at[message.source].includes(message.xid) for at in positions)
        ]
        for number, views in _impact_in(opened, world, lacking).items():
            found[number] = sorted([*found[number], *views], key=lambda view: view.name)
    return found


def _impact_in(
    opened: OpenProject, known: CatalogState, messages: Sequence[tuple[int, UpdateMessage]]
) -> dict[int, list[Impact]]:
    schemas = _schemas(known)
    before: dict[str, Impact] = {}
    found: dict[int, list[Impact]] = {}
    unclear: set[str] = set()
    for number, message in messages:
        if not message.schema_changes:
            continue
        try:
            schemas.apply(message, lambda name: _present(opened, name))
            views = {view.name: view for view in impact_of_changes(opened, known, schemas) if view.name in known.views}
        except DydaError as error:
            views = _unforeseen(known, [message], error)
            unclear |= set(views)
        found[number] = [
            view
            for name, view in sorted(views.items())
            if name not in unclear or view.effect == "unknown"
            if view.effect != "none" and not (name in before and view.costs_no_more_than(before[name]))
        ]
        before |= views
    return found


def impact_of_unit(opened: OpenProject, known: CatalogState, queue: Sequence[Queued], unit: Unit) -> list[Impact]:
    """What the next unit does to the views that it changes, before it is processed."""
    schemas = _schemas(known)
    try:
        for queued in unit.messages:
            schemas.apply(_not_yet_known(known, queued.message), lambda name: _present(opened, name))
        plan = _planned(opened, known, queue, unit, schemas.now)
    except DydaError as error:
        return list(_unforeseen(known, (queued.message for queued in unit.messages), error).values())
    changed = {view.name for view in plan.views if not isinstance(view, Maintain) or view.moves}
    return [view for view in impacts(plan, known, opened.project.settings.spark.numeric) if view.name in changed]


def impacts(plan: UnitPlan, known: CatalogState, numeric: str) -> list[Impact]:
    """The plan, view by view: every view of the catalog, by name."""
    found = {view.name: _impact(view, known, numeric) for view in plan.views}
    for name, view in known.views.items():
        found.setdefault(name, _unchanged(view, None, numeric))
    for name, record in known.frozen.items():
        cause = NotMaintained(record.stored_state, record.cause)
        found.setdefault(name, Impact(name, "none", None, record.sql, cause=cause))
    return [found[name] for name in sorted(found)]


def readers(known: CatalogState, relations: Iterable[RelationName]) -> list[str]:
    """The maintained views that read one of these, by name."""
    moved = frozenset(relations)
    return sorted(view.name for view in known.views.values() if moved & view.definition.relations)


def _planned(
    opened: OpenProject,
    known: CatalogState,
    queue: Sequence[Queued],
    unit: Unit,
    now: Mapping[RelationName, Relation | None],
) -> UnitPlan:
    sources = dict.fromkeys({*known.captured, *opened.sources}, SourceNow(Position(AFTER_ALL + 1, AFTER_ALL + 1)))
    positions = {
        name: Position.meet(view.positions[name] for view in known.views.values() if name in view.positions)
        for name in sources
    }
    settings = opened.project.settings.maintenance
    lane_size = settings.lane_size if settings.lanes else None
    round = Round(opened.project, known, Arrivals.of(tuple(queue)), sources, positions, lane_size=lane_size)
    analysis = SparkIfNeeded(opened.engine)
    return plan_measured(
        round, lambda tables: _sizes(opened, tables), lambda round: plan_changes(round, unit, now, analysis)
    )


def _sizes(opened: OpenProject, tables: Collection[Table]) -> dict[Table, int]:
    """As far as the sources can say: what is out of reach counts as small."""
    found: dict[Table, int] = {}
    for source in sorted({source for source, _ in tables}):
        with suppress(DydaError):
            found |= sizes_of(opened, (table for table in tables if table[0] == source))
    return found


def _impact(plan: ViewPlan, known: CatalogState, numeric: str) -> Impact:
    match plan:
        case Freeze(name, _, cause):
            if isinstance(cause, SchemaChanged):
                cause = replace(cause, changes=())  # whoever asks knows them
            return Impact(name, "broken", plan.kind, None, "unknown", None, cause)
        case Maintain():
            return _unchanged(plan.view, plan.kind, numeric)
        case FollowText():
            return _followed(plan, known, numeric, rows=None)
        case LeaveBehind():
            return _followed(plan, known, numeric, rows=plan.lane or (Behind() if plan.behind else None))
        case Adapt():
            return _followed(plan, known, numeric, rows=ToBeBuilt(BuildReason.EVOLVED, plan.how.reason))
        case Rebuild():
            rows = plan.request.cause if plan.reason is None else ToBeBuilt(BuildReason.EVOLVED, plan.reason)
            return _followed(plan, known, numeric, rows=rows)


def _unchanged(view: MaintainedView, plan: str | None, numeric: str) -> Impact:
    definition = view.definition
    return Impact(view.name, "none", plan, definition.sql, "equivalent", _cost(definition, numeric), None, definition)


def _followed(
    plan: FollowText | LeaveBehind | Adapt | Rebuild, known: CatalogState, numeric: str, *, rows: Cause | None
) -> Impact:
    """`rows`: how they follow, if they have to."""
    name, judgement = plan.name, plan.judgement
    after = judgement.definition
    if isinstance(judgement, Rewritten):
        before = known.views[name].definition if name in known.views else None
        effect = "adapted" if before is not None and _only_appends(before, after) else "rewritten"
        cause: Cause | None = ToBeBuilt(BuildReason.EVOLVED, judgement.reason)
        return Impact(name, effect, plan.kind, after.sql, judgement.extent, judgement.cost, cause, after)
    relaid = plan.version.cause if isinstance(plan, FollowText) else None
    if not isinstance(relaid, LayoutChanged):
        relaid = None
    cause = rows or relaid or (Followed(judgement.followed) if judgement.followed else None)
    effect = "adapted" if rows or relaid else "renamed" if judgement.followed else "none"
    return Impact(name, effect, plan.kind, after.sql, "equivalent", _cost(after, numeric), cause, after)


def _unforeseen(known: CatalogState, messages: Iterable[UpdateMessage], error: DydaError) -> dict[str, Impact]:
    """The views that these messages concern, if what they do cannot be foreseen."""
    names = readers(known, (name for message in messages for name in message.moved_without_rows))
    return {name: Impact(name, "unknown", extent="unknown", cause=Unforeseen(error.what)) for name in names}


def _schemas(known: CatalogState) -> Schemas:
    return Schemas({name: record.relation for name, record in known.relations.items()})


def _not_yet_known(known: CatalogState, message: UpdateMessage) -> UpdateMessage:
    """The message without the schema changes that the catalog's description of the relations has already."""
    return replace(
        message,
        changes=tuple(
            change
            for change in message.changes
            if not isinstance(change, SchemaChange) or not known.is_described_with(change.relation, message.xid)
        ),
    )


def _present(opened: OpenProject, name: RelationName) -> Relation | None:
    """The table under the name as it is now; None if the source cannot say."""
    try:
        return opened.describe(name.source, name.schema, name.table)
    except DydaError:
        return None


def _only_appends(before: ViewDefinition, after: ViewDefinition) -> bool:
    """Whether the view only gets new columns, and keeps all that it had."""
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
