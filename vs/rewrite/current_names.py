"""Today's names: a tree of the names known before, over the relations as they are now.

The view's own column names survive. Where a column's type is of another kind now, expressions that compute with it
read it as the old one, so that they go on meaning what they meant; a column that is only passed on to the view's
readers follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
    OutputColumn,
    Project,
    Query,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
)
from dyda.model.knowledge.constraints import comparable
from dyda.model.relation import Column, RelationName
from vs.schema_mapping import Passage
from vs.search.substitution import cast, substituted

__all__ = ["Words", "put_over"]


@dataclass(frozen=True)
class Words:
    """`names`: the relation of each occurrence, as known before; `followed` fills with what was followed."""

    passage: Passage
    names: Mapping[str, RelationName]
    followed: dict[str, None]

    def item(self, expression: Expression) -> Expression:
        """What readers see: a column follows its type."""
        return substituted(expression, self._followed) if expression.column else self.computed(expression)

    def computed(self, expression: Expression) -> Expression:
        return substituted(expression, self._as_before)

    def _followed(self, ref: ColumnRef) -> Expression:
        if ref.alias not in self.names:
            return Expression.of(ref)
        return Expression.of(ColumnRef(ref.alias, self._column(ref).name))

    def _as_before(self, ref: ColumnRef) -> Expression:
        if ref.alias not in self.names:
            return Expression.of(ref)
        name, now = self.names[ref.alias], self._column(ref)
        before = self.passage.before(name).column(ref.column)
        was, is_ = before.type.computation(), now.type.computation()
        if was is None or comparable(before.type, now.type):
            return self._followed(ref)
        self.followed.setdefault(
            f"column {ref.column} of {name} is {now.type.declared} now: it is read as {before.type.declared}"
        )
        through_text = () if is_ is not None or was.spark_type == "STRING" else ("STRING",)
        return cast(ColumnRef(ref.alias, now.name), (*through_text, was.spark_type))

    def _column(self, ref: ColumnRef) -> Column:
        found = self.passage.column(self.names[ref.alias], ref.column)
        assert found is not None, f"{ref} is gone, and the draft still reads it"
        return found

    def query(self, query: Query) -> Query:
        """The whole view. Only what stands in its own select list follows its type: elsewhere something computes."""
        if isinstance(query, Project):
            items = tuple(OutputColumn(item.name, self.item(item.expression)) for item in query.items)
            return Project(put_over(query.input, self.computed, self._scan), items)
        found = put_over(query, self.computed, self._scan)
        assert isinstance(found, Query)
        return found

    def _scan(self, scan: Scan) -> Scan:
        found = self.passage.after(scan.relation.name)
        assert found is not None, f"{scan.relation.name} is gone, and the draft still reads it"
        return Scan(scan.alias, found)


def put_over(node: Node, put: Callable[[Expression], Expression], scan: Callable[[Scan], Scan]) -> Node:
    """The tree with other expressions, over other relations."""

    def rows(below: Node) -> Node:
        return put_over(below, put, scan)

    def query(below: Query) -> Query:
        found = rows(below)
        assert isinstance(found, Query)
        return found

    def named(columns: tuple[OutputColumn, ...]) -> tuple[OutputColumn, ...]:
        return tuple(OutputColumn(column.name, put(column.expression)) for column in columns)

    match node:
        case Scan():
            return scan(node)
        case Select(below, condition):
            return Select(rows(below), put(condition))
        case Join(left, right, condition):
            return Join(rows(left), rows(right), None if condition is None else put(condition))
        case OuterJoin(left, right, kind, conditions):
            return OuterJoin(rows(left), rows(right), kind, tuple(map(put, conditions)))
        case SemiJoin(left, right, conditions, anti, membership):
            pair = None if membership is None else (put(membership[0]), put(membership[1]))
            return SemiJoin(rows(left), rows(right), tuple(map(put, conditions)), anti, pair)
        case Group(below, alias, keys, aggregates):
            return Group(rows(below), alias, named(keys), tuple(_over(aggregate, put) for aggregate in aggregates))
        case Derived(below, alias, view):
            return Derived(query(below), alias, view)
        case Project(below, items):
            return Project(rows(below), named(items))
        case Distinct(below):
            return Distinct(query(below))
        case SetOperation(kind, all_, left, right):
            return SetOperation(kind, all_, query(left), query(right))
        case _:
            assert_never(node)


def _over(aggregate: Aggregate, put: Callable[[Expression], Expression]) -> Aggregate:
    argument, only = (None if e is None else put(e) for e in (aggregate.argument, aggregate.only))
    return Aggregate(aggregate.name, aggregate.function, argument, aggregate.distinct, only)
