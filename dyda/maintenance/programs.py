"""Programs of views as the catalog knows them: what a state holds need not be analysed again."""

from __future__ import annotations

from collections.abc import Sequence

from dyda.errors import DydaError
from dyda.model.algebra import ViewDefinition
from dyda.model.state import Grouped
from dyda.warehouse import StateTable, ViewRecord
from vm import JoinBlock, Program, compile_view

__all__ = ["one_by_one", "recorded", "state_tables"]


def recorded(numeric: str, definition: ViewDefinition, record: ViewRecord) -> Program:
    """The program of a definition whose states are in the catalog: nothing is analysed again. An error if it would
    keep others: then they must be computed anew."""

    def types_of(number: int, block: JoinBlock) -> Sequence[str]:
        if number < len(record.states):
            return record.states[number].entries
        return [column.type for column in record.columns]

    program = compile_view(definition, types_of, numeric, checked=True)
    if tuple(step.state for step in program.states) != record.states:
        raise DydaError(f"what the operators of view {record.name} keep is of another form", "Run: dyda views resync")
    return program


def one_by_one(program: Program) -> bool:
    """Whether some group may have to be read again: the sources show one state only, not one per transaction."""
    return any(
        accumulator.recomputed or accumulator.function in ("min", "max")
        for step in program.states
        if isinstance(step.state, Grouped)
        for accumulator in step.state.accumulators
    )


def state_tables(program: Program) -> tuple[StateTable, ...]:
    """What the catalog keeps of the program's states."""
    return tuple(
        StateTable(step.state, program.indexed(step.number)) for step in program.states if step.state is not None
    )
