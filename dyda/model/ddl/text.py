"""A DDL text: its statements, and errors with their line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import postgast
from google.protobuf.message import DecodeError

from dyda.errors import DydaError
from dyda.model.ddl.schemas import CORRECT
from dyda.model.ddl.words import Unreadable

__all__ = ["DdlText", "UnreadableDdl"]

REDUCE = "Remove this statement and check the others without it."

WAY_BACK = re.compile(r"^--\s*(migrate:down|\+(goose|migrate) Down)", re.MULTILINE)
"""How tools mark the part of a file that undoes the part before."""


class UnreadableDdl(DydaError):
    """A statement that cannot be read exactly."""


class DdlText:
    """The text, its statements and their places."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.bytes = text.encode(errors="replace")  # statements have places in bytes, syntax errors in characters
        self.file = file

    def statements(self) -> Sequence[Any]:
        back = WAY_BACK.search(self.text)
        if back is not None:
            raise self._syntax_error("the part that undoes the migration starts here", back.start())
        if "\0" in self.text or self.bytes.decode() != self.text:
            raise self._syntax_error("it contains a character that PostgreSQL does not accept", 0)
        try:
            return list(postgast.parse(self.text).stmts)
        except postgast.PgQueryError as error:
            position = min(max(error.cursorpos - 1, 0), len(self.text.rstrip()))
            psql = re.match(r"\\\S*", self.text[position:])
            raise self._syntax_error(f"{psql[0]} is a psql command" if psql else error.message, position) from None
        except DecodeError:
            raise self._too_deep() from None

    @contextmanager
    def place_of(self, statement: Any) -> Iterator[None]:
        """Add the statement's place to errors raised inside."""
        start, end = statement.stmt_location, statement.stmt_location + statement.stmt_len
        try:
            yield
        except Unreadable as error:
            shown = self.bytes[start : end if statement.stmt_len else None].decode()
            raise self._refusal(len(self.bytes[:start].decode()), shown, str(error), REDUCE) from None
        except DydaError as error:
            error.what = f"{self._place(len(self.bytes[:start].decode()))}: {error.what}"
            error.remedy = error.remedy or CORRECT
            raise

    def _too_deep(self) -> UnreadableDdl:
        position = 0
        for statement in postgast.split(self.text):
            position = self.text.index(statement, position)
            try:
                postgast.parse(statement)
            except DecodeError:
                position += len(statement) - len(statement.lstrip())
                return self._refusal(position, statement, "an expression in it is nested too deeply", REDUCE)
        raise AssertionError("no single statement is too deep")

    def _syntax_error(self, why: str, position: int) -> UnreadableDdl:
        line = self.text.count("\n", 0, position)
        return self._refusal(position, self.text.split("\n")[line], why, CORRECT)

    def _refusal(self, position: int, statement: str, why: str, remedy: str) -> UnreadableDdl:
        what = f"{self._place(position)}: this statement cannot be read exactly: {_shown(statement)}: {_shown(why)}"
        return UnreadableDdl(what, remedy)

    def _place(self, position: int) -> str:
        line = self.text.count("\n", 0, position) + 1
        return f"{self.file}, line {line}" if self.file else f"line {line}"


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:200] + "…"
