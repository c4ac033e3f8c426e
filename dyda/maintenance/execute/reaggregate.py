"""Adaptation of views of several blocks: the rows and the states follow the definition without a source.

    projection      some columns of the extent; the states stay as they are
    reaggregation   the state in its new form, made from the old one in the warehouse ─▶ Spark: the rows that show it

Where the program of the new definition does not keep what the plan expects, the view is computed again.
"""

from __future__ import annotations

from dyda.maintenance.catalog_state import BuildPlan
from dyda.maintenance.execute.execution import Execution, shown_columns
from dyda.maintenance.plan.stored_state import places
from dyda.maintenance.plan.unit_plan import Adapt
from dyda.model.view_state import ViewState
from dyda.warehouse import Staging, StateChange, ViewChange
from va import FromExtent, Reaggregate

__all__ = ["adapt_from_states"]


def adapt_from_states(execution: Execution, plan: Adapt) -> ViewChange:
    """The change that brings the view to the plan's definition; nothing moved between its positions and the plan's."""
    spending, view, how = execution.spending(), plan.view, plan.how
    build = execution.build_plan(plan.request, how.definition)
    columns = shown_columns(build)
    projection: tuple[int, ...] | None = None
    staging: Staging | None = None
    states: tuple[StateChange, ...] = ()
    mode, written = "replace", 0
    if isinstance(how, FromExtent):
        same = how.columns == tuple(range(len(view.record.columns)))
        same = same and [column.type for column in columns] == [c.type for c in view.record.columns]
        projection, mode = (None, "delta") if same else (how.columns, "replace")
    else:
        (state, staging), written = _regrouped(execution, plan, how, build)
        states = (StateChange(0, staging=state),)
    return ViewChange(
        view=view.name,
        staging=staging,
        projection=projection,
        states=states,
        mode=mode,
        version=execution.version(build, spending.details(plan, how, written)),
        state=ViewState.LIVE,
        positions={source: (view.positions.get(source), position) for source, position in plan.to.items()},
    )


def _regrouped(execution: Execution, plan: Adapt, how: Reaggregate, build: BuildPlan) -> tuple[list[Staging], int]:
    """The state in its new form and the rows that show it; with the entries that Spark wrote."""
    made_from = places(how, plan.view, build.program)
    (old,), (new,) = plan.view.program.states, build.program.states
    assert made_from is not None
    assert old.state is not None
    assert new.state is not None
    state = execution.writer.regroup_staging(plan.name, 0, old.state, new.state, made_from)
    return execution.refresh.build(
        build.program,
        lambda occurrence: None,
        execution.writer,
        lambda done, total: execution.progress(f"adapting {plan.name}", done, total),
        {0: state},
    )
