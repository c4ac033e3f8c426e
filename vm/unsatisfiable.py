"""Terms without rows, whatever the relations hold: what an outer join padded is NULL, and NULL is equal to nothing.

    (c ⟕ p) ⟕ l ON l.purchase = p.id       + c ⋈ p ⋈ l         … p.id
                                           + pad(c) ⋈ l        … NULL: l.purchase = NULL is never true
                                           − pad(c ⋈ D) ⋈ l    … NULL, too

The algebra makes such terms, a third to a half of those of a chain of outer joins. No equality leads from one side of
them to the other, so a change would make each read whole relations and join all their rows.

They stay in the program, which says what a view's states were computed in; but nothing is read or evaluated for them.
"""

from __future__ import annotations

from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from dyda.model.algebra.nodes import ColumnRef, Expression
from vm.careful import may_fail
from vm.join_block import JoinBlock

__all__ = ["is_never_true", "is_unsatisfiable"]

Possible = tuple[bool, bool]
"""Whether a condition may be true, and whether it may be false; neither is where it is NULL."""

COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
TESTS = (exp.In, exp.Like, exp.Between)
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)


def is_unsatisfiable(block: JoinBlock) -> bool:
    """Whether no row can come out of the block.

    A block of one relation computes all its conditions for each row. If one of them may fail, so does a build on a row
    that another excludes, and a unit has to as well; joins that fail are built again carefully (vm/careful.py).
    """
    if len(block.occurrences) == 1 and any(map(may_fail, block.conjuncts)):
        return False
    return any(map(is_never_true, block.conjuncts))


@lru_cache(maxsize=4096)
def is_never_true(condition: Expression) -> bool:
    """Whether the condition is true for no row; what is not understood to the letter may be."""
    text = condition.parts or (condition.sql,)
    if "NULL" not in "".join(part for part in text if isinstance(part, str)).upper():
        return False
    if any("\\" in part or '"' in part for part in text if isinstance(part, str)):
        return False  # an escape in a text, and what settings make either a text or a name
    numbers: dict[ColumnRef, int] = {}
    try:
        tree = sqlglot.parse_one(
            condition.rendered(lambda ref: f"`#{numbers.setdefault(ref, len(numbers))}`"), read="spark"
        )
    except SqlglotError:
        return False
    return not _possible(tree)[0]


def _possible(tree: exp.Expr) -> Possible:
    match tree:
        case exp.Paren():
            return _possible(tree.this)
        case exp.Not():
            true, false = _possible(tree.this)
            return false, true
        case exp.And():
            (one, not_one), (other, not_other) = _possible(tree.this), _possible(tree.expression)
            return one and other, not_one or not_other
        case exp.Or():
            (one, not_one), (other, not_other) = _possible(tree.this), _possible(tree.expression)
            return one or other, not_one and not_other
        case exp.Is() if isinstance(tree.expression, exp.Null):
            return True, not _is_null(tree.this)
        case _ if _is_null(tree):
            return False, False
        case _ if isinstance(tree, COMPARISONS) and (_is_null(tree.this) or _is_null(tree.expression)):
            return False, False
        case _ if isinstance(tree, TESTS) and _is_null(tree.this):
            return False, False
        case _:
            return True, True


def _is_null(tree: exp.Expr) -> bool:
    """Whether it is NULL for every row, and nothing in it may fail."""
    match tree:
        case exp.Paren() | exp.Neg():
            return _is_null(tree.this)
        case exp.Null():
            return True
        case exp.Cast():
            return isinstance(tree.this, exp.Null)
        case _ if isinstance(tree, ARITHMETIC):
            one, other = tree.this, tree.expression
            return (_is_null(one) and _is_plain(other)) or (_is_plain(one) and _is_null(other))
        case _:
            return False


def _is_plain(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Column | exp.Literal) or _is_null(tree)
