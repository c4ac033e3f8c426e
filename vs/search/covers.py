"""Covers: what may replace an attribute, or a whole relation.

From the knowledge as it was before the change: a constraint on what is gone says how to replace it. What it offers must
exist now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.knowledge.constraints import Containment, FunctionConstraint, Knowledge, Projection
from dyda.model.relation import RelationName
from vs.schema_mapping import Passage
from vs.search.substitution import under

__all__ = [
    "REVERSED",
    "AttributeCover",
    "Oriented",
    "RelationCover",
    "attribute_covers",
    "oriented",
    "placed",
    "relation_covers",
]


REVERSED = {"subset": "superset", "equivalent": "equivalent", "superset": "subset"}


@dataclass(frozen=True)
class Oriented:
    """A containment seen from one of its relations: `own` is a subset of, equivalent to or a superset of `other`."""

    own: Projection
    is_: str
    other: Projection
    constraint: Containment

    @property
    def pairs(self) -> dict[str, str]:
        return dict(zip(self.own.columns, self.other.columns, strict=True))


@dataclass(frozen=True)
class AttributeCover:
    """An attribute as an expression over `relation` (references under its full name), and what promises it."""

    relation: RelationName
    expression: Expression
    promise: FunctionConstraint | Oriented


@dataclass(frozen=True)
class RelationCover:
    """A relation that takes another's place: `columns` says what each covered column is called there."""

    relation: RelationName
    columns: tuple[tuple[str, str], ...]
    promise: Oriented

    def column(self, name: str) -> str | None:
        return dict(self.columns).get(name)


def attribute_covers(knowledge: Knowledge, passage: Passage, name: RelationName, column: str) -> list[AttributeCover]:
    """What may replace the attribute, in the order of the knowledge; function constraints first."""
    covers = [
        AttributeCover(function.over, function.equals, function)
        for function in knowledge.functions
        if (function.relation, function.column) == (name, column) and _there(passage, function.over, function.equals)
    ]
    for containment in oriented(knowledge, name):
        other = containment.pairs.get(column)
        if other is not None and _column_there(passage, containment.other.relation, other):
            reference = ColumnRef(str(containment.other.relation), other)
            covers.append(AttributeCover(containment.other.relation, Expression.of(reference), containment))
    return covers


def relation_covers(knowledge: Knowledge, passage: Passage, name: RelationName) -> list[RelationCover]:
    """What may replace the relation, in the order of the knowledge."""
    covers = []
    for containment in oriented(knowledge, name):
        other = containment.other
        there = {
            own: column for own, column in containment.pairs.items() if _column_there(passage, other.relation, column)
        }
        selected = all(_there(passage, other.relation, condition) for condition in other.where)
        if there and selected:
            covers.append(RelationCover(other.relation, tuple(there.items()), containment))
    return covers


def oriented(knowledge: Knowledge, name: RelationName) -> Iterator[Oriented]:
    """The containments of the relation, as seen from it."""
    for containment in knowledge.containments:
        if containment.of.relation == name:
            yield Oriented(containment.of, containment.is_, containment.within, containment)
        if containment.within.relation == name:
            yield Oriented(containment.within, REVERSED[containment.is_], containment.of, containment)


def placed(expression: Expression, alias: str) -> Expression:
    """An expression over one relation, over this occurrence of it."""
    return under(expression, lambda _: alias)


def _there(passage: Passage, name: RelationName, expression: Expression) -> bool:
    return all(_column_there(passage, name, reference.column) for reference in expression.columns)


def _column_there(passage: Passage, name: RelationName, column: str) -> bool:
    if name not in passage.relations:
        return False
    found = passage.column(name, column)
    return found is not None and found.generated != "v"  # no row image holds a virtual column
