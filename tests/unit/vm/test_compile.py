"""Programs mean what their views mean: every operator, evaluated step by step and as a whole by another engine.

SQLite evaluates the view's own text, and term by term the blocks of its program; what the states count is added up
here, as dyda/model/operator_state.py says. Tables hold duplicates and NULLs.
"""

from __future__ import annotations

import operator
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dyda.errors import UnsupportedSql
from dyda.model.algebra.nodes import ColumnRef
from dyda.model.operator_state import Counted, Grouped, Kept
from dyda.model.relation import Relation
from dyda.model.sql.parse import parse_view
from tests.unit.vm.builders import relation
from vm.compile import compile_view
from vm.explain import explain_program, read_whole
from vm.join_block import JoinBlock
from vm.program import Program, Step, state_number

TABLES = ("r", "s", "t")

VIEWS = {
    "left join": "SELECT r.k, r.v, s.v AS w FROM a.r r LEFT JOIN a.s s ON r.k = s.k",
    "left join, condition on the left": "SELECT r.k, s.v FROM a.r r LEFT JOIN a.s s ON r.k = s.k AND r.v > 1",
    "left join, condition on the right": "SELECT r.k, s.v FROM a.r r LEFT JOIN a.s s ON r.k = s.k AND s.v > 1",
    "left join, any condition": "SELECT r.k, s.v FROM a.r r LEFT JOIN a.s s ON r.k = s.k AND r.v < s.v",
    "left join without equality": "SELECT r.k, s.v FROM a.r r LEFT JOIN a.s s ON r.v < s.v",
    "right join": "SELECT r.k, s.v FROM a.r r RIGHT JOIN a.s s ON r.k = s.k",
    "full join": "SELECT r.k, s.k AS l, s.v FROM a.r r FULL JOIN a.s s ON r.k = s.k",
    "three left joins": "SELECT r.k, s.v, t.v AS w, u.v AS x FROM a.r r LEFT JOIN a.s s ON r.k = s.k"
    " LEFT JOIN a.t t ON s.v = t.v LEFT JOIN a.t u ON u.k = r.k",
    "two left joins, one along the other": "SELECT r.k, s.v, t.v AS w FROM a.r r"
    " LEFT JOIN a.s s ON r.k = s.k AND s.v <> 2 LEFT JOIN a.t t ON t.k = s.v",
    "left join, then an inner join with what it padded": "SELECT r.k, t.v FROM a.r r LEFT JOIN a.s s ON r.k = s.k"
    " JOIN a.t t ON t.k > s.v - 1",
    "left join of a join": "SELECT r.k, x.v FROM a.r r LEFT JOIN (SELECT s.k, t.v FROM a.s s JOIN a.t t ON s.v = t.v) x"
    " ON r.k = x.k",
    "expression over the padded side": "SELECT r.k, coalesce(s.v, 0) + 1 AS w FROM a.r r LEFT JOIN a.s s ON r.k = s.k"
    " WHERE s.v IS NULL OR s.v > 1",
    "exists": "SELECT r.k, r.v FROM a.r r WHERE EXISTS (SELECT 1 FROM a.s s WHERE s.k = r.k)",
    "not exists": "SELECT r.k, r.v FROM a.r r WHERE NOT EXISTS (SELECT 1 FROM a.s s WHERE s.k = r.k AND s.v > 1)",
    "not exists, any condition": "SELECT r.k FROM a.r r WHERE NOT EXISTS"
    " (SELECT 1 FROM a.s s WHERE s.k = r.k AND s.v < r.v)",
    "not exists of a join, any condition": "SELECT r.k, t.v FROM a.r r, a.t t WHERE NOT EXISTS"
    " (SELECT 1 FROM a.s s WHERE s.k = r.k AND s.v <> r.v) AND r.v = t.v",
    "left join, then a condition on the left": "SELECT r.k, s.v FROM a.r r LEFT JOIN a.s s ON r.v < s.v"
    " WHERE r.k > 1 AND (s.v IS NULL OR s.v > 2)",
    "exists over two outer joins": "SELECT r.k FROM a.r r LEFT JOIN a.s s ON r.k = s.k FULL JOIN a.t t ON r.k = t.k"
    " WHERE EXISTS (SELECT 1 FROM a.s u WHERE u.k = r.k)",
    "not exists, any condition, over two outer joins": "SELECT s.k FROM a.r r LEFT JOIN a.s s ON r.k = s.k"
    " FULL JOIN a.t t ON r.k = t.k WHERE NOT EXISTS (SELECT 1 FROM a.s u WHERE u.k = s.k AND u.v < t.v)",
    "exists over rows of which nothing is read": "SELECT count(*) AS n FROM a.r r LEFT JOIN a.s s ON r.k = s.k"
    " FULL JOIN (SELECT t.k FROM a.t t) x ON r.k = x.k WHERE EXISTS (SELECT 1 FROM a.s u WHERE u.v > 3)",
    "exists, uncorrelated": "SELECT r.k FROM a.r r WHERE EXISTS (SELECT 1 FROM a.s s WHERE s.v > 3)",
    "in": "SELECT r.k FROM a.r r WHERE r.v IN (SELECT s.v FROM a.s s WHERE s.k > 0)",
    "not in": "SELECT r.k, r.v FROM a.r r WHERE r.v NOT IN (SELECT s.v FROM a.s s WHERE s.k > 1)",
    "not in, correlated": "SELECT r.k, r.v FROM a.r r WHERE r.v NOT IN (SELECT s.v FROM a.s s WHERE s.k = r.k)",
    "distinct": "SELECT DISTINCT r.k, s.v FROM a.r r JOIN a.s s ON r.k = s.k",
    "union": "SELECT r.k FROM a.r r UNION SELECT s.v FROM a.s s",
    "union all": "SELECT r.k, r.v FROM a.r r UNION ALL SELECT s.v, s.k FROM a.s s",
    "except": "SELECT r.k FROM a.r r EXCEPT SELECT s.k FROM a.s s",
    "intersect": "SELECT r.k, r.v FROM a.r r INTERSECT SELECT s.k, s.v FROM a.s s",
    "group by": "SELECT r.k, count(*) AS n, count(r.v) AS c, sum(r.v) AS s FROM a.r r GROUP BY r.k",
    "group by, minimum": "SELECT r.k, min(r.v) AS low, max(r.v) AS high FROM a.r r GROUP BY r.k",
    "group by nothing": "SELECT count(*) AS n, sum(r.v) AS s, min(r.v) AS m FROM a.r r WHERE r.k > 2",
    "having": "SELECT r.k, sum(r.v) AS s FROM a.r r GROUP BY r.k HAVING count(*) > 1",
    "count distinct": "SELECT r.k, count(DISTINCT r.v) AS d, count(*) AS n FROM a.r r GROUP BY r.k",
    "two distincts": "SELECT count(DISTINCT r.v) AS d, count(DISTINCT r.k) AS e FROM a.r r",
    "filter": "SELECT r.k, count(*) FILTER (WHERE r.v > 1) AS n, sum(r.v) FILTER (WHERE r.v < 3) AS s"
    " FROM a.r r GROUP BY r.k",
    "group over left join": "SELECT r.k, count(s.v) AS n FROM a.r r LEFT JOIN a.s s ON r.k = s.k GROUP BY r.k",
    "group of groups": "SELECT x.n, count(*) AS m FROM (SELECT r.k, count(*) AS n FROM a.r r GROUP BY r.k) x"
    " GROUP BY x.n",
    "join with groups": "SELECT s.k, s.v, x.n FROM a.s s JOIN (SELECT r.k, count(*) AS n FROM a.r r GROUP BY r.k) x"
    " ON s.k = x.k",
    "common table expression": "WITH x AS (SELECT DISTINCT r.k FROM a.r r)"
    " SELECT x.k, y.k AS l FROM x JOIN x y ON x.k = y.k",
    "scalar subquery": "SELECT r.k FROM a.r r WHERE r.v > (SELECT min(s.v) FROM a.s s)",
    "correlated scalar subquery": "SELECT r.k, (SELECT count(*) FROM a.s s WHERE s.k = r.k) AS n FROM a.r r",
    "distinct over except": "SELECT DISTINCT x.k FROM (SELECT r.k, r.v FROM a.r r EXCEPT SELECT s.k, s.v FROM a.s s) x",
}

