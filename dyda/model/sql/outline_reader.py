"""Reads the outline of a view: which words are select items, relations, conditions, groups and subqueries.

    [WITH name AS (query) …] block [UNION | EXCEPT | INTERSECT [ALL] block] …
    block = SELECT item, item …  FROM relation [JOIN relation ON …] …  WHERE conjunct AND …  GROUP BY …  HAVING …

Only this outline is read here; items and conditions are not looked into. Everything a view cannot have is refused by
name, with its line and what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Literal, TypeVar

from dyda.model.sql.outline import (
    Block,
    Combined,
    Definition,
    FromItem,
    Joined,
    JoinKind,
    Nested,
    Occurrence,
    Outline,
    QueryOutline,
)
from dyda.model.sql.refusals import CLAUSES, JOINS, refuse_beginning, refuse_everywhere
from dyda.model.sql.text import DEPTH, Span, SqlText, TokenType, kinds

__all__ = ["read_outline"]

Read = TypeVar("Read")


def read_outline(text: SqlText) -> Outline:
    """Cut a view's text into its components, or refuse it."""
    refuse_everywhere(text)
    return _Reader(text).outline()


class _Reader:
    def __init__(self, text: SqlText) -> None:
        self.text = text
        self.at = 0
        self.end = len(text.words)
        self.known: dict[str, Definition] = {}
        self.used: set[str] = set()
        self.subqueries: dict[int, QueryOutline] = {}
        self.occurrences: list[Occurrence] = []
        if self.end and text.kind(self.end - 1) is TokenType.SEMICOLON:
            self.end -= 1

    def outline(self) -> Outline:
        query = self.query()
        if self.at < self.end:
            self.refuse_clause("the end of the query")
        occurrences = sorted(self.occurrences, key=lambda occurrence: occurrence.span.start)
        return Outline(query, self.subqueries, tuple(occurrences))

    def query(self) -> QueryOutline:
        if self.kind() is not TokenType.WITH:
            return self.combined()
        self.at += 1
        if self.kind() is TokenType.RECURSIVE:
            raise self.unsupported("a recursive common table expression", "Write out the steps that you need.")
        outside = self.known
        definitions = self.listed(self.definition)
        body = self.combined()
        for definition in definitions:
            if definition.name not in self.used:
                what = f"the common table expression {definition.name} is never used"
                raise self.text.refusal(definition.at, what, "Remove it.")
        self.known = outside
        return body

    def definition(self) -> Definition:
        at = self.at
        name = self.identifier("the name of a common table expression")
        columns = self.names() if self.kind() is TokenType.L_PAREN else ()
        written = self.take(TokenType.ALIAS)
        if self.is_word("MATERIALIZED") or (self.kind() is TokenType.NOT and self.is_word("MATERIALIZED", 1)):
            raise self.unsupported("[NOT] MATERIALIZED", "Write: WITH name AS (SELECT …).")
        if written and self.kind() is not TokenType.L_PAREN:
            raise self.missing("'('", "Write: WITH name AS (SELECT …).")
        definition = Definition(name, columns, self.enclosed(), at)
        self.known = {**self.known, name: definition}
        self.used.discard(name)
        return definition

    def enclosed(self) -> QueryOutline:
        """A query in parentheses, which begin here."""
        self.expect(TokenType.L_PAREN, "(")
        return self.closed(self.at - 1, self.query())

    def closed(self, opening: int, read: Read) -> Read:
        """What was read inside parentheses, if it ends where they do."""
        if self.at != self.text.counterpart(opening):
            self.refuse_clause("a closing parenthesis")
        self.at += 1
        return read

    def listed(self, read: Callable[[], Read]) -> tuple[Read, ...]:
        """What `read` reads, once or several times with commas between."""
        found = [read()]
        while self.take(TokenType.COMMA):
            found.append(read())
        return tuple(found)

    def combined(self) -> QueryOutline:
        """INTERSECT binds tighter than UNION and EXCEPT, which are read from left to right."""
        query = self.intersected()
        while (kind := _SETS.get(self.kind())) in ("union", "except"):
            at = self.at
            query = Combined(kind, self.keeps_all(), query, self.intersected(), at)
        return query

    def intersected(self) -> QueryOutline:
        query = self.operand()
        while self.kind() is TokenType.INTERSECT:
            at = self.at
            query = Combined("intersect", self.keeps_all(), query, self.operand(), at)
        return query

    def keeps_all(self) -> bool:
        self.at += 1
        if self.take(TokenType.ALL):
            return True
        self.take(TokenType.DISTINCT)
        return False

    def operand(self) -> QueryOutline:
        return self.enclosed() if self.kind() is TokenType.L_PAREN else self.block()

    def block(self) -> Block:
        begin = self.at
        if not self.take(TokenType.SELECT):
            refuse_beginning(self.text, self.at, self.end)
        distinct = self.take(TokenType.DISTINCT)
        if distinct and self.kind() is TokenType.ON and self.text.kind(self.at + 1) is TokenType.L_PAREN:
            remedy = "Write GROUP BY with min(…) or max(…), or WHERE NOT EXISTS (SELECT … a preferred row)."
            raise self.unsupported("DISTINCT ON (…)", remedy)
        if not distinct:
            self.take(TokenType.ALL)
        if self.is_word("TOP") and self.text.kind(self.at + 1) is TokenType.NUMBER:
            raise self.unsupported("TOP", CLAUSES[TokenType.LIMIT][1])
        items = self.listed(lambda: self.expression("a select item"))
        if not self.take(TokenType.FROM):
            self.refuse_clause("FROM")
        tables = reduce(Joined, self.listed(self.relation))
        where = self.conditions(TokenType.WHERE)
        groups: tuple[Span, ...] | None = None
        group_all = False
        if self.take(TokenType.GROUP_BY):
            groups, group_all = self.groups()
        return Block(items, tables, where, distinct, groups, group_all, self.conditions(TokenType.HAVING), begin)

    def conditions(self, clause: TokenType) -> tuple[Span, ...]:
        return self.conjuncts(self.expression("a condition")) if self.take(clause) else ()

    def groups(self) -> tuple[tuple[Span, ...], bool]:
        if self.take(TokenType.ALL):
            return (), True
        if self.kind() is TokenType.DISTINCT:
            raise self.unsupported("GROUP BY DISTINCT", "Write GROUP BY: every group occurs once.")
        return self.listed(lambda: self.expression("a grouping expression")), False

    def relation(self) -> FromItem:
        item = self.primary()
        while (joined := self.joined(item)) is not None:
            item = joined
        return item

    def primary(self) -> FromItem:
        if self.kind() is not TokenType.L_PAREN:
            return self.occurrence()
        start = self.at
        if self.is_query(start):
            query = self.enclosed()
            alias, columns = self.alias()
            return Nested(query, alias, columns, Span(start, self.at))
        self.at += 1
        item = self.closed(start, self.relation())
        if self.text.is_name(self.at) and not self.ends_expression(self.at, self.at - 1):
            raise self.unsupported("an alias for a parenthesised join", "Give each relation its own alias.")
        return item

    def is_query(self, index: int) -> bool:
        """Whether the parenthesis at `index` holds a query: `(SELECT …)`, but not `((SELECT …) + 1)`."""
        if self.text.kind(index) is not TokenType.L_PAREN:
            return False
        if self.text.kind(index + 1) in (TokenType.SELECT, TokenType.WITH):
            return True
        if not self.is_query(index + 1):
            return False
        after = self.text.kind(self.text.counterpart(index + 1) + 1)
        return after is TokenType.R_PAREN or after in _SETS or after in CLAUSES

    def is_argument(self, index: int) -> bool:
        """Whether the parentheses hold one in parentheses: `sum((SELECT …))`, `IN ((SELECT …), 1)`."""
        inner = self.text.kind(index + 1) is TokenType.L_PAREN and self.text.kind(index - 1) is not TokenType.EXISTS
        return inner and self.text.kind(self.text.counterpart(index + 1) + 1) is TokenType.R_PAREN

    def occurrence(self) -> Occurrence:
        start = self.at
        if self.is_word("ONLY") and self.text.is_name(self.at + 1) and self.text.kind(self.at + 2) is TokenType.DOT:
            raise self.unsupported("ONLY", "Remove it: a relation is read with its partitions and children.")
        parts = [self.identifier("a relation")]
        while self.take(TokenType.DOT):
            parts.append(self.identifier("a relation"))
        if self.kind() is TokenType.L_PAREN:
            remedy = "Read a relation: FROM source.table."
            raise self.text.unsupported(start, f"the table function {parts[-1]}()", remedy)
        if len(parts) > 3:
            what = f"the relation {'.'.join(parts)} has too many parts"
            raise self.text.refusal(start, what, "Write source.table or source.schema.table.")
        definition = self.known.get(parts[0]) if len(parts) == 1 else None
        named, columns = self.alias()
        if columns and definition is None:
            remedy = "Rename columns in the select list with AS."
            raise self.text.unsupported(self.at - 1, "a list of column names after an alias", remedy)
        occurrence = Occurrence(tuple(parts), named, Span(start, self.at), definition, columns)
        if definition is None:
            self.occurrences.append(occurrence)
        else:
            self.used.add(definition.name)
        return occurrence

    def alias(self) -> tuple[str | None, tuple[str, ...]]:
        following = (self.text.shown(i).upper() for i in range(self.at, min(self.at + 3, self.end)))
        match list(following):
            case ["VERSION" | "TIMESTAMP" | "SYSTEM_VERSION" | "SYSTEM_TIME", "AS", "OF"]:
                raise self.unsupported("time travel (AS OF)", "Remove it: a view follows the relation as it is now.")
        if not self.take(TokenType.ALIAS) and (
            self.at >= self.end or not self.text.is_name(self.at) or self.ends_expression(self.at, self.at - 1)
        ):
            return None, ()
        name = self.identifier("an alias")
        return name, self.names() if self.kind() is TokenType.L_PAREN else ()

    def joined(self, left: FromItem) -> Joined | None:
        kind = self.join_kind()
        if not self.take(TokenType.JOIN):
            return None
        right = self.primary()
        if self.take(TokenType.ON):
            return Joined(left, right, on=self.conjuncts(self.expression("a join condition")), kind=kind)
        return Joined(left, right, using=self.using() if self.take(TokenType.USING) else (), kind=kind)

    def join_kind(self) -> JoinKind:
        """The words before JOIN, if it is a join that begins here."""
        first = self.kind()
        if first in JOINS:
            raise self.unsupported(*JOINS[first])
        if first not in _JOIN_KINDS:
            return "inner"
        self.at += 1
        if first is TokenType.LEFT and self.kind() in (TokenType.SEMI, TokenType.ANTI):
            first = self.kind()
            self.at += 1
        elif first in _OUTER:
            self.take(TokenType.OUTER)
        if self.kind() is not TokenType.JOIN:
            self.refuse_clause("JOIN")
        return _JOIN_KINDS[first]

    def names(self) -> tuple[str, ...]:
        """A list of column names in parentheses."""
        return tuple(name for name, _ in self.using())

    def using(self) -> tuple[tuple[str, int], ...]:
        self.expect(TokenType.L_PAREN, "(")
        names = self.listed(lambda: (self.identifier("a column"), self.at - 1))
        self.expect(TokenType.R_PAREN, ")")
        return names

    def expression(self, what: str) -> Span:
        """The words up to the next comma, clause, join or closing bracket that is not inside the expression."""
        start, depth = self.at, 0
        while self.at < self.end:
            kind = self.kind()
            if depth == 0 and (kind is TokenType.COMMA or self.ends_expression(self.at, start)):
                break
            if self.is_query(self.at) and not self.is_argument(self.at):
                opening = self.at
                self.subqueries[opening] = self.enclosed()
                continue
            if kind in (TokenType.R_PAREN, TokenType.R_BRACKET) and depth == 0:
                break
            if kind not in (TokenType.CASE, TokenType.END):
                depth += DEPTH.get(kind, 0)
            self.at += 1
        if self.at == start:
            raise self.text.refusal(self.at, f"{what} is missing", "Write it, or remove the word before it.")
        return Span(start, self.at)

    def ends_expression(self, index: int, start: int) -> bool:
        """Whether the word begins a clause or a join rather than being a name or a function there."""
        kind, before = self.text.kind(index), self.text.kind(index - 1)
        if kind not in _ENDS:
            return False
        if self.text.shown(index).startswith("`") or before in (TokenType.DOT, TokenType.ALIAS):
            return False
        if kind is TokenType.FROM and before is TokenType.DISTINCT:  # a IS [NOT] DISTINCT FROM b
            return False
        if kind in (TokenType.LEFT, TokenType.RIGHT) and self.text.kind(index + 1) is TokenType.L_PAREN:
            return False
        # Words that Spark does not reserve may name a column wherever a value is expected.
        return kind not in _UNRESERVED or (index != start and before not in _BEFORE_VALUES)

    def conjuncts(self, span: Span) -> tuple[Span, ...]:
        """The parts that AND joins at the top: `a AND (b AND c)` gives a, b, c; `a AND b OR c` stays whole."""
        if span.start in self.subqueries:
            return (span,)
        if self.text.encloses(span):
            inner = self.conjuncts(self.text.inside(span.start))
            return inner if len(inner) > 1 else (span,)
        cuts, betweens = [], 0
        for index in self.text.top(span):
            kind = self.text.kind(index)
            if self.text.kind(index - 1) is TokenType.DOT:
                continue
            if kind in (TokenType.OR, TokenType.XOR, TokenType.DAMP):
                return (span,)
            if kind is TokenType.BETWEEN:
                betweens += 1
            elif kind is TokenType.AND and betweens:
                betweens -= 1
            elif kind is TokenType.AND:
                cuts.append(index)
        return tuple(part for piece in span.split(cuts) for part in self.conjuncts(piece)) if cuts else (span,)

    def identifier(self, what: str) -> str:
        if self.at >= self.end or not self.text.is_name(self.at):
            remedy = "Write its name, in backticks if it is unusual."
            if self.at < self.end and self.text.shown(self.at).startswith('"'):
                remedy = f"Write it in backticks: `{self.text.shown(self.at)[1:-1]}`."
            raise self.missing(what, remedy)
        self.at += 1
        return self.text.name(self.at - 1)

    def kind(self) -> TokenType | None:
        return self.text.kind(self.at) if self.at < self.end else None

    def is_word(self, word: str, further: int = 0) -> bool:
        """Whether this word, or one further on, is `word`, which is not a keyword everywhere."""
        return self.at + further < self.end and self.text.shown(self.at + further).upper() == word

    def take(self, kind: TokenType) -> bool:
        if self.kind() is not kind:
            return False
        self.at += 1
        return True

    def expect(self, kind: TokenType, shown: str) -> None:
        if not self.take(kind):
            raise self.missing(repr(shown), "Write it.")

    def refuse_clause(self, expected: str) -> None:
        kind = self.kind()
        if kind in CLAUSES:
            raise self.unsupported(*CLAUSES[kind])
        if expected == "FROM" and kind in (None, TokenType.R_PAREN, *_SETS):
            raise self.unsupported("a query without FROM", "A view reads at least one relation: FROM source.table.")
        found = self.text.shown(self.at) if kind is not None else "the end"
        what = f"{expected} is expected here, not {found!r}"
        raise self.text.refusal(self.at, what, "Put unusual names in backticks.")

    def unsupported(self, construct: str, remedy: str) -> Exception:
        return self.text.unsupported(self.at, construct, remedy)

    def missing(self, what: str, remedy: str) -> Exception:
        here = repr(self.text.shown(self.at)) if self.at < self.end else "the end"
        return self.text.refusal(self.at, f"{what} is missing at {here}", remedy)


