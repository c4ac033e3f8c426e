"""The 22 queries of TPC-H as views over three databases, through refreshes; PostgreSQL's own evaluation judges them.

ORDER BY and LIMIT are gone, since a view is a bag; quotients are cast to a scale, and parameters are widened so that
the small data has rows for each (see data.py). DYDA_EXAMPLES says how many refreshes there are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby, pairwise
from pathlib import Path

import psycopg2
import pytest

from dyda import commands
from dyda.engine import Engine
from tests.integration.tpch.data import SCHEMAS, Business, Statement
from tests.town import Town

pytestmark = pytest.mark.long

REFRESHES = int(os.environ.get("DYDA_EXAMPLES", "3"))
QUERIES = {path.stem: path.read_text() for path in sorted(Path("fixtures/tpch").glob("q*.sql"))}

States = dict[str, list[tuple[Counter[str], Counter[str]]]]
"""By query, after the build and after each refresh: the extent, and what PostgreSQL says it should be."""


@pytest.fixture(scope="module")
def town(
    tmp_path_factory: pytest.TempPathFactory, module_database: Callable[..., str], engine: Engine
) -> Iterator[Town]:
    created = Town(tmp_path_factory.mktemp("tpch"), module_database, engine)
    yield created
    created.close()


@pytest.fixture(scope="module")
def refreshed(town: Town) -> States:
    for source, tables in SCHEMAS.items():
        town.source(source, *(f"CREATE TABLE {table} ({columns})" for table, columns in tables.items()))
        town.judge().copy(source, town.sources[source], tables)
    business = Business()
    for source, statements in groupby(business.start(), key=lambda statement: statement[0]):
        commit(town, source, list(statements))
    for name, text in QUERIES.items():
        town.view(name, text)
    town.apply()
    states: States = {name: [] for name in QUERIES}
    look(town, states)
    for _ in range(REFRESHES):
        for transaction in business.refresh():
            commit(town, transaction[0][0], transaction)
        town.settle()
        look(town, states)
    return states


def commit(town: Town, source: str, statements: list[Statement]) -> None:
    connection = psycopg2.connect(town.sources[source])
    try:
        with connection, connection.cursor() as cursor:
            for _, statement, parameters in statements:
                cursor.execute(statement, parameters)
    finally:
        connection.close()


def look(town: Town, states: States) -> None:
    for source, tables in SCHEMAS.items():
        town.judge().refill(source, town.sources[source], tables)
    for name, extent in town.extents(QUERIES).items():
        states[name].append((extent, town.judge().evaluate(QUERIES[name])))


def test_all_22_are_there() -> None:
    assert list(QUERIES) == [f"q{number:02}" for number in range(1, 23)]


@pytest.mark.parametrize("name", QUERIES)
def test_query_is_exact_after_each_refresh(refreshed: States, name: str) -> None:
    for number, (extent, expected) in enumerate(refreshed[name]):
        assert extent == expected, f"refresh {number}: extra {extent - expected}, missing {expected - extent}"
    assert refreshed[name][0][1], "the small data has rows for each query"
    assert any(one != other for (_, one), (_, other) in pairwise(refreshed[name])), "a refresh that changes something"


def test_recomputation_on_spark_agrees(town: Town, refreshed: States) -> None:
    answers = commands.verify(town.folder, engine=town.engine)
    assert {answer["name"]: answer["result"] for answer in answers} == dict.fromkeys(QUERIES, "equal"), answers


def test_at_least_18_ask_for_nothing_but_what_changed(town: Town, refreshed: States) -> None:
    """Where one value or a NULL decides about all rows (q11, q15, q16, q22), its change looks at all of them."""
    scanning = {
        name
        for name in QUERIES
        if any("scan" in step["how"] for step in commands.views_explain(town.folder, name)["steps"])
    }
    assert scanning <= {"q11", "q15", "q16", "q22"}


def test_most_never_read_a_relation_whole(town: Town, refreshed: States) -> None:
    """Of the others docs/explanation/operators.md tells when: a number about all rows has changed."""
    steps = {name: commands.views_explain(town.folder, name)["steps"] for name in QUERIES}
    whole = {name: {step["subject"] for step in told if step["step"] == "scan"} for name, told in steps.items()}
    assert {name: read for name, read in whole.items() if read} == {"q15": {"s"}, "q16": {"p", "ps"}, "q22": {"c"}}