ALL: list[tuple[str, Callable[[Counter[Any], Counter[Any]], Counter[Any]]]] = [
    ("SELECT r.k FROM a.r r EXCEPT ALL SELECT s.k FROM a.s s", operator.sub),
    ("SELECT r.k FROM a.r r INTERSECT ALL SELECT s.k FROM a.s s", operator.and_),
]
"""Set operations that keep duplicates, each with what it means for bags; SQLite does not know them."""


@pytest.mark.parametrize("name", VIEWS)
def test_the_program_means_what_the_view_means(name: str) -> None:
    for seed in range(12):
        database = filled(seed)
        assert evaluated(database, program(VIEWS[name])) == bag(database, VIEWS[name].replace("a.", "")), f"seed {seed}"


@pytest.mark.parametrize(("text", "combined"), ALL)
def test_set_operations_that_keep_duplicates(
    text: str, combined: Callable[[Counter[Any], Counter[Any]], Counter[Any]]
) -> None:
    for seed in range(12):
        database = filled(seed)
        left, right = bag(database, "SELECT k FROM r"), bag(database, "SELECT k FROM s")
        assert evaluated(database, program(text)) == combined(left, right)


def test_a_rename_leaves_the_order_of_a_state_alone() -> None:
    """The columns of a state are told by their place: in the order of names, a rename would exchange two of them."""

    def keys(first: str, second: str) -> list[str]:
        def resolve(source: str, schema: str | None, table: str) -> Relation:
            return relation(f"{source}.{table}", [first, second] if table == "r" else ["k", "v"])

        text = (
            f"SELECT 1 AS one FROM a.r r WHERE EXISTS (SELECT 1 FROM a.s s WHERE s.k > r.{first} AND s.v > r.{second})"
        )
        (state,) = compile_view(parse_view("v", text, resolve), lambda number, block: ["integer"] * 2).states
        return [item.expression.sql for item in state.terms[0].block.items]

    assert keys("a", "b") == ["`r`.`a`", "`r`.`b`"]
    assert keys("z", "b") == ["`r`.`z`", "`r`.`b`"]


