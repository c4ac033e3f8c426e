"""What is known about PostgreSQL's words (words.toml), and how names in a parse tree are read.

The nodes of a parse tree are protobuf messages of postgast; their stubs are not usable, so they have no types here.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import postgast
from postgast import pg_query_pb2 as pg

__all__ = ["LISTS", "OWN_TRIGGERS", "WORDS", "Unreadable", "computes", "functions", "text_of"]

WORDS: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))
LISTS = {name: frozenset(words.split()) for name, words in WORDS["lists"].items()}
OWN_TRIGGERS = "dyda_"


class Unreadable(Exception):
    """Something in a statement that only the source knows; the text says what."""


def text_of(nodes: Iterable[Any]) -> list[str]:
    return [node.string.sval for node in nodes]


def functions(expression: Any) -> list[str]:
    """The functions that are called anywhere in the expression."""
    calls = [node for _, node in postgast.walk(expression) if isinstance(node, pg.FuncCall)]
    return [".".join(text_of(call.funcname)).removeprefix("pg_catalog.") for call in calls]


def computes(expression: Any, column: str) -> bool:
    """Whether the expression, if there is one, is more than the column itself."""
    written = expression.WhichOneof("node")
    return written is not None and (written != "column_ref" or text_of(expression.column_ref.fields)[-1:] != [column])
