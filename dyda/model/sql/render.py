"""A view's tree as Spark SQL text: how a rewritten definition is written down, preferences included.

    parse_view(render_view(d)).tree means the same as d.tree, and has the same output names and preferences

Expressions stay as their author wrote them; only the column references are replaced. Semi joins are written as EXISTS
and NOT IN, a view below by its name, Group as GROUP BY directly below a select list and as a derived table elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import assert_never

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
    Project,
    Query,
    Scan,
    Select,
    SemiJoin,
    SetOperation,
    expressions,
)
from dyda.model.algebra.renaming import aliases_of
from dyda.model.preferences import Preference, Preferences, render_header
from dyda.model.relation import quoted
from dyda.model.sql.text import Span, SqlText, TokenType, kinds

__all__ = ["render_view"]


def render_view(tree: Query, preferences: Preferences) -> str:
    """The text of a view file with this tree and these preferences."""
    header = render_header(preferences)
    lines = [header] if header is not None else []
    lines.append(_Writer(tree, preferences).query(tree, ""))
    return "\n".join(lines) + "\n"


@dataclass
class _From:
    """FROM and WHERE: relations that are cross joined, and conditions. Inner joins and selections commute, so every
    condition may be in WHERE; those with subqueries must."""

    tables: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    subqueries: list[str] = field(default_factory=list)

    @property
    def where(self) -> list[str]:
        return self.conditions + self.subqueries


class _Writer:
    def __init__(self, tree: Query, preferences: Preferences) -> None:
        self.preferences = preferences
        self.used = {ref for expression in expressions(tree) for ref in expression.columns}
        self.aliases = set(aliases_of(tree))
        self.called: dict[ColumnRef, str] = {}
        """Columns that are not written as `alias`.`column`: keys and aggregates of a GROUP BY, wrapped relations."""

    def query(self, query: Query, prefix: str) -> str:
        match query:
            case Project():
                return self.select(query, prefix, "SELECT ")
            case Distinct(Project() as below):
                return self.select(below, prefix, "SELECT DISTINCT ")
            case Distinct(below):
                return f"SELECT DISTINCT *\nFROM {_enclosed(self.query(below, prefix))} {quoted(self.alias('rows'))}"
            case SetOperation(kind, everything, left, right):
                sides = [(side, self.query(side, prefix)) for side in (left, right)]
                shown = [_enclosed(text) if isinstance(side, SetOperation) else text for side, text in sides]
                return f"\n{kind.upper()}{' ALL' if everything else ''}\n".join(shown)
            case _:
                assert_never(query)

    def select(self, project: Project, prefix: str, begin: str) -> str:
        node: Node = project.input
        having: list[Expression] = []
        while isinstance(node, Select):
            having.append(node.condition)
            node = node.input
        if isinstance(node, Group):
            return self.grouped(project, node, having[::-1], prefix, begin)
        source = self.gathered(project.input)  # it decides what columns are called
        return _block(begin, self.items(project, prefix), source)

    def items(self, project: Project, prefix: str) -> list[str]:
        items = []
        for item in project.items:
            text = item.expression.rendered(self.name)
            column = item.expression.column
            if column is None or column in self.called or column.column != item.name:
                text += f" AS {quoted(item.name)}"
            items.append(text + _comment(self.preferences.of_item(prefix + item.name)))
        return items

    def grouped(self, project: Project, group: Group, having: list[Expression], prefix: str, begin: str) -> str:
        source, keys, names = self.parts(group)
        self.called |= dict(zip(group.columns, names, strict=True))
        items = self.items(project, prefix)
        conditions = [self.conjunct(condition) for condition in having]
        shown = {ref for item in project.items for ref in item.expression.columns}
        if not keys and not conditions and not shown & set(group.columns):
            conditions.append("true")  # one group, although nothing of it is selected
        return _block(begin, items, source, keys, conditions)

    def parts(self, group: Group) -> tuple[_From, list[str], list[str]]:
        """FROM of a group, its keys, and its columns."""
        source = self.gathered(group.input)
        keys = [self.key(key.expression) for key in group.keys]
        return source, keys, keys + [self.aggregate(aggregate) for aggregate in group.aggregates]

    def key(self, expression: Expression) -> str:
        text = expression.rendered(self.name)
        return text if expression.column is not None or _is_closed(text) else f"({text})"

    def aggregate(self, aggregate: Aggregate) -> str:
        argument = aggregate.argument.rendered(self.name) if aggregate.argument is not None else "*"
        text = f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{argument})"
        return text if aggregate.only is None else f"{text} FILTER (WHERE {aggregate.only.rendered(self.name)})"

    def gathered(self, node: Node) -> _From:
        source = _From()
        self.gather(node, source)
        return source

    def gather(self, node: Node, source: _From) -> None:
        match node:
            case Scan(alias, relation):
                name = relation.name
                self.table(".".join(map(quoted, (name.source, name.schema, name.table))), alias, source)
            case Derived(below, alias, view):
                text = quoted(view) if view is not None else _enclosed(self.query(below, f"{alias}."))
                self.table(text, alias, source)
            case Group(alias=alias):
                self.table(_enclosed(self.group(node)), alias, source)
            case Select(below, condition):
                self.gather(below, source)
                source.conditions.append(self.conjunct(condition))
            case Join(left, right, condition):
                self.gather(left, source)
                self.gather(right, source)
                if condition is not None:
                    source.conditions.append(self.conjunct(condition))
            case OuterJoin():
                self.outer(node, source)
            case SemiJoin():
                self.gather(node.left, source)
                source.subqueries.append(self.semi(node))
            case Project() | Distinct() | SetOperation():
                raise ValueError(f"{type(node).__name__} is in FROM without an alias")
            case _:
                assert_never(node)

    def table(self, text: str, alias: str, source: _From) -> None:
        source.tables.append(f"{text} {quoted(alias)}{_comment(self.preferences.of_relation(alias))}")

    def group(self, group: Group) -> str:
        """GROUP BY as a query of its own, under the names that Group gives."""
        source, keys, names = self.parts(group)
        columns = zip(names, group.columns, strict=True)
        items = [f"{text} AS {quoted(ref.column)}" for text, ref in columns] or ["1 AS `one`"]
        return _block("SELECT ", items, source, keys, [] if names else ["true"])

    def outer(self, node: OuterJoin, source: _From) -> None:
        """Conditions of the preserved side commute with the join; those of the other side belong to ON."""
        left, right = self.gathered(node.left), self.gathered(node.right)
        full = node.kind == "full"
        if node.kind != "left" and (left.where if full else left.subqueries):
            left = self.wrapped(node.left, left)
        if node.kind != "right" and (right.where if full else right.subqueries):
            right = self.wrapped(node.right, right)
        preserved, other = (right, left) if node.kind == "right" else (left, right)
        source.conditions += preserved.conditions
        source.subqueries += preserved.subqueries
        conditions = [self.conjunct(condition) for condition in node.conditions] + other.conditions
        text = f"{_joined(left.tables)}\n{node.kind.upper()} JOIN {_operand(_joined(right.tables))}"
        source.tables.append(text + (f" ON {' AND '.join(conditions)}" if conditions else ""))

    def wrapped(self, node: Node, source: _From) -> _From:
        """The node as a derived table, where its conditions have no other place; its columns get new names."""
        alias = self.alias("wrapped")
        wanted = [ref for ref in node.columns if ref in self.used]
        items = [f"{self.name(ref)} AS `c{place}`" for place, ref in enumerate(wanted, start=1)] or ["1 AS `one`"]
        text = _enclosed(_block("SELECT ", items, source))
        self.called |= {ref: str(ColumnRef(alias, f"c{place}")) for place, ref in enumerate(wanted, start=1)}
        return _From([f"{text} {quoted(alias)}"])

    def semi(self, node: SemiJoin) -> str:
        right = self.gathered(node.right)
        right.conditions += [self.conjunct(condition) for condition in node.conditions]
        if node.membership is None:
            return f"{'NOT ' if node.anti else ''}EXISTS {_enclosed(_block('SELECT ', ['1'], right))}"
        one, other = node.membership
        comment = _comment(self.preferences.of_condition(joined(one, " NOT IN ", other).sql))
        block = _block("SELECT ", [other.rendered(self.name)], right)
        return f"{self.key(one)} NOT IN {_enclosed(block)}{comment}"

    def conjunct(self, condition: Expression) -> str:
        """The condition as one part of a conjunction: only what binds weaker than AND needs parentheses."""
        text = condition.rendered(self.name)
        shown = f"({text})" if _at_the_top(text, _WEAKER_THAN_AND) else text
        return f"{shown}{_comment(self.preferences.of_condition(condition.sql))}"

    def name(self, reference: ColumnRef) -> str:
        return self.called.get(reference) or str(reference)

    def alias(self, name: str) -> str:
        alias = next(free for n in count(1) if (free := f"{name}_{n}") not in self.aliases)
        self.aliases.add(alias)
        return alias


def _block(begin: str, items: list[str], source: _From, groups: Sequence[str] = (), having: Sequence[str] = ()) -> str:
    lines = [begin + (",\n" + " " * len(begin)).join(items), "FROM " + _joined(source.tables)]
    if source.where:
        lines.append("WHERE " + "\n  AND ".join(source.where))
    if groups:
        lines.append("GROUP BY " + ", ".join(groups))
    if having:
        lines.append("HAVING " + "\n   AND ".join(having))
    return "\n".join(lines)


def _joined(tables: list[str]) -> str:
    return "\nCROSS JOIN ".join([tables[0], *map(_operand, tables[1:])])


def _operand(table: str) -> str:
    """What follows JOIN: a join of its own needs parentheses there."""
    return f"({table})" if _at_the_top(table, _JOIN) else table


def _enclosed(text: str) -> str:
    """In parentheses and indented, except for lines inside a quoted name or string: they are part of it."""
    written, done = [], 0
    for word in SqlText("", text).words:
        if "\n" in text[word.start : word.end + 1]:
            written += [text[done : word.start].replace("\n", "\n  "), text[word.start : word.end + 1]]
            done = word.end + 1
    written.append(text[done:].replace("\n", "\n  "))
    return f"(\n  {''.join(written)}\n)"


@lru_cache(maxsize=4096)
def _is_closed(text: str) -> bool:
    """Whether nothing beside the text can bind tighter than what is in it: (…), or a call f(…)."""
    words = SqlText("", text)
    opening = 1 if words.is_name(0) and words.kind(0) is TokenType.VAR else 0
    return words.encloses(Span(opening, len(words.words)))


@lru_cache(maxsize=4096)
def _at_the_top(text: str, sought: frozenset[TokenType | None]) -> bool:
    words = SqlText("", text)
    return any(words.kind(index) in sought for index in words.top(Span(0, len(words.words))))


_JOIN = kinds("JOIN")
_WEAKER_THAN_AND = kinds("OR XOR DAMP")


def _comment(preference: Preference | None) -> str:
    words = [word for word in ("dispensable", "replaceable") if preference is not None and getattr(preference, word)]
    return f" /* {', '.join(words)} */" if words else ""
