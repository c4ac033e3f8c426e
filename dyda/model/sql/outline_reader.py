"""Reads the outline of a view: which words are select items, relations, conditions, groups and subqueries.

    [WITH name AS (query) …] block [UNION | EXCEPT | INTERSECT [ALL] block] …
    block = SELECT item, item …  FROM relation [JOIN relation ON …] …  WHERE conjunct AND …  GROUP BY …  HAVING …

Only this outline is read here; what lies inside an item or a condition is left as it is. Everything a view cannot
have yet is refused by its name, with its line and with what to write instead.
"""

from __future__ import annotations

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
    With,
)
from dyda.model.sql.refusals import CLAUSES, JOINS, refuse_beginning, refuse_everywhere
from dyda.model.sql.text import Span, SqlText, TokenType

__all__ = ["read_outline"]


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
        return Outline(query, self.subqueries, tuple(sorted(self.occurrences, key=lambda one: one.span.start)))

    def query(self) -> QueryOutline:
        if self.kind() is not TokenType.WITH:
            return self.combined()
        self.at += 1
        if self.kind() is TokenType.RECURSIVE:
            raise self.unsupported("a recursive common table expression", "Write the steps that you need one by one.")
        outside = self.known
        definitions = [self.definition()]
        while self.take(TokenType.COMMA):
            definitions.append(self.definition())
        body = self.combined()
        for definition in definitions:
            if definition.name not in self.used:
                raise self.refusal(
                    f"the common table expression {definition.name} is never used",
                    "Leave it out.",
                    self.text.offset(definition.at),
                )
        self.known = outside
        return With(tuple(definitions), body)

    def definition(self) -> Definition:
        at = self.at
        name = self.identifier("the name of a common table expression")
        columns = self.names() if self.kind() is TokenType.L_PAREN else ()
        written = self.take(TokenType.ALIAS)
        if self.is_word("MATERIALIZED") or (self.kind() is TokenType.NOT and self.is_word("MATERIALIZED", 1)):
            raise self.unsupported("[NOT] MATERIALIZED", "Write: WITH name AS (SELECT …).")
        if written and self.kind() is not TokenType.L_PAREN:
            raise self.refusal(f"'(' is missing{self._here()}", "Write: WITH name AS (SELECT …).")
        query = self.enclosed()
        definition = Definition(name, columns, query, at)
        self.known = {**self.known, name: definition}
        self.used.discard(name)
        return definition

    def enclosed(self) -> QueryOutline:
        """A query in parentheses, which begin here."""
        closing = self.text.closing(self.at) if self.kind() is TokenType.L_PAREN else self.end
        self.expect(TokenType.L_PAREN, "(")
        query = self.query()
        if self.at != closing:
            self.refuse_clause("a closing parenthesis")
        self.at += 1
        return query

    def combined(self) -> QueryOutline:
        """INTERSECT binds tighter than UNION and EXCEPT, which are read from left to right."""
        query = self.intersected()
        while self.kind() in (TokenType.UNION, TokenType.EXCEPT):
            kind, at = self.kind(), self.at
            everything = self.keeps_all()
            query = Combined(
                "union" if kind is TokenType.UNION else "except", everything, query, self.intersected(), at
            )
        return query

    def intersected(self) -> QueryOutline:
        query = self.operand()
        while self.kind() is TokenType.INTERSECT:
            at = self.at
            everything = self.keeps_all()
            query = Combined("intersect", everything, query, self.operand(), at)
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
            raise self.unsupported(
                "DISTINCT ON (…)",
                "Write GROUP BY with min(…) or max(…), or keep each row for which NOT EXISTS (SELECT … a better one).",
            )
        if not distinct:
            self.take(TokenType.ALL)
        if self.is_word("TOP") and self.text.kind(self.at + 1) is TokenType.NUMBER:
            raise self.unsupported("TOP", CLAUSES[TokenType.LIMIT][1])
        items = [self.expression("a select item")]
        while self.take(TokenType.COMMA):
            items.append(self.expression("a select item"))
        if self.kind() is not TokenType.FROM:
            self.refuse_clause("FROM")
        self.at += 1
        tables = self.relation()
        while self.take(TokenType.COMMA):
            tables = Joined(tables, self.relation())
        where: tuple[Span, ...] = ()
        if self.take(TokenType.WHERE):
            where = self.conjuncts(self.expression("a condition"))
        groups: tuple[Span, ...] | None = None
        group_all = False
        if self.take(TokenType.GROUP_BY):
            groups, group_all = self.groups()
        having: tuple[Span, ...] = ()
        if self.take(TokenType.HAVING):
            having = self.conjuncts(self.expression("a condition"))
        return Block(tuple(items), tables, where, distinct, groups, group_all, having, begin)

    def groups(self) -> tuple[tuple[Span, ...], bool]:
        if self.take(TokenType.ALL):
            return (), True
        if self.kind() is TokenType.DISTINCT:
            raise self.unsupported("GROUP BY DISTINCT", "Write GROUP BY: each group is there once.")
        keys = [self.expression("a grouping expression")]
        while self.take(TokenType.COMMA):
            keys.append(self.expression("a grouping expression"))
        return tuple(keys), False

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
        closing = self.text.closing(self.at)
        self.at += 1
        item = self.relation()
        if self.at != closing:
            self.refuse_clause("a closing parenthesis")
        self.at += 1
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
        after = self.text.kind(self.text.closing(index + 1) + 1)
        return after is TokenType.R_PAREN or after in _SETS or after in CLAUSES

    def is_argument(self, index: int) -> bool:
        """Whether the parentheses hold one in parentheses: `sum((SELECT …))`, `IN ((SELECT …), 1)`."""
        inner = self.text.kind(index + 1) is TokenType.L_PAREN and self.text.kind(index - 1) is not TokenType.EXISTS
        return inner and self.text.kind(self.text.closing(index + 1) + 1) is TokenType.R_PAREN

    def occurrence(self) -> Occurrence:
        start = self.at
        if self.is_word("ONLY") and self.text.is_name(self.at + 1) and self.text.kind(self.at + 2) is TokenType.DOT:
            raise self.unsupported("ONLY", "A relation is read with its partitions and children: leave it out.")
        parts = [self.identifier("a relation")]
        while self.take(TokenType.DOT):
            parts.append(self.identifier("a relation"))
        if self.kind() is TokenType.L_PAREN:
            raise self.text.unsupported(
                self.text.offset(start), f"the table function {parts[-1]}()", "Read a relation: FROM source.table."
            )
        if len(parts) > 3:
            raise self.refusal(
                f"the relation {'.'.join(parts)} has too many parts",
                "Write source.table or source.schema.table.",
                self.text.offset(start),
            )
        definition = self.known.get(parts[0]) if len(parts) == 1 else None
        named, columns = self.alias()
        if columns and definition is None:
            raise self.text.unsupported(
                self.text.offset(self.at - 1),
                "a list of column names after an alias",
                "Rename columns in the select list with AS.",
            )
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
                raise self.unsupported("time travel (AS OF)", "A view follows the relation as it is now: leave it out.")
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
        if self.take(TokenType.USING):
            return Joined(left, right, using=self.using(), kind=kind)
        return Joined(left, right, kind=kind)

    def join_kind(self) -> JoinKind:
        """The words before JOIN, if it is a join that begins here."""
        first = self.kind()
        if first in JOINS:
            raise self.unsupported(*JOINS[first])
        if first in _JOIN_KINDS:
            self.at += 1
        elif first in _OUTER_KINDS:
            self.at += 1
            if first is TokenType.LEFT and self.kind() in (TokenType.SEMI, TokenType.ANTI):
                first = self.kind()
                self.at += 1
            else:
                self.take(TokenType.OUTER)
        else:
            return "inner"
        if self.kind() is not TokenType.JOIN:
            self.refuse_clause("JOIN")
        return _JOIN_KINDS[first] if first in _JOIN_KINDS else _OUTER_KINDS[first]

    def names(self) -> tuple[str, ...]:
        """A list of column names in parentheses."""
        return tuple(name for name, _ in self.using())

    def using(self) -> tuple[tuple[str, int], ...]:
        names = []
        self.expect(TokenType.L_PAREN, "(")
        while True:
            place = self.at
            names.append((self.identifier("a column"), place))
            if not self.take(TokenType.COMMA):
                break
        self.expect(TokenType.R_PAREN, ")")
        return tuple(names)

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
            if kind in _OPENING:
                depth += 1
            elif kind in _CLOSING:
                if depth == 0:
                    break
                depth -= 1
            self.at += 1
        if self.at == start:
            raise self.refusal(f"{what} is missing", "Write it, or remove the word before it.")
        return Span(start, self.at)

    def ends_expression(self, index: int, start: int) -> bool:
        """Whether the word begins a clause or a join rather than being a name or a function there."""
        kind, before = self.text.kind(index), self.text.kind(index - 1)
        if kind not in CLAUSES and kind not in JOINS and kind not in _ENDS and kind not in _OUTER_KINDS:
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
        text = self.text
        if span.start in self.subqueries:
            return (span,)
        if text.kind(span.start) is TokenType.L_PAREN and text.closing(span.start) == span.stop - 1:
            inner = self.conjuncts(Span(span.start + 1, span.stop - 1))
            return inner if len(inner) > 1 else (span,)
        cuts, depth, betweens = [], 0, 0
        for index in range(span.start, span.stop):
            kind, named = text.kind(index), text.kind(index - 1) is TokenType.DOT
            if kind in _OPENING or (kind is TokenType.CASE and not named):
                depth += 1
            elif kind in _CLOSING or (kind is TokenType.END and not named and depth):
                depth -= 1
            elif depth or named:
                continue
            elif kind in (TokenType.OR, TokenType.XOR, TokenType.DAMP):
                return (span,)
            elif kind is TokenType.BETWEEN:
                betweens += 1
            elif kind is TokenType.AND:
                if betweens:
                    betweens -= 1
                else:
                    cuts.append(index)
        if not cuts:
            return (span,)
        bounds = zip([span.start, *(cut + 1 for cut in cuts)], [*cuts, span.stop], strict=True)
        return tuple(part for start, stop in bounds for part in self.conjuncts(Span(start, stop)))

    def identifier(self, what: str) -> str:
        if self.at >= self.end or not self.text.is_name(self.at):
            remedy = "Write its name, in backticks if it is unusual."
            if self.at < self.end and self.text.shown(self.at).startswith('"'):
                remedy = f"Write it in backticks: `{self.text.shown(self.at)[1:-1]}`."
            raise self.refusal(f"{what} is missing{self._here()}", remedy)
        self.at += 1
        return self.text.name(self.at - 1)

    def kind(self) -> TokenType | None:
        return self.text.kind(self.at) if self.at < self.end else None

    def is_word(self, word: str, further: int = 0) -> bool:
        """Whether this word, or one further on, is `word`, which is no keyword everywhere."""
        return self.at + further < self.end and self.text.shown(self.at + further).upper() == word

    def take(self, kind: TokenType) -> bool:
        if self.kind() is not kind:
            return False
        self.at += 1
        return True

    def expect(self, kind: TokenType, shown: str) -> None:
        if not self.take(kind):
            raise self.refusal(f"{shown!r} is missing{self._here()}", "Write it.")

    def refuse_clause(self, expected: str) -> None:
        kind = self.kind()
        if kind in CLAUSES:
            raise self.unsupported(*CLAUSES[kind])
        if expected == "FROM" and (kind is None or kind is TokenType.R_PAREN or kind in _SETS):
            raise self.unsupported("a query without FROM", "A view reads at least one relation: FROM source.table.")
        found = self.text.shown(self.at) if kind is not None else "the end"
        raise self.refusal(f"{expected} is expected here, not {found!r}", "Put unusual names in backticks.")

    def unsupported(self, construct: str, remedy: str) -> Exception:
        return self.text.unsupported(self.text.offset(self.at), construct, remedy)

    def refusal(self, what: str, remedy: str, offset: int | None = None) -> Exception:
        return self.text.refusal(self.text.offset(self.at) if offset is None else offset, what, remedy)

    def _here(self) -> str:
        return f" at {self.text.shown(self.at)!r}" if self.at < self.end else " at the end"


