"""Adaptation of views of several blocks: the rows and the states follow the definition without a source.

    projection      some columns of the extent; the states stay as they are
    reaggregation   the state in its new form, made from the old one in the warehouse ─▶ Spark: the rows that show it

Where the program of the new definition does not keep what the plan expects, the view is computed again.
"""

from __future__ import annotations

from dyda.maintenance.catalog_state import BuildPlan
from dyda.maintenance.execute.execution import Execution
from dyda.maintenance.plan.stored_state import places
from dyda.maintenance.plan.unit_plan import Adapt
from dyda.warehouse import ViewChange
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.install import StateChange
from va import FromExtent, Reaggregate

__all__ = ["adapt_from_states"]


def adapt_from_states(execution: Execution, plan: Adapt) -> ViewChange:
    """The change that takes the view to the plan's definition; no row changed between its positions and the plan's."""
    spending, build = execution.spending(), execution.build_plan(plan.request, plan.how.definition)
    if isinstance(plan.how, FromExtent):
        return execution.adapted(plan, build, spending.details(plan, plan.how, 0))
    assert isinstance(plan.how, Reaggregate)
    (state, staging), written = _regrouped(execution, plan, plan.how, build)
    details = spending.details(plan, plan.how, written)
    return execution.adapted(plan, build, details, staging=staging, states=(StateChange(0, staging=state),))


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
