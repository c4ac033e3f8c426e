"""Views that a unit leaves behind: their texts follow the relations at the same moment as the catalog does.

A view stays behind a schema change that others have processed while one of its sources is away, or one that its
rewriting needs; while it is held; or when another view is built ahead of it. The catalog describes each relation once,
as the others know it now. A text written for the old relation would mean nothing or, where columns exchanged their
names, something else. So the view is synchronized in the same installation. Its rows and positions stay: if its
definition holds, the change still waits for it in the queue; if it is rewritten, it is `behind` and is built when it
can be. It is also `behind` if a relation was replaced or its columns changed their types: the row images that it waits
for no longer fit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from dyda.maintenance.catalog_state import MaintainedView, last_definition
from dyda.maintenance.observe.round import Round
from dyda.maintenance.plan.unit_plan import Adapt, Freeze, LeaveBehind, Rebuild
from dyda.maintenance.plan.version_details import Moved, because, story, unseen
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import Behind, Followed, SourceAway
from dyda.model.relation import Relation, RelationName
from dyda.model.view_state import ViewState
from dyda.warehouse import ViewChange, ViewRecord, ViewVersion
from dyda.wording import rows_follow
from va import Recompute
from vs import Broken, Holds, Rewritten, World, synchronize

__all__ = ["left_behind", "left_for_a_lane", "renamed"]


def left_behind(
    round: Round, now: Mapping[RelationName, Relation | None], taken: Collection[str]
) -> Iterator[Freeze | LeaveBehind]:
    """What becomes of the views that are not `taken` along, if they read what the catalog knows otherwise from `now` on
    (by the names known before; None if it is gone)."""
    catalog = round.catalog
    if not now:
        return
    world = World({name: record.relation for name, record in catalog.relations.items()}, now, catalog.knowledge)
    for record, definition in _others(round, taken):
        if not definition.relations & set(now):
            continue
        judgement = synchronize(definition, world, catalog.defaults, round.numeric)
        moved = unseen(round.moving, record.positions, definition.relations)
        if isinstance(judgement, Broken):
            yield Freeze(record.name, judgement, because(judgement, moved))
            continue
        other = _other_rows(definition, now)
        if other or judgement.definition.sql != record.sql:
            needed = judgement.definition.sources
            away = [SourceAway(source, why) for source, why in round.unreachable.items() if source in needed]
            yield LeaveBehind(_followed(record, judgement, moved, other, away), judgement)


def renamed(round: Round, view: MaintainedView, now: Mapping[RelationName, Relation]) -> LeaveBehind:
    """A view that waits and whose tables have other names for the catalog: its text follows these alone."""
    catalog = round.catalog
    world = World({name: record.relation for name, record in catalog.relations.items()}, now, catalog.knowledge)
    judgement = synchronize(view.definition, world, catalog.defaults, round.numeric)
    if isinstance(judgement, Broken):
        raise AssertionError(f"view {view.name} does not follow a table's name: {judgement.reason}")
    moved = unseen(round.moving, view.positions, view.definition.relations)
    return LeaveBehind(_followed(view.record, judgement, moved, None, []), judgement)


def left_for_a_lane(record: ViewRecord, plan: Rebuild | Adapt) -> LeaveBehind:
    """A view for which the unit would read its sources, for long: its text follows now, its rows when a lane has
    computed them."""
    reason = (plan.reason if isinstance(plan, Rebuild) else None) or plan.request.reason
    change = ViewChange(view=record.name)
    if plan.definition.sql != record.sql:
        change = _followed(record, plan.judgement, list(plan.moved), reason, [])
    change = replace(change, state=ViewState.RESYNC, cause=Behind(reason, lane=True))
    return LeaveBehind(change, plan.judgement, plan if isinstance(plan, Adapt) else None)


def _others(round: Round, taken: Collection[str]) -> Iterator[tuple[ViewRecord, ViewDefinition]]:
    for name, view in round.catalog.views.items():
        if name not in taken:
            yield view.record, view.definition
    for name, record in round.catalog.held.items():
        definition = None if name in taken else last_definition(round.project, round.catalog, record)
        if definition is not None:
            yield record, definition


def _other_rows(definition: ViewDefinition, now: Mapping[RelationName, Relation | None]) -> str | None:
    """Which relation's rows are no longer what its images are of: another table, or columns of other types."""
    for scan in scans(definition.tree):
        before, after = scan.relation, now.get(scan.relation.name)
        if after is None:
            continue
        types = {column.number: column.type for column in after.columns}
        if after.oid != before.oid:
            return f"{before.name} was replaced by another table"
        if any(types.get(column.number, column.type) != column.type for column in before.columns):
            return f"columns of {before.name} changed their types"
    return None


def _followed(
    record: ViewRecord, judgement: Holds | Rewritten, moved: list[Moved], other_rows: str | None, away: list[SourceAway]
) -> ViewChange:
    definition = judgement.definition
    behind = isinstance(judgement, Rewritten) or record.behind or other_rows is not None
    followed = judgement.reason if isinstance(judgement, Rewritten) else "; ".join(judgement.followed) or other_rows
    state = record.stored_state
    cause = None if state == ViewState.LIVE else record.cause  # of a live view it is made up when it is asked for
    if behind and state != ViewState.HELD:
        state, cause = ViewState.RESYNC, Behind(followed, tuple(away))
    version = ViewVersion(
        sql=definition.sql,
        columns=record.columns,
        relations=tuple(sorted(definition.relations)),
        layout=record.layout,
        cause=Behind(followed) if behind else Followed(tuple(judgement.followed)),
        details={"evolved": True, "behind": behind, **story(judgement, moved, Recompute(definition, rows_follow()))},
    )
    positions = {
        source: (position, position if source in definition.sources else None)
        for source, position in record.positions.items()
    }
    return ViewChange(view=record.name, version=version, state=state, cause=cause, positions=positions)
