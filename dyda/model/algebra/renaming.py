"""A tree under other aliases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dyda.model.algebra.expressions import joined
from dyda.model.algebra.nodes import (
    ColumnRef,
    Derived,
    Expression,
    Group,
    Node,
    Scan,
    SemiJoin,
    Some,
    ViewDefinition,
    expressions,
    rebuild,
)
from dyda.model.preferences import Preferences

__all__ = ["aliases_of", "inherited", "renamed"]


def aliases_of(node: Node) -> Iterator[str]:
    """The aliases of a tree, left to right."""
    if isinstance(node, Scan | Derived | Group):
        yield node.alias
    for child in node.inputs:
        yield from aliases_of(child)


def renamed(node: Some, names: dict[str, str]) -> Some:
    """The tree with its aliases replaced as `names` says."""
    rebuilt = rebuild(node, [renamed(below, names) for below in node.inputs], _putter(names))
    return replace(rebuilt, alias=names[rebuilt.alias]) if isinstance(rebuilt, Scan | Derived | Group) else rebuilt


def inherited(below: ViewDefinition, alias: str, names: dict[str, str]) -> Preferences:
    """The preferences of a view for its tree under `alias` in another view, with `names` for its aliases."""
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


def _putter(names: dict[str, str]) -> Callable[[Expression], Expression]:
    return lambda expression: expression.over(lambda ref: ColumnRef(names[ref.alias], ref.column))
