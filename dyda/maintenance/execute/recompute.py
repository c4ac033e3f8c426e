"""Views that are computed whole: new ones, and those that must be read again because something moved under them."""

from __future__ import annotations

from collections.abc import Mapping

from dyda.errors import EvaluationFailed, ValueDoesNotFit
from dyda.maintenance.error_causes import uncomputable
from dyda.maintenance.execute.execution import Execution
from dyda.maintenance.plan.unit_plan import Rebuild
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.cause import RowsInTheWay
from dyda.model.position import Position
from dyda.model.view_state import ViewState
from dyda.warehouse import ViewChange
from dyda.warehouse.states.install import StateChange
from va import Recompute

__all__ = ["recompute"]


def recompute(execution: Execution, plan: Rebuild, *, built: bool) -> ViewChange:
    """The view at the plan's positions, merged into its extent by difference; what is visible beyond is taken away.

    `built`: it was to be built, not to follow a unit. Then rows that it cannot be computed over break it, unless a file
    asked for it: then it is an error of `apply`.
    """
    try:
        return _recomputed(execution, plan)
    except (EvaluationFailed, ValueDoesNotFit) as error:
        if not built or plan.request.file_text is not None:
            raise
        cause = RowsInTheWay(plan.request.cause, uncomputable(error, view=plan.name))
        return ViewChange(view=plan.name, state=ViewState.BROKEN, cause=cause)


def _recomputed(execution: Execution, plan: Rebuild) -> ViewChange:
    spending = execution.spending()
    build = execution.build_plan(plan.request, plan.definition)
    if _lies_beyond(execution, plan.to, plan.definition):
        execution.refresh.read_images(build.program.blocks)
    (*states, staging), written = execution.refresh.build(
        build.program,
        lambda occurrence: plan.to.get(occurrence.relation.name.source),
        execution.stagings,
        lambda done, total: execution.progress(f"building {plan.name}", done, total),
    )
    how = Recompute(plan.definition, plan.reason or plan.request.reason)
    record = execution.catalog.records.get(plan.name)
    details = spending.details(plan, how, written) if record is not None and record.version else {}
    version = execution.version(build, details, plan.untrusted)
    unchanged = (
        record is not None
        and not record.behind
        and record.sql == version.sql
        and record.columns == version.columns
        and record.states == tuple(table.state for table in version.states or ())
        and record.program == version.program
        and record.layout == version.layout
    )
    expected = record.positions if record is not None else {}
    return ViewChange(
        view=plan.name,
        staging=staging,
        states=tuple(StateChange(number, staging=state) for number, state in enumerate(states)),
        mode="replace",
        new_table=plan.new_table,
        version=None if unchanged and plan.request.file_text is None and execution.lane is None else version,
        state=ViewState.LIVE,
        positions={source: (expected.get(source), position) for source, position in plan.to.items()},
    )


def _lies_beyond(execution: Execution, positions: Mapping[str, Position], definition: ViewDefinition) -> bool:
    """Whether the snapshots show rows of this view that `positions` leave out. Otherwise no image is needed, and none
    is read. The queue speaks of relations by the names that the poll was opened with."""
    read = {execution.facts.called(name) for name in definition.relations}
    return any(
        not positions[queued.message.source].includes(queued.message.xid)
        for queued in execution.poll.queue
        if queued.message.relations & read
    )
