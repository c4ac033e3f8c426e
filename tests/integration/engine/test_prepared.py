"""Prepared queries: the same rows as by a job, without one; what cannot be prepared takes the ordinary way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext

from dyda.engine import Engine, prepared
from dyda.errors import EngineFailed, EvaluationFailed
from tests.integration.engine.test_tagged import by_tag, run
from tests.unit.vm.builders import Memory, Rows, projected, relation, view
from tests.unit.vm.judge import rows_of
from vm import Evaluation, delta_evaluation, plan_sweep, sweep

T = {"id": "integer", "k": "integer", "t": "text"}
ROWS: Rows = {("1", "2", "a"): 1, ("2", None, None): 1, ("3", "0", "x"): 2}


@pytest.fixture
def engine(engine: Engine) -> Iterator[Engine]:
    """The engine of all tests, with templates of its own."""
    before, engine.prepared = engine.prepared, prepared.Prepared()
    yield engine
    engine.prepared = before


def inserted(engine: Engine, name: str, items: dict[str, str], *conditions: str, rows: Rows = ROWS) -> Evaluation:
    """ΔV of a view over one relation into which these rows come."""
    block = engine.block(view(name, {"a": relation("one.r", T)}, list(conditions), items))
    memory = Memory(block.by_alias, {"a": rows})
    worlds = sweep(plan_sweep(block), {"a": projected(block.by_alias["a"], rows)}, {}, memory.ask)
    return delta_evaluation(block, worlds)


def ordinary(engine: Engine, evaluations: list[Evaluation]) -> list[pa.Table]:
    """The same by a job."""
    engine.prepared.most_rows, before = 0, engine.prepared.most_rows
    try:
        return engine.evaluate(evaluations)
    finally:
        engine.prepared.most_rows = before


def test_rows_come_without_a_job_and_are_those_of_a_job(engine: Engine) -> None:
    evaluations = [
        inserted(engine, "one", {"id": "a.id", "t": "upper(a.t)"}, "a.id > 1"),
        inserted(engine, "two", {"half": "a.k / 2"}),
        inserted(engine, "three", {"half": "a.k / 2"}, rows={("7", "8", "b"): 1}),
        inserted(engine, "four", {"t": "a.t"}, "a.t IS NULL"),
    ]
    jobs = engine.jobs
    found = engine.evaluate(evaluations)
    assert engine.jobs == jobs
    assert engine.prepared.answered == 4
    assert [rows_of(table) for table in found] == [
        {("2", None): 1, ("3", "X"): 2},
        {("1.0",): 1, (None,): 1, ("0.0",): 2},
        {("4.0",): 1},
        {(None,): 1},
    ]
    assert [table.schema for table in found] == [table.schema for table in ordinary(engine, evaluations)]
    assert engine.jobs == jobs + 1


def test_what_is_never_NULL_comes_as_other_texts_do(engine: Engine) -> None:
    """Tables of entries are put together, whatever the query of each."""
    evaluations = [inserted(engine, "same", {"t": "'x'"}), inserted(engine, "count", {"t": "coalesce(a.t, '')"})]
    for asked in ([evaluations[0]], evaluations):
        found = engine.evaluate(asked)
        assert [table.schema for table in found] == [table.schema for table in ordinary(engine, asked)]
    assert engine.prepared.answered == 3


def test_a_plan_is_made_once_for_all_units(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Any] = []
    plan = prepared._Spark.plan

    def counted(*given: Any) -> Any:
        plans.append(given)
        return plan(*given)

    monkeypatch.setattr(prepared._Spark, "plan", counted)
    for number in range(5):
        rows: Rows = {(str(number), "1", f"text {number}"): 1}
        (found,) = engine.evaluate([inserted(engine, "one", {"t": "a.t || '!'"}, rows=rows)])
        assert rows_of(found) == {(f"text {number}!",): 1}
    assert len(plans) == 1
    engine.evaluate([inserted(engine, "other", {"id": "a.id + 1"})])
    assert len(plans) == 2
    both = [inserted(engine, "one", {"t": "a.t || '!'"}), inserted(engine, "other", {"id": "a.id + 1"})]
    assert [rows_of(table) for table in engine.evaluate(both)] == [
        {("a!",): 1, (None,): 1, ("x!",): 2},
        {("2",): 1, ("3",): 1, ("4",): 2},
    ]
    assert len(plans) == 2, "the second template has grown out of the first"


def test_columns_of_one_name_may_have_other_types_in_other_views(engine: Engine) -> None:
    block = engine.block(view("texts", {"a": relation("two.s", {"id": "text"})}, [], {"id": "a.id || '?'"}))
    memory = Memory(block.by_alias, {"a": {("x",): 1}})
    worlds = sweep(plan_sweep(block), {"a": projected(block.by_alias["a"], {("x",): 1})}, {}, memory.ask)
    found = engine.evaluate([inserted(engine, "numbers", {"id": "a.id + 1"}), delta_evaluation(block, worlds)])
    assert [rows_of(table) for table in found] == [{("2",): 1, ("3",): 1, ("4",): 2}, {("x?",): 1}]
    assert engine.prepared.answered == 2


def test_transactions_of_a_run_keep_their_tags(engine: Engine) -> None:
    definition = view("run", {"a": relation("one.r", T)}, ["a.id > 0"], {"id": "a.id"})
    changes: list[Rows] = [{("1", "1", "a"): 1}, {("1", "1", "a"): -1, ("2", "1", "b"): 1}]
    evaluations = [
        run(engine, definition, {"a": {("2", "1", "b"): 1}}, {"a": changes}),
        inserted(engine, "one", {"k": "a.k"}),
    ]
    jobs = engine.jobs
    tables = engine.evaluate(evaluations)
    assert engine.jobs == jobs
    assert by_tag(tables[0]) == {1: {("1",): 1}, 2: {("1",): -1, ("2",): 1}}
    assert rows_of(tables[1]) == {("2",): 1, (None,): 1, ("0",): 2}


def test_a_row_that_cannot_be_computed_is_told_as_by_a_job(engine: Engine) -> None:
    def quotients(rows: Rows) -> list[Evaluation]:
        return [inserted(engine, "q", {"q": "10 / a.k"}, rows=rows)]

    assert rows_of(engine.evaluate(quotients({("1", "2", "a"): 1}))[0]) == {("5.0",): 1}
    with pytest.raises(EvaluationFailed) as found:
        engine.evaluate(quotients(ROWS))
    with pytest.raises(EvaluationFailed) as expected:
        ordinary(engine, quotients(ROWS))
    assert str(found.value) == str(expected.value)
    assert rows_of(engine.evaluate(quotients({("1", "4", "a"): 1}))[0]) == {("2.5",): 1}


def test_a_condition_that_is_never_true_lets_no_later_row_pass(engine: Engine) -> None:
    others: Rows = {("9", "9", "z"): 1}
    for rows in (ROWS, others):
        assert rows_of(engine.evaluate([inserted(engine, "none", {"id": "a.id"}, "1 = 2", rows=rows)])[0]) == {}


def test_what_is_no_chain_takes_the_ordinary_way_and_the_others_do_not(engine: Engine) -> None:
    chained = inserted(engine, "chain", {"id": "a.id"})
    nested = inserted(engine, "nested", {"most": "(SELECT max(x) FROM VALUES (1), (2) AS v(x)) + a.id"})
    jobs = engine.jobs
    found = engine.evaluate([nested, chained])
    assert engine.jobs > jobs
    assert [rows_of(table) for table in found] == [{("3",): 1, ("4",): 1, ("5",): 2}, {("1",): 1, ("2",): 1, ("3",): 2}]
    assert engine.prepared.answered == 1


def test_many_rows_are_a_job(engine: Engine) -> None:
    many: Rows = {(str(number), "1", "a"): 1 for number in range(prepared.MOST_ROWS + 1)}
    jobs = engine.jobs
    (found,) = engine.evaluate([inserted(engine, "many", {"id": "a.id"}, rows=many)])
    assert found.num_rows == len(many)
    assert engine.jobs == jobs + 1
    assert engine.prepared.answered == 0


def test_a_template_that_grows_leaves_out_what_is_no_longer_asked(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "FORGOTTEN", 2)
    for number in range(6):
        engine.evaluate([inserted(engine, f"v{number}", {"id": f"a.id + {number}"})])
    assert [len(template.numbers) for template in engine.prepared._templates] == [3]


def test_another_spark_gets_templates_of_its_own(engine: Engine) -> None:
    for _ in range(2):
        assert rows_of(engine.evaluate([inserted(engine, "one", {"id": "a.id"}, "a.id < 2")])[0]) == {("1",): 1}
        engine.stop()
    assert engine.prepared.answered == 2


def test_a_spark_with_other_internals_is_asked_by_jobs_and_that_is_said_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "RULE", "RuleOfAnotherTime")
    said: list[str] = []
    engine.prepared.say = said.append
    jobs = engine.jobs
    for _ in range(2):
        (found,) = engine.evaluate([inserted(engine, "one", {"id": "a.id"}, "a.id < 2")])
        assert rows_of(found) == {("1",): 1}
    assert engine.jobs == jobs + 2
    (line,) = said
    assert line.startswith("small changes are evaluated by ordinary Spark jobs: this Spark cannot keep plans")
    monkeypatch.undo()
    engine.evaluate([inserted(engine, "one", {"id": "a.id"})])
    assert engine.prepared.answered == 0, "this Spark is not tried again"
    engine.stop()
    engine.evaluate([inserted(engine, "one", {"id": "a.id"})])
    assert engine.prepared.answered == 1, "another one is"


def test_a_spark_that_has_died_is_no_reason_to_give_up_plans(engine: Engine) -> None:
    said: list[str] = []
    engine.prepared.say = said.append
    evaluations = [inserted(engine, "one", {"id": "a.id"}, "a.id < 2")]
    engine.evaluate(evaluations)
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.kill()
    process.wait()
    with pytest.raises(EngineFailed, match="its Java process ended"):
        engine.evaluate(evaluations)
    assert rows_of(engine.evaluate(evaluations)[0]) == {("1",): 1}
    assert engine.prepared.answered == 2
    assert said == []
