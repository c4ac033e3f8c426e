"""What is known about the columns of a node: the base column that is passed on, or that the value is computed.

A column that is only passed on keeps the type of its base column, also through subqueries and views on views. A
computed one has whatever type Spark gives it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import assert_never

from dyda.model.algebra.nodes import (
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    Group,
    Join,
    Node,
    OuterJoin,
    Project,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
)
from dyda.model.relation import Column

__all__ = ["COMPUTED", "Facts", "column_facts", "names_time"]


@dataclass(frozen=True)
class Facts:
    """`column` is the base column that is passed on; None if the value is computed. `temporal`: the value may be a
    date or a time, so that a text compared with it may be read as one."""

    column: Column | None
    temporal: bool

    @classmethod
    def of(cls, column: Column) -> Facts:
        """A column of a relation."""
        return cls(column, column.type.name.startswith(("date", "time")))

    def text_type(self, plain_numeric: str) -> str | None:
        """The declared type of a column that travels as text only, which Spark cannot compute with."""
        column = self.column
        return column.type.declared if column and column.type.computation(plain_numeric) is None else None


COMPUTED = Facts(None, False)


def column_facts(node: Node) -> dict[ColumnRef, Facts]:
    """What is known about each column that `node` delivers."""
    match node:
        case Scan(alias, relation):
            return {ColumnRef(alias, column.name): Facts.of(column) for column in relation.columns}
        case Select(below) | Distinct(below) | SemiJoin(below):
            return column_facts(below)
        case Join(left, right):
            return {**column_facts(left), **column_facts(right)}
        case OuterJoin(left, right, kind):
            one, other = column_facts(left), column_facts(right)
            return (_padded(one) if kind != "left" else one) | (_padded(other) if kind != "right" else other)
        case Group(below, alias, keys, aggregates):
            known = column_facts(below)
            found = {ColumnRef(alias, key.name): _of(key.expression, known) for key in keys}
            for aggregate in aggregates:
                extreme = aggregate.argument if aggregate.function in ("min", "max") else None
                temporal = extreme is not None and _of(extreme, known).temporal
                found[ColumnRef(alias, aggregate.name)] = Facts(None, temporal)
            return found
        case Derived(below, alias):
            return {ColumnRef(alias, ref.column): facts for ref, facts in column_facts(below).items()}
        case Project(below, items):
            known = column_facts(below)
            return {ColumnRef("", item.name): _of(item.expression, known) for item in items}
        case SetOperation(left=left, right=right):
            one, other = column_facts(left), column_facts(right)
            return {
                name: ours if ours.column and theirs.column and ours.column.type == theirs.column.type
                else Facts(None, ours.temporal or theirs.temporal)
                for (name, ours), theirs in zip(one.items(), other.values(), strict=True)
            }  # fmt: skip
        case _:
            assert_never(node)


def names_time(text: str) -> bool:
    """Whether the text names a type or a function of dates or times."""
    return _TEMPORAL.search(text) is not None


def _of(expression: Expression, known: dict[ColumnRef, Facts]) -> Facts:
    if expression.column is not None:
        return known.get(expression.column, COMPUTED)
    written = "".join(part for part in expression.parts if isinstance(part, str))
    return Facts(None, names_time(written) or any(known[ref].temporal for ref in expression.columns if ref in known))


def _padded(known: dict[ColumnRef, Facts]) -> dict[ColumnRef, Facts]:
    return {
        ref: replace(facts, column=replace(facts.column, not_null=False)) if facts.column is not None else facts
        for ref, facts in known.items()
    }


_TEMPORAL = re.compile("date|time|day|month|year|quarter|hour|minute|second|week|trunc|extract|zone", re.IGNORECASE)