def test_equal_sets_are_kept_once() -> None:
    """NOT IN asks for the same set in two terms."""
    assert len(program(VIEWS["not in"]).states) == 3


def test_terms_that_no_row_meets_are_known() -> None:
    """What was padded is NULL, and equal to no key: neither are whole relations read for it, nor is it said so."""
    chain = program(VIEWS["two left joins, one along the other"])
    assert len(chain.last.terms) == 9
    assert len(chain.last.satisfiable) == 5
    assert read_whole(chain) == []
    assert sum(row.how.startswith("nothing: ") for row in explain_program(chain)) == 4
    assert not any(len(term.plan.components) > 1 for step in chain.steps for term in step.satisfiable)


def test_a_sum_of_many_terms_is_materialized() -> None:
    kept = [step for step in program(VIEWS["three left joins"]).states if isinstance(step.state, Kept)]
    assert len(kept) == 1


def test_a_state_outlives_the_names_of_what_it_holds() -> None:
    """A rename leaves the states as they are, so nothing in them may stand in the order of names."""

    def items(names: Sequence[str], text: str) -> list[list[str]]:
        def resolve(source: str, schema: str | None, table: str) -> Relation:
            return relation(f"{source}.{table}", names if table == "r" else ["k", "v"])

        def types(number: int, block: JoinBlock) -> Sequence[str]:
            return ["integer"] * len(block.items)

        found = compile_view(parse_view("v", text, resolve), types)
        places = {name: str(place) for place, name in enumerate(names)}
        return [
            [places[next(iter(item.expression.columns)).column] for item in step.terms[0].block.items]
            for step in found.states
        ]

    text = "SELECT x.{0} AS o FROM a.r x WHERE NOT EXISTS (SELECT 1 FROM a.s s WHERE s.k < x.{0} AND s.v < x.{1})"
    before, after = items(["k", "v"], text.format("k", "v")), items(["z", "v"], text.format("z", "v"))
    assert before == after == [["0", "1"]]


def test_texts_are_not_added_up() -> None:
    def types(number: int, block: JoinBlock) -> Sequence[str]:
        return ["text"] * len(block.items)

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return relation(f"{source}.{table}", {"k": "text"})

    with pytest.raises(UnsupportedSql, match="is not numeric"):
        compile_view(parse_view("v", "SELECT sum(r.k) AS s FROM a.r r", resolve), types)


