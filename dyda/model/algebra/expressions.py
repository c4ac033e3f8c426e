"""Expressions composed of others."""

from __future__ import annotations

from dyda.model.algebra.nodes import ColumnRef, Expression

__all__ = ["call", "constant", "equality", "joined"]


def joined(*pieces: str | Expression) -> Expression:
    """Texts and expressions one after the other; expressions other than columns get parentheses."""
    parts: list[str | ColumnRef] = []
    columns: set[ColumnRef] = set()
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        columns |= piece.columns
        inner = piece.parts or (piece.sql,)
        parts += inner if piece.column is not None else ("(", *inner, ")")
    return Expression("".join(map(str, parts)), frozenset(columns), parts=tuple(parts))


def equality(one: Expression, other: Expression) -> Expression:
    """one = other."""
    equal = joined(one, " = ", other)
    if one.column is None or other.column is None or one.column.alias == other.column.alias:
        return equal
    return Expression(equal.sql, equal.columns, equality=(one.column, other.column), parts=equal.parts)


def call(function: str, *arguments: Expression) -> Expression:
    """function(arguments)."""
    parts: list[str | ColumnRef] = [f"{function}("]
    for place, argument in enumerate(arguments):
        parts += [", "] if place else []
        parts += argument.parts
    parts.append(")")
    columns = frozenset(ref for argument in arguments for ref in argument.columns)
    return Expression("".join(map(str, parts)), columns, parts=tuple(parts))


def constant(sql: str) -> Expression:
    """An expression that reads no column."""
    return Expression(sql, frozenset(), parts=(sql,))