_SETS: dict[TokenType | None, Literal["union", "except", "intersect"]] = {
    TokenType.UNION: "union",
    TokenType.EXCEPT: "except",
    TokenType.INTERSECT: "intersect",
}
_JOIN_KINDS: dict[TokenType | None, JoinKind] = {
    TokenType.INNER: "inner",
    TokenType.CROSS: "inner",
    TokenType.SEMI: "semi",
    TokenType.ANTI: "anti",
    TokenType.LEFT: "left",
    TokenType.RIGHT: "right",
    TokenType.FULL: "full",
}
_OUTER = kinds("LEFT RIGHT FULL")
_ENDS = kinds("FROM WHERE JOIN ON USING SEMICOLON GROUP_BY HAVING").union(_SETS, _JOIN_KINDS, CLAUSES, JOINS)
_UNRESERVED = kinds("OFFSET WINDOW PIVOT UNPIVOT QUALIFY LIMIT FETCH TABLE_SAMPLE LATERAL").union(_JOIN_KINDS, JOINS)
_BEFORE_VALUES = kinds(
    """
    L_PAREN L_BRACKET COMMA PLUS DASH STAR SLASH MOD DIV DPIPE EQ NEQ LT LTE GT GTE NULLSAFE_EQ AND OR NOT BETWEEN LIKE
    ILIKE RLIKE CASE WHEN THEN ELSE AMP PIPE CARET
    """
)
