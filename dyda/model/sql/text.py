"""The text of a view file: its words with their places, and its comments.

sqlglot splits the text; the text itself stays what it is. Expressions are cut out of it and never printed from a
syntax tree, because a tree printed back is not always what was written: 'It''s' comes out as CONCAT('It', 's'), and
the next release may differ elsewhere. Spark alone gives expressions their meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dyda.errors import UnsupportedSql

__all__ = ["Comment", "Span", "SqlText", "TokenType"]


MOST_WORDS = 50_000
"""Words in one text. It takes seconds to read so many; a generated list that is longer belongs into a table."""


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


class SqlText:
    """A view's text, cut into words."""

    def __init__(self, view: str, text: str) -> None:
        self.view = view
        self.text = text
        self.loose = False
        """A column was found by its name alone where a relation that gets or loses a column could decide otherwise."""
        try:
            self.words: list[Token] = Spark().tokenize(text)
        except TokenError as error:
            raise self._unclosed() from error
        if len(self.words) > MOST_WORDS:
            raise UnsupportedSql(
                view,
                f"the text has {len(self.words)} words, more than {MOST_WORDS}",
                "Put long lists of values into a table of a source and join it.",
            )

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Everything that reads the text calls itself for what is nested in it, and Python's stack is finite."""
        try:
            yield
        except RecursionError:
            raise self.refusal(
                0,
                "its parentheses, conditions or subqueries are nested too deeply to be read",
                "Write it flatter: IN instead of many ORs, fewer views that stand on each other.",
            ) from None

    def refusal(self, offset: int, what: str, remedy: str = "") -> UnsupportedSql:
        """The error that names the line at `offset`."""
        return UnsupportedSql(self.view, what, remedy, self.line(offset))

    def unsupported(self, offset: int, construct: str, remedy: str) -> UnsupportedSql:
        """The refusal of something that is Spark SQL but cannot be in a view."""
        return self.refusal(offset, f"{construct} is not supported in a view", remedy)

    def line(self, offset: int) -> int:
        return self.text.count("\n", 0, offset) + 1

    def place(self, offset: int) -> str:
        return f"views/{self.view}.sql, line {self.line(offset)}"

    def kind(self, index: int) -> TokenType | None:
        """The kind of the word at `index`; None outside the text."""
        return self.words[index].token_type if 0 <= index < len(self.words) else None

    def offset(self, index: int) -> int:
        """Where the word at `index` begins; past the end, where the last one does."""
        if not self.words:
            return 0
        return self.words[min(index, len(self.words) - 1)].start

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
        for index in range(len(self.words) + 1):
            stop = self.words[index].start if index < len(self.words) else len(self.text)
            found += self._comments_between(position, stop, index - 1 if index else None)
            if index < len(self.words):
                position = self.words[index].end + 1
        return found

    def closing(self, index: int) -> int:
        """The index of the parenthesis that closes the one at `index`; unbalanced texts are refused before."""
        return self._pairs[index]

    def refuse_unbalanced(self) -> None:
        """Refuse parentheses and brackets that do not match, before what lies between them is misread."""
        opened: list[int] = []
        for index, word in enumerate(self.words):
            if word.token_type in _CLOSED_BY:
                opened.append(index)
            elif word.token_type in _CLOSED_BY.values():
                closing = self.shown(index)
                if not opened:
                    raise self.refusal(
                        word.start,
                        f"the parentheses are unbalanced: this {closing!r} closes nothing",
                        "Remove it, or write the opening one before it.",
                    )
                if _CLOSED_BY[self.words[opened[-1]].token_type] is not word.token_type:
                    raise self._not_closed(opened[-1], f"before the {closing!r} on line {self.line(word.start)}")
                opened.pop()
        if opened:
            raise self._not_closed(opened[-1], "before the end")

    def _not_closed(self, index: int, by: str) -> UnsupportedSql:
        before = f" after {self.shown(index - 1)!r}" if index else ""
        return self.refusal(
            self.offset(index),
            f"the parentheses are unbalanced: the {self.shown(index)!r}{before} is not closed {by}",
            f"Write the {_CLOSING_SIGN[self.shown(index)]!r} where it ends.",
        )

    def opening(self, index: int) -> int:
        """The index of the parenthesis that the one at `index` closes; -1 if there is none."""
        return self._pairs.get(index, -1)

    @cached_property
    def _pairs(self) -> dict[int, int]:
        """Each parenthesis with its counterpart, found once: to look for it each time takes minutes if many nest."""
        pairs: dict[int, int] = {}
        open_: list[int] = []
        for index, word in enumerate(self.words):
            if word.token_type is TokenType.L_PAREN:
                open_.append(index)
            elif word.token_type is TokenType.R_PAREN and open_:
                other = open_.pop()
                pairs[index], pairs[other] = other, index
        return pairs

    def _comments_between(self, position: int, stop: int, after: int | None) -> list[Comment]:
        found = []
        while match := re.compile(r"--|/\*").search(self.text, position, stop):
            start = match.start()
            if match[0] == "--":
                newline = self.text.find("\n", start, stop)
                position = stop if newline < 0 else newline
                body = self.text[start + 2 : position]
                if newline >= 0 and body.rstrip("\r").endswith("\\"):
                    # Spark would go on with the comment on the next line; the words there would be lost.
                    raise self.refusal(start, "a comment that ends in a backslash", "Remove the backslash.")
            else:
                position = self._end_of_block(start, stop)
                body = self.text[start + 2 : position - 2]
            if body.startswith("+"):
                raise self.unsupported(start, "a hint (/*+ … */)", "Leave it out: it changes nothing.")
            found.append(Comment(body, start, after))
        return found

    def _end_of_block(self, start: int, stop: int) -> int:
        depth, position = 1, start + 2
        while depth:
            match = re.compile(r"/\*|\*/").search(self.text, position, stop)
            if match is None:
                raise self.refusal(start, "a comment is not closed", "Close it with */.")
            depth += 1 if match[0] == "/*" else -1
            position = match.end()
        return position

    def _unclosed(self) -> UnsupportedSql:
        """Where the quote, backtick or comment begins that never ends; sqlglot tells only where the text does."""
        position = 0
        while match := _QUOTED.search(self.text, position):
            if match["open"] == "/*":
                position = self._end_of_block(match.start(), len(self.text))
            elif match["open"]:
                return self.refusal(match.start(), f"the {match['open']} is not closed", "Close it.")
            else:
                position = match.end()
        return UnsupportedSql(self.view, "the text cannot be read", "Check its quotes, backticks and comments.")


_CLOSED_BY = {TokenType.L_PAREN: TokenType.R_PAREN, TokenType.L_BRACKET: TokenType.R_BRACKET}
_CLOSING_SIGN = {"(": ")", "[": "]"}
_QUOTED = re.compile(
    r"""--[^\n]*|r'[^']*'|r"[^"]*"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|(?P<open>/\*|['"`])""",
    re.DOTALL | re.IGNORECASE,
)
