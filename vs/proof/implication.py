"""When a condition is equivalent to another, or follows from others. Sound, not complete: in doubt, no.

Used only for proofs; no view text is ever made from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from dyda.model.algebra.nodes import ColumnRef, Expression

__all__ = ["follows", "not_null", "same"]


def same(one: Expression, other: Expression) -> bool:
    """Whether both are the same condition, whichever way round they are written."""
    return one.sql == other.sql or (one.columns == other.columns and _canonical(one.sql) == _canonical(other.sql))


def follows(condition: Expression, known: Iterable[Expression]) -> bool:
    """Whether the condition is true wherever all of the known ones are."""
    return any(same(condition, other) or _implies(other, condition) for other in known)


def not_null(column: ColumnRef, known: Iterable[Expression]) -> bool:
    """Whether the column cannot be NULL where all conditions hold: an equality or a comparison is not true for NULL."""
    for condition in known:
        if condition.equality is not None and column in condition.equality:
            return True
        comparison = _comparison(condition.sql)
        if comparison is not None and condition.columns == {column} and comparison[0] == str(column):
            return True
    return False


Kind = type[exp.Expr]

_FLIPPED: dict[Kind, Kind] = {exp.LT: exp.GT, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.GTE: exp.LTE}


@lru_cache(maxsize=4096)
def _tree(sql: str) -> exp.Expr | None:
    try:
        tree = parse_one(sql, dialect="spark").unnest()
    except SqlglotError:
        return None
    assert isinstance(tree, exp.Expr)
    return tree


@lru_cache(maxsize=4096)
def _canonical(sql: str) -> str:
    tree = _tree(sql)
    if tree is None:
        return sql
    if isinstance(tree, exp.EQ | exp.NEQ | exp.LT | exp.GT | exp.LTE | exp.GTE):
        sides = [str(side.unnest().sql("spark")) for side in (tree.this, tree.expression)]
        kind: Kind = type(tree)
        if sides[0] > sides[1]:
            sides.reverse()
            kind = _FLIPPED.get(kind, kind)
        return f"{kind.__name__} {sides[0]} {sides[1]}"
    return str(tree.sql("spark"))


@lru_cache(maxsize=4096)
def _comparison(sql: str) -> tuple[str, Kind, Decimal | str] | None:
    """`x < 3` as (x, LT, 3), the literal always on the right; None for anything else."""
    tree = _tree(sql)
    if not isinstance(tree, exp.EQ | exp.NEQ | exp.LT | exp.GT | exp.LTE | exp.GTE):
        return None
    left, right = tree.this.unnest(), tree.expression.unnest()
    kind: Kind = type(tree)
    if _literal(left) is not None:
        left, right, kind = right, left, _FLIPPED.get(kind, kind)
    literal = _literal(right)
    return (str(left.sql("spark")), kind, literal) if literal is not None and isinstance(left, exp.Column) else None


def _literal(tree: exp.Expr) -> Decimal | str | None:
    negative = isinstance(tree, exp.Neg)
    literal = tree.this if negative else tree
    if not isinstance(literal, exp.Literal):
        return None
    if literal.is_string:
        return None if negative else str(literal.this)
    try:
        return -Decimal(literal.this) if negative else Decimal(literal.this)
    except ArithmeticError:
        return None


def _implies(known: Expression, wanted: Expression) -> bool:
    """x > 5 implies x > 3, x = 'a' implies x IN ('a', 'b'), any comparison implies x IS NOT NULL."""
    if known.columns != wanted.columns:
        return False
    given = _comparison(known.sql)
    if given is None:
        return False
    column, kind, value = given
    tree = _tree(wanted.sql)
    if isinstance(tree, exp.Not) and isinstance(tree.this.unnest(), exp.Is):
        is_ = tree.this.unnest()
        return isinstance(is_.expression, exp.Null) and is_.this.unnest().sql("spark") == column
    if isinstance(tree, exp.In) and kind is exp.EQ and not tree.args.get("query"):
        return tree.this.unnest().sql("spark") == column and value in [_literal(item) for item in tree.expressions]
    asked = _comparison(wanted.sql)
    if asked is None or asked[0] != column or type(asked[2]) is not type(value):
        return False
    return _within(kind, value, asked[1], asked[2])


def _within(kind: Kind, value: Decimal | str, asked: Kind, bound: Decimal | str) -> bool:
    if isinstance(value, str) or isinstance(bound, str):
        return False  # '7' and '007' are one number, and the order of texts is a matter of collation
    lower, upper = kind in (exp.GT, exp.GTE), kind in (exp.LT, exp.LTE)
    if kind is exp.EQ:
        holds: dict[Kind, bool] = {
            exp.EQ: value == bound,
            exp.NEQ: value != bound,
            exp.LT: value < bound,
            exp.LTE: value <= bound,
            exp.GT: value > bound,
            exp.GTE: value >= bound,
        }
        return holds[asked]
    strict = kind in (exp.GT, exp.LT)
    if lower and asked in (exp.GT, exp.NEQ):
        return value >= bound if strict else value > bound
    if lower and asked is exp.GTE:
        return value >= bound
    if upper and asked in (exp.LT, exp.NEQ):
        return value <= bound if strict else value < bound
    return upper and asked is exp.LTE and value <= bound
