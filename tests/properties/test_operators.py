"""Random views of every operator over two databases, random batches; PostgreSQL's own evaluation judges each extent.

A case is one view compared after one batch. DYDA_EXAMPLES says how many towns are drawn, each with VIEWS views and
BATCHES batches; DYDA_CASES how many cases there must have been at the end (`make nightly`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda import commands, faults
from dyda.engine import Engine
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.loop import Maintainer
from tests.properties import operators
from tests.properties.operators import COLUMNS, ROWS, TABLES, Batch, View, for_postgres
from tests.town import Town

pytestmark = pytest.mark.long

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "2"))
CASES = int(os.environ.get("DYDA_CASES", "0"))
VIEWS, BATCHES = (5, 5) if "DYDA_EXAMPLES" in os.environ else (3, 3)

MOMENTS = st.sampled_from([None, None, "unit.snapshots-open", "unit.messages-received", "unit.swept", "unit.evaluated"])
"""When the last transaction of a batch is committed: before the cycle, or at a moment of it."""
STEPS = st.lists(st.tuples(operators.BATCHES, MOMENTS), min_size=BATCHES, max_size=BATCHES)
SMALL_SCANS = st.sampled_from([2**20, 2**20, 2**20, 1])
"""Up to which size relations are read by this process; the others by Spark's tasks."""
FILLINGS = st.lists(st.tuples(st.sampled_from(TABLES), ROWS), max_size=16)


def test_every_extent_equals_postgresql_s_own_evaluation(
    tmp_path: Path,
    databases: Callable[[], AbstractContextManager[Callable[..., str]]],
    engine: Engine,
    capsys: pytest.CaptureFixture[str],
) -> None:
    towns = iter(range(1_000_000))
    cases = 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="DYDA_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    @given(operators.several_views(VIEWS), FILLINGS, STEPS, SMALL_SCANS)
    def run(
        views: list[View],
        rows: list[tuple[tuple[str, str], Any]],
        steps: list[tuple[Batch, str | None]],
        small_scan: int,
    ) -> None:
        nonlocal cases
        with databases() as database:
            folder = tmp_path / f"town{next(towns)}"
            town = Town(folder, database, engine, spark=f'small_scan = "{small_scan}B"')
            try:
                cases += play(town, views, rows, steps)
            finally:
                town.close()

    run()
    with capsys.disabled():
        print(f"\n{cases} cases: views compared after a batch, all equal")
    assert cases >= CASES


def play(
    town: Town, views: list[View], rows: list[tuple[tuple[str, str], Any]], steps: list[tuple[Batch, str | None]]
) -> int:
    """One town; how many comparisons were made after a batch."""
    described = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    for source in ("one", "two"):
        town.source(source, *[f"CREATE TABLE {table} ({described})" for s, table in TABLES if s == source])
        town.judge().copy(source, town.sources[source], [table for s, table in TABLES if s == source])
    commit(town, [("insert", table, [row]) for table, row in rows])
    for view in views:
        town.view(view.name, view.text)
    town.apply()
    compare(town, views, "after the build")
    cases = 0
    with town.maintainer() as maintainer:
        for number, (batch, moment) in enumerate(steps, start=1):
            *early, last = batch
            for transaction in early:
                commit(town, transaction)
            if moment is None:
                commit(town, last)
            else:
                waiting = [last]
                with faults.on(moment, partial(commit_last, town, waiting)):
                    maintainer.cycle()
                for transaction in waiting:  # nothing was pending, so the moment never came
                    commit(town, transaction)
            settle(maintainer)
            compare(town, views, f"after batch {number} of {batch}")
            cases += len(views)
    answers = commands.verify(town.folder, engine=town.engine)
    assert {answer["result"] for answer in answers} == {"equal"}, answers
    assert not commands.pending(town.folder), "nothing is left in the queue"
    return cases


def commit_last(town: Town, waiting: list[list[operators.Change]]) -> None:
    if waiting:
        commit(town, waiting.pop())


def commit(town: Town, transaction: list[operators.Change]) -> None:
    """The changes, as one transaction at each source that they name."""
    for source in ("one", "two"):
        mine = [change for change in transaction if change[1][0] == source]
        if not mine:
            continue
        connection = town.connect(source)
        try:
            with connection, connection.cursor() as cursor:
                for kind, (_, table), what in mine:
                    change(cursor, kind, table, what)
        finally:
            connection.close()


def change(cursor: Any, kind: str, table: str, what: Any) -> None:
    match kind:
        case "insert":
            for row in what:
                cursor.execute(f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s, %s)", row)
        case "delete":
            cursor.execute(f"DELETE FROM {table} WHERE id = %s", [what])
        case "update":
            number, row, column = what
            cursor.execute(f"UPDATE {table} SET {list(COLUMNS)[column]} = %s WHERE id = %s", [row[column], number])
        case "truncate":
            cursor.execute(f"TRUNCATE {table}")
        case "empty":
            cursor.execute(f"DELETE FROM {table}")
        case "thin":  # one of each set of equal keys stays
            cursor.execute(
                f"DELETE FROM {table} a USING {table} b WHERE a.k IS NOT DISTINCT FROM b.k AND a.ctid < b.ctid"
            )
        case _:
            raise AssertionError(kind)


def settle(maintainer: Maintainer) -> None:
    for _ in range(50):
        if maintainer.cycle() is Outcome.IDLE:
            return
    raise AssertionError("maintenance does not come to rest")


def compare(town: Town, views: list[View], when: str) -> None:
    judge = town.judge()
    for source in ("one", "two"):
        judge.refill(source, town.sources[source], [table for s, table in TABLES if s == source])
    texts: dict[str, str] = {}
    for view in views:
        texts[view.name] = for_postgres(view.text, texts)
        extent, expected = town.extent(view.name), judge.evaluate(texts[view.name])
        assert extent == expected, (
            f"{view.name} {when}: {view.text}\nextra {extent - expected}\nmissing {expected - extent}"
        )
