"""Whether what operators keep can follow a new definition without a source, and how."""

from __future__ import annotations

from dataclasses import replace

from dyda.maintenance.catalog_state import MaintainedView
from dyda.maintenance.programs import state_tables
from dyda.model.algebra.nodes import Group, Node
from dyda.model.operator_state import Counted, Grouped
from va import FromExtent, Reaggregate
from vm import Program, same_arguments

__all__ = ["obstacle", "places"]


def obstacle(how: FromExtent | Reaggregate, view: MaintainedView, program: Program) -> str | None:
    """Why the adaptation does not fit the program of the new definition; None if it does."""
    if isinstance(how, FromExtent):
        states = tuple(table.state for table in state_tables(program))
        return None if states == view.record.states else "its operator state would have to change"
    return None if places(how, view, program) is not None else "its operator state lacks what the new definition needs"


def places(how: Reaggregate, view: MaintainedView, program: Program) -> tuple[int, ...] | None:
    """For each column of the new state but its digest, the column of the old one that it is made from; None if there is
    more than one state, or something that the old one does not have, or that cannot be added up."""
    old, new = view.program.states, program.states
    if len(old) != 1 or len(new) != 1:
        return None
    match old[0].state, new[0].state:
        case Counted() as then, Counted() as now if then.rule == now.rule:
            width = len(then.types)
            return (*(1 + key for key in how.keys), width + 1, width + 2)
        case Grouped() as then, Grouped() as now:
            numbers = _accumulators(how, view, then, now)
            if numbers is None:
                return None
            width = len(then.keys)
            return (*(1 + key for key in how.keys), width + 1, *(width + 2 + number for number in numbers))
    return None


def _accumulators(how: Reaggregate, view: MaintainedView, old: Grouped, new: Grouped) -> list[int] | None:
    before, after = (_group(definition.tree) for definition in (view.definition, how.definition))
    same = same_arguments(before.aggregates, after.aggregates, how.aggregates)
    found = []
    for accumulator in new.accumulators:
        argument = None if accumulator.argument is None else same.get(accumulator.argument)
        wanted = replace(accumulator, argument=argument)
        if wanted not in old.accumulators or (how.coarser and accumulator.recomputed):
            return None
        found.append(old.accumulators.index(wanted))
    return found


def _group(node: Node) -> Group:
    """The group that the view shows."""
    while not isinstance(node, Group):
        (node,) = node.inputs
    return node
