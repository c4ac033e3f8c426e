"""Adaptation at work: from a plan over the old extent to the rows that one transaction installs.

    old extent E ──▶ projection in the warehouse ─────────────┐
            └──────▶ Spark, with what is new at the sources ──┼──▶ staging ──┐
    sources, where E stands ──▶ rows that were kept out ──────┘              ├──▶ one installation
    data updates of the unit, a relation's difference ──▶ sweep ──▶ ΔV' ─────┘

E is at the view's positions, what is new is read where the unit ends, and ΔV' leads from one state to the other:
together they are the new definition at the unit's positions, exactly (paper 001, Equation 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from dyda.maintenance.catalog_state import BuildPlan
from dyda.maintenance.execute.execution import Execution
from dyda.maintenance.execute.recompute import recompute
from dyda.maintenance.execute.task_failures import scanning
from dyda.maintenance.execute.warehouse_scans import extent_partitions, held_partition
from dyda.maintenance.plan.unit_plan import Adapt
from dyda.model.bag import COUNT, Bag
from dyda.model.position import Position
from dyda.sources.reading.copy import read_partition
from dyda.warehouse import ViewChange
from dyda.warehouse.extents.exported_snapshot import hold_extent
from dyda.warehouse.extents.staging import Staging
from va import EXTENT, WORTH_WHILE, FromExtent, Restored, in_new_table
from vm import JoinBlock, Occurrence, flatten, plan_sweep

__all__ = ["adapt_from_extent"]


def adapt_from_extent(execution: Execution, plan: Adapt, how: FromExtent) -> ViewChange:
    """The change that takes the view from its positions and definition to the plan's."""
    spending, build = execution.spending(), execution.build_plan(plan.request, how.definition)
    moving = _Moving(execution, plan, how, build)
    if (why := moving.dearer()) is not None:
        return recompute(execution, plan.rebuild(why), built=False)
    staging, written = moving.stage(len(build.outputs))
    delta = moving.delta()
    rows = written + (0 if delta is None else delta.num_rows)
    plan = replace(plan, how=in_new_table(how, rows, plan.view.record.rows))
    return execution.adapted(plan, build, spending.details(plan, plan.how, rows), delta=delta, staging=staging)


@dataclass
class _Moving:
    """One view on its way."""

    execution: Execution
    plan: Adapt
    how: FromExtent
    build: BuildPlan

    def __post_init__(self) -> None:
        numeric = self.execution.opened.project.settings.spark.numeric
        self.query = flatten(self.how.query, numeric) if self.how.query is not None else None
        self.complement = flatten(self.how.complement, numeric) if self.how.complement is not None else None
        self._read_images([block for block in (self.build.block, self.query, self.complement) if block is not None])

    def _read_images(self, blocks: list[JoinBlock]) -> None:
        """Only if there are changes between the view and the snapshot: reading a log has its price."""
        refresh = self.execution.refresh
        read = {self.execution.facts.called(name) for block in blocks for name in block.relations}
        queue = self.execution.poll.queue
        if any(not self._old(q.message.source).includes(q.message.xid) for q in queue if q.message.relations & read):
            refresh.read_images(blocks)

    def _old(self, source: str) -> Position:
        return self.plan.view.positions.get(source) or self.plan.to[source]

    def _since(self, occurrence: Occurrence) -> Position:
        """What the extent does not hold does not move: it is read where the unit ends."""
        fixed = occurrence.alias in self.how.fixed
        restored = self.how.restored is not None and occurrence.alias == self.how.restored.alias
        return self._to(occurrence) if fixed or restored else self._old(occurrence.relation.name.source)

    def _to(self, occurrence: Occurrence) -> Position:
        return self.plan.to[occurrence.relation.name.source]

    def dearer(self) -> str | None:
        """Why it costs less to build the view again, into a new table; None if it does not. Only now is it known how
        much the relation differs from the one that it replaces."""
        replacing, extent = self._replacing, self.plan.view.record.rows
        if replacing is None or extent <= WORTH_WHILE:
            return None
        occurrence, difference, rows = replacing
        everything = sum(one.relation.estimated_rows for one in self.build.block.occurrences)
        if len(difference) <= rows or everything > 2 * extent:
            return None
        return f"most of the {rows} rows of {occurrence.relation.name} are others than the extent shows"

    def stage(self, width: int) -> tuple[Staging | None, int]:
        """What Spark computes from the extent, and what it adds from the sources; with the entries written."""
        if self.query is None and self.complement is None:
            return None, 0
        staging = self.execution.stagings.staging(width)
        written = 0
        if self.query is not None:
            with hold_extent(self.execution.opened.warehouse.url, self.plan.name) as held:
                extent = self.query.by_alias[EXTENT]
                pieces = {EXTENT: self.execution.refresh.scanned(extent_partitions(held, extent), extent)}
                written += self.execution.refresh.write(
                    self.query,
                    lambda one: None if one.alias == EXTENT else self._to(one),
                    staging,
                    self._progress,
                    pieces,
                )
        if self.complement is not None:
            written += self.execution.refresh.write(self.complement, self._since, staging, self._progress)
        return staging, written

    def delta(self) -> pa.Table | None:
        """What leads from the extent's state to the unit's."""
        replacing = self._replacing
        replaced = {} if replacing is None else {replacing[0].alias: replacing[1]}
        return self.execution.refresh.difference(plan_sweep(self.build.block), self._since, self._to, replaced)

    @cached_property
    def _replacing(self) -> tuple[Occurrence, Bag, int] | None:
        """What replaces a relation, how it differs from that, and how many rows it has."""
        restored = self.how.restored
        if restored is None:
            return None
        occurrence = self.build.block.by_alias[restored.alias]
        return occurrence, *self._difference(occurrence, restored)

    def _difference(self, occurrence: Occurrence, restored: Restored) -> tuple[Bag, int]:
        """The relation that is read now, less the one that it replaces as the extent shows it; with its rows."""
        refresh = self.execution.refresh
        pending = refresh.beyond(self.build.block, self._to).get(occurrence.alias, Bag.empty(occurrence.columns))
        now = refresh.rows(occurrence) - pending.select(occurrence.columns)
        places = dict(restored.columns)
        with hold_extent(self.execution.opened.warehouse.url, self.plan.name) as held, scanning():
            shown = [places[column] for column in occurrence.columns]
            rows = read_partition(held_partition(held, held.distinct(restored.distinct, shown), occurrence.columns))
        then = Bag(rows.append_column(COUNT, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)))
        return (now - then).consolidate(), len(now)

    @property
    def _progress(self) -> Callable[[int, int], None]:
        return lambda done, total: self.execution.progress(f"adapting {self.plan.name}", done, total)
