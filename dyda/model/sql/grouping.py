"""GROUP BY and aggregates: Group delivers keys k1, … and aggregates a1, …; select list and HAVING are above it.

SELECT year(d) AS y, sum(a) / count(*) AS x … GROUP BY year(d)
Project(Group(…, group_1, k1 = year(d), a1 = sum(a), a2 = count(*)), y = group_1.k1, x = group_1.a1 / group_1.a2)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dyda.errors import UnknownColumn
from dyda.model.algebra.column_facts import COMPUTED, Facts, column_facts
from dyda.model.algebra.expressions import joined
from dyda.model.algebra.nodes import Aggregate, ColumnRef, Expression, Group, Node, OutputColumn
from dyda.model.sql.expressions import Put, Whole, condition, occurrences_of, split_item
from dyda.model.sql.functions import MAINTAINED, is_aggregate
from dyda.model.sql.outline import Block, Outline
from dyda.model.sql.scope import GroupScope, Scope
from dyda.model.sql.text import Span, SqlText, TokenType, kinds

if TYPE_CHECKING:
    from dyda.model.sql.builder import Builder, Output

__all__ = ["Grouping", "aggregate_calls"]


def aggregate_calls(text: SqlText, outline: Outline, span: Span) -> Iterator[tuple[int, int]]:
    """The words of each aggregate with its FILTER, without those of subqueries inside."""
    index = span.start
    while index < span.stop:
        if index in outline.subqueries:
            index = text.counterpart(index) + 1
        elif is_aggregate(text, index):
            stop = text.counterpart(index + 1) + 1
            if text.kind(stop) is TokenType.FILTER and text.kind(stop + 1) is TokenType.L_PAREN:
                stop = text.counterpart(stop + 1) + 1
            yield index, stop
            index = stop
        else:
            index += 1


@dataclass
class Grouping:
    """The GROUP BY of one SELECT while it is read. `added` are keys that a correlated subquery needs besides."""

    builder: Builder
    block: Block
    scope: Scope
    added: tuple[Expression, ...] = ()
    keys: list[OutputColumn] = field(default_factory=list)
    aggregates: list[Aggregate] = field(default_factory=list)
    plain: dict[ColumnRef, ColumnRef] = field(default_factory=dict)
    wholes: list[tuple[Whole, ColumnRef]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text = self.builder.text
        self.alias = self.builder.aliases.new("group")

    def build(self, node: Node) -> tuple[Node, list[Output]]:
        """Group over `node` with HAVING, and the select list over it."""
        node, puts = self.group(node)
        above = GroupScope(self.scope, self.alias, self.plain, column_facts(node))
        node, outputs = self.builder.items(self.block.items, node, above, None, puts)
        names = {one.name: one.expression for one in outputs if one.name is not None}
        having = replace(above, items=names)
        for span in self.block.having:
            node = self.builder.conjunct(node, span, having, puts)
        return node, outputs

    def group(self, node: Node) -> tuple[Node, dict[int, Put]]:
        """Group over `node`, and what replaces aggregates and keys in the select list and HAVING."""
        cores = [self.core(span) for span in self.block.items]
        for span in self.key_spans(cores):
            node = self.key(node, span)
        for place, expression in enumerate(self.added, start=1):
            self.keys.append(OutputColumn(f"c{place}", expression))
        puts: dict[int, Put] = {}
        for span in (*self.block.items, *self.block.having):
            for start, stop in aggregate_calls(self.text, self.builder.outline, span):
                node, reference = self.aggregate(node, start, stop)
                puts[start] = Put(stop, Expression.of(reference), COMPUTED)
        group = Group(node, self.alias, tuple(self.keys), tuple(self.aggregates))
        known = column_facts(group)
        puts = {at: replace(put, facts=known[put.expression.column or ColumnRef("", "")]) for at, put in puts.items()}
        for span in (*cores, *self.block.having):
            self.put_keys(span, puts)
        return group, puts

    def core(self, span: Span) -> Span:
        """The words of a select item without its name."""
        calls = aggregate_calls(self.text, self.builder.outline, span)
        blanks = {start: Put(stop, Expression("", frozenset()), COMPUTED) for start, stop in calls}
        blanks |= self.builder.subqueries.blanks(span)
        return split_item(self.text, span, blanks)[1]

    def key_spans(self, cores: list[Span]) -> list[Span]:
        """GROUP BY 2 is the second item's expression, GROUP BY name the item of that name if no column is called so,
        GROUP BY ALL every item without an aggregate."""
        calls = [tuple(aggregate_calls(self.text, self.builder.outline, span)) for span in cores]
        if self.block.group_all:
            return [span for span, found in zip(cores, calls, strict=True) if not found]
        spans = []
        for span in self.block.groups or ():
            chosen = self.chosen(span, cores)
            if chosen is not None and calls[chosen]:
                what = "GROUP BY names an item with an aggregate"
                raise self.text.refusal(span.start, what, "Group by columns without aggregates.")
            spans.append(cores[chosen] if chosen is not None else span)
        return spans

    def chosen(self, span: Span, cores: list[Span]) -> int | None:
        """The place of the select item that a grouping expression names."""
        if len(span) != 1:
            return None
        if self.text.kind(span.start) is TokenType.NUMBER and self.text.shown(span.start).isdigit():
            place = int(self.text.shown(span.start))
            if not 1 <= place <= len(cores):
                what, remedy = f"GROUP BY {place} names no select item", f"There are {len(cores)} items."
                raise self.text.refusal(span.start, what, remedy)
            return place - 1
        if not self.text.is_name(span.start):
            return None
        name = self.text.name(span.start)
        if name in self.scope.merged or any(name in source.columns for source in self.scope.sources):
            return None
        items = zip(self.block.items, cores, strict=True)
        named = [item.stop > core.stop and self.text.name(item.stop - 1) == name for item, core in items]
        return named.index(True) if True in named else None

    def key(self, node: Node, span: Span) -> Node:
        builder = self.builder
        for start, _ in aggregate_calls(self.text, builder.outline, span):
            raise self.text.refusal(start, "an aggregate in GROUP BY", "Group by columns without aggregates.")
        while self.text.encloses(span) and span.start not in builder.outline.subqueries:
            span = self.text.inside(span.start)
        node, puts = builder.subqueries.values(node, span, self.scope, {})
        expression = condition(self.text, span, self.scope, builder.plain_numeric, puts)
        name = f"k{len(self.keys) + 1}"
        reference = ColumnRef(self.alias, name)
        whole = Whole.read(self.text, span, self.scope, puts)
        if len(whole.units) == 1 and len(whole.units[0]) == 2 and not puts:
            column = ColumnRef(str(whole.units[0][0]), str(whole.units[0][1]))
            if self.scope.has(column):
                if column in self.plain:
                    return node
                self.plain[column] = reference
        self.keys.append(OutputColumn(name, expression))
        self.wholes.append((whole, reference))
        return node

    def put_keys(self, span: Span, puts: dict[int, Put]) -> None:
        """Find keys that are more than a column in the words; the longest first, so that none hides another."""
        for whole, reference in sorted(self.wholes, key=lambda pair: -len(pair[0].units)):
            if len(whole.units) == 1 and reference in self.plain.values():
                continue
            inside = {at: put for at, put in puts.items() if at in span} | self.builder.subqueries.blanks(span)
            for start, stop in occurrences_of(self.text, whole, span, _Loose(self.scope), inside):
                while start > span.start and self.only_encloses(start - 1, stop, span):
                    start, stop = start - 1, stop + 1
                puts[start] = Put(stop, Expression.of(reference), COMPUTED)

    def only_encloses(self, opening: int, closing: int, span: Span) -> bool:
        """Whether the parentheses around a key do nothing else, as those of a call or of IN do."""
        return (
            self.text.kind(opening) is TokenType.L_PAREN
            and self.text.kind(closing) is TokenType.R_PAREN
            and (opening == span.start or self.text.kind(opening - 1) in _OPERATORS)
        )

    def aggregate(self, node: Node, start: int, stop: int) -> tuple[Node, ColumnRef]:
        """The aggregate at some words; the same one is kept once."""
        text = self.text
        written = text.name(start).lower()
        inside = text.inside(start + 1)
        only: Expression | None = None
        if inside.stop + 1 < stop:  # FILTER (WHERE …)
            node, only = self.argument(node, Span(inside.stop + 4, stop - 1))
        distinct = text.kind(inside.start) is TokenType.DISTINCT
        if distinct or text.kind(inside.start) is TokenType.ALL:
            inside = Span(inside.start + 1, inside.stop)
        counts_rows = written == "count" and not distinct and len(inside) == 1
        argument: Expression | None = None
        if not (counts_rows and text.kind(inside.start) in (TokenType.STAR, TokenType.NUMBER)):
            self.refuse_arguments(written, inside, distinct, start)
            node, argument = self.argument(node, inside)
        if written == "count_if" and argument is not None:
            only = joined(argument, " AND ", only) if only is not None else argument
            argument = None
        function = MAINTAINED[written]
        distinct = distinct and function in ("count", "sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop")
        aggregate = Aggregate(f"a{len(self.aggregates) + 1}", function, argument, distinct, only)
        for known in self.aggregates:
            if replace(aggregate, name=known.name) == known:
                return node, ColumnRef(self.alias, known.name)
        self.aggregates.append(aggregate)
        return node, ColumnRef(self.alias, aggregate.name)

    def argument(self, node: Node, span: Span) -> tuple[Node, Expression]:
        for start, _ in aggregate_calls(self.text, self.builder.outline, span):
            raise self.text.refusal(start, "an aggregate inside an aggregate", "Aggregate in a subquery first.")
        node, puts = self.builder.subqueries.values(node, span, self.scope, {})
        return node, condition(self.text, span, self.scope, self.builder.plain_numeric, puts)

    def refuse_arguments(self, written: str, inside: Span, distinct: bool, start: int) -> None:
        text, last = self.text, inside.stop - 1
        if not inside:
            raise text.refusal(start, f"{written}() without an argument", f"Write {written}(…).")
        if text.kind(last) is TokenType.STAR and (len(inside) == 1 or text.kind(last - 1) is TokenType.DOT):
            raise text.refusal(start, f"{written} of *", f"Write {written}(column), or count(*).")
        if any(text.kind(index) is TokenType.COMMA for index in text.top(inside)):
            remedy = (
                "Count the rows of a subquery: (SELECT DISTINCT a, b FROM … WHERE a IS NOT NULL AND b IS NOT NULL)."
                if distinct
                else "Write count(*) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL)."
            )
            raise text.unsupported(start, f"{written}() with several arguments", remedy)


@dataclass(frozen=True)
class _Loose:
    """Columns as the scope finds them; one that it does not know may be a select item, and is left as written."""

    scope: Scope

    def find(self, parts: Sequence[str], offset: int) -> ColumnRef:
        try:
            return self.scope.find(parts, offset)
        except UnknownColumn:
            self.scope.text.loose = True
            return ColumnRef("", ".".join(parts))

    def facts(self, reference: ColumnRef) -> Facts:
        return self.scope.facts(reference)

    def standin(self, reference: ColumnRef) -> Expression | None:
        return self.scope.standin(reference)


_OPERATORS = kinds("PLUS DASH STAR SLASH MOD DPIPE EQ NEQ LT LTE GT GTE AND OR NOT L_PAREN WHEN THEN ELSE")
