"""Adaptation of views of several blocks: the rows and the states follow the definition without a source.

    projection      some columns of the extent; the states stay as they are
    reaggregation   the state in its new form, made from the old one in the warehouse ─▶ Spark: the rows that show it

Where the program of the new definition does not keep what the plan expects, the view is computed again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dyda.maintenance.catalog_state import BuildPlan, BuildRequest, MaintainedView
from dyda.maintenance.plan.programs import state_tables
from dyda.model.algebra.nodes import Group, Node
from dyda.model.operator_state import Counted, Grouped
from dyda.model.position import Position
from dyda.model.view_state import ViewState
from dyda.warehouse import Staging, StateChange, ViewChange
from va import FromExtent, Reaggregate
from vm import same_arguments

if TYPE_CHECKING:
    from dyda.maintenance.execute.recompute import Builder, Told

__all__ = ["Restating"]


@dataclass
class Restating:
    """One view whose states follow; `build` is its new definition's."""

    builder: Builder
    view: MaintainedView
    build: BuildPlan

    def obstacle(self, plan: FromExtent | Reaggregate) -> str | None:
        """Why the plan does not fit the program of the new definition; None if it does."""
        if isinstance(plan, FromExtent):
            states = tuple(table.state for table in state_tables(self.build.program))
            return None if states == self.view.record.states else "what is kept beside the extent is another now"
        return None if self._places(plan) is not None else "the state does not hold what the new one needs"

    def carry_out(
        self, plan: FromExtent | Reaggregate, target: BuildRequest, to: Mapping[str, Position], told: Told
    ) -> ViewChange:
        """The change that brings the view to the plan's definition; nothing moved between its positions and `to`."""
        started, asked = time.perf_counter(), self.builder.poll.queries
        columns = self.builder.columns(self.build)
        projection: tuple[int, ...] | None = None
        staging: Staging | None = None
        states: tuple[StateChange, ...] = ()
        mode, written = "replace", 0
        if isinstance(plan, FromExtent):
            same = plan.columns == tuple(range(len(self.view.record.columns)))
            same = same and [column.type for column in columns] == [c.type for c in self.view.record.columns]
            projection, mode = (None, "delta") if same else (plan.columns, "replace")
        else:
            (state, staging), written = self._regrouped(plan)
            states = (StateChange(0, staging=state),)
        spent = (self.builder.poll.queries - asked, written, time.perf_counter() - started)
        return ViewChange(
            view=self.view.name,
            staging=staging,
            projection=projection,
            states=states,
            mode=mode,
            version=self.builder.version(self.build, told(plan, *spent)),
            state=ViewState.LIVE,
            positions={source: (self.view.positions.get(source), position) for source, position in to.items()},
        )

    def _regrouped(self, plan: Reaggregate) -> tuple[list[Staging], int]:
        """The state in its new form and the rows that show it; with the entries that Spark wrote."""
        places = self._places(plan)
        (old,), (new,) = self.view.program.states, self.build.program.states
        assert places is not None
        assert old.state is not None
        assert new.state is not None
        name = self.view.name
        state = self.builder.writer.regroup_staging(name, 0, old.state, new.state, places)
        return self.builder.refresh.build(
            self.build.program,
            lambda occurrence: None,
            self.builder.writer,
            lambda done, total: self.builder.progress(f"adapting {name}", done, total),
            {0: state},
        )

    def _places(self, plan: Reaggregate) -> tuple[int, ...] | None:
        """For each column of the new state but its digest, the column of the old one that it is made from; None if
        there is more than one state, or something that the old one does not have, or that cannot be added up."""
        old, new = self.view.program.states, self.build.program.states
        if len(old) != 1 or len(new) != 1:
            return None
        match old[0].state, new[0].state:
            case Counted() as then, Counted() as now if then.rule == now.rule:
                width = len(then.types)
                return (*(1 + key for key in plan.keys), width + 1, width + 2)
            case Grouped() as then, Grouped() as now:
                numbers = self._accumulators(plan, then, now)
                if numbers is None:
                    return None
                width = len(then.keys)
                return (*(1 + key for key in plan.keys), width + 1, *(width + 2 + number for number in numbers))
        return None

    def _accumulators(self, plan: Reaggregate, old: Grouped, new: Grouped) -> list[int] | None:
        before, after = (_group(definition.tree) for definition in (self.view.definition, self.build.definition))
        same = same_arguments(before.aggregates, after.aggregates, plan.aggregates)
        found = []
        for accumulator in new.accumulators:
            argument = None if accumulator.argument is None else same.get(accumulator.argument)
            wanted = replace(accumulator, argument=argument)
            if wanted not in old.accumulators or (plan.coarser and accumulator.recomputed):
                return None
            found.append(old.accumulators.index(wanted))
        return found


def _group(node: Node) -> Group:
    """The group that the view shows."""
    while not isinstance(node, Group):
        (node,) = node.inputs
    return node
