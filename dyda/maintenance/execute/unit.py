"""Carrying out the plan of a unit: the rows of every view that it moves.

Rebuild ─▶ the whole view at the unit's positions
Adapt ───▶ from the old extent, from what operators keep, or from nothing
Maintain, FollowText ─▶ ΔV of the unit's data updates, of all views together, over the definitions as they are now
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.execute.emptied import empty
from dyda.maintenance.execute.execution import Execution
from dyda.maintenance.execute.from_extent import adapt_from_extent
from dyda.maintenance.execute.levels import ViewDelta
from dyda.maintenance.execute.reaggregate import adapt_from_states
from dyda.maintenance.execute.recompute import recompute
from dyda.maintenance.plan.positions import transactions
from dyda.maintenance.plan.unit_plan import Adapt, FollowText, Freeze, LeaveBehind, Maintain, Rebuild, UnitPlan
from dyda.model.view_state import ViewState
from dyda.warehouse import ViewChange
from va import Emptied, FromExtent

__all__ = ["execute", "execute_run"]

Phase = Callable[[str], None]


def execute(execution: Execution, plan: UnitPlan, phase: Phase) -> list[ViewChange]:
    """How every view of the plan changes: its rows, its definition, its positions."""
    frozen: list[ViewChange] = []
    built: list[ViewChange] = []
    behind: list[ViewChange] = []
    maintained: list[Maintain | FollowText] = []
    for view in plan.views:
        match view:
            case Freeze():
                frozen.append(ViewChange(view=view.name, state=ViewState.BROKEN, cause=view.cause))
            case Rebuild():
                built.append(recompute(execution, view, built=view.name in plan.built))
            case Adapt(how=Emptied() as how):
                built.append(empty(execution, view, how))
            case Adapt(how=FromExtent() as how) if how.definition.plain:
                built.append(adapt_from_extent(execution, view, how))
            case Adapt():
                built.append(adapt_from_states(execution, view))
            case Maintain() | FollowText():
                maintained.append(view)
            case LeaveBehind():
                behind.append(view.change)
            case _:
                assert_never(view)
    if plan.unit is not None:
        views = [one.view for one in maintained]
        (deltas,) = _deltas(execution, views, [transactions(plan.unit)], phase)
        built += _moved(maintained, deltas)
    return [*frozen, *built, *behind]


def execute_run(
    execution: Execution, plans: Sequence[UnitPlan], phase: Phase
) -> Iterator[tuple[UnitPlan, list[ViewChange]]]:
    """The changes of one unit after the other, all computed at once (rule W6); none of them changes a schema."""
    views = [one.view for one in plans[0].views if isinstance(one, Maintain)]
    run = [transactions(plan.unit) for plan in plans if plan.unit is not None]
    for plan, deltas in zip(plans, _deltas(execution, views, run, phase), strict=True):
        yield plan, list(_moved([one for one in plan.views if isinstance(one, Maintain)], deltas))


def _deltas(
    execution: Execution, views: Sequence[MaintainedView], run: Sequence[Mapping[str, set[int]]], phase: Phase
) -> list[dict[str, ViewDelta]]:
    # The images that another view waits with may be of rows that its relation, as it is known now, does not have.
    lacking = [
        view
        for view in views
        if not all(view.has(source, xid) for ours in run for source, xids in ours.items() for xid in xids)
    ]
    execution.refresh.read_images((block for view in lacking for block in view.program.blocks), run)
    phase("images")
    return execution.refresh.changes(lacking, run, phase)


def _moved(plans: Sequence[Maintain | FollowText], deltas: Mapping[str, ViewDelta]) -> Iterator[ViewChange]:
    for plan in plans:
        if plan.moves:
            delta = deltas.get(plan.name, ViewDelta())
            version = plan.version if isinstance(plan, FollowText) else None
            yield ViewChange(
                view=plan.name, delta=delta.rows, states=delta.states, version=version, positions=plan.moves
            )
