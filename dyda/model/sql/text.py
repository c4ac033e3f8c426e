"""The text of a view file: its words with their places, and its comments.

sqlglot splits the text into words. Expressions are cut out of the text and never printed from a syntax tree, because
a printed tree is not always what was written: 'It''s' becomes CONCAT('It', 's'), and the next release may differ
elsewhere. Only Spark gives expressions their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dyda.errors import UnsupportedSql

__all__ = ["DEPTH", "Comment", "Span", "SqlText", "TokenType", "kinds", "names"]


MOST_WORDS = 50_000
"""Words in one text. Reading this many takes seconds; a longer generated list belongs in a table."""


def names(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


def kinds(names: str) -> frozenset[TokenType | None]:
    """Kinds of words by their names."""
    return frozenset(TokenType[name] for name in names.split())


@dataclass(frozen=True)
class Comment:
    """A comment without its marks. `after` is the index of the word before it; None before the first word."""

    body: str
    start: int
    after: int | None


@dataclass(frozen=True)
class Span:
    """Words `start` up to, not including, `stop`."""

    start: int
    stop: int

    def __contains__(self, index: int) -> bool:
        return self.start <= index < self.stop

    def __len__(self) -> int:
        return self.stop - self.start

    def split(self, cuts: Sequence[int]) -> list[Span]:
        """The parts between the words at `cuts`."""
        starts, stops = [self.start, *(cut + 1 for cut in cuts)], [*cuts, self.stop]
        return [Span(start, stop) for start, stop in zip(starts, stops, strict=True)]


class SqlText:
    """A view's text, cut into words."""

    def __init__(self, view: str, text: str) -> None:
        self.view = view
        self.text = text
        self.loose = False
        """A column was found by its bare name where a column that another relation gets or loses could change that."""
        try:
            self.words: list[Token] = Spark().tokenize(text)
        except TokenError as error:
            raise self._unclosed() from error
        if len(self.words) > MOST_WORDS:
            remedy = "Put long lists of values into a source table and join it."
            raise UnsupportedSql(view, f"the text has {len(self.words)} words, more than {MOST_WORDS}", remedy)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn a stack overflow into a refusal: nested text is read recursively, and Python's stack is finite."""
        try:
            yield
        except RecursionError:
            what = "parentheses, conditions or subqueries are nested too deeply"
            remedy = "Flatten it: IN instead of many ORs, fewer views on top of views."
            raise self.refusal_at(0, what, remedy) from None

    def refusal_at(self, offset: int, what: str, remedy: str = "") -> UnsupportedSql:
        """The error that names the line at `offset`."""
        return UnsupportedSql(self.view, what, remedy, self.line(offset))

    def refusal(self, index: int, what: str, remedy: str = "") -> UnsupportedSql:
        """The error that names the line of the word at `index`."""
        return self.refusal_at(self.offset(index), what, remedy)

    def unsupported(self, index: int, construct: str, remedy: str) -> UnsupportedSql:
        """The refusal of something that is Spark SQL but cannot be in a view."""
        return self.refusal(index, f"{construct} is not supported in a view", remedy)

    def line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def place(self, offset: int) -> str:
        return f"views/{self.view}.sql, line {self.line(offset)}"

    def kind(self, index: int) -> TokenType | None:
        """The kind of the word at `index`; None outside the text."""
        return self.words[index].token_type if 0 <= index < len(self.words) else None

    def offset(self, index: int) -> int:
        """Where the word at `index` begins; past the end, where the last one does."""
        return self.words[min(index, len(self.words) - 1)].start if self.words else 0

    def shown(self, index: int) -> str:
        """The word as the author wrote it."""
        word = self.words[index]
        return self.text[word.start : word.end + 1]

    def is_name(self, index: int) -> bool:
        """Whether the word could be an identifier: quoted, or made of letters, digits and underscores."""
        if not 0 <= index < len(self.words):
            return False
        word, written = self.words[index], self.shown(index)
        if written.startswith("`"):
            return True
        # sqlglot reads 1L as three words that share one place; none of them is a name.
        return word.token_type is not TokenType.NUMBER and word.text == written and written.replace("_", "a").isalnum()

    def name(self, index: int) -> str:
        """The identifier: exact in backticks, otherwise folded to lower case."""
        word = self.words[index]
        return word.text if self.text[word.start] == "`" else self.shown(index).lower()

    @cached_property
    def comments(self) -> list[Comment]:
        found: list[Comment] = []
        position = 0
        for index, word in enumerate(self.words):
            found += self._comments_between(position, word.start, index - 1 if index else None)
            position = word.end + 1
        return found + self._comments_between(position, len(self.text), len(self.words) - 1 if self.words else None)

    def counterpart(self, index: int) -> int:
        """The index of the parenthesis or bracket that closes, or opens, the one at `index`."""
        return self._pairs[index]

    def inside(self, opening: int) -> Span:
        """What the parenthesis or bracket at `opening` encloses."""
        return Span(opening + 1, self._pairs[opening])

    def encloses(self, span: Span) -> bool:
        """Whether the first and the last word are parentheses that belong together."""
        return self.kind(span.start) is TokenType.L_PAREN and self._pairs[span.start] == span.stop - 1

    def top(self, span: Span) -> Iterator[int]:
        """The words of `span` that are outside any brackets and CASE in it, brackets and CASE themselves left out."""
        depth = 0
        for index in range(span.start, span.stop):
            step = 0 if self.kind(index - 1) is TokenType.DOT else DEPTH.get(self.kind(index), 0)
            if depth + step < 0:  # a column called `end`
                step = 0
            if depth == 0 and step == 0:
                yield index
            depth += step

    def refuse_unbalanced(self) -> None:
        """Refuse parentheses and brackets that do not match, before what is between them is misread."""
        self._pairs  # noqa: B018 - they are matched here

    @cached_property
    def _pairs(self) -> dict[int, int]:
        """Both ways, and only once: searching every time takes minutes if many are nested."""
        pairs: dict[int, int] = {}
        opened: list[int] = []
        for index, word in enumerate(self.words):
            if word.token_type in _CLOSED_BY:
                opened.append(index)
            elif word.token_type in _CLOSED_BY.values():
                closing = self.shown(index)
                if not opened:
                    what = f"the parentheses are unbalanced: this {closing!r} closes nothing"
                    raise self.refusal(index, what, "Remove it, or write the opening one before it.")
                if _CLOSED_BY[self.words[opened[-1]].token_type] is not word.token_type:
                    raise self._not_closed(opened[-1], f"before the {closing!r} on line {self.line(word.start)}")
                other = opened.pop()
                pairs[index], pairs[other] = other, index
        if opened:
            raise self._not_closed(opened[-1], "before the end")
        return pairs

    def _not_closed(self, index: int, where: str) -> UnsupportedSql:
        shown, before = self.shown(index), f" after {self.shown(index - 1)!r}" if index else ""
        return self.refusal(
            index,
            f"the parentheses are unbalanced: the {shown!r}{before} is not closed {where}",
            f"Write the {')' if shown == '(' else ']'!r} where it ends.",
        )

    def _comments_between(self, position: int, stop: int, after: int | None) -> list[Comment]:
        found = []
        while match := re.compile(r"--|/\*").search(self.text, position, stop):
            start = match.start()
            if match[0] == "--":
                newline = self.text.find("\n", start, stop)
                position = stop if newline < 0 else newline
                body = self.text[start + 2 : position]
                if newline >= 0 and body.rstrip("\r").endswith("\\"):
                    # Spark would continue the comment on the next line; the words there would be lost.
                    raise self.refusal_at(start, "a comment that ends in a backslash", "Remove the backslash.")
            else:
                position = self._end_of_block(start, stop)
                body = self.text[start + 2 : position - 2]
            if body.startswith("+"):
                raise self.refusal_at(start, "a hint (/*+ … */) is not supported in a view", "Remove it.")
            found.append(Comment(body, start, after))
        return found

    def _end_of_block(self, start: int, stop: int) -> int:
        depth, position = 1, start + 2
        while depth:
            match = re.compile(r"/\*|\*/").search(self.text, position, stop)
            if match is None:
                raise self.refusal_at(start, "a comment is not closed", "Close it with */.")
            depth += 1 if match[0] == "/*" else -1
            position = match.end()
        return position

    def _unclosed(self) -> UnsupportedSql:
        """Where the quote, backtick or comment begins that never ends; sqlglot only reports the end of the text."""
        position = 0
        while match := _QUOTED.search(self.text, position):
            if match["open"] == "/*":
                position = self._end_of_block(match.start(), len(self.text))
            elif match["open"]:
                return self.refusal_at(match.start(), f"the {match['open']} is not closed", "Close it.")
            else:
                position = match.end()
        return UnsupportedSql(self.view, "the text cannot be read", "Check its quotes, backticks and comments.")


_CLOSED_BY = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
DEPTH: dict[TokenType | None, int] = {
    **dict.fromkeys((TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE), 1),
    **dict.fromkeys((TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END), -1),
}
"""How much deeper the words after this one are."""
_QUOTED = re.compile(
    r"""--[^\n]*|r'[^']*'|r"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|(?P<open>/\*|['"`])""",
    re.DOTALL | re.IGNORECASE,
)
