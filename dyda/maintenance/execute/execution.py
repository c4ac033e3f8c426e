"""What carrying out a plan needs, and what the changes and new versions of views have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dyda.maintenance.catalog_state import BuildPlan, BuildRequest, CatalogState
from dyda.maintenance.execute.deltas import Refresh
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.plan.unit_plan import Adapt, Rebuild, RelationFacts
from dyda.maintenance.plan.version_details import relaid, story
from dyda.maintenance.programs import fingerprint_of, state_tables
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.layout import layout_changes, layout_of
from dyda.model.relation import RelationName
from dyda.model.sql.render import render_view
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import ViewChange, ViewColumn, ViewVersion
from dyda.warehouse.extents.lockless_staging import Stagings
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.install import StateChange
from dyda.warehouse.writer import Writer
from va import Adaptation, Emptied, FromExtent, Reaggregate
from vm import Program

__all__ = ["Execution", "Progress", "Spending", "shown_columns"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Execution:
    """One plan under the snapshots of one poll."""

    opened: OpenProject
    writer: Writer
    poll: Poll
    catalog: CatalogState
    refresh: Refresh
    facts: RelationFacts
    progress: Progress
    lane: Stagings | None = None
    """Where a lane puts rows: not in the writer's session, which units use meanwhile."""

    @property
    def stagings(self) -> Writer | Stagings:
        return self.lane or self.writer

    def spending(self) -> Spending:
        return Spending(self.poll, self.poll.queries, time.perf_counter())

    def build_plan(self, request: BuildRequest, definition: ViewDefinition) -> BuildPlan:
        engine = self.opened.engine
        program = engine.program(definition)
        return BuildPlan(request, definition, program, tuple(engine.outputs(definition, program)))

    def version(
        self, build: BuildPlan, details: Mapping[str, Any], untrusted: frozenset[RelationName] = frozenset()
    ) -> ViewVersion:
        """The definition to be installed; `details` is what the view's history says about it. The keys of `untrusted`
        relations are not those of the rows."""
        return self.version_of(build.target, build.definition, build.program, shown_columns(build), details, untrusted)

    def version_of(
        self,
        request: BuildRequest,
        definition: ViewDefinition,
        program: Program,
        columns: tuple[ViewColumn, ...],
        details: Mapping[str, Any],
        untrusted: frozenset[RelationName] = frozenset(),
    ) -> ViewVersion:
        record = self.catalog.records.get(request.name)
        # A version's text must never change its meaning: `*` would take in a column that is added later, and a column's
        # name alone could mean that one.
        sql = render_view(definition.tree, definition.preferences) if definition.star else definition.sql
        evolved = request.file_text is None and (
            record is None or record.sql != sql or bool(record.details.get("evolved"))
        )
        states = state_tables(program)
        types = {column.name: column.type for column in columns}
        before = record.layout if record is not None and record.version is not None else None
        layout = layout_of(definition, types, self.opened.project.settings.spark.numeric, untrusted, before)
        return ViewVersion(
            sql=sql,
            columns=columns,
            relations=tuple(sorted(definition.relations)),
            cause=request.cause,
            file_text=request.file_text,
            details={"evolved": evolved, **details, **relaid(layout_changes(before or layout, layout))},
            states=states,
            program=fingerprint_of(self.opened.project, definition, sql, states, columns),
            layout=layout,
        )

    def adapted(
        self,
        plan: Adapt,
        build: BuildPlan,
        details: Mapping[str, Any],
        *,
        delta: pa.Table | None = None,
        staging: Staging | None = None,
        states: tuple[StateChange, ...] = (),
    ) -> ViewChange:
        """The change that takes the view to the plan's definition and positions: these rows, and its extent's columns
        where it is adapted from them."""
        before, after = plan.view.record.columns, shown_columns(build)
        projection = plan.how.columns if isinstance(plan.how, FromExtent) else None
        new_table = not isinstance(plan.how, Emptied) and plan.how.new_table
        same = projection == tuple(range(len(before))) and [c.type for c in after] == [c.type for c in before]
        same = same and not new_table
        return ViewChange(
            view=plan.name,
            delta=delta,
            staging=staging,
            projection=None if same else projection,
            mode="delta" if same else "replace",
            version=self.version(build, details, plan.untrusted),
            state=ViewState.LIVE,
            positions={source: (plan.view.positions.get(source), at) for source, at in plan.to.items()},
            states=states,
            new_table=new_table,
        )


def shown_columns(build: BuildPlan) -> tuple[ViewColumn, ...]:
    """The view's columns as readers will see them."""
    return tuple(
        ViewColumn(output.name, output.warehouse_type, output.spark_type, output.passthrough)
        for output in build.outputs
    )


@dataclass(frozen=True)
class Spending:
    """What an adaptation costs, from its beginning on."""

    poll: Poll
    queries: int
    started: float

    def details(self, plan: Adapt | Rebuild, how: Adaptation | Reaggregate, rows: int) -> dict[str, Any]:
        """What the view's history says, now that `rows` were written."""
        asked, seconds = self.poll.queries - self.queries, time.perf_counter() - self.started
        return story(plan.judgement, plan.moved, how, asked, rows, seconds)
