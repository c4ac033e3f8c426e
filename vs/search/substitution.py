"""Expressions with some of their columns replaced; what their author wrote in between is never touched."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dyda.model.algebra.nodes import ColumnRef, Expression

__all__ = ["cast", "substituted", "under", "with_instead"]

Substitute = Callable[[ColumnRef], Expression]


def cast(reference: ColumnRef, spark_types: tuple[str, ...]) -> Expression:
    """The column, cast to one type after the other."""
    parts: list[str | ColumnRef] = [reference]
    for spark_type in spark_types:
        parts = ["CAST(", *parts, f" AS {spark_type})"]
    return Expression("".join(map(str, parts)), frozenset({reference}), parts=tuple(parts))


def substituted(expression: Expression, substitute: Substitute) -> Expression:
    """The expression with each column replaced; what replaces a part of something larger is put in parentheses."""
    return expression.replaced(substitute, lambda put: put.column is not None or str(put.parts[0]).startswith("CAST("))


def with_instead(expression: Expression, instead: Mapping[ColumnRef, Expression]) -> Expression:
    """The expression with some of its columns replaced."""
    return substituted(expression, lambda reference: instead.get(reference) or Expression.of(reference))


def under(expression: Expression, alias: Callable[[str], str]) -> Expression:
    """The expression with each occurrence called what `alias` says."""
    return expression.over(lambda reference: ColumnRef(alias(reference.alias), reference.column))