_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_ENDS = frozenset({TokenType.FROM, TokenType.WHERE, TokenType.JOIN, TokenType.INNER, TokenType.CROSS, TokenType.ON})
_SETS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_ENDS |= {TokenType.USING, TokenType.SEMICOLON, TokenType.GROUP_BY, TokenType.HAVING, *_SETS}
_ENDS |= {TokenType.SEMI, TokenType.ANTI}
_JOIN_KINDS: dict[TokenType | None, JoinKind] = {
    TokenType.INNER: "inner",
    TokenType.CROSS: "inner",
    TokenType.SEMI: "semi",
    TokenType.ANTI: "anti",
}
_OUTER_KINDS: dict[TokenType | None, JoinKind] = {
    TokenType.LEFT: "left",
    TokenType.RIGHT: "right",
    TokenType.FULL: "full",
}
_UNRESERVED = frozenset(
    {
        *(TokenType.OFFSET, TokenType.WINDOW, TokenType.PIVOT, TokenType.UNPIVOT, TokenType.QUALIFY, TokenType.LIMIT),
        *(TokenType.FETCH, TokenType.TABLE_SAMPLE, TokenType.SEMI, TokenType.ANTI, TokenType.LATERAL, TokenType.ASOF),
        *(TokenType.LEFT, TokenType.RIGHT, TokenType.FULL, TokenType.NATURAL, TokenType.INNER, TokenType.CROSS),
        TokenType.STRAIGHT_JOIN,
    }
)
_BEFORE_VALUES = frozenset(
    {
        *(TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.COMMA, TokenType.PLUS, TokenType.DASH, TokenType.STAR),
        *(TokenType.SLASH, TokenType.MOD, TokenType.DIV, TokenType.DPIPE, TokenType.EQ, TokenType.NEQ, TokenType.LT),
        *(TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.NULLSAFE_EQ, TokenType.AND, TokenType.OR),
        *(TokenType.NOT, TokenType.BETWEEN, TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.CASE),
        *(TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.AMP, TokenType.PIPE, TokenType.CARET),
    }
)
