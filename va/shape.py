"""What a tree computes, whatever it is called: equal for two forms of a view that have the same rows.

A table is known by its oid and a column by its number and type, so renames are seen through; aliases and the names of
columns count for nothing, the order of conditions and whether they stand in ON or WHERE neither.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import assert_never

from dyda.model.algebra import (
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
        """Inner joins, selections and subqueries that let rows through: they commute."""
        leaves, conditions, filters = _region(node)
        return (
            tuple(self._leaf(leaf) for leaf in leaves),
            frozenset(self.expression(condition) for condition in conditions),
            frozenset(self._filter(one) for one in filters),
        )

    def _filter(self, node: SemiJoin) -> Hashable:
        conditions = frozenset(self.expression(condition) for condition in node.conditions)
        membership = tuple(self.expression(side) for side in node.membership or ())
        return node.anti, conditions, membership, self.rows(node.right)

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
                on = frozenset(self.expression(condition) for condition in conditions)
                return kind, self.rows(left), self.rows(right), on
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
        leaves, _, filters = _region(node)
        for leaf in leaves:
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
        for one in filters:
            self._number(one.right)


def _region(node: Node) -> tuple[list[Node], list[Expression], list[SemiJoin]]:
    leaves: list[Node] = []
    conditions: list[Expression] = []
    filters: list[SemiJoin] = []
    for one in _commuting(node):
        match one:
            case Select(condition=condition):
                conditions.append(condition)
            case Join(condition=condition):
                conditions += [condition] if condition is not None else []
            case SemiJoin():
                filters.append(one)
            case _:
                leaves.append(one)
    return leaves, conditions, filters


def _commuting(node: Node) -> Iterator[Node]:
    if isinstance(node, Select | Join):
        for below in node.inputs:
            yield from _commuting(below)
    if isinstance(node, SemiJoin):
        yield from _commuting(node.left)
    yield node
