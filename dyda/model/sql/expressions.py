"""Expressions of a view: which columns they read, and their text with each column fully qualified.

sqlglot's tree says where the column references are; the text between them goes to Spark as it was written, comments
aside. So nothing that sqlglot does to an expression can change its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token

from dyda.errors import NotComputable
from dyda.model.algebra.column_facts import Facts, names_time
from dyda.model.algebra.nodes import ColumnRef, Expression
from dyda.model.sql.functions import is_aggregate
from dyda.model.sql.text import Span, SqlText, TokenType

__all__ = ["Item", "Lookup", "Put", "Whole", "condition", "is_positive", "item", "occurrences_of", "split_item"]


class Lookup(Protocol):
    """Finds the column that a written reference means."""

    def find(self, parts: Sequence[str], offset: int) -> ColumnRef: ...

    def facts(self, reference: ColumnRef) -> Facts: ...

    def standin(self, reference: ColumnRef) -> Expression | None: ...


@dataclass(frozen=True)
class Put:
    """What replaces some words, up to, not including, `stop`: the value of an aggregate or a subquery."""

    stop: int
    expression: Expression
    facts: Facts


Puts = Mapping[int, Put]
"""By the word that they begin with."""


@dataclass(frozen=True)
class Item:
    """A select item: `expression` under `name` (None if it has none), or a star over the parts before it."""

    expression: Expression | None
    name: str | None
    star: tuple[str, ...] | None = None


def item(text: SqlText, span: Span, lookup: Lookup, plain_numeric: str, puts: Puts | None = None) -> Item:
    """Read one select item."""
    puts = puts or {}
    star, span, name = split_item(text, span, puts)
    if star is not None:
        return Item(None, None, star)
    tree = _tree(text, span, puts)
    expression = _expression(text, span, tree, lookup, plain_numeric, puts, passed_on=True)
    core = tree.unnest()
    if name is None and isinstance(core, exp.Column) and _put_at(text, core, puts) is None:
        name = _name(text, core.parts[-1])
    return Item(expression, name)


def split_item(text: SqlText, span: Span, puts: Puts) -> tuple[tuple[str, ...] | None, Span, str | None]:
    """Of a select item: the parts before its star if it is one, the words of its expression, and its written name."""
    tree = _tree(text, span, puts)
    star = tree.this if isinstance(tree, exp.Column) else tree
    if isinstance(star, exp.Star) and not star.args.get("except_") and text.kind(span.stop - 1) is TokenType.STAR:
        return tuple(text.name(i) for i in range(span.start, span.stop - 1, 2)), span, None
    if isinstance(tree, exp.Aliases):
        raise text.refusal(span.start, "a select item with several names is not supported", "One item per column.")
    if not isinstance(tree, exp.Alias):
        return None, span, None
    if not text.is_name(span.stop - 1):
        raise text.refusal(span.stop - 1, f"{text.shown(span.stop - 1)} is not a column name", "Use backticks.")
    cut = 2 if text.kind(span.stop - 2) is TokenType.ALIAS else 1
    return None, Span(span.start, span.stop - cut), text.name(span.stop - 1)


def condition(text: SqlText, span: Span, lookup: Lookup, plain_numeric: str, puts: Puts | None = None) -> Expression:
    """Read one conjunct of a condition."""
    tree = _tree(text, span, puts or {})
    if isinstance(tree, exp.Alias | exp.Aliases | exp.Star):
        raise text.refusal(span.stop - 1, f"{text.shown(span.stop - 1)!r} is not expected here", "Remove it.")
    return _expression(text, span, tree, lookup, plain_numeric, puts or {}, passed_on=False)


def is_positive(text: SqlText, span: Span, puts: Puts, start: int) -> bool:
    """Whether only AND and OR are around what is put at `start`: there, NULL has the same effect as false."""
    tree = _tree(text, span, puts)
    nodes = [node for node in tree.find_all(exp.Column) if node.parts[0].meta.get("start") == text.offset(start)]
    if len(nodes) != 1:
        return False
    node: exp.Expr | None = nodes[0]
    while node is not tree and node is not None:
        node = node.parent
        if not isinstance(node, exp.And | exp.Or | exp.Paren):
            return False
    return True


@dataclass(frozen=True)
class Whole:
    """An expression as its words, with columns resolved, so that it can be found again inside another."""

    units: tuple[tuple[object, ...], ...]
    places: tuple[tuple[int, int], ...]
    """Of each unit, the words that it is made of."""
    tree: exp.Expr

    @classmethod
    def read(cls, text: SqlText, span: Span, lookup: Lookup, puts: Puts) -> Whole:
        while text.encloses(span):
            span = text.inside(span.start)
        tree = _tree(text, span, puts)
        found = {}
        for node in list(tree.find_all(exp.Column)):
            start, end = _place(text, span, node)
            if put := _put_at(text, node, puts):
                found[start] = (end, ("put", put.expression.sql))
            else:
                reference = lookup.find([_name(text, part) for part in node.parts], start)
                found[start] = (end, (reference.alias, reference.column))
            node.replace(exp.column("\0".join(found[start][1])))
        if isinstance(core := tree, exp.Column):  # a replaced root is not replaced in place
            start, _ = _place(text, span, core)
            tree = exp.column("\0".join(found[start][1]))
        units: list[tuple[object, ...]] = []
        places = []
        index = span.start
        while index < span.stop:
            word, begin = text.words[index], index
            if word.start in found:
                end, unit = found[word.start]
                while index < span.stop and text.words[index].start < end:
                    index += 1
                units.append(unit)
            else:
                literal = word.token_type in (TokenType.STRING, TokenType.RAW_STRING)
                units.append((word.token_type.name, word.text if literal else word.text.upper()))
                index += 1
            places.append((begin, index))
        return cls(tuple(units), tuple(places), tree)


def occurrences_of(text: SqlText, whole: Whole, span: Span, lookup: Lookup, puts: Puts) -> list[tuple[int, int]]:
    """Where `whole` occurs in the words as a complete expression. Equal words are not enough: `x * a + b` does not
    contain `a + b`."""
    within = Whole.read(text, span, lookup, puts)
    size, found = len(whole.units), []
    at = 0
    while at + size <= len(within.units):
        if within.units[at : at + size] == whole.units:
            start, stop = within.places[at][0], within.places[at + size - 1][1]
            marker = Expression("\0whole", frozenset())
            there = Whole.read(text, span, lookup, {**puts, start: Put(stop, marker, Facts(None, False))})
            back = there.tree.transform(
                lambda node: whole.tree.copy() if isinstance(node, exp.Column) and "\0whole" in node.name else node
            )
            if back == within.tree:
                found.append((start, stop))
                at += size
                continue
        at += 1
    return found


def _tree(text: SqlText, span: Span, puts: Puts) -> exp.Expr:
    """The words as sqlglot parses a select item; every identifier in it knows its place in the text."""
    words = [Token(TokenType.SELECT, "SELECT")]
    index = span.start
    while index < span.stop:
        word = text.words[index]
        if index in puts:  # one name in the place of all these words
            index = puts[index].stop
            words.append(Token(TokenType.VAR, "put", word.line, word.col, word.start, text.words[index - 1].end))
        else:
            index += 1
            words.append(word)
    try:
        trees = Spark().parser().parse(words, text.text)
    except ParseError as error:
        _refuse_open_case(text, span)
        detail = error.errors[0] if error.errors else {}
        found = str(detail.get("highlight") or "")
        where = next((w.start for w in words[1:] if w.line == detail.get("line")), text.offset(span.start))
        what = _UNREADABLE + (f" at {found!r}" if found else "")
        remedy = "Check it against Spark SQL; put unusual names in backticks."
        raise text.refusal_at(where, what, remedy) from None
    select = trees[0] if len(trees) == 1 else None
    if not isinstance(select, exp.Select) or len(select.expressions) != 1:
        raise text.refusal(span.start, _UNREADABLE, "Put unusual names in backticks.")
    clauses = [name for name, value in select.args.items() if value and name not in ("expressions", "kind")]
    if clauses == ["into"]:
        raise text.unsupported(span.start, "SELECT … INTO", "Remove it: a view is named after its file.")
    if clauses:  # words that would be dropped silently with it
        raise text.refusal(span.start, _UNREADABLE, "Put unusual names in backticks.")
    tree = select.expressions[0]
    assert isinstance(tree, exp.Expr)
    return tree


def _refuse_open_case(text: SqlText, span: Span) -> None:
    opened: list[int] = []
    for index in range(span.start, span.stop):
        if text.kind(index - 1) is TokenType.DOT:
            continue
        if text.kind(index) is TokenType.CASE:
            opened.append(index)
        elif text.kind(index) is TokenType.END and opened:
            opened.pop()
    if opened:
        raise text.refusal(opened[-1], "this CASE has no END", "Write CASE WHEN … THEN … END.")


@dataclass(frozen=True)
class _Reading:
    """An expression with its columns found: `references` by the identity of their node in the tree."""

    text: SqlText
    span: Span
    tree: exp.Expr
    references: dict[int, ColumnRef]
    plain_numeric: str
    known: dict[ColumnRef, Facts]


def _expression(
    text: SqlText, span: Span, tree: exp.Expr, lookup: Lookup, plain_numeric: str, puts: Puts, *, passed_on: bool
) -> Expression:
    _refuse_unread(text, span, tree, puts)
    found: dict[int, tuple[int, ColumnRef]] = {}  # start of a reference → its end, what it means
    references: dict[int, ColumnRef] = {}
    known: dict[ColumnRef, Facts] = {}
    instead: dict[ColumnRef, Expression] = {}
    for node in tree.find_all(exp.Column):
        start, end = _place(text, span, node)
        if put := _put_at(text, node, puts):
            reference = ColumnRef(f"#{start}", "put")
            instead[reference], known[reference] = put.expression, put.facts
        else:
            reference = lookup.find([_name(text, part) for part in node.parts], start)
            known[reference] = lookup.facts(reference)
            standin = lookup.standin(reference)
            if standin is not None:
                instead[reference] = standin
        found[start] = (end, reference)
        references[id(node)] = reference
    if tree.find(exp.Star) is not None:
        raise text.refusal(span.start, "* inside an expression is not supported", "List the columns.")
    core = tree.unnest()
    only = references.get(id(core)) if isinstance(core, exp.Column) else None
    reading = _Reading(text, span, tree, references, plain_numeric, known)
    _refuse_text_types(reading, core if passed_on else None)
    _refuse_special_dates(reading)
    parts: tuple[str | ColumnRef, ...] = (only,) if only is not None else _parts(text, span, found)
    expression = Expression(
        sql="".join(str(part) for part in parts),
        columns=frozenset(references.values()),
        column=only,
        equality=_equality(core, references),
        parts=parts,
    )
    return expression.replaced(lambda ref: instead.get(ref) or Expression.of(ref)) if instead else expression


def _refuse_unread(text: SqlText, span: Span, tree: exp.Expr, puts: Puts) -> None:
    """Aggregates and subqueries have values only where something was put in their place."""
    if tree.find(exp.Query) is not None:
        raise text.unsupported(span.start, "a subquery here", "Join a derived table in FROM.")
    index = span.start
    while index < span.stop:
        if index in puts:
            index = puts[index].stop
            continue
        if is_aggregate(text, index):
            what = "aggregates cannot be used in WHERE, ON or GROUP BY"
            raise text.refusal(index, what, "Put the condition in HAVING, or aggregate in a subquery.")
        index += 1


def _put_at(text: SqlText, node: exp.Column, puts: Puts) -> Put | None:
    """What was put where the column is; None if it was written there."""
    if len(node.parts) > 1:
        return None
    return next((put for at, put in puts.items() if text.offset(at) == node.parts[0].meta.get("start")), None)


def _place(text: SqlText, span: Span, node: exp.Column) -> tuple[int, int]:
    places = [(part.meta["start"], part.meta["end"]) for part in node.parts if "start" in part.meta]
    if len(places) < len(node.parts):
        what = f"the column {node.sql('spark')} cannot be read exactly"
        raise text.refusal(span.start, what, "Put its name in backticks.")
    return int(places[0][0]), int(places[-1][1]) + 1


def _name(text: SqlText, part: exp.Expr) -> str:
    written = text.text[part.meta["start"] : part.meta["end"] + 1]
    return part.name if written.startswith("`") else written.lower()


def _parts(text: SqlText, span: Span, found: dict[int, tuple[int, ColumnRef]]) -> tuple[str | ColumnRef, ...]:
    """The text of the words with references instead of column names. Whatever is between words becomes one blank: a
    `--` comment there would swallow what follows the expression."""
    parts: list[str | ColumnRef] = []
    written: list[str] = []
    position = text.offset(span.start)
    for word in text.words[span.start : span.stop]:
        if word.start < position:  # inside a reference, or a second reading of the same place (1L)
            continue
        written.append(" " * (word.start > position))
        if word.start in found:
            position, reference = found[word.start]
            parts += ["".join(written), reference]
            written = []
        else:
            position = word.end + 1
            written.append(text.text[word.start : position])
    return tuple(part for part in [*parts, "".join(written)] if part != "")


def _equality(core: exp.Expr, references: dict[int, ColumnRef]) -> tuple[ColumnRef, ColumnRef] | None:
    if not isinstance(core, exp.EQ):
        return None
    left, right = references.get(id(core.this.unnest())), references.get(id(core.expression.unnest()))
    return (left, right) if left is not None and right is not None and left.alias != right.alias else None


def _refuse_text_types(reading: _Reading, passed_on: exp.Expr | None) -> None:
    """Types that travel as text have no operators on Spark: they are passed on, or cast to STRING."""
    for node in reading.tree.find_all(exp.Column):
        reference = reading.references[id(node)]
        declared = reading.known[reference].text_type(reading.plain_numeric)
        if declared is None or node is passed_on:
            continue
        around = node.parent
        while isinstance(around, exp.Paren):
            around = around.parent
        if isinstance(around, exp.Cast) and around.to.this is exp.DataType.Type.TEXT:
            continue
        place = reading.text.place(_place(reading.text, reading.span, node)[0])
        raise NotComputable(
            f"{place}: {reference} has type {declared}, which Spark cannot compute with exactly",
            f"Select it as a column of its own, or compute with its text: CAST({reference} AS STRING).",
        )


def _refuse_special_dates(reading: _Reading) -> None:
    """Spark reads 'today' as the current day wherever a text becomes a date, also implicitly (`d = 'today'`)."""
    words = reading.text.words[reading.span.start : reading.span.stop]
    literals = [word for word in words if word.token_type in (TokenType.STRING, TokenType.RAW_STRING)]
    special = [word for word in literals if _SPECIAL.match(word.text)]
    if special and _is_temporal(reading):
        raise reading.text.refusal_at(
            special[0].start,
            f"the changing date {special[0].text!r} is not supported in a view",
            "Its value changes without a change at a source: use it in the query that reads the view.",
        )


def _is_temporal(reading: _Reading) -> bool:
    """Whether a text in the expression might be read as a date or a time."""
    text, span = reading.text, reading.span
    calls = [text.shown(i) for i in range(span.start, span.stop) if text.kind(i + 1) is TokenType.L_PAREN]
    return (
        any(facts.temporal for facts in reading.known.values())
        or any(cast.to.is_type(*exp.DataType.TEMPORAL_TYPES) for cast in reading.tree.find_all(exp.Cast))
        or any(map(names_time, calls))
    )


_UNREADABLE = "the expression cannot be read"
_SPECIAL = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
