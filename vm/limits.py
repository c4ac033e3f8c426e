"""Rows for which a condition cannot be true: told here, of simple conditions, so that fewer rows reach Spark.

    l_shipdate <= DATE '1998-09-02' AND f(l_comment)        a later day is left out, whatever f is

Nothing is decided here. Comparisons of columns with constants and with each other limit which rows can be in a result;
of those that are left Spark evaluates every condition, these too. What is not understood, to the letter, limits
nothing. So for every condition there are two answers: for which rows it may be true, and for which it may be false;
neither is where it is NULL. Arrow compares as Spark does where both sides are whole numbers, decimals that a common
type of Spark's holds, dates, or texts by their bytes; floating point numbers, times and mixtures are left to Spark.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dyda.model.algebra.nodes import ColumnRef, Expression

__all__ = ["limiting", "possible"]

Values: TypeAlias = "pa.Array | pa.ChunkedArray | pa.Scalar"
Mask: TypeAlias = "pa.Array | pa.ChunkedArray | None"
"""Where it may be; None: anywhere."""

WIDEST = 38
"""Digits of Spark's decimals. Where a common type would need more, Spark rounds."""

COMPARISONS: dict[type[exp.Expr], Callable[[Values, Values], Any]] = {
    exp.EQ: pc.equal,
    exp.NEQ: pc.not_equal,
    exp.LT: pc.less,
    exp.LTE: pc.less_equal,
    exp.GT: pc.greater,
    exp.GTE: pc.greater_equal,
}


@dataclass(frozen=True)
class _Condition:
    """A condition as a tree over columns `#0`, `#1` …, which are `columns`."""

    tree: exp.Expr
    columns: tuple[ColumnRef, ...]


def possible(condition: Expression, column: Callable[[ColumnRef], pa.ChunkedArray]) -> pa.Array | None:
    """Where the condition may be true; None if that is anywhere. `column` gives typed values, all equally long."""
    known = limiting(condition)
    if known is None:
        return None
    values = {f"#{place}": column(ref) for place, ref in enumerate(known.columns)}
    mask, _ = _answers(known.tree, values)
    return mask


@lru_cache(maxsize=4096)
def limiting(condition: Expression) -> _Condition | None:
    """The condition as a tree; None if no row can be left out because of it."""
    if not condition.parts or not condition.columns:
        return None
    if any("\\" in part or '"' in part for part in condition.parts if isinstance(part, str)):
        return None  # an escape in a text, and what settings make either a text or a name
    columns = tuple(dict.fromkeys(part for part in condition.parts if isinstance(part, ColumnRef)))
    places = {ref: place for place, ref in enumerate(columns)}
    try:
        tree = sqlglot.parse_one(condition.rendered(lambda ref: f"`#{places[ref]}`"), read="spark")
    except SqlglotError:
        return None
    return _Condition(tree, columns) if _is_known(tree) else None


def _is_known(tree: exp.Expr) -> bool:
    """Whether anything follows from it."""
    match tree:
        case exp.Paren() | exp.Not():
            return _is_known(tree.this)
        case exp.And() | exp.Or():
            return _is_known(tree.this) or _is_known(tree.expression)
        case _:
            return isinstance(tree, (*COMPARISONS.keys(), exp.Between, exp.In, exp.Like, exp.Is))


def _answers(tree: exp.Expr, columns: dict[str, pa.ChunkedArray]) -> tuple[Mask, Mask]:
    """Where it may be true, and where it may be false."""
    match tree:
        case exp.Paren():
            return _answers(tree.this, columns)
        case exp.Not():
            true, false = _answers(tree.this, columns)
            return false, true
        case exp.And():
            (one, not_one), (other, not_other) = _answers(tree.this, columns), _answers(tree.expression, columns)
            return _both(one, other), _either(not_one, not_other)
        case exp.Or():
            (one, not_one), (other, not_other) = _answers(tree.this, columns), _answers(tree.expression, columns)
            return _either(one, other), _both(not_one, not_other)
        case exp.Between() if _only(tree, "this", "low", "high"):
            low = _compared(pc.greater_equal, [tree.this, tree.args["low"]], columns)
            high = _compared(pc.less_equal, [tree.this, tree.args["high"]], columns)
            return _both(low[0], high[0]), _either(low[1], high[1])
        case exp.In() if _only(tree, "this", "expressions") and tree.expressions:
            return _among(tree, columns)
        case exp.Like() if _only(tree, "this", "expression", "negate"):
            true, false = _like(tree, columns)
            return (false, true) if tree.args.get("negate") else (true, false)
        case exp.Is() if isinstance(tree.expression, exp.Null) and isinstance(tree.this, exp.Column):
            values = columns.get(tree.this.name)
            return (pc.is_null(values), pc.is_valid(values)) if values is not None else (None, None)
        case _:
            compare = COMPARISONS.get(type(tree))
            if compare is None or not _only(tree, "this", "expression"):
                return None, None
            return _compared(compare, [tree.this, tree.expression], columns)


def _only(tree: exp.Expr, *arguments: str) -> bool:
    """Whether nothing else is said: ESCAPE, SYMMETRIC, a subquery."""
    return all(name in arguments or not value for name, value in tree.args.items())


