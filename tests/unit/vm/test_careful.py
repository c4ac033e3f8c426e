"""A sum that is added up before anything is computed: the rows that its terms give, and no failure but the query's own.

SQLite evaluates both; its `sqrt` is replaced by one that fails where the value is below 0.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dyda.model.algebra.nodes import Expression
from tests.unit.vm.builders import expression
from tests.unit.vm.test_compile import ALL, VIEWS, bag, filled, keep, program
from vm.careful import helps, may_fail, render_sum
from vm.evaluation import Evaluation, build_evaluation
from vm.program import Program, Step, state_number

LEFT = "a.r r LEFT JOIN a.s s ON r.k = s.k"
ROOT = "sqrt(coalesce(s.v, -1))"

FAILING = {
    "item": f"SELECT r.k, {ROOT} AS w FROM {LEFT}",
    "item of a constant": f"SELECT r.k, sqrt(coalesce(s.v, -1)) AS w FROM {LEFT} WHERE r.v IS NOT NULL",
    "right side": "SELECT s.k, sqrt(coalesce(r.v, -1)) AS w FROM a.r r RIGHT JOIN a.s s ON r.k = s.k",
    "both sides": "SELECT sqrt(coalesce(r.k, 0)) AS v, sqrt(coalesce(s.v, -1)) AS w FROM a.r r FULL JOIN a.s s"
    " ON r.k = s.k",
    "condition": f"SELECT r.k FROM {LEFT} WHERE {ROOT} > 1",
    "condition and item": f"SELECT r.k, sqrt(r.v - 2) AS w FROM {LEFT} WHERE {ROOT} > 1",
    "joined afterwards": f"SELECT t.v, {ROOT} AS w FROM {LEFT} JOIN a.t t ON t.k = r.k WHERE {ROOT} > t.v",
    "outer joined afterwards": f"SELECT r.k, t.v, {ROOT} AS w FROM {LEFT} LEFT JOIN a.t t ON t.k = r.k AND {ROOT} > 1",
    "compared afterwards": f"SELECT r.k, t.v FROM {LEFT} LEFT JOIN a.t t ON t.k = r.k AND {ROOT} > t.v",
    "anti join": "SELECT r.k, sqrt(r.v - 2) AS w FROM a.r r WHERE NOT EXISTS (SELECT 1 FROM a.s s WHERE s.k = r.k)",
    "anti join over many terms": "SELECT r.k, s.k AS l, s.v, t.k AS m, t.v AS n, sqrt(r.v - 2) AS w FROM a.r r"
    " LEFT JOIN a.s s ON r.k = s.k FULL JOIN a.t t ON r.k = t.k WHERE NOT EXISTS (SELECT 1 FROM a.s u WHERE u.k = r.k)",
    "not in, item": "SELECT r.k, sqrt(r.v - 2) AS w FROM a.r r WHERE r.k NOT IN (SELECT s.k FROM a.s s)",
    "not in, computed": "SELECT r.k FROM a.r r WHERE r.v IS NOT NULL AND sqrt(r.v) NOT IN (SELECT s.v FROM a.s s)",
    "group": f"SELECT r.k, min({ROOT}) AS w, count(*) AS n FROM {LEFT} GROUP BY r.k",
    "distinct rows": f"SELECT DISTINCT {ROOT} AS w FROM {LEFT}",
    "sum of queries": f"SELECT {ROOT} AS w FROM {LEFT} UNION ALL SELECT t.v FROM a.t t",
    "difference": f"SELECT t.v FROM a.t t EXCEPT SELECT {ROOT} FROM {LEFT}",
}


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        *(pytest.param(VIEWS[name], 6, id=name) for name in VIEWS),
        *(pytest.param(FAILING[name], 30, id=name) for name in FAILING),
    ],
)
def test_the_sum_means_what_the_view_means_and_fails_where_it_does(text: str, seeds: int) -> None:
    compared = 0
    for seed in range(seeds):
        database = filled(seed)
        database.create_function("sqrt", 1, root)
        wanted = outcome(lambda: bag(database, text.replace("a.", "")))  # noqa: B023
        assert outcome(lambda: added_up(database, program(text))) == wanted, f"seed {seed}"  # noqa: B023
        compared += wanted is not None
    assert compared >= 3, "no data for which the query holds"


@pytest.mark.parametrize(("text", "combined"), ALL)
def test_set_operations_that_keep_duplicates(
    text: str, combined: Callable[[Counter[Any], Counter[Any]], Counter[Any]]
) -> None:
    for seed in range(12):
        database = filled(seed)
        left, right = bag(database, "SELECT k FROM r"), bag(database, "SELECT k FROM s")
        assert added_up(database, program(text)) == combined(left, right)


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("a.x = b.y", False),
        ("a.x", False),
        ("a.x <=> b.y AND NOT (a.x IN (1, 2) OR b.y IS NULL)", False),
        ("a.x BETWEEN 1 AND 2", False),
        ("a.x LIKE 'a-b/c%' ESCAPE '!'", False),
        ("coalesce(CAST(NULL AS DECIMAL(38,18)), a.x) > 0", False),
        ("a.x > DATE '2020-01-01'", False),
        ("CASE WHEN a.x > 1 THEN b.y ELSE a.x END = 1", False),
        ("a.x + 1 > 2", True),
        ("a.x > -b.y", True),
        ("10 / a.x > 2", True),
        ("CAST(a.x AS INT) = 2", True),
        ("a.x = 'it''s' || b.y", True),
        ("element_at(a.x, 1) = 2", True),
    ],
)
def test_what_may_fail(text: str, fails: bool) -> None:
    assert may_fail(expression(text)) is fails


def test_one_term_alone_is_as_it_is() -> None:
    """Adding it up first cannot help, unless a condition was asked of rows that meet no other."""

    def alone(text: str) -> bool:
        return helps([evaluation(step, number) for step in program(text).steps for number in range(len(step.terms))])

    assert not alone("SELECT sqrt(r.v) AS w FROM a.r r WHERE sqrt(r.v) > 1")
    assert not alone("SELECT sqrt(r.v) AS w FROM a.r r JOIN a.s s ON r.k = s.k WHERE r.v > s.v")
    assert alone("SELECT r.v FROM a.r r JOIN a.s s ON r.k = s.k WHERE sqrt(s.v) > 1")
    assert alone(FAILING["item"])


def root(value: float | None) -> float | None:
    if value is not None and value < 0:
        raise ValueError(value)
    return None if value is None else value**0.5


def outcome(compute: Callable[[], Counter[Any]]) -> Counter[Any] | None:
    """What comes out; None if it fails."""
    try:
        return compute()
    except sqlite3.OperationalError as error:
        if "user-defined function raised" not in str(error):
            raise
        return None


def evaluation(step: Step, number: int) -> Evaluation:
    term = step.terms[number]
    partitions = {alias: ["all"] for alias in term.block.by_alias}
    return build_evaluation(term.block, partitions, sign=term.sign, side=term.side if step.two_sided else None)


def added_up(database: sqlite3.Connection, of: Program) -> Counter[Any]:
    for step in of.steps:
        evaluations = [evaluation(step, number) for number in range(len(step.terms))]
        sources = [{o.alias: source(o) for o in one.block.occurrences} for one in evaluations]
        query = render_sum(evaluations, sources, [["int"] * step.width] * len(evaluations))
        rows = database.execute(query.replace("<=>", "IS").replace("DECIMAL", "NUMERIC")).fetchall()
        entries: Counter[Any] = Counter()
        for *row, count in rows:
            side = int(row.pop()) if step.two_sided else 0
            entries[(*row, side)] += count
        if step.state is None:
            assert all(count > 0 for count in entries.values())
            return Counter({row[:-1]: count for row, count in entries.items()})
        keep(database, step, entries)
    raise AssertionError("the last step is the view")


def source(occurrence: Any) -> str:
    number = state_number(occurrence.relation)
    table = occurrence.relation.name.table if number is None else f"state_{number}"
    columns = [f"{column.source_column} AS {column.name}" for column in occurrence.frame]
    return f"SELECT {', '.join([*columns, f'1 AS {occurrence.old}', f'1 AS {occurrence.new}'])} FROM {table}"


def test_expressions_are_compared_by_what_they_say() -> None:
    """Which is how terms are found that take rows from each other."""
    assert expression("a.x + 1") == Expression("`a`.`x` + 1", expression("a.x + 1").columns)
