"""Which rows of a sweep may be in a result: those of others send no keys along.

    l ──l_partkey──▶ p (p_brand = 'Brand#23') ──p_partkey──▶ l      500 parts come back, the keys of four go on

Only what a condition on one occurrence alone excludes, whatever else a row meets (vm/limits.py). Blocks that are swept
together have rows in common: one of them may keep what another excludes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from dyda.engine.typed_columns import typed_column
from dyda.errors import ValueDoesNotFit, ValueTooLarge
from dyda.model.algebra.nodes import ColumnRef, Expression
from vm import JoinBlock, Limit
from vm.limits import limiting, possible

__all__ = ["limits"]


def limits(swept: JoinBlock, blocks: Sequence[JoinBlock]) -> dict[str, Limit]:
    """For occurrences of `swept`, of which conditions exclude rows in each of the blocks that are swept with it."""
    found: dict[str, Limit] = {}
    for place, occurrence in enumerate(swept.occurrences):
        each = [_conditions(block, block.occurrences[place].alias) for block in blocks]
        if all(each):
            found[occurrence.alias] = partial(_kept, list(zip(blocks, each, strict=True)))
    return found


def _conditions(block: JoinBlock, alias: str) -> list[Expression]:
    return [one for one in block.conjuncts if one.aliases == {alias} and limiting(one) is not None]


def _kept(asked: Sequence[tuple[JoinBlock, Sequence[Expression]]], rows: pa.Table) -> pa.Array | None:
    """The rows that one of the blocks may need."""
    kept = None
    for block, conditions in asked:
        mask = _possible(block, conditions, rows)
        if mask is None:
            return None
        kept = mask if kept is None else pc.or_(kept, mask)
    return kept


def _possible(block: JoinBlock, conditions: Sequence[Expression], rows: pa.Table) -> pa.Array | None:
    def column(ref: ColumnRef) -> pa.ChunkedArray:
        name = str(block.by_alias[ref.alias].relation.name)
        return typed_column(rows.column(ref.column), block.carried(ref).spark_type, name, ref.column)

    kept = None
    for condition in conditions:
        try:
            mask = possible(condition, column)
        except (ValueDoesNotFit, ValueTooLarge):
            continue  # told where the row is evaluated, if it is
        if mask is not None:
            kept = mask if kept is None else pc.and_(kept, mask)
    return kept
