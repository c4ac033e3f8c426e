"""A tree under other aliases, and a query under other column names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar, assert_never

from dyda.model.algebra.expressions import joined
from dyda.model.algebra.nodes import (
    Aggregate,
    ColumnRef,
    Derived,
    Distinct,
    Expression,
    Group,
    Join,
    Node,
    OuterJoin,
    OutputColumn,
    Project,
    Query,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
    ViewDefinition,
    expressions,
)
from dyda.model.preferences import Preferences

__all__ = ["aliases_of", "inherited", "renamed", "with_names"]

Some = TypeVar("Some", bound=Node)


def aliases_of(node: Node) -> Iterator[str]:
    """The aliases of a tree, left to right."""
    if isinstance(node, Scan | Derived | Group):
        yield node.alias
    for child in node.inputs:
        yield from aliases_of(child)


def renamed(query: Query, names: dict[str, str]) -> Query:
    """The query with each alias called what `names` says."""
    found = _renamed(query, names)
    assert isinstance(found, Project | Distinct | SetOperation)
    return found


def inherited(below: ViewDefinition, alias: str, names: dict[str, str]) -> Preferences:
    """What the file of a view says, of its tree as it stands under `alias` in another one, with `names` for aliases."""
    put = _putter(names)
    texts = {expression.sql: put(expression).sql for expression in expressions(below.tree)}
    for pair in _memberships(below.tree):
        texts[joined(pair[0], " NOT IN ", pair[1]).sql] = joined(put(pair[0]), " NOT IN ", put(pair[1])).sql
    items = []
    for name, preference in below.preferences.items:
        inner, _, column = name.partition(".")
        own = name in below.names or inner not in names
        items.append((f"{alias}.{name}" if own else f"{names[inner]}.{column}", preference))
    return Preferences(
        items=tuple(items),
        relations=tuple((names[one], preference) for one, preference in below.preferences.relations if one in names),
        conditions=tuple((texts[sql], preference) for sql, preference in below.preferences.conditions if sql in texts),
    )


def _memberships(node: Node) -> Iterator[tuple[Expression, Expression]]:
    if isinstance(node, SemiJoin) and node.membership is not None:
        yield node.membership
    for below in node.inputs:
        yield from _memberships(below)


def with_names(query: Query, names: Sequence[str]) -> Query:
    """The query with its columns called `names`, in order."""
    match query:
        case Project(below, items):
            return Project(below, tuple(replace(item, name=name) for item, name in zip(items, names, strict=True)))
        case Distinct(below):
            return Distinct(with_names(below, names))
        case SetOperation():
            return replace(query, left=with_names(query.left, names), right=with_names(query.right, names))
        case _:
            assert_never(query)


def _renamed(node: Node, names: dict[str, str]) -> Node:
    def under(below: Some) -> Some:
        return _renamed(below, names)  # type: ignore[return-value]

    put = _putter(names)
    match node:
        case Scan(alias, relation):
            return Scan(names[alias], relation)
        case Select(below, condition):
            return Select(under(below), put(condition))
        case Join(left, right, on):
            return Join(under(left), under(right), put(on) if on is not None else None)
        case OuterJoin(left, right, kind, conditions):
            return OuterJoin(under(left), under(right), kind, tuple(map(put, conditions)))
        case SemiJoin(left, right, conditions, anti, membership):
            pair = (put(membership[0]), put(membership[1])) if membership is not None else None
            return SemiJoin(under(left), under(right), tuple(map(put, conditions)), anti, pair)
        case Group(below, alias, keys, aggregates):
            outputs = tuple(OutputColumn(key.name, put(key.expression)) for key in keys)
            return Group(under(below), names[alias], outputs, tuple(_aggregate(one, put) for one in aggregates))
        case Derived(below, alias, view):
            return Derived(under(below), names[alias], view)
        case Project(below, items):
            return Project(under(below), tuple(OutputColumn(item.name, put(item.expression)) for item in items))
        case Distinct(below):
            return Distinct(under(below))
        case SetOperation(kind, everything, left, right):
            return SetOperation(kind, everything, under(left), under(right))
        case _:
            assert_never(node)


def _aggregate(aggregate: Aggregate, put: Callable[[Expression], Expression]) -> Aggregate:
    argument, only = (put(one) if one is not None else None for one in (aggregate.argument, aggregate.only))
    return replace(aggregate, argument=argument, only=only)


def _putter(names: dict[str, str]) -> Callable[[Expression], Expression]:
    return lambda expression: expression.over(lambda ref: ColumnRef(names[ref.alias], ref.column))
