"""Adaptation at work: from a plan over the old extent to the rows that one transaction installs.

    old extent E ──▶ projection in the warehouse ─────────────┐
            └──────▶ Spark, with what is new at the sources ──┼──▶ staging ──┐
    sources, where E stands ──▶ rows that were kept out ──────┘              ├──▶ one installation
    data updates of the unit, a relation's difference ──▶ sweep ──▶ ΔV' ─────┘

E stands at the view's positions, what is new is read where the unit ends, and ΔV' leads from one state to the other:
together they are the new definition at the unit's positions, exactly (paper 001, Equation 5).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from dyda.maintenance.catalog_state import BuildPlan, BuildRequest, MaintainedView
from dyda.maintenance.execute.deltas import scanning
from dyda.maintenance.execute.reaggregate import Restating
from dyda.maintenance.execute.warehouse_scans import extent_partitions, held_partition
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.bag import COUNT, Bag
from dyda.model.cause import BuildReason, ToBeBuilt
from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.sources.reading.copy import read_partition
from dyda.warehouse import Staging, ViewChange, hold_extent
from va import EXTENT, Adaptation, FromExtent, Reaggregate, Recompute, Restored, adapt
from vm import JoinBlock, Occurrence, flatten, plan_sweep

if TYPE_CHECKING:
    from dyda.maintenance.execute.recompute import Builder, Told

__all__ = ["Adapter"]


@dataclass
class Adapter:
    """Carries out plans under the poll of its builder."""

    builder: Builder

    def plan(
        self,
        view: MaintainedView,
        definition: ViewDefinition,
        changes: Sequence[SchemaChange | Truncation],
        to: Mapping[str, Position],
    ) -> Adaptation | Reaggregate:
        """How the view's extent gets to `definition` at `to`, given what changed in between other than by images."""
        updated = self.updated(view, definition, to)
        found = adapt(view.definition, definition, changes, updated, view.record.rows)
        if isinstance(found, Reaggregate) or (isinstance(found, FromExtent) and not definition.plain):
            why = self._restating(view, found.definition).obstacle(found)
            return found if why is None else Recompute(definition, f"{found.reason}, but {why}")
        return found

    def updated(
        self, view: MaintainedView, definition: ViewDefinition, to: Mapping[str, Position]
    ) -> set[RelationName]:
        """The relations of `definition` with row images between the view's positions and `to`."""
        updated = set()
        seen: set[tuple[Change, ...]] = set()
        for queued in self.builder.poll.queue:
            source, xid, changes = queued.message.source, queued.message.xid, queued.message.changes
            if changes in seen or source not in to or view.has(source, xid) or not to[source].includes(xid):
                continue
            seen.add(changes)
            updated |= {change.relation for change in changes if isinstance(change, DataUpdate)}
        known_as = self.builder.refresh.known_as
        return {name for name in definition.relations if known_as.get(name, name) in updated}

    def _restating(self, view: MaintainedView, definition: ViewDefinition) -> Restating:
        target = BuildRequest(view.name, definition.sql, None, ToBeBuilt(BuildReason.EVOLVED))
        return Restating(self.builder, view, self.builder.plan(target, definition))

    def carry_out(
        self,
        view: MaintainedView,
        plan: FromExtent | Reaggregate,
        target: BuildRequest,
        to: Mapping[str, Position],
        told: Told,
    ) -> ViewChange:
        """The change that takes the view from its positions and definition to `to` and the plan's definition."""
        started, asked = time.perf_counter(), self.builder.poll.queries
        build = self.builder.plan(target, plan.definition)
        if isinstance(plan, Reaggregate) or not plan.definition.plain:
            return Restating(self.builder, view, build).carry_out(plan, target, to, told)
        columns = self.builder.columns(build)
        moving = _Moving(self.builder, view, plan, build, to)
        staging, written = moving.stage(len(columns))
        delta = moving.delta()
        same = plan.columns == tuple(range(len(view.record.columns)))
        same = same and [column.type for column in columns] == [column.type for column in view.record.columns]
        rows = written + (0 if delta is None else delta.num_rows)
        spent = (self.builder.poll.queries - asked, rows, time.perf_counter() - started)
        return ViewChange(
            view=view.name,
            delta=delta,
            staging=staging,
            projection=None if same else plan.columns,
            mode="delta" if same else "replace",
            version=self.builder.version(build, told(plan, *spent)),
            state=ViewState.LIVE,
            positions={source: (view.positions.get(source), position) for source, position in to.items()},
        )


