"""What a tree says, spelling aside: the tests' own, so that two texts are not compared by what they test."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator

from dyda.model.algebra.nodes import (
    Aggregate,
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


def shape(node: Node) -> Hashable:
    """Equal for trees that differ in the order of conditions, in whether ON or WHERE has them, or in parentheses."""
    match node:
        case Scan(alias, relation):
            return "scan", alias, relation.name, relation.oid
        case Select() | Join():
            leaves = tuple(shape(one) for one in _inner(node) if not isinstance(one, Select | Join))
            return "inner", leaves, frozenset(map(spelling, _conditions(node)))
        case OuterJoin(left, right, kind, conditions):
            return kind, shape(left), shape(right), _spelt(conditions)
        case SemiJoin(left, right, conditions, anti, membership):
            return "anti" if anti else "semi", shape(left), shape(right), _spelt(conditions), _spelt(membership or ())
        case Group(below, _, keys, aggregates):
            columns = tuple((key.name, spelling(key.expression)) for key in keys)
            return "group", shape(below), columns, tuple(map(_aggregate, aggregates))
        case Derived(below, alias, view):
            return "derived", alias, view, shape(below)
        case Project(below, items):
            return "select", shape(below), tuple((item.name, spelling(item.expression)) for item in items)
        case Distinct(below):
            return "distinct", shape(below)
        case SetOperation(kind, everything, left, right):
            return kind, everything, shape(left), shape(right)


def spelling(expression: Expression) -> Hashable:
    """Two columns may be compared either way round, and one pair of parentheses around all of it means nothing."""
    if expression.equality is not None:
        return frozenset(expression.equality)
    text = expression.sql
    return text[1:-1] if re.fullmatch(r"\([^()]*\)", text) else text


def _inner(node: Node) -> Iterator[Node]:
    if isinstance(node, Select | Join):
        for below in node.inputs:
            yield from _inner(below)
    yield node


def _conditions(node: Node) -> Iterator[Expression]:
    for one in _inner(node):
        if isinstance(one, Select | Join) and one.condition is not None:
            yield one.condition


def _spelt(expressions: Iterable[Expression]) -> Hashable:
    return tuple(map(spelling, expressions))


def _aggregate(one: Aggregate) -> Hashable:
    argument, only = (None if part is None else spelling(part) for part in (one.argument, one.only))
    return one.name, one.function, argument, one.distinct, only
