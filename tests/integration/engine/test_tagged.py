"""Runs of transactions on Spark (rule W6), demanded rows, and that no change is larger than it must be."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dyda.engine import Engine
from tests.integration.engine.test_evaluate import chain, read_table, unit
from tests.unit.vm.builders import Memory, Row, Rows, projected, relation, run_of, view
from tests.unit.vm.judge import answer, minus, rows_of
from tests.unit.vm.test_sweep_property import COLUMNS, Case, cases, tables
from vm import Evaluation, delta_evaluation, demand, plan_sweep, sweep, world_evaluation


def run(engine: Engine, definition: Any, read: dict[str, Rows], ours: dict[str, list[Rows]], **more: Any) -> Evaluation:
    block = engine.block(definition)
    memory = Memory(block.by_alias, read)
    deltas = {alias: run_of(block.by_alias[alias], run) for alias, run in ours.items()}
    pending = {alias: projected(block.by_alias[alias], rows) for alias, rows in more.get("pending", {}).items()}
    worlds = sweep(plan_sweep(block), deltas, pending, memory.ask)
    return delta_evaluation(block, worlds, lambda occurrence: [memory.text(occurrence)])


def by_tag(table: pa.Table) -> dict[int, dict[Row, int]]:
    """{tag: {row: count}}; each row once per tag, and never for nothing: it cannot be both deleted and inserted."""
    assert table.column_names[-2:] == ["n", "t"]
    found: dict[int, dict[Row, int]] = {}
    for *row, n, tag in zip(*(column.to_pylist() for column in table.columns), strict=True):
        assert n != 0
        assert tuple(row) not in found.setdefault(tag, {})
        found[tag][tuple(row)] = n
    return found


def test_W6_runs_and_single_transactions_of_several_views_are_one_job(engine: Engine, small_jobs: int) -> None:
    read: dict[str, Rows] = {"a0": {}, "a1": {("1", "1"): 1}}
    first = run(engine, chain(2, "v"), read, {"a0": [{("1", "1"): 1}, {("1", "1"): -1}]})
    second = unit(engine, chain(3, "w"), {**read, "a2": {("1", "1"): 1}}, {"a0": {("1", "1"): 1}})
    nothing = run(engine, chain(2, "x"), {**read, "a1": {}}, {"a0": [{("1", "1"): 1}]})
    jobs = engine.jobs
    tables = engine.evaluate([first, second, nothing])
    assert engine.jobs == jobs + small_jobs
    # The row that was inserted and deleted within the run has a state in which it is there.
    assert by_tag(tables[0]) == {1: {("1", "1", "2"): 1}, 2: {("1", "1", "2"): -1}}
    assert tables[1].column_names == ["c1", "c2", "c3", "c4", "n"]
    assert rows_of(tables[1]) == {("1", "1", "1", "2"): 1}
    assert by_tag(tables[2]) == {}
    assert tables[2].schema.types == tables[0].schema.types


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(cases(), st.data())
def test_W6_random_runs_on_spark_equal_brute_force_transaction_by_transaction(
    engine: Engine, case: Case, data: st.DataObject
) -> None:
    between = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(case.read, tables)), max_size=2))
    states = [case.installed, *between, case.ours]
    relations = {name: relation(name, list(COLUMNS)) for name in case.read}
    definition = view(
        "v",
        {alias: relations[name] for alias, name in case.of.items()},
        [str(condition) for condition in case.conditions],
        {f"o{i}": item for i, item in enumerate(case.items)},
    )
    ours = {alias: [minus(b[name], a[name]) for a, b in pairwise(states)] for alias, name in case.of.items()}
    pending = {alias: minus(case.read[name], case.ours[name]) for alias, name in case.of.items()}
    read = {alias: case.read[name] for alias, name in case.of.items()}
    evaluation = run(engine, definition, read, ours, pending=pending)
    found = by_tag(engine.evaluate([evaluation], read_table)[0])
    full = dict.fromkeys(case.of, COLUMNS)
    answers = [
        answer(full, {alias: state[name] for alias, name in case.of.items()}, case.conditions, case.items)
        for state in states
    ]
    expected = {tag: minus(b, a) for tag, (a, b) in enumerate(pairwise(answers), 1)}
    assert found == {tag: rows for tag, rows in expected.items() if rows}


def test_a_large_run_is_evaluated_in_the_bulk_session(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[str, Rows] = {
        "a0": {("1", str(i)): 1 for i in range(50)},
        "a1": {(str(i), str(i)): 2 for i in range(50)},
    }
    evaluation = run(engine, chain(2), read, {"a0": [{("1", str(i)): 1} for i in range(50)]})
    small = by_tag(engine.evaluate([evaluation])[0])
    assert small == {i + 1: {("1", str(i), str(1 + i)): 2} for i in range(50)}
    monkeypatch.setattr("dyda.engine.engine.SMALL_ENTRIES", 0)
    assert by_tag(engine.evaluate([evaluation])[0]) == small
    monkeypatch.setattr("dyda.engine.local_join.LIMIT", 0)
    assert by_tag(engine.evaluate([evaluation])[0]) == small


def test_K1_demanded_rows_are_those_of_the_new_world(engine: Engine) -> None:
    block = engine.block(chain(2))
    memory = Memory(block.by_alias, {"a0": {("1", "5"): 1, ("2", "5"): 1}, "a1": {("5", "7"): 2, ("6", "8"): 1}})
    pending = {"a1": projected(block.by_alias["a1"], {("5", "7"): 1, ("5", "9"): -1})}
    values = pa.table({"x": ["1"]})
    worlds = demand(plan_sweep(block), "a0", ["x"], values, pending, memory.ask)
    found = rows_of(engine.evaluate([world_evaluation(block, worlds)])[0])
    assert found == {("1", "5", "8"): 1, ("1", "5", "10"): 1}


def test_a_row_that_is_deleted_and_inserted_again_is_no_change(engine: Engine) -> None:
    """Paper 002: ΔV is minimal. The key moves to another row, the projection stays what it was."""
    r = relation("r", ["x", "y"])
    definition = view("v", {"r": r}, ["r.x > 0"], {"y": "r.y"})
    evaluation = unit(engine, definition, {"r": {("2", "5"): 1}}, {"r": {("1", "5"): -1, ("2", "5"): 1}})
    assert engine.evaluate([evaluation])[0].num_rows == 0
    swapped: Rows = {("1", "5"): -1, ("2", "6"): -1, ("1", "6"): 1, ("2", "5"): 2}
    evaluation = unit(engine, definition, {"r": {("1", "6"): 1, ("2", "5"): 2}}, {"r": swapped})
    table = engine.evaluate([evaluation])[0]
    assert rows_of(table) == {("5",): 1}
    assert table.num_rows == 1
