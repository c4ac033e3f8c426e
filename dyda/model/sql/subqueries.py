"""Subqueries inside expressions, as joins.

WHERE EXISTS (…), x IN (…)             SemiJoin; what refers to the query around becomes its conditions
EXISTS inside OR, CASE, a select list  a mark: OuterJoin with the distinct keys of the subquery, `mark IS NOT NULL`
(SELECT max(y) …) as a value           Join with the one row of the aggregate; if it refers to the query around,
                                       OuterJoin with the aggregate grouped by what it is compared with
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from dyda.model.algebra.column_facts import COMPUTED, Facts, column_facts
from dyda.model.algebra.expressions import call, constant, equality, joined
from dyda.model.algebra.nodes import (
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
    Select,
    SemiJoin,
    expressions,
)
from dyda.model.algebra.renaming import aliases_of
from dyda.model.sql.expressions import Put, condition, is_positive, split_item
from dyda.model.sql.grouping import Grouping, aggregate_calls
from dyda.model.sql.outline import Block, Combined, QueryOutline
from dyda.model.sql.scope import Around, Scope
from dyda.model.sql.text import DEPTH, Span, TokenType, kinds

if TYPE_CHECKING:
    from dyda.model.sql.builder import Builder

__all__ = ["Subqueries"]

_Sides = tuple[Expression, Expression]
"""Of an equality between a subquery and the query around it: the subquery's side, and the other one."""


@dataclass
class _Opened:
    """A subquery's relations with its own conditions, what it selects, and the conditions that refer outside."""

    right: Node
    selected: list[Expression]
    outside: list[tuple[Span, Expression]] = field(default_factory=list)
    scope: Scope | None = None


