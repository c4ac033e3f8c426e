"""How the knowledge follows the schemas: renames are followed; a constraint on something that is gone is retired.

So is a constraint that knowledge.toml would be refused for over the relations as they are now (types that have no
values in common, or cannot be compared), with the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from dyda.errors import DydaError, UnknownRelation
from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.knowledge.constraints import (
    Constraint,
    Containment,
    FunctionConstraint,
    JoinConstraint,
    Knowledge,
    Projection,
)
from dyda.model.knowledge.file import parse_knowledge, render_knowledge
from dyda.model.relation import Relation, RelationName
from vs.schema_mapping import Passage
from vs.search.substitution import substituted

__all__ = ["Evolution", "evolve"]


@dataclass(frozen=True)
class Evolution:
    """The constraints that still hold something, under today's names; the others with the reason in words."""

    knowledge: Knowledge
    retired: tuple[tuple[Constraint, str], ...] = ()


def evolve(
    knowledge: Knowledge, relations: Mapping[RelationName, Relation], now: Mapping[RelationName, Relation | None]
) -> Evolution:
    """`relations` as known before; `now` those that changed, by the names known before, None if gone."""
    passage = Passage(relations, now)
    kept: list[Constraint] = []
    retired: list[tuple[Constraint, str]] = []
    for constraint in knowledge.constraints:
        if not any(name in now for name in constraint.relations):
            kept.append(constraint)
            continue
        try:
            kept.append(_readable(_followed(constraint, passage), passage))
        except _Retired as reason:
            retired.append((constraint, str(reason)))
    return Evolution(_knowledge(kept), tuple(retired))


class _Retired(Exception):
    """Why a constraint holds nothing any more."""


def _followed(constraint: Constraint, passage: Passage) -> Constraint:
    names = {str(name): name for name in constraint.relations}

    def relation(name: RelationName) -> RelationName:
        if name not in passage.relations:
            raise _Retired(f"{name} is not known")
        found = passage.after(name)
        if found is None:
            raise _Retired(f"{name} was dropped")
        return found.name

    def column(name: RelationName, old: str) -> str:
        relation(name)
        found = passage.column(name, old)
        if found is None:
            raise _Retired(passage.why_gone(name, old))
        return found.name

    def reference(ref: ColumnRef) -> Expression:
        name = names[ref.alias]
        return Expression.of(ColumnRef(str(relation(name)), column(name, ref.column)))

    def projection(of: Projection) -> Projection:
        columns = tuple(column(of.relation, old) for old in of.columns)
        return Projection(relation(of.relation), columns, tuple(substituted(c, reference) for c in of.where))

    match constraint:
        case JoinConstraint(left, right, on):
            return JoinConstraint(relation(left), relation(right), tuple(substituted(c, reference) for c in on))
        case Containment(of, is_, within):
            return Containment(projection(of), is_, projection(within))
        case FunctionConstraint(name, old, equals, over):
            return FunctionConstraint(relation(name), column(name, old), substituted(equals, reference), relation(over))
        case _:
            assert_never(constraint)


def _readable(constraint: Constraint, passage: Passage) -> Constraint:
    present = {found.name: found for found in map(passage.after, passage.relations) if found is not None}

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        name = RelationName(source, schema or "", table)
        if name not in present:
            raise UnknownRelation(f"{name} is not known")
        return present[name]

    try:
        parse_knowledge(render_knowledge(_knowledge([constraint])), resolve)
    except DydaError as error:
        raise _Retired(error.what.partition(": ")[2]) from None
    return constraint


def _knowledge(constraints: list[Constraint]) -> Knowledge:
    return Knowledge(
        tuple(constraint for constraint in constraints if isinstance(constraint, JoinConstraint)),
        tuple(constraint for constraint in constraints if isinstance(constraint, Containment)),
        tuple(constraint for constraint in constraints if isinstance(constraint, FunctionConstraint)),
    )
