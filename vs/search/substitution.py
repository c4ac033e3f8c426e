"""Expressions with some of their columns put differently; what their author wrote in between is never touched."""

from __future__ import annotations

from collections.abc import Callable

from dyda.model.algebra.nodes import ColumnRef, Expression

__all__ = ["Substitute", "cast", "substituted", "under"]

Substitute = Callable[[ColumnRef], Expression]


def cast(reference: ColumnRef, spark_types: tuple[str, ...]) -> Expression:
    """The column, cast to one type after the other."""
    parts: list[str | ColumnRef] = [reference]
    for spark_type in spark_types:
        parts = ["CAST(", *parts, f" AS {spark_type})"]
    return _expression(tuple(parts))


def substituted(expression: Expression, substitute: Substitute) -> Expression:
    """The expression with each column replaced; what replaces a part of something larger is put in parentheses."""
    if expression.column is not None:
        return substitute(expression.column)
    parts: list[str | ColumnRef] = []
    for part in expression.parts:
        if isinstance(part, str):
            parts.append(part)
            continue
        new = substitute(part)
        bare = new.column is not None or str(new.parts[0]).startswith("CAST(")
        parts += new.parts if bare else ["(", *new.parts, ")"]
    equality = None
    if expression.equality is not None:
        left, right = (substitute(side).column for side in expression.equality)
        equality = (left, right) if left is not None and right is not None and left.alias != right.alias else None
    return _expression(tuple(parts), equality)


def under(expression: Expression, alias: Callable[[str], str]) -> Expression:
    """The expression with each occurrence called what `alias` says."""
    return expression.over(lambda reference: ColumnRef(alias(reference.alias), reference.column))


def _expression(parts: tuple[str | ColumnRef, ...], equality: tuple[ColumnRef, ColumnRef] | None = None) -> Expression:
    columns = frozenset(part for part in parts if isinstance(part, ColumnRef))
    return Expression("".join(map(str, parts)), columns, equality=equality, parts=parts)
