"""Programs of views as the catalog knows them: what a state holds need not be analysed again."""

from __future__ import annotations

from collections.abc import Sequence

from dyda.errors import DydaError
from dyda.model.algebra.nodes import ViewDefinition, scans
from dyda.model.cause import BuildReason, Cause, ToBeBuilt
from dyda.model.operator_state import Grouped, State
from dyda.model.relation import Relation
from dyda.model.sql.parse import parse_view
from dyda.project import Project
from dyda.settings import SparkSettings
from dyda.warehouse import StateTable, ViewColumn, ViewRecord
from vm import JoinBlock, Program, compile_view, fingerprint

__all__ = ["fingerprint_of", "known_program", "one_by_one", "recorded", "state_tables"]


def recorded(numeric: str, definition: ViewDefinition, record: ViewRecord) -> Program:
    """The program of a definition whose states are in the catalog: nothing is analysed again. An error if it would
    keep others: then they must be recomputed."""
    return _keeping(_compiled(numeric, definition, record.states, record.columns), record.states)


def known_program(
    settings: SparkSettings, definition: ViewDefinition, record: ViewRecord
) -> tuple[Program, Cause | None]:
    """The view's program, and why its rows and states are not what that has computed, if they are not.

    What was built before fingerprints were kept was compiled as it is now, unless the program itself says no.
    """
    program = _compiled(settings.numeric, definition, record.states, record.columns)
    found = fingerprint(program, settings.timezone)
    same = not program.revised if record.program is None else record.program == found
    return program, None if same and _keeps(program, record.states) else ToBeBuilt(BuildReason.OUTDATED)


def fingerprint_of(
    project: Project, definition: ViewDefinition, sql: str, states: Sequence[StateTable], columns: Sequence[ViewColumn]
) -> str:
    """Of the program that the catalog will be found to hold: from the text of the version, as it will be read."""
    relations = {scan.relation.name: scan.relation for scan in scans(definition.tree)}
    settings = project.settings.spark

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return relations[project.relation_name(source, schema, table)]

    again = parse_view(definition.name, sql, resolve, plain_numeric=settings.numeric)
    kept = tuple(table.state for table in states)
    return fingerprint(_keeping(_compiled(settings.numeric, again, kept, columns), kept), settings.timezone)


def _compiled(
    numeric: str, definition: ViewDefinition, states: tuple[State, ...], columns: Sequence[ViewColumn]
) -> Program:
    def types_of(number: int, block: JoinBlock) -> Sequence[str]:
        if number < len(states):
            return states[number].entries
        return [column.type for column in columns]

    return compile_view(definition, types_of, numeric, checked=True)


def _keeping(program: Program, states: tuple[State, ...]) -> Program:
    if not _keeps(program, states):
        raise DydaError(
            f"the stored operator state of view {program.view} does not match its definition",
            f"Run: dyda views resync {program.view}",
        )
    return program


def _keeps(program: Program, states: tuple[State, ...]) -> bool:
    return tuple(step.state for step in program.states) == states


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