def _both(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return other if one is None else one
    return pc.and_(one, other)


def _either(one: Mask, other: Mask) -> Mask:
    return None if one is None or other is None else pc.or_(one, other)


def _compared(
    compare: Callable[[Values, Values], Any], sides: Sequence[exp.Expr], columns: dict[str, pa.ChunkedArray]
) -> tuple[Mask, Mask]:
    operands = _alike([_operand(side, columns) for side in sides])
    if operands is None:
        return None, None
    return _told(compare(*operands))


def _told(found: pa.Array | pa.ChunkedArray | pa.Scalar) -> tuple[Mask, Mask]:
    if isinstance(found, pa.Scalar):  # of two constants
        return None, None
    return pc.fill_null(found, False), pc.fill_null(pc.invert(found), False)


def _among(tree: exp.In, columns: dict[str, pa.ChunkedArray]) -> tuple[Mask, Mask]:
    operands = _alike([_operand(one, columns) for one in (tree.this, *tree.expressions)])
    if (
        operands is None
        or isinstance(operands[0], pa.Scalar)
        or not all(isinstance(o, pa.Scalar) for o in operands[1:])
    ):
        return None, None
    values, *listed = operands
    found = pc.equal(values, listed[0])
    for one in listed[1:]:
        found = pc.or_(found, pc.equal(values, one))
    return _told(found)


def _like(tree: exp.Like, columns: dict[str, pa.ChunkedArray]) -> tuple[Mask, Mask]:
    """Exact for a beginning, an end and a part; of other patterns, what has none of the pieces does not match."""
    values, pattern = _operand(tree.this, columns), _operand(tree.expression, columns)
    if not isinstance(pattern, pa.StringScalar) or values is None or isinstance(values, pa.Scalar):
        return None, None
    if not pa.types.is_string(values.type) or "_" in pattern.as_py():
        return None, None
    first, *pieces = pattern.as_py().split("%")
    if not pieces:
        return _told(pc.equal(values, first))
    *middle, last = pieces
    tests = [pc.starts_with(values, first)] if first else []
    tests += [pc.match_substring(values, piece) for piece in middle if piece]
    tests += [pc.ends_with(values, last)] if last else []
    if not tests:
        return _told(pc.equal(values, values))
    found = tests[0]
    for test in tests[1:]:
        found = pc.and_(found, test)
    true, false = _told(found)
    return true, (false if len(tests) == 1 else None)


def _operand(tree: exp.Expr, columns: dict[str, pa.ChunkedArray]) -> Values | None:
    """A column, a constant or a part of a text column; None if it is anything else."""
    match tree:
        case exp.Paren():
            return _operand(tree.this, columns)
        case exp.Column() if len(tree.parts) == 1:
            return columns.get(tree.name)
        case exp.Neg(this=exp.Literal() as literal) if not literal.is_string:
            number = _constant(literal.name, False)
            return None if number is None else pc.negate(number)
        case exp.Literal():
            return _constant(tree.name, tree.is_string)
        case exp.Cast(this=exp.Literal() as literal) if literal.is_string and tree.to == exp.DataType.build("date"):
            return _day(literal.name)
        case exp.Substring(this=exp.Column() as column) if _only(tree, "this", "start", "length"):
            return _part(columns.get(column.name), tree.args.get("start"), tree.args.get("length"))
        case _:
            return None


@cache
def _constant(text: str, is_string: bool) -> pa.Scalar | None:
    if is_string:
        return None if "'" in text else pa.scalar(text, pa.string())
    if re.fullmatch(r"[0-9]{1,18}", text):
        return pa.scalar(int(text), pa.int64())
    digits = re.fullmatch(r"([0-9]{0,18})\.([0-9]{1,18})", text)
    if digits is None:
        return None  # 1e3 is a floating point number
    whole, rest = (len(part) for part in digits.groups())
    return pa.scalar(Decimal(text), pa.decimal128(max(whole + rest, 1), rest))


@cache
def _day(text: str) -> pa.Scalar | None:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return None
    try:
        return pa.scalar(date.fromisoformat(text), pa.date32())
    except ValueError:
        return None


def _part(values: pa.ChunkedArray | None, start: exp.Expr | None, length: exp.Expr | None) -> pa.ChunkedArray | None:
    """A part that begins at a given letter, from 1."""
    if values is None or not pa.types.is_string(values.type):
        return None
    if not isinstance(start, exp.Literal) or not isinstance(length, exp.Literal) or start.is_string or length.is_string:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,8}", start.name) or not re.fullmatch(r"[0-9]{1,9}", length.name):
        return None
    first = int(start.name) - 1
    return pc.utf8_slice_codeunits(values, first, first + int(length.name))


def _alike(operands: Sequence[Values | None]) -> list[Values] | None:
    """The same in one type in which Arrow compares as Spark does; None if there is none."""
    known = [one for one in operands if one is not None]
    if len(known) < len(operands):
        return None
    types = [one.type for one in known]
    if all(map(pa.types.is_integer, types)):
        return [pc.cast(one, pa.int64()) for one in known]
    if all(pa.types.is_integer(one) or pa.types.is_decimal(one) for one in types):
        digits = [_digits(one) for one in types]
        scale = max(scale for _, scale in digits)
        if max(whole for whole, _ in digits) + scale > WIDEST:
            return None
        common = pa.decimal256(76, scale)
        return [pc.cast(one, common) for one in known]
    if all(map(pa.types.is_string, types)) or all(map(pa.types.is_date32, types)):
        return known
    return None


def _digits(type_: pa.DataType) -> tuple[int, int]:
    """Before and after the point. A whole number has as many as Spark gives its type."""
    if pa.types.is_decimal(type_):
        return type_.precision - type_.scale, type_.scale
    return {16: 5, 32: 10, 64: 20}[type_.bit_width], 0