def program(text: str) -> Program:
    def resolve(source: str, schema: str | None, table: str) -> Relation:
        return relation(f"{source}.{table}", ["k", "v"])

    def types(number: int, block: JoinBlock) -> Sequence[str]:
        return ["integer"] * len(block.items)

    return compile_view(parse_view("v", text, resolve), types)


def filled(seed: int) -> sqlite3.Connection:
    chosen = random.Random(seed)
    database = sqlite3.connect(":memory:")
    for table in TABLES:
        database.execute(f"CREATE TABLE {table} (k INTEGER, v INTEGER)")
        for _ in range(chosen.randint(0, 7)):
            row = [chosen.choice([None, 1, 2, 3]), chosen.choice([None, 1, 2, 3, 4])]
            database.execute(f"INSERT INTO {table} VALUES (?, ?)", row)
    return database


def bag(database: sqlite3.Connection, text: str) -> Counter[Any]:
    return Counter(database.execute(text).fetchall())


def evaluated(database: sqlite3.Connection, of: Program) -> Counter[Any]:
    result: Counter[Any] = Counter()
    for step in of.steps:
        entries: Counter[Any] = Counter()
        for term in step.terms:
            found = database.execute(rendered(term.block)).fetchall()
            assert not (found and term.is_unsatisfiable), rendered(term.block)
            for row in found:
                entries[(*row, term.side)] += term.sign
        if step.state is None:
            for (*row, _), count in entries.items():
                result[tuple(row)] += count
        else:
            keep(database, step, entries)
    assert all(count >= 0 for count in result.values())
    return +result


def rendered(block: JoinBlock) -> str:
    def name(ref: ColumnRef) -> str:
        return str(ref)

    items = ", ".join(item.expression.rendered(name) for item in block.items)
    tables = []
    for occurrence in block.occurrences:
        number = state_number(occurrence.relation)
        table = occurrence.relation.name.table if number is None else f"state_{number}"
        tables.append(f"{table} AS `{occurrence.alias}`")
    conditions = " AND ".join(f"({conjunct.rendered(name)})" for conjunct in block.conjuncts)
    query = f"SELECT {items} FROM {' CROSS JOIN '.join(tables)}" + (f" WHERE {conditions}" if conditions else "")
    return query.replace("<=>", "IS").replace("DECIMAL", "NUMERIC")


def keep(database: sqlite3.Connection, step: Step, entries: Counter[Any]) -> None:
    """The state's delivered rows as a table."""
    state = step.state
    assert state is not None
    names = [name for name, _ in state.delivered]
    database.execute(f"CREATE TABLE state_{step.number} ({', '.join(f'{name}' for name in names)})")
    rows: list[tuple[Any, ...]] = []
    match state:
        case Kept():
            rows = [row[:-1] for row, count in entries.items() for _ in range(count)]
        case Counted(rule=rule):
            sides: dict[Any, list[int]] = {}
            for (*row, side), count in entries.items():
                sides.setdefault(tuple(row), [0, 0])[side] += count
            for row, (left, right) in sides.items():
                assert left >= 0
                assert right >= 0
                times = {
                    "distinct": left > 0,
                    "union": left + right > 0,
                    "except": left > 0 and right == 0,
                    "intersect": left > 0 and right > 0,
                    "except all": max(left - right, 0),
                    "intersect all": min(left, right),
                }[rule]
                rows += [(repr(row), *row)] * int(times)
        case Grouped(keys=keys, accumulators=accumulators):
            groups: dict[Any, Counter[Any]] = {} if keys else {(): Counter()}
            for (*row, _), count in entries.items():
                groups.setdefault(tuple(row[: len(keys)]), Counter())[tuple(row[len(keys) :])] += count
            for group, content in groups.items():
                number = sum(content.values())
                if not number and keys:
                    continue
                values = [accumulated(a.function, a.argument, content) for a in accumulators]
                rows.append((repr(group), *group, number, *values))
    marks = ", ".join("?" for _ in names)
    database.executemany(f"INSERT INTO state_{step.number} VALUES ({marks})", rows)


def accumulated(function: str, argument: int | None, content: Counter[Any]) -> Any:
    assert argument is not None
    values = [row[argument] for row, count in content.items() for _ in range(count) if row[argument] is not None]
    match function:
        case "count":
            return len(values)
        case "sum":
            return sum(values)
        case "min":
            return min(values, default=None)
        case "max":
            return max(values, default=None)
    raise AssertionError(function)
