"""What the sources mean to each other: the knowledge base of the EVE project (MISD), as plain data.

join         how two relations meet
containment  how much of one projection is in another: the only ground for promises about extents
function     where an attribute can be had instead

Columns are written as references whose alias is the relation's full name, `str(RelationName)`, so that one expression
may speak of several relations. No constraint is ever trusted with a row: it decides which rewriting is legal, and
the rows of a rewriting are computed from its text alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dyda.model.algebra import Expression
from dyda.model.relation import RelationName

__all__ = ["Constraint", "Containment", "FunctionConstraint", "JoinConstraint", "Knowledge", "Projection"]


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
