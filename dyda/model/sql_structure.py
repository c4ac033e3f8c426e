"""The outline of a view: which words are select items, relations, join conditions and conjuncts of WHERE.

    SELECT item, item …  FROM relation [JOIN relation ON …] …  WHERE conjunct AND conjunct …

Only this outline is read here; what lies inside an item or a condition is left as it is. Everything a view cannot
have yet is refused by its name, with its line and with what to write instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dyda.model.sql_refusals import CLAUSES, JOINS, refuse_everywhere
from dyda.model.sql_text import Span, SqlText, TokenType

__all__ = ["FromItem", "Joined", "Occurrence", "Outline", "occurrences", "read_outline"]


@dataclass(frozen=True)
class Occurrence:
    """`source.table alias`: the parts of its name, the alias if one is written, and where."""

    parts: tuple[str, ...]
    alias: str | None
    span: Span


@dataclass(frozen=True)
class Joined:
    """An inner or cross join. `on` holds the conjuncts of its condition, `using` the shared column names."""

    left: FromItem
    right: FromItem
    on: tuple[Span, ...] = ()
    using: tuple[tuple[str, int], ...] = ()


FromItem: TypeAlias = Occurrence | Joined


@dataclass(frozen=True)
class Outline:
    """Where everything is; `keywords` are the words that belong to no component."""

    items: tuple[Span, ...]
    tables: FromItem
    where: tuple[Span, ...]


def read_outline(text: SqlText) -> Outline:
    """Cut a view's text into its components, or refuse it."""
    refuse_everywhere(text)
    return _Reader(text).outline()


def occurrences(item: FromItem) -> list[Occurrence]:
    """Relations of a FROM clause, left to right."""
    if isinstance(item, Occurrence):
        return [item]
    return occurrences(item.left) + occurrences(item.right)


class _Reader:
    def __init__(self, text: SqlText) -> None:
        self.text = text
        self.at = 0
        self.end = len(text.words)
        if self.end and text.kind(self.end - 1) is TokenType.SEMICOLON:
            self.end -= 1

    def outline(self) -> Outline:
        self.at = 1  # SELECT, which refuse_everywhere has seen
        if self.kind() is TokenType.ALL:
            self.at += 1
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
        if self.at < self.end:
            self.refuse_clause("the end of the query")
        return Outline(tuple(items), tables, where)

    def relation(self) -> FromItem:
        item = self.primary()
        while (joined := self.joined(item)) is not None:
            item = joined
        return item

    def primary(self) -> FromItem:
        if self.kind() is TokenType.L_PAREN:
            closing = self.text.closing(self.at)
            self.at += 1
            item = self.relation()
            if self.at != closing:
                self.refuse_clause("a closing parenthesis")
            self.at += 1
            if self.text.is_name(self.at) and not self.ends_expression(self.at, self.at - 1):
                raise self.unsupported("an alias for a parenthesised join", "Give each relation its own alias.")
            return item
        return self.occurrence()

    def occurrence(self) -> Occurrence:
        start = self.at
        parts = [self.identifier("a relation")]
        while self.take(TokenType.DOT):
            parts.append(self.identifier("a relation"))
        if self.kind() is TokenType.L_PAREN:
            raise self.text.unsupported(
                self.text.offset(start), f"the table function {parts[-1]}()", "Read a relation: FROM source.table."
            )
        if not 2 <= len(parts) <= 3:
            problem = "does not say which source it is in" if len(parts) == 1 else "has too many parts"
            raise self.refusal(
                f"the relation {'.'.join(parts)} {problem}",
                "Write source.table or source.schema.table.",
                self.text.offset(start),
            )
        return Occurrence(tuple(parts), self.alias(), Span(start, self.at))

    def alias(self) -> str | None:
        following = (self.text.shown(i).upper() for i in range(self.at, min(self.at + 3, self.end)))
        match list(following):
            case ["VERSION" | "TIMESTAMP" | "SYSTEM_VERSION" | "SYSTEM_TIME", "AS", "OF"]:
                raise self.unsupported("time travel (AS OF)", "A view follows the relation as it is now: leave it out.")
        if not self.take(TokenType.ALIAS) and (
            self.at >= self.end or not self.text.is_name(self.at) or self.ends_expression(self.at, self.at - 1)
        ):
            return None
        name = self.identifier("an alias")
        if self.kind() is TokenType.L_PAREN:
            raise self.unsupported(
                "a list of column names after an alias", "Rename columns in the select list with AS."
            )
        return name

    def joined(self, left: FromItem) -> Joined | None:
        if self.kind() in (TokenType.INNER, TokenType.CROSS) and self.text.kind(self.at + 1) is TokenType.JOIN:
            self.at += 1
        elif self.kind() in JOINS:
            words = [self.kind(), self.text.kind(self.at + 1)]
            special = next((kind for kind in (TokenType.SEMI, TokenType.ANTI) if kind in words), self.kind())
            raise self.unsupported(*JOINS[special or TokenType.JOIN])
        if not self.take(TokenType.JOIN):
            return None
        right = self.primary()
        if self.take(TokenType.ON):
            return Joined(left, right, on=self.conjuncts(self.expression("a join condition")))
        if self.take(TokenType.USING):
            return Joined(left, right, using=self.using())
        return Joined(left, right)

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
        if kind not in CLAUSES and kind not in JOINS and kind not in _ENDS:
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
            raise self.refusal(f"{what} is missing{self._here()}", "Write its name, in backticks if it is unusual.")
        self.at += 1
        return self.text.name(self.at - 1)

    def kind(self) -> TokenType | None:
        return self.text.kind(self.at) if self.at < self.end else None

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
        if expected == "FROM" and kind is None:
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
_ENDS |= {TokenType.USING, TokenType.SEMICOLON}
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