class Subqueries:
    """The subqueries of one view's expressions."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.text = builder.text
        self.outline = builder.outline

    def within(self, span: Span) -> list[int]:
        """The opening parentheses of the subqueries in some words, without those inside others."""
        found: list[int] = []
        for at in sorted(self.outline.subqueries):
            if at in span and (not found or at > self.text.counterpart(found[-1])):
                found.append(at)
        return found

    def blanks(self, span: Span) -> dict[int, Put]:
        """Placeholders for the subqueries where their values do not matter."""
        nothing = Expression("", frozenset())
        return {self.start(at): Put(self.text.counterpart(at) + 1, nothing, COMPUTED) for at in self.within(span)}

    def start(self, at: int) -> int:
        return at - 1 if self.text.kind(at - 1) is TokenType.EXISTS else at

    def conjunct(self, node: Node, span: Span, scope: Around, puts: dict[int, Put]) -> Node:
        """`node` with a condition applied that has subqueries in it."""
        core, negated = self.stripped(span)
        at = self.within(span)[-1]
        if self.text.counterpart(at) == core.stop - 1 and not self.splits(Span(core.start, at)):
            if self.text.kind(at - 1) is TokenType.EXISTS and at - 1 == core.start:
                return self.exists(node, span, at, scope, negated)
            if self.text.kind(at - 1) is TokenType.IN and self.within(core) == [at]:
                stop = at - 1
                if self.text.kind(stop - 1) is TokenType.NOT:
                    stop, negated = stop - 1, not negated
                return self.member(node, span, Span(core.start, stop), at, scope, negated, puts)
        node, found = self.values(node, span, scope, puts, condition=True)
        return Select(node, self.builder.condition(span, scope, {**puts, **found}))

    def stripped(self, span: Span) -> tuple[Span, bool]:
        """The words without parentheses and NOTs around them, and whether they are negated."""
        negated = False
        while True:
            if self.text.kind(span.start) is TokenType.NOT:
                rest = Span(span.start + 1, span.stop)
                if self.splits(rest):  # NOT a OR b negates a alone
                    return span, negated
                span, negated = rest, not negated
            elif self.is_enclosed(span):
                span = self.text.inside(span.start)
            else:
                return span, negated

    def is_enclosed(self, span: Span) -> bool:
        return span.start not in self.outline.subqueries and self.text.encloses(span)

    def splits(self, span: Span) -> bool:
        """Whether AND or OR cuts the words at the top."""
        return any(self.text.kind(index) in _CONNECTIVES for index in self.text.top(span))

    def exists(self, node: Node, span: Span, at: int, scope: Around, negated: bool) -> Node:
        opened = self.opened(at, scope, values=False)
        conditions = tuple(expression for _, expression in opened.outside)
        self.note(span, conditions)
        return SemiJoin(node, opened.right, conditions, negated)

    def member(
        self, node: Node, span: Span, written: Span, at: int, scope: Around, negated: bool, puts: dict[int, Put]
    ) -> Node:
        left = [condition(self.text, one, scope, self.builder.plain_numeric, puts) for one in self.tuple_of(written)]
        opened = self.opened(at, scope, values=True)
        self.refuse_counts(at, left, opened)
        conditions = tuple(expression for _, expression in opened.outside)
        if negated:
            if len(left) > 1:
                remedy = "Write NOT EXISTS (SELECT … WHERE a = b AND …)."
                raise self.text.unsupported(at, "NOT IN with several columns", remedy)
            pair = (left[0], opened.selected[0])
            self.note(span, (*conditions, joined(pair[0], " NOT IN ", pair[1])))
            return SemiJoin(node, opened.right, conditions, True, pair)
        conditions += tuple(equality(one, other) for one, other in zip(left, opened.selected, strict=True))
        self.note(span, conditions)
        return SemiJoin(node, opened.right, conditions)

    def note(self, span: Span, conditions: tuple[Expression, ...]) -> None:
        self.builder.note(span, "condition", tuple(one.sql for one in conditions))

    def tuple_of(self, span: Span) -> list[Span]:
        """(a, b) IN …: a and b."""
        if not self.is_enclosed(span):
            return [span]
        inside = self.text.inside(span.start)
        cuts = [index for index in self.text.top(inside) if self.text.kind(index) is TokenType.COMMA]
        return inside.split(cuts) if cuts else self.tuple_of(inside)

    def refuse_counts(self, at: int, left: list[Expression], opened: _Opened) -> None:
        if len(left) != len(opened.selected):
            what = f"the subquery selects {len(opened.selected)} columns where {len(left)} are compared"
            raise self.text.refusal(at, what, "Select one column for each.")

    def opened(self, at: int, scope: Around, *, values: bool) -> _Opened:
        """The subquery at `at` as the right side of a semi join; with `values`, what it selects is needed."""
        query = self.outline.subqueries[at]
        if isinstance(query, Combined):
            return self.enclosed(query, at)
        if query.groups is not None or query.having or self.has_aggregates(query):
            return self.grouped(query, at, scope)
        right, inner = self.builder.from_clause(query)
        inner.outer = scope
        right, outside = self.split(right, query, inner)
        selected = []
        for span in query.items:
            star, core, _ = split_item(self.text, span, self.blanks(span))
            if star is not None:
                if values:
                    found = inner.star(star, self.text.offset(span.start))
                    selected += [inner.standin(ref) or Expression.of(ref) for _, ref in found]
            elif values or not self.within(span):
                right, puts = self.values(right, core, inner, {}) if values else (right, {})
                selected.append(condition(self.text, core, inner, self.builder.plain_numeric, puts))
        if values and any(not inner.has(ref) for one in selected for ref in one.columns):
            self.refuse_place(at, "in the select list of a subquery in IN")
        return _Opened(right, selected, outside, inner)

    def split(self, right: Node, block: Block, inner: Scope) -> tuple[Node, list[tuple[Span, Expression]]]:
        """WHERE of a subquery: its own conditions are applied, those that refer outside are returned."""
        outside = []
        for span in block.where:
            if self.within(span):
                right = self.builder.conjunct(right, span, inner)
                continue
            expression = self.builder.condition(span, inner)
            if all(inner.has(ref) for ref in expression.columns):
                right = Select(right, expression)
            else:
                outside.append((span, expression))
        own = set(aliases_of(right))
        if any(ref.alias not in own for expression in expressions(right) for ref in expression.columns):
            self.refuse_place(block.at, "beside another subquery or in ON")
        return right, outside

    def refuse_place(self, at: int, where: str) -> NoReturn:
        remedy = "Compare with it in a condition of its own in the subquery's WHERE."
        raise self.text.unsupported(at, f"a reference to the query around {where}", remedy)

    def has_aggregates(self, block: Block) -> bool:
        return any(True for span in block.items for _ in aggregate_calls(self.text, self.outline, span))

    def enclosed(self, query: Combined, at: int) -> _Opened:
        """A set operation, which cannot refer to the query around."""
        alias = self.builder.aliases.new("query")
        first: QueryOutline = query
        while isinstance(first, Combined):
            first = first.left
        stars = any(split_item(self.text, span, self.blanks(span))[0] is not None for span in first.items)
        names = [] if stars else [f"y{place}" for place in range(1, len(first.items) + 1)]
        derived = Derived(self.builder.query(query, f"{alias}.", names), alias)
        return _Opened(derived, [Expression.of(ref) for ref in derived.columns])

    def grouped(self, block: Block, at: int, scope: Around) -> _Opened:
        """A subquery with GROUP BY: what it equates with the query around is grouped by, too."""
        node, grouping, sides, around = self.correlated(block, scope)
        if (sides or around) and block.groups is None:
            remedy = "Compare with its value: x = (SELECT max(…) …)."
            raise self.text.unsupported(at, "an aggregate in EXISTS or IN that refers to the query around", remedy)
        node, outputs = grouping.build(node)
        alias = self.builder.aliases.new("query")
        items = [OutputColumn(f"y{place}", one.expression) for place, one in enumerate(outputs, start=1)]
        added = [ColumnRef(grouping.alias, f"c{place}") for place in range(1, len(sides) + 1)]
        items += [OutputColumn(ref.column, Expression.of(ref)) for ref in added]
        derived = Derived(Project(node, tuple(items)), alias)
        selected = [Expression.of(ColumnRef(alias, item.name)) for item in items[: len(outputs)]]
        conditions = _equal(alias, "c", sides) + around
        return _Opened(derived, selected, [(Span(at, at + 1), condition) for condition in conditions])

    def correlated(self, block: Block, scope: Around) -> tuple[Node, Grouping, list[_Sides], list[Expression]]:
        """FROM and WHERE of a subquery with aggregates, its grouping, which has the subquery's sides of equalities with
        the query around as further keys, both sides of those, and the conditions that the query around decides."""
        node, inner = self.builder.from_clause(block)
        inner.outer = scope
        node, outside = self.split(node, block, inner)
        sides, around = self.equalities(outside, inner)
        inner.outer = None
        return node, Grouping(self.builder, block, inner, tuple(own for own, _ in sides)), sides, around

    def equalities(self, outside: list[tuple[Span, Expression]], inner: Scope) -> tuple[list[_Sides], list[Expression]]:
        """Of the conditions that refer outside: the sides of equalities, and those over the query around alone."""
        own = [(span, one) for span, one in outside if any(inner.has(ref) for ref in one.columns)]
        sides = [self.sides(span, inner) for span, _ in own]
        return sides, [one for span, one in outside if (span, one) not in own]

    def sides(self, span: Span, inner: Scope) -> _Sides:
        core = span
        while self.is_enclosed(core):
            core = self.text.inside(core.start)
        top = list(self.text.top(core))
        equals = [index for index in top if self.text.kind(index) is TokenType.EQ]
        if len(equals) == 1 and not any(self.text.kind(index) in _PREDICATES for index in top):
            parts = core.split(equals)
            one, other = (condition(self.text, part, inner, self.builder.plain_numeric) for part in parts)
            for own, theirs in ((one, other), (other, one)):
                mine = own.columns and all(inner.has(ref) for ref in own.columns)
                if mine and not any(inner.has(ref) for ref in theirs.columns):
                    return own, theirs
        raise self.text.unsupported(
            span.start,
            "a subquery compared with the query around it by more than equalities here",
            "Write column = column of the query around, or join the relation in FROM and group there.",
        )

    def values(
        self, node: Node, span: Span, scope: Around, puts: dict[int, Put], *, condition: bool = False
    ) -> tuple[Node, dict[int, Put]]:
        """`node` joined with the subqueries in some words, and what replaces each of them."""
        found: dict[int, Put] = {}
        members = []
        for at in self.within(span):
            if any(start <= at < put.stop for start, put in puts.items()):
                continue  # in an aggregate's argument, which is read below
            stop = self.text.counterpart(at) + 1
            before = self.text.kind(at - 1)
            if before is TokenType.EXISTS:
                node, mark = self.mark(node, at, scope, [], puts)
                found[at - 1] = Put(stop, mark, COMPUTED)
            elif before is TokenType.IN:
                start, left = self.member_start(span, at)
                node, mark = self.mark(node, at, scope, self.tuple_of(left), puts)
                found[start] = Put(stop, mark, COMPUTED)
                members.append((start, at, left.stop < at - 1))
            else:
                node, value, facts = self.value(node, at, scope)
                found[at] = Put(stop, value, facts)
        for start, at, negated in members:
            if negated or not condition or not is_positive(self.text, span, {**puts, **found}, start):
                raise self.text.unsupported(
                    at,
                    "a subquery in IN that may be NULL inside another expression",
                    "Write EXISTS (SELECT … WHERE a = b) instead, or make it a condition of its own in WHERE.",
                )
        return node, found

    def member_start(self, span: Span, at: int) -> tuple[int, Span]:
        """Where the left side of IN begins: after the last connective or bracket before it."""
        stop = at - 1
        if self.text.kind(stop - 1) is TokenType.NOT:
            stop -= 1
        depth, start = 0, stop
        while start > span.start:
            kind = self.text.kind(start - 1)
            step = DEPTH.get(kind, 0)
            if depth == 0 and (step > 0 or kind in _CONNECTIVES or kind in _BOUNDS):
                break
            depth += step
            start -= 1
        return start, Span(start, stop)

    def mark(
        self, node: Node, at: int, scope: Around, left: list[Span], puts: dict[int, Put]
    ) -> tuple[Node, Expression]:
        """EXISTS or IN as a value that is never NULL: the distinct keys of the subquery, joined with NULLs beside."""
        opened = self.opened(at, scope, values=bool(left))
        if opened.scope is not None:
            sides, around = self.equalities(opened.outside, opened.scope)
        elif opened.outside:
            self.refuse_place(at, "from a subquery with GROUP BY here")
        else:
            sides, around = [], []
        if left:
            read = [condition(self.text, one, scope, self.builder.plain_numeric, puts) for one in left]
            self.refuse_counts(at, read, opened)
            sides += [(own, theirs) for theirs, own in zip(read, opened.selected, strict=True)]
        alias = self.builder.aliases.new("mark")
        items = [OutputColumn(f"k{place}", own) for place, (own, _) in enumerate(sides, start=1)]
        items.append(OutputColumn("mark", constant("1")))
        derived = Derived(Distinct(Project(opened.right, tuple(items))), alias)
        conditions = _equal(alias, "k", sides) + around
        mark = joined(Expression.of(ColumnRef(alias, "mark")), " IS NOT NULL")
        return OuterJoin(node, derived, "left", tuple(conditions)), mark

    def value(self, node: Node, at: int, scope: Around) -> tuple[Node, Expression, Facts]:
        """A subquery that is one value."""
        block = self.outline.subqueries[at]
        if isinstance(block, Combined) or block.groups is not None or not self.has_aggregates(block):
            remedy = "Select one aggregate of it, such as max(…), without GROUP BY."
            raise self.text.unsupported(at, "a subquery as a value that may have more than one row", remedy)
        if len(block.items) != 1:
            raise self.text.refusal(at, "a subquery as a value has one column", "Select one column.")
        below, grouping, sides, around = self.correlated(block, scope)
        alias = self.builder.aliases.new("value")
        if not sides and not around:
            below, outputs = grouping.build(below)
            derived = Derived(Project(below, (OutputColumn("value", outputs[0].expression),)), alias)
            reference = ColumnRef(alias, "value")
            above: Node = OuterJoin(node, derived, "left", ()) if block.having else Join(node, derived)
            return above, Expression.of(reference), column_facts(derived)[reference]
        if block.having:
            what = "HAVING in a subquery that refers to the query around"
            raise self.text.unsupported(at, what, "Write CASE WHEN … THEN … END instead.")
        group, outputs = grouping.build(below)
        if not isinstance(group, Group):
            self.refuse_place(at, "beside another subquery")
        derived = Derived(Project(group, tuple(OutputColumn(r.column, Expression.of(r)) for r in group.columns)), alias)
        counts = {aggregate.name for aggregate in group.aggregates if aggregate.function == "count"}

        def outer(ref: ColumnRef) -> Expression:
            """A group that does not exist has counted 0 rows."""
            shown = Expression.of(ColumnRef(alias, ref.column))
            return call("coalesce", shown, constant("0")) if ref.column in counts else shown

        conditions = _equal(alias, "c", sides) + around
        value = outputs[0].expression.replaced(outer)
        temporal = any(column_facts(group)[ref].temporal for ref in outputs[0].expression.columns)
        return OuterJoin(node, derived, "left", tuple(conditions)), value, Facts(None, temporal)


def _equal(alias: str, letter: str, sides: Sequence[_Sides]) -> list[Expression]:
    """The numbered columns of a subquery equal the other sides."""
    columns = [Expression.of(ColumnRef(alias, f"{letter}{place}")) for place in range(1, len(sides) + 1)]
    return [equality(column, theirs) for column, (_, theirs) in zip(columns, sides, strict=True)]


_CONNECTIVES = kinds("AND OR XOR DAMP")
_BOUNDS = kinds("NOT WHEN THEN ELSE COMMA")
_PREDICATES = kinds("NOT IS IN BETWEEN LIKE") | _CONNECTIVES
