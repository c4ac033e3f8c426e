"""The outline of a query: which words are select items, relations, conditions, groups; where the subqueries are.

query      Block | Combined (UNION, EXCEPT, INTERSECT)
FROM item  Occurrence (`source.table`, a common table expression, a view) | Nested (a derived table) | Joined
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from dyda.model.sql.text import Span

__all__ = [
    "Block",
    "Combined",
    "Definition",
    "FromItem",
    "JoinKind",
    "Joined",
    "Nested",
    "Occurrence",
    "Outline",
    "QueryOutline",
]

JoinKind: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True)
class Occurrence:
    """`source.table alias`: the parts of its name, the alias if one is written, and the words.

    A name of one part is a common table expression if `definition` is set, otherwise another view.
    """

    parts: tuple[str, ...]
    alias: str | None
    span: Span
    definition: Definition | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Nested:
    """`(SELECT …) alias (columns)`."""

    query: QueryOutline
    alias: str | None
    columns: tuple[str, ...]
    span: Span


@dataclass(frozen=True)
class Joined:
    """A join. `on` holds the conjuncts of its condition, `using` the shared column names."""

    left: FromItem
    right: FromItem
    on: tuple[Span, ...] = ()
    using: tuple[tuple[str, int], ...] = ()
    kind: JoinKind = "inner"


FromItem: TypeAlias = Occurrence | Nested | Joined


@dataclass(frozen=True)
class Block:
    """One SELECT. `groups` is None without GROUP BY; `group_all` is GROUP BY ALL."""

    items: tuple[Span, ...]
    tables: FromItem
    where: tuple[Span, ...] = ()
    distinct: bool = False
    groups: tuple[Span, ...] | None = None
    group_all: bool = False
    having: tuple[Span, ...] = ()
    at: int = 0


@dataclass(frozen=True)
class Combined:
    """A set operation; `at` is the word that names it."""

    kind: Literal["union", "except", "intersect"]
    all: bool
    left: QueryOutline
    right: QueryOutline
    at: int


@dataclass(frozen=True)
class Definition:
    """`name (columns) AS (query)`: a common table expression, visible to those after it and to the query."""

    name: str
    columns: tuple[str, ...]
    query: QueryOutline
    at: int


QueryOutline: TypeAlias = Block | Combined


@dataclass(frozen=True)
class Outline:
    """A whole view. `subqueries` are those inside expressions, by the word of their opening parenthesis;
    `occurrences` are all relations and views that it reads, in the order of the text."""

    query: QueryOutline
    subqueries: dict[int, QueryOutline] = field(default_factory=dict)
    occurrences: tuple[Occurrence, ...] = ()
