"""Subqueries inside expressions, as joins: EXISTS and IN as semi joins, single values as joins with an aggregate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyda.model.algebra import Expression, Node
from dyda.model.facts import COMPUTED
from dyda.model.sql_expressions import Put
from dyda.model.sql_scope import Around
from dyda.model.sql_text import Span

if TYPE_CHECKING:
    from dyda.model.sql_build import Builder

__all__ = ["Subqueries"]


class Subqueries:
    """The subqueries of one view's expressions."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.text = builder.text
        self.outline = builder.outline

    def within(self, span: Span) -> list[int]:
        """The opening parentheses of the subqueries in some words; not of those inside others."""
        found: list[int] = []
        for at in sorted(self.outline.subqueries):
            if at in span and (not found or at > self.text.closing(found[-1])):
                found.append(at)
        return found

    def blanks(self, span: Span) -> dict[int, Put]:
        """Something to stand for each subquery where its value does not matter."""
        return {at: Put(self.text.closing(at) + 1, Expression("", frozenset()), COMPUTED) for at in self.within(span)}

    def conjunct(self, node: Node, span: Span, scope: Around, puts: dict[int, Put]) -> Node:
        """`node` with a condition applied that has subqueries in it."""
        raise self.text.unsupported(self.text.offset(self.within(span)[0]), "a subquery here", "Join a derived table.")

    def values(self, node: Node, span: Span, scope: Around, puts: dict[int, Put]) -> tuple[Node, dict[int, Put]]:
        """Join what the subqueries in some words say to `node`; and what stands for each of them."""
        for at in self.within(span):
            raise self.text.unsupported(self.text.offset(at), "a subquery here", "Join a derived table.")
        return node, {}
