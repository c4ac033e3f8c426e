"""Views that become empty with a relation: what came into it since is all that there is to compute (rule C4).

    TRUNCATE ──▶ the view and its states: nothing ──┐
    images since ──▶ sweep ──▶ what they add ───────┴──▶ one installation

No source is asked for rows from before; without images since, none is asked at all. A state that does not depend on
what was truncated stays, and follows the unit's other changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from dyda.maintenance.execute.execution import Execution
from dyda.maintenance.plan.unit_plan import Adapt
from dyda.maintenance.programs import recorded
from dyda.model.bag import Bag
from dyda.model.message import DataUpdate
from dyda.model.operator_state import State
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.warehouse import ViewChange
from dyda.warehouse.states.combine import Combined
from dyda.warehouse.states.install import StateChange
from dyda.warehouse.writer import Writer
from va import Emptied
from vm import WAREHOUSE, Program, emptied

__all__ = ["empty"]


def empty(execution: Execution, plan: Adapt, how: Emptied) -> ViewChange:
    """The change that empties the view and adds what came since, at the plan's positions."""
    spending, record = execution.spending(), plan.view.record
    program = recorded(execution.opened.project.settings.spark.numeric, how.definition, record)
    truncated = {one.relation: one for one in how.truncated}
    nothing = emptied(program, truncated)
    assert nothing is not None  # as the plan found
    _read_images(execution, plan, program)
    states = _States(execution.writer, nothing)
    view = plan.view.following(how.definition, program)
    filled = execution.refresh.filled(view, plan.to, nothing, truncated, states)
    changed = {change.number: change for change in filled.states}
    all_states = []
    for step in program.states:
        assert step.state is not None
        mine = changed.get(step.number)
        if states.begins(plan.name, step.number):
            rows = mine.delta if mine is not None else _no_rows(len(step.state.columns))
            all_states.append(StateChange(step.number, delta=rows, mode="new"))
        elif mine is not None:
            all_states.append(StateChange(step.number, delta=mine.delta, mode="delta"))
    rows = filled.rows if filled.rows is not None else _no_rows(len(record.columns))
    details = spending.details(plan, how, rows.num_rows)
    return ViewChange(
        view=plan.name,
        delta=rows,
        mode="replace",
        new_table=how.new_table,
        version=execution.version_of(plan.request, how.definition, program, record.columns, details, plan.untrusted),
        state=ViewState.LIVE,
        positions={source: (plan.view.positions.get(source), at) for source, at in plan.to.items()},
        states=tuple(all_states),
    )


def _read_images(execution: Execution, plan: Adapt, program: Program) -> None:
    """Only if some row of what the view reads changed since: reading a log has its price."""
    read = {execution.facts.called(name) for name in plan.how.definition.relations}
    if any(
        isinstance(change, DataUpdate) and change.relation in read
        for queued in execution.poll.queue
        if not plan.view.has(queued.message.source, queued.message.xid)
        for change in queued.message.changes
    ):
        execution.refresh.read_images(program.blocks)


def _no_rows(width: int) -> pa.Table:
    texts = {f"c{place}": pa.array([], pa.string()) for place in range(1, width + 1)}
    return pa.table({**texts, "n": pa.array([], pa.int64())})


@dataclass(frozen=True)
class _States:
    """The states of the view as committed, but for those that begin with `nothing`."""

    writer: Writer
    nothing: frozenset[RelationName]

    def begins(self, view: str, number: int) -> bool:
        return RelationName(WAREHOUSE, view, str(number)) in self.nothing

    def combine(self, view: str, number: int, state: State, entries: pa.Table) -> Combined:
        if self.begins(view, number):
            return self.writer.combine_alone(view, state, entries)
        return self.writer.combine(view, number, state, entries)

    def recombine(self, view: str, number: int, state: State, entries: pa.Table, groups: pa.Table) -> Combined:
        return self.writer.recombine(view, number, state, entries, groups)

    def state_rows(
        self, view: str, number: int, state: State, columns: Sequence[str], key: Sequence[str], values: pa.Table
    ) -> Bag:
        if self.begins(view, number):
            return Bag.empty(columns)
        return self.writer.state_rows(view, number, state, columns, key, values)
