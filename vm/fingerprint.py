"""What a program is, in one short text: equal for programs that compute the same steps into the same states.

A state says what form its rows have, not what they mean: to continue with rows that another version of the compiler
made, one must know that it would have made the same. Names do not count, so renames leave a program what it was.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

from dyda.model.algebra.nodes import ColumnRef, Expression
from vm.join_block import CarriedColumn, JoinBlock
from vm.program import Program, Step, state_number

__all__ = ["fingerprint"]

EDITION = 1
"""Raised by hand where the same steps come to mean other rows: in the warehouse's arithmetic of states, say."""


def fingerprint(program: Program, timezone: str = "UTC") -> str:
    """Of the program's steps and states, whatever the view, its relations and columns are called. `timezone`: where
    they are computed, since it decides which day a moment is on."""
    tables: dict[str, int] = {}
    steps = [_step(step, tables) for step in program.steps]
    where = [] if timezone == "UTC" else [timezone]
    return hashlib.sha256(json.dumps([EDITION, steps, *where]).encode()).hexdigest()[:32]


def _step(step: Step, tables: dict[str, int]) -> list[Any]:
    state = None if step.state is None else [type(step.state).__name__, asdict(step.state)]
    terms = [[term.sign, term.side, *_block(term.block, tables)] for term in step.terms]
    return [state, step.types, terms]


def _block(block: JoinBlock, tables: dict[str, int]) -> list[Any]:
    occurrences = []
    for occurrence in block.occurrences:
        number = state_number(occurrence.relation)
        table = tables.setdefault(str(occurrence.relation.name), len(tables)) if number is None else f"step {number}"
        occurrences.append([table, [_carried(carried) for carried in occurrence.carried]])

    def place(ref: ColumnRef) -> str:
        occurrence = block.by_alias[ref.alias]
        return f"\N{SECTION SIGN}{occurrence.index}.{occurrence.relation.column(ref.column).number}"

    def text(expression: Expression) -> str:
        return expression.rendered(place)

    return [occurrences, [text(one) for one in block.conjuncts], [text(item.expression) for item in block.items]]


def _carried(carried: CarriedColumn) -> list[Any]:
    """What is computed with has a type, which for a plain numeric is a setting: 1 / 3 has as many digits as that."""
    return [carried.column.number, carried.spark_type if carried.value is not None else None]
