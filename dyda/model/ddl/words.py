"""The words of a DDL text, statement by statement, and a reader that goes through them from left to right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot

from dyda.errors import DydaError
from dyda.model.sql.text import TokenType

__all__ = ["UnreadableDdl", "Word", "Words", "once", "statements_of"]


class UnreadableDdl(DydaError):
    """A statement that cannot be read exactly."""


@dataclass(frozen=True)
class Word:
    """A word, a sign, a quoted name or a literal; `start` and `end` are its place in the text."""

    text: str
    quoted: bool
    literal: bool
    start: int
    end: int

    @property
    def upper(self) -> str:
        return "" if self.quoted or self.literal else self.text.upper()


def statements_of(text: str) -> list[list[Word]]:
    try:
        tokens = sqlglot.tokenize(text, read="postgres")
    except sqlglot.errors.SqlglotError as error:
        raise UnreadableDdl(
            f"the text cannot be read: {str(error).splitlines()[0]}", "Check its quotes and comments."
        ) from None
    statements: list[list[Word]] = [[]]
    literals = {t for t in TokenType if t.name.endswith("STRING")}
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            statements.append([])
        elif token.token_type is TokenType.IDENTIFIER or token.token_type in literals:
            quoted = token.token_type is TokenType.IDENTIFIER
            statements[-1].append(Word(token.text, quoted, not quoted, token.start, token.end + 1))
        else:  # PRIMARY KEY and the like come as one word
            statements[-1] += [Word(part, False, False, token.start, token.end + 1) for part in token.text.split()]
    return [words for words in statements if words]


def once(words: Sequence[Word]) -> list[Word]:
    """A token that was split into words stands once."""
    return [word for index, word in enumerate(words) if index == 0 or word.start != words[index - 1].start]


class Words:
    """One statement, read from left to right."""

    def __init__(self, text: str, words: Sequence[Word]) -> None:
        self.text = " ".join(text[words[0].start : words[-1].end].split())
        self.written = text
        self.words = list(words)
        self.at = 0

    def refusal(self, why: str) -> UnreadableDdl:
        shown = self.text if len(self.text) <= 200 else self.text[:200] + "…"
        return UnreadableDdl(
            f"this statement cannot be read exactly: {shown}: {why}",
            "Only the source could tell what it does. Judge the other statements without it.",
        )

    def begins(self, phrase: str) -> bool:
        parts = phrase.split()
        return [word.upper for word in self.words[self.at : self.at + len(parts)]] == parts

    def taken(self, phrase: str) -> bool:
        found = self.begins(phrase)
        if found:
            self.at += len(phrase.split())
        return found

    def either(self, one: str, other: str) -> None:
        """An optional word that changes nothing here."""
        if not self.taken(one):
            self.taken(other)

    def need(self, phrase: str) -> None:
        if not self.taken(phrase):
            raise self.refusal(f"{phrase} is expected {self.place()}")

    def place(self) -> str:
        return f"before {self.words[self.at].text!r}" if self.at < len(self.words) else "at its end"

    @property
    def over(self) -> bool:
        return self.at >= len(self.words)

    def finish(self) -> None:
        if not self.over:
            raise self.refusal(f"{self.words[self.at].text!r} is not expected here")

    def name(self) -> str:
        if self.over:
            raise self.refusal("a name is missing at its end")
        word = self.words[self.at]
        if word.literal or not (word.quoted or word.text.replace("$", "_").isidentifier()):
            raise self.refusal(f"{word.text!r} is not a name")
        self.at += 1
        return word.text if word.quoted else word.text.lower()

    def dotted(self) -> tuple[str, ...]:
        parts = [self.name()]
        while self.taken("."):
            parts.append(self.name())
        return tuple(parts)

    def names(self) -> list[str]:
        """A list of names in parentheses."""
        self.need("(")
        found = [self.name()]
        while self.taken(","):
            found.append(self.name())
        self.need(")")
        return found

    def skip(self, *, until: Sequence[str] = ()) -> list[Word]:
        """The words up to the next comma or one of `until` that is not in parentheses."""
        depth, start = 0, self.at
        while not self.over:
            upper = self.words[self.at].upper
            if depth == 0 and (upper in (",", ")") or upper in until):
                break
            depth += (upper in ("(", "[")) - (upper in (")", "]"))
            self.at += 1
        return self.words[start : self.at]
