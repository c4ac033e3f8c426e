"""What is never true is told without reading a row; SQLite evaluates the same conditions over all kinds of rows."""

from __future__ import annotations

import itertools
import sqlite3

import pytest

from tests.unit.vm.builders import expression, relation, view
from vm.join_block import flatten
from vm.unsatisfiable import is_never_true, is_unsatisfiable

NEVER = [
    "a.x = (CAST(NULL AS INT))",
    "(CAST(NULL AS INT)) <> a.x",
    "(NULL) < a.x + 1",
    "a.x >= ((NULL) + a.y) * 2",
    "a.x = 1 AND a.y = -(NULL)",
    "a.x = (NULL) OR (NULL) > a.y",
    "NOT (a.x = (CAST(NULL AS DECIMAL(12,2))))",
    "NOT (a.x = 1 OR a.y <= (NULL))",
    "(CAST(NULL AS INT)) IS NOT NULL",
    "NOT ((NULL) IS NULL AND (NULL) IS NULL)",
    "(NULL) IN (1, 2)",
    "(NULL) NOT IN (1, 2)",
    "(NULL) NOT BETWEEN 1 AND a.x",
    "(NULL) LIKE '1%'",
    "(NULL)",
]
MAYBE = [
    "a.x = a.y",
    "a.x IS NULL",
    "a.x IS NOT NULL",
    "(CAST(NULL AS INT)) IS NULL",
    "NOT ((NULL) IS NOT NULL)",
    "a.x = (NULL) OR a.y = 1",
    "a.x IN (1, NULL)",
    "a.x = 1 OR NOT ((NULL) = 2 AND a.y = 1)",
    "a.x BETWEEN 1 AND 2 OR (NULL) = 1",
    "coalesce((NULL), a.x) = 1",
    "CASE WHEN (NULL) = 1 THEN 0 ELSE 1 END = a.x",
    "a.x <=> (NULL)",
    "'NULL' <> a.x",
]


@pytest.mark.parametrize("condition", NEVER)
def test_what_is_never_true(condition: str) -> None:
    assert is_never_true(expression(condition))
    assert not any(rows(condition))


@pytest.mark.parametrize("condition", MAYBE)
def test_what_is_true_of_some_row(condition: str) -> None:
    assert not is_never_true(expression(condition))
    assert any(rows(condition))


@pytest.mark.parametrize(
    "condition", ["a.x = 1 / 0 + (NULL)", r"a.x = '\' AND (NULL) = 1", 'a.x = "NULL"', "a.x = (NULL"]
)
def test_what_is_not_understood_to_the_letter_may_be_true(condition: str) -> None:
    assert not is_never_true(expression(condition))


def test_one_relation_is_read_where_a_build_would_fail() -> None:
    r, s = relation("one.r", ["x", "y"]), relation("two.s", ["x", "y"])
    conditions = ["1 / a.x = 1", "a.y = (NULL)"]
    assert not is_unsatisfiable(flatten(view("v", {"a": r}, conditions, {"x": "a.x"})))
    assert is_unsatisfiable(flatten(view("v", {"a": r, "b": s}, conditions, {"x": "b.x"})))
    assert is_unsatisfiable(flatten(view("v", {"a": r}, conditions[1:], {"x": "a.x"})))


def rows(condition: str) -> list[bool]:
    """For each row, whether the condition is true of it."""
    database = sqlite3.connect(":memory:")
    values = (None, -1, 0, 1, 2)
    text = condition.replace("<=>", "IS").replace("DECIMAL", "NUMERIC")
    query = f"SELECT {text} FROM (SELECT ? AS x, ? AS y) AS a"
    return [bool(database.execute(query, row).fetchone()[0]) for row in itertools.product(values, values)]
