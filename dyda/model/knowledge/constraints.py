"""What the sources mean to each other: the knowledge base of the EVE project (MISD), as plain data.

join         how two relations meet
containment  how much of one projection is in another: the only ground for promises about extents
function     where an attribute can be had instead

Columns are written as references whose alias is the relation's full name, `str(RelationName)`, so that one expression
may speak of several relations. No constraint is ever trusted with a row: it decides which rewriting is legal, and
the rows of a rewriting are computed from its text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import assert_never

from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType

__all__ = [
    "Constraint",
    "Containment",
    "FunctionConstraint",
    "JoinConstraint",
    "Knowledge",
    "Projection",
    "comparable",
    "mismatch",
]


@dataclass(frozen=True)
class JoinConstraint:
    """`left` and `right` meet where `on` holds; a conjunction of conditions over both."""

    left: RelationName
    right: RelationName
    on: tuple[Expression, ...]

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset({self.left, self.right})


@dataclass(frozen=True)
class Projection:
    """The columns of the rows of a relation that satisfy all conditions."""

    relation: RelationName
    columns: tuple[str, ...]
    where: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class Containment:
    """The projection `of` is a `subset` of, `equivalent` to or a `superset` of the projection `within`, as sets."""

    of: Projection
    is_: str
    within: Projection

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset({self.of.relation, self.within.relation})


@dataclass(frozen=True)
class FunctionConstraint:
    """`relation`.`column` equals the expression over another relation, for rows that meet by a join constraint."""

    relation: RelationName
    column: str
    equals: Expression
    over: RelationName

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset({self.relation, self.over})


Constraint = JoinConstraint | Containment | FunctionConstraint


@dataclass(frozen=True)
class Knowledge:
    """All constraints, in the order in which they are written."""

    joins: tuple[JoinConstraint, ...] = ()
    containments: tuple[Containment, ...] = ()
    functions: tuple[FunctionConstraint, ...] = field(default=())

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (*self.joins, *self.containments, *self.functions)

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset(name for constraint in self.constraints for name in constraint.relations)


def mismatch(constraint: Constraint, relation: Callable[[RelationName], Relation]) -> str | None:
    """Why two columns that the constraint holds against each other can never be equal; None if all can."""
    for one, other in _pairs(constraint, relation):
        left, right = one[1].type, other[1].type
        if not comparable(left, right):
            return (
                f"{one[0]}.{one[1].name} is of type {left.declared},"
                f" {other[0]}.{other[1].name} of type {right.declared}: they have no values in common"
            )
    return None


def comparable(one: PgType, other: PgType) -> bool:
    """Whether values of both types may be equal; types that only travel as text are equal to their own kind."""
    left, right = one.computation(), other.computation()
    if left is None or right is None:
        return one == other
    return _KINDS.get(left.family, left.family) == _KINDS.get(right.family, right.family)


_KINDS = {
    **dict.fromkeys(("integer", "numeric", "real", "double"), "number"),
    **dict.fromkeys(("text", "character", "uuid"), "text"),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "time"),
}

Named = tuple[RelationName, Column]


def _pairs(constraint: Constraint, relation: Callable[[RelationName], Relation]) -> Iterator[tuple[Named, Named]]:
    match constraint:
        case JoinConstraint(left, right, on):
            names = {str(name): name for name in (left, right)}

            def named(reference: ColumnRef) -> Named:
                name = names[reference.alias]
                return name, relation(name).column(reference.column)

            for condition in on:
                if condition.equality is not None:
                    yield named(condition.equality[0]), named(condition.equality[1])
        case Containment(of, _, within):
            for one, other in zip(of.columns, within.columns, strict=True):
                yield (
                    (of.relation, relation(of.relation).column(one)),
                    (within.relation, relation(within.relation).column(other)),
                )
        case FunctionConstraint(name, column, equals, over):
            if equals.column is not None:
                yield (name, relation(name).column(column)), (over, relation(over).column(equals.column.column))
        case _:
            assert_never(constraint)
