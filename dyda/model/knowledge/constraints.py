"""What the sources mean to each other: the knowledge base of the EVE project (MISD), as plain data.

join         how two relations join
containment  which projection contains another: the only basis for promises about extents
function     where an attribute can be had instead

Columns are references whose alias is the relation's full name, `str(RelationName)`, so that one expression may be over
several relations. No row depends on a constraint: it decides which rewriting is legal, and the rows of a rewriting are
computed from its text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from dyda.model.algebra.nodes import Expression
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
    """`left` and `right` join where `on` holds, a conjunction of conditions over both."""

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
    """`relation`.`column` equals the expression over another relation, for rows that a join constraint joins."""

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
    functions: tuple[FunctionConstraint, ...] = ()

    @classmethod
    def of(cls, constraints: Sequence[Constraint]) -> Knowledge:
        return cls(
            tuple(constraint for constraint in constraints if isinstance(constraint, JoinConstraint)),
            tuple(constraint for constraint in constraints if isinstance(constraint, Containment)),
            tuple(constraint for constraint in constraints if isinstance(constraint, FunctionConstraint)),
        )

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (*self.joins, *self.containments, *self.functions)

    @property
    def relations(self) -> frozenset[RelationName]:
        return frozenset(name for constraint in self.constraints for name in constraint.relations)


def mismatch(constraint: Constraint, relation: Callable[[RelationName], Relation]) -> str | None:
    """Why two columns that the constraint compares can never be equal; None if all can."""
    for (name, column), (other_name, other) in _pairs(constraint, relation):
        if not comparable(column.type, other.type):
            return (
                f"{name}.{column.name} is of type {column.type.declared},"
                f" {other_name}.{other.name} of type {other.type.declared}: they have no values in common"
            )
    return None


def comparable(one: PgType, other: PgType) -> bool:
    """Whether values of both types may be equal; a type that only travels as text is comparable to itself alone."""
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
    def named(name: RelationName, column: str) -> Named:
        return name, relation(name).column(column)

    match constraint:
        case JoinConstraint(left, right, on):
            names = {str(name): name for name in (left, right)}
            for one, other in (condition.equality for condition in on if condition.equality is not None):
                yield named(names[one.alias], one.column), named(names[other.alias], other.column)
        case Containment(of, _, within):
            for mine, theirs in zip(of.columns, within.columns, strict=True):
                yield named(of.relation, mine), named(within.relation, theirs)
        case FunctionConstraint(name, column, equals, over):
            if equals.column is not None:
                yield named(name, column), named(over, equals.column.column)
        case _:
            assert_never(constraint)