@dataclass
class _Moving:
    """One view on its way."""

    builder: Builder
    view: MaintainedView
    plan: FromExtent
    build: BuildPlan
    to: Mapping[str, Position]

    def __post_init__(self) -> None:
        numeric = self.builder.opened.project.settings.spark.numeric
        self.query = flatten(self.plan.query, numeric) if self.plan.query is not None else None
        self.complement = flatten(self.plan.complement, numeric) if self.plan.complement is not None else None
        self._read_images([block for block in (self.build.block, self.query, self.complement) if block is not None])

    def _read_images(self, blocks: list[JoinBlock]) -> None:
        """Only where something lies between the view and the snapshot: reading a log has its price."""
        refresh = self.builder.refresh
        read = {refresh.known_as.get(name, name) for block in blocks for name in block.relations}
        queue = self.builder.poll.queue
        if any(not self._old(q.message.source).includes(q.message.xid) for q in queue if q.message.relations & read):
            refresh.read_images(blocks)

    def _old(self, source: str) -> Position:
        return self.view.positions.get(source) or self.to[source]

    def _since(self, occurrence: Occurrence) -> Position:
        """What the extent does not hold does not move: it is read where the unit ends."""
        fixed = occurrence.alias in self.plan.fixed
        restored = self.plan.restored is not None and occurrence.alias == self.plan.restored.alias
        return self._to(occurrence) if fixed or restored else self._old(occurrence.relation.name.source)

    def _to(self, occurrence: Occurrence) -> Position:
        return self.to[occurrence.relation.name.source]

    def stage(self, width: int) -> tuple[Staging | None, int]:
        """What Spark computes from the extent, and what it adds from the sources; with the entries written."""
        if self.query is None and self.complement is None:
            return None, 0
        staging = self.builder.writer.staging(width)
        written = 0
        if self.query is not None:
            with hold_extent(self.builder.opened.warehouse.url, self.view.name) as held:
                pieces = {EXTENT: extent_partitions(held, self.query.by_alias[EXTENT])}
                written += self.builder.refresh.write(
                    self.query,
                    lambda one: None if one.alias == EXTENT else self._to(one),
                    staging,
                    self._progress,
                    pieces,
                )
        if self.complement is not None:
            written += self.builder.refresh.write(self.complement, self._since, staging, self._progress)
        return staging, written

    def delta(self) -> pa.Table | None:
        """What leads from the extent's state to the unit's."""
        block, restored = self.build.block, self.plan.restored
        replaced = {}
        if restored is not None:
            replaced[restored.alias] = self._difference(block.by_alias[restored.alias], restored)
        return self.builder.refresh.difference(plan_sweep(block), self._since, self._to, replaced)

    def _difference(self, occurrence: Occurrence, restored: Restored) -> Bag:
        """The relation that is read now, less the one that it replaces as the extent shows it."""
        refresh = self.builder.refresh
        pending = refresh.beyond(self.build.block, self._to).get(occurrence.alias, Bag.empty(occurrence.columns))
        now = refresh.rows(occurrence) - pending.select(occurrence.columns)
        places = dict(restored.columns)
        with hold_extent(self.builder.opened.warehouse.url, self.view.name) as held, scanning():
            shown = [places[column] for column in occurrence.columns]
            rows = read_partition(held_partition(held, held.distinct(restored.distinct, shown), occurrence.columns))
        then = Bag(rows.append_column(COUNT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)))
        return (now - then).consolidate()

    @property
    def _progress(self) -> Callable[[int, int], None]:
        return lambda done, total: self.builder.progress(f"adapting {self.view.name}", done, total)
