"""What a tree computes, independent of names: equal for two forms of a view that have the same rows.

Tables are identified by oid and columns by number and type, so renames make no difference, nor do aliases, the order of
conditions, or whether they are in ON or WHERE. Around a subquery or an outer join they do: states depend on it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import assert_never

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
    Project,
    Query,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
)
from va.comparison import meaning

__all__ = ["Shapes"]


@dataclass
class Shapes:
    """Shapes of the nodes of one tree, each in the same numbering of its columns."""

    tree: Query
    _names: dict[ColumnRef, ColumnRef] = field(default_factory=dict)
    _occurrences: int = 0

    def __post_init__(self) -> None:
        self._number(self.tree)

    def query(self, query: Query) -> Hashable:
        match query:
            case Project(below, items):
                return "select", self.rows(below), tuple(self.expression(item.expression) for item in items)
            case Distinct(below):
                return "distinct", self.query(below)
            case SetOperation(kind, all_, left, right):
                return kind, all_, self.query(left), self.query(right)
            case _:
                assert_never(query)

    def rows(self, node: Node) -> Hashable:
        """Inner joins and selections: they commute."""
        leaves, conditions = _region(node)
        return (
            tuple(self._leaf(leaf) for leaf in leaves),
            frozenset(self.expression(condition) for condition in conditions),
        )

    def _leaf(self, node: Node) -> Hashable:
        match node:
            case Scan(relation=relation):
                return relation.name.source, relation.oid
            case Derived(below):
                return "derived", self.query(below)
            case Group(below, keys=keys, aggregates=aggregates):
                return (
                    "group",
                    self.rows(below),
                    tuple(self.expression(key.expression) for key in keys),
                    tuple(self.aggregate(aggregate) for aggregate in aggregates),
                )
            case OuterJoin(left, right, kind, conditions):
                return kind, self.rows(left), self.rows(right), tuple(map(self.expression, conditions))
            case SemiJoin(left, right, conditions, anti, membership):
                compared = tuple(map(self.expression, membership or ()))
                return anti, self.rows(left), self.rows(right), tuple(map(self.expression, conditions)), compared
            case _:
                raise AssertionError(f"{type(node).__name__} is not a leaf")

    def aggregate(self, aggregate: Aggregate) -> Hashable:
        argument, only = (None if e is None else self.expression(e) for e in (aggregate.argument, aggregate.only))
        return aggregate.function, argument, aggregate.distinct, only

    def expression(self, expression: Expression) -> Hashable:
        return meaning(expression.over(lambda ref: self._names.get(ref, ref)))

    def _number(self, node: Node) -> None:
        """Every column under the number of its occurrence, in an order that commuting does not change."""
        if isinstance(node, Query):
            for below in node.inputs:
                self._number(below)
            return
        for leaf in _region(node)[0]:
            for below in leaf.inputs:
                self._number(below)
            self._occurrences += 1
            alias = f"#{self._occurrences}"
            if isinstance(leaf, Scan):
                for column in leaf.relation.columns:
                    name = f"{column.number} {column.type.declared}"
                    self._names[ColumnRef(leaf.alias, column.name)] = ColumnRef(alias, name)
            elif isinstance(leaf, Derived | Group):
                for place, ref in enumerate(leaf.columns):
                    self._names[ref] = ColumnRef(alias, str(place))


def _region(node: Node) -> tuple[list[Node], list[Expression]]:
    leaves: list[Node] = []
    conditions: list[Expression] = []
    for one in _commuting(node):
        match one:
            case Select(condition=condition):
                conditions.append(condition)
            case Join(condition=condition):
                conditions += [condition] if condition is not None else []
            case _:
                leaves.append(one)
    return leaves, conditions


def _commuting(node: Node) -> Iterator[Node]:
    if isinstance(node, Select | Join):
        for below in node.inputs:
            yield from _commuting(below)
    yield node
