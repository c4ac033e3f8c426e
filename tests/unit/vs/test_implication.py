"""When a condition follows from others. In doubt, it does not."""

from __future__ import annotations

import pytest

from dyda.model.algebra.nodes import ColumnRef, Expression, conjuncts
from tests.projection import projection
from tests.unit.vs.case import Schemas, view
from vs.proof.implication import follows, not_null, same

SCHEMAS = Schemas({}).execute("CREATE TABLE a.r (x integer, y integer, s text); CREATE TABLE b.t (x integer, s text)")


def condition(text: str) -> Expression:
    (found,) = conjuncts(projection(view(f"SELECT r.x FROM a.r r CROSS JOIN b.t t WHERE {text}", SCHEMAS)).input)
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("r.x = t.x", "t.x = r.x"),
        ("r.x = 1", "(r.x=1)"),
        ("r.x < 3", "3 > r.x"),
        ("r.x <= r.y", "r.y >= r.x"),
        ("r.x BETWEEN 1 AND 2", "r.x between 1 and 2"),
        ("upper(r.s) = 'A'", "UPPER(r.s) = 'A'"),
    ],
)
def test_the_same_condition(one: str, other: str) -> None:
    assert same(condition(one), condition(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("r.x = 1", "r.x = 2"), ("r.x = 1", "r.y = 1"), ("r.s = 'a'", "r.s = 'A'"), ("r.x < t.x", "t.x < r.x")],
)
def test_not_the_same(one: str, other: str) -> None:
    assert not same(condition(one), condition(other))


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ("r.x > 30", "r.x > 18"),
        ("r.x > 30", "r.x >= 30"),
        ("r.x >= 30", "r.x > 29"),
        ("r.x < -3", "r.x <= -3"),
        ("r.x <= 3", "r.x < 4"),
        ("30 < r.x", "r.x <> 30"),
        ("r.x = 3", "r.x > 2"),
        ("r.x = 3", "r.x <> 4"),
        ("r.x = 3", "r.x IN (1, 3)"),
        ("r.s = 'a'", "r.s IN ('a', 'b')"),
        ("r.s = 'a'", "r.s IS NOT NULL"),
    ],
)
def test_it_follows(known: str, wanted: str) -> None:
    assert follows(condition(wanted), [condition("r.y = 9"), condition(known)])


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ("r.x > 18", "r.x > 30"),
        ("r.x >= 30", "r.x > 30"),
        ("r.x <> 30", "r.x > 30"),
        ("r.x < 3", "r.x > 2"),
        ("r.x > 30", "r.y > 18"),
        ("r.s = 'b'", "r.s <> 'a'"),
        ("r.s > 'b'", "r.s > 'a'"),
        ("r.x IN (1, 3)", "r.x = 1"),
        ("r.x = 1 OR r.y = 1", "r.x = 1"),
        ("r.x IS NULL", "r.x IS NOT NULL"),
    ],
)
def test_it_does_not_follow(known: str, wanted: str) -> None:
    assert not follows(condition(wanted), [condition(known)])


def test_V3_what_is_compared_is_not_null() -> None:
    x = ColumnRef("r", "x")
    assert not_null(x, [condition("r.x = t.x")])
    assert not_null(x, [condition("r.x > 3")])
    assert not not_null(x, [condition("r.y > 3"), condition("coalesce(r.x, 1) = 1"), condition("r.x <=> t.x")])
    assert not not_null(x, [])
