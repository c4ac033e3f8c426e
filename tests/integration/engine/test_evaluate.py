"""Units on Spark: paper 003's example, one job without an exchange, all types, random views against brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark import SparkContext

from dyda.engine import Engine, local_join
from dyda.errors import EngineFailed, EvaluationFailed, ValueDoesNotFit
from tests.unit.vm import test_figure5 as figure5
from tests.unit.vm.builders import Memory, Rows, projected, relation, view
from tests.unit.vm.judge import answer, minus, rows_of
from tests.unit.vm.test_sweep_property import COLUMNS, Case, cases
from vm import Evaluation, Worlds, build_evaluation, delta_evaluation, plan_sweep, sweep


def unit(
    engine: Engine,
    definition: Any,
    read: dict[str, Rows],
    ours: dict[str, Rows],
    pending: dict[str, Rows] | None = None,
) -> Evaluation:
    """Sweep in memory, ready for Spark; per alias full rows."""
    block = engine.block(definition)
    memory = Memory(block.by_alias, read)
    worlds = sweep(
        plan_sweep(block),
        {alias: projected(block.by_alias[alias], rows) for alias, rows in ours.items()},
        {alias: projected(block.by_alias[alias], rows) for alias, rows in (pending or {}).items()},
        memory.ask,
    )
    return delta_evaluation(block, worlds, lambda occurrence: [memory.text(occurrence)])


def read_table(partition: pa.Table) -> pa.Table:
    return partition


def test_figure_5_concurrent_updates_on_spark(engine: Engine) -> None:
    extent = Counter(figure5.STATES[0])
    for update, (name, row, count) in enumerate(figure5.UPDATES):
        pending = {n: {r: c} for n, r, c in figure5.UPDATES[update + 1 :]}
        evaluation = unit(engine, figure5.definition(), figure5.after(3), {name: {row: count}}, pending)
        extent.update(rows_of(engine.evaluate([evaluation])[0]))
        assert {r: n for r, n in extent.items() if n} == figure5.STATES[update + 1]


def chain(n: int, name: str = "v") -> Any:
    relations = {f"a{i}": relation(f"s{i}.r{i}", ["x", "y"]) for i in range(n)}
    conditions = [f"a{i}.y = a{i + 1}.x" for i in range(n - 1)]
    return view(name, relations, conditions, {f"c{i}": f"a{i}.x" for i in range(n)} | {"sum": f"a0.x + a{n - 1}.y"})


def test_a_small_unit_is_one_job_of_one_stage_without_exchange_for_all_its_views(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.prepared, "most_rows", 0)
    evaluations = []
    for n in (2, 3, 6):
        read: dict[str, Rows] = {f"a{i}": {("1", "1"): 1} for i in range(n)}
        evaluations.append(unit(engine, chain(n, f"v{n}"), read, {"a0": {("1", "1"): 1}}))
    jobs = engine.jobs
    tracker = engine._sessions.context.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    result = engine.evaluate(evaluations)
    assert engine.jobs - jobs == 1
    assert [rows_of(table) for table in result] == [{("1",) * n + ("2",): 1} for n in (2, 3, 6)]
    # The status tracker is told a little later than Spark knows: read its own event queue to the end first.
    engine._sessions.context._jsc.sc().listenerBus().waitUntilEmpty()
    (job,) = set(tracker.getJobIdsForGroup()) - before
    info = tracker.getJobInfo(job)
    assert info is not None
    assert len(info.stageIds) == 1


def test_views_of_one_unit_compute_over_their_own_rows_alone(engine: Engine, small_jobs: int) -> None:
    """All views are one query that tells their rows apart: none may fail on a row, or by a condition, of another."""
    numbers, texts = relation("r", {"x": "integer"}), relation("s", {"x": "text"})
    asked: list[tuple[Any, str, Rows]] = [
        (view("quotients", {"r": numbers}, ["r.x <> 3"], {"q": "10 DIV r.x", "x": "r.x"}), "r", {("2",): 1, ("3",): 1}),
        (view("zeros", {"r": numbers}, [], {"x": "r.x"}), "r", {("0",): 2, ("3",): -1}),
        (view("nothing", {"r": numbers}, ["r.x > 100"], {"x": "CAST('x' AS INT) + r.x"}), "r", {("0",): 1}),
        (view("words", {"s": texts}, ["s.x <> '0'"], {"n": "length(s.x)", "x": "s.x", "two": "2"}), "s", {("ab",): 1}),
        (view("read as numbers", {"s": texts}, [], {"x": "CAST(s.x AS INT)"}), "s", {("7",): 1}),
    ]
    evaluations = [unit(engine, definition, {alias: {}}, {alias: rows}) for definition, alias, rows in asked]
    jobs = engine.jobs
    found = [rows_of(table) for table in engine.evaluate(evaluations)]
    assert engine.jobs - jobs == small_jobs
    assert found == [{("5", "2"): 1}, {("0",): 2, ("3",): -1}, {}, {("2", "ab", "2"): 1}, {("7",): 1}]
    assert found == [rows_of(engine.evaluate([evaluation])[0]) for evaluation in evaluations]


def test_a_unit_that_can_change_nothing_costs_no_job(engine: Engine) -> None:
    jobs = engine.jobs
    evaluation = unit(engine, chain(2), {"a0": {("1", "1"): 1}, "a1": {}}, {"a0": {("1", "1"): 1}})
    assert engine.evaluate([evaluation])[0].num_rows == 0
    assert engine.jobs == jobs


def test_R4_spark_joins_7_and_007_because_the_other_side_is_scanned(engine: Engine) -> None:
    r, s = relation("r", {"x": "integer"}), relation("s", {"x": "text", "y": "text"})
    definition = view("v", {"r": r, "s": s}, ["r.x = s.x"], {"x": "r.x", "sx": "s.x", "y": "s.y"})
    read: dict[str, Rows] = {"r": {("7",): 1}, "s": {("007", "found"): 1, ("8", "not"): 2}}
    evaluation = unit(engine, definition, read, {"r": {("7",): 1}})
    assert evaluation.scanned
    assert rows_of(engine.evaluate([evaluation], read_table)[0]) == {("7", "007", "found"): 1}


@pytest.mark.parametrize("limit", [local_join.LIMIT, 0], ids=["combined here", "joined by Spark"])
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(case=cases())
def test_random_views_on_spark_equal_brute_force(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, limit: int, case: Case
) -> None:
    monkeypatch.setattr(local_join, "LIMIT", limit)
    relations = {name: relation(name, list(COLUMNS)) for name in case.read}
    definition = view(
        "v",
        {alias: relations[name] for alias, name in case.of.items()},
        [str(condition) for condition in case.conditions],
        {f"o{i}": item for i, item in enumerate(case.items)},
    )
    ours = {alias: minus(case.ours[name], case.installed[name]) for alias, name in case.of.items()}
    pending = {alias: minus(case.read[name], case.ours[name]) for alias, name in case.of.items()}
    read = {alias: case.read[name] for alias, name in case.of.items()}
    evaluation = unit(engine, definition, read, ours, pending)
    table = engine.evaluate([evaluation], read_table)[0]
    found = rows_of(table)
    # Minimal (paper 002): each row once, so none is both deleted and inserted, and none that stays as it is.
    assert table.num_rows == len(found)
    assert 0 not in found.values()
    full = dict.fromkeys(case.of, COLUMNS)
    states = [
        answer(full, {alias: state[name] for alias, name in case.of.items()}, case.conditions, case.items)
        for state in (case.installed, case.ours)
    ]
    assert found == minus(states[1], states[0])


VALUES = {
    "smallint": ["-32768", "7", None],
    "integer": ["-2147483648", "7", None],
    "bigint": ["9223372036854775807", "7", None],
    "numeric(10,2)": ["1.00", "-12345678.90", None],
    "numeric": ["1.50", "1.5", "12345678901234567890.123456789012345678", None],
    "real": ["3.4028235e+38", "-0", "NaN", "Infinity", "0.1", None],
    "double precision": ["5e-324", "-0", "NaN", "-Infinity", "0.1", "1e+20", None],
    "text": ["", " x ", "'\"\\\n", "ß∂🙂", None],
    "varchar": ["", "a", None],
    "character": ["a  ", "   ", None],
    "boolean": ["t", "f", None],
    "date": ["2024-02-29", "0001-01-01", "9999-12-31", "1582-10-10", None],
    "timestamp": ["2024-02-29 23:59:59.123456", "1582-10-10 00:00:00", "0001-01-01 00:00:00.5", None],
    "timestamp with time zone": ["2024-03-31 02:30:00+00", "1582-10-10 00:00:00.000001+00", None],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None],
    "bytea": ["\\x", "\\x00ff", None],
    "MOOD": ["happy", "", None],
    "jsonb": ['{"a": [1, null]}', "null", None],
    "integer[]": ["{1,NULL}", "[0:1]={1,2}", None],
    "interval": ["1 mon -1 days +00:00:00.5", None],
}


@pytest.mark.parametrize("kind", VALUES)
def test_passed_on_columns_keep_their_text_also_where_the_view_computes_with_them(engine: Engine, kind: str) -> None:
    r = relation("r", {"id": "integer", "x": kind})
    computed = kind not in ("MOOD", "jsonb", "integer[]", "interval")
    test = "r.x IS NOT NULL OR r.x IS NULL" if computed else "CAST(r.x AS STRING) IS NULL OR r.id > 0"
    definition = view("v", {"r": r}, [test], {"id": "r.id", "x": "r.x", "again": "r.x"})
    rows: Rows = {(str(i), value): 1 for i, value in enumerate(VALUES[kind], 1)}
    (output, *_) = [one for one in engine.analyse(definition) if one.name == "x"]
    assert (output.warehouse_type, output.passthrough) == (kind if kind != "MOOD" else "text", True)
    found = rows_of(engine.evaluate([unit(engine, definition, {"r": rows}, {"r": rows})])[0])
    assert found == {(number, value, value): 1 for number, value in rows}


def test_computed_values_are_texts_that_postgresql_reads(engine: Engine) -> None:
    r = relation("r", {"b": "bytea", "t": "timestamp with time zone", "n": "timestamp", "f": "boolean", "d": "date"})
    items = {
        "bytes": "unhex(hex(r.b))",
        "instant": "r.t + INTERVAL 1 DAY",
        "local": "r.n + INTERVAL 1 DAY",
        "negated": "NOT r.f",
        "next": "date_add(r.d, 1)",
        "half": "7 / 2",
        "cut": "CAST(2.7 AS INT)",
    }
    definition = view("v", {"r": r}, [], items)
    rows: Rows = {("\\x0Aff".lower(), "2024-02-28 12:00:00.5+00", "2024-02-28 12:00:00.5", "t", "2024-02-28"): 1}
    found = rows_of(engine.evaluate([unit(engine, definition, {"r": rows}, {"r": rows})])[0])
    expected = (
        "\\x0aff",
        "2024-02-29 12:00:00.5+00",
        "2024-02-29 12:00:00.5",
        "f",
        "2024-02-29",
        "3.5",
        "2",
    )
    assert found == {expected: 1}


SPELLED = [
    kind for kind in VALUES if kind not in ("real", "double precision", "MOOD", "jsonb", "integer[]", "interval")
]


@pytest.mark.parametrize("kind", SPELLED)
def test_computed_values_are_spelled_like_captured_ones(engine: Engine, kind: str) -> None:
    """What a view computes is a key between its own state and a relation; 'true' would find no 't'."""
    r = relation("r", {"id": "integer", "x": kind})
    definition = view("v", {"r": r}, [], {"x": "r.x", "same": "if(r.id > 0, r.x, NULL)"})
    rows: Rows = {(str(i), value): 1 for i, value in enumerate(VALUES[kind], 1)}
    found = rows_of(engine.evaluate([unit(engine, definition, {"r": rows}, {"r": rows})])[0])
    if kind == "numeric":  # in Spark it has 18 digits after the point
        assert {row[0]: row[1] and Decimal(row[1]) for row in found} == {x: x and Decimal(x) for _, x in rows}
    else:
        assert found == {(value, value): 1 for value in VALUES[kind]}


def test_instants_are_spelled_in_UTC_wherever_the_session_is(engine: Engine) -> None:
    """Twice a year a local time is two instants, so the text must not pass through one."""
    r = relation("r", {"x": "timestamp with time zone"})
    definition = view("v", {"r": r}, [], {"o": "r.x + INTERVAL 0 DAY"})
    rows: Rows = {("2024-10-27 00:30:00+00",): 1, ("2024-10-27 01:30:00.000001+00",): 1}
    zone = engine._sessions.small.conf
    zone.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        assert rows_of(engine.evaluate([unit(engine, definition, {"r": rows}, {"r": rows})])[0]) == rows
    finally:
        zone.set("spark.sql.session.timeZone", "UTC")


def test_terms_of_one_view_are_evaluated_in_one_job_and_agree_in_types_and_sign(
    engine: Engine, small_jobs: int
) -> None:
    r = relation("r", {"i": "integer", "d": "numeric(10,2)", "t": "text", "b": "bytea"})
    first = view("v", {"r": r}, [], {"a": "r.i", "b": "r.d", "c": "NULL", "d": "r.b"})
    second = view("v", {"r": r}, [], {"a": "r.d", "b": "NULL", "c": "r.t", "d": "NULL"})
    types = [output.spark_type for output in engine.types(engine.block(first), engine.block(second))]
    assert types == ["decimal(12,2)", "decimal(10,2)", "string", "binary"]
    rows: Rows = {("7", "1.50", "x", "\\x00ff"): 1}
    evaluations = []
    for definition, sign in ((first, 1), (second, -1)):
        swept = unit(engine, definition, {"r": rows}, {"r": rows})
        worlds = {frame.occurrence.alias: Worlds(frame.table) for frame in swept.frames}
        evaluations.append(delta_evaluation(swept.block, worlds, types=types, sign=sign))
    jobs = engine.jobs
    tables = engine.evaluate(evaluations)
    assert engine.jobs == jobs + small_jobs
    assert rows_of(tables[0]) == {("7.00", "1.50", None, "\\x00ff"): 1}
    assert rows_of(tables[1]) == {("1.50", None, "x", None): -1}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("numeric", "NaN"),
        ("numeric", "0.0000000000000000001"),
        ("numeric", "123456789012345678901"),
        ("numeric(10,2)", "NaN"),
        ("date", "infinity"),
        ("date", "0044-03-15 BC"),
        ("timestamp", "-infinity"),
        ("timestamp with time zone", "10000-01-01 00:00:00+00"),
    ],
)
def test_a_value_without_an_exact_counterpart_is_named_not_rounded(engine: Engine, kind: str, value: str) -> None:
    definition = view("v", {"r": relation("s.r", {"x": kind})}, ["r.x IS NOT NULL"], {"x": "r.x"})
    rows: Rows = {(value,): 1}
    with pytest.raises(ValueDoesNotFit, match=r"s\.public\.r\.x: the value") as caught:
        engine.evaluate([unit(engine, definition, {"r": rows}, {"r": rows})])
    assert repr(value) in caught.value.what
    assert (caught.value.relation, caught.value.column) == ("s.public.r", "x")
    # Passed on only, the same value travels.
    definition = view("v", {"r": relation("s.r", {"x": kind})}, [], {"x": "r.x"})
    assert rows_of(engine.evaluate([unit(engine, definition, {"r": rows}, {"r": rows})])[0]) == {(value,): 1}


def test_plain_numerics_that_differ_only_in_trailing_zeros_join(engine: Engine) -> None:
    r, s = relation("r", {"x": "numeric"}), relation("s", {"x": "numeric(10,2)"})
    definition = view("v", {"r": r, "s": s}, ["r.x = s.x"], {"x": "r.x", "y": "s.x"})
    evaluation = unit(engine, definition, {"r": {("1.5",): 1}, "s": {("1.50",): 2}}, {"r": {("1.5",): 1}})
    # The memory source compares texts; a real one compares numbers. What it may not find, PostgreSQL's does.
    assert evaluation.is_empty
    read: dict[str, Rows] = {"r": {("1.5",): 1}, "s": {("1.5",): 2}}
    evaluation = unit(engine, definition, read, {"r": {("1.5",): 1}})
    assert rows_of(engine.evaluate([evaluation])[0]) == {("1.5", "1.5"): 2}


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("1 / (r.x - r.x)", "Division by zero"),
        ("CAST(concat('a', CAST(r.x AS STRING)) AS INT)", "'a1'"),
        ("2147483647 + r.x", "overflow"),
        ("CAST(100 * r.x AS DECIMAL(2,0))", "cannot be represented"),
    ],
)
def test_evaluation_errors_name_the_view_and_what_spark_says(engine: Engine, item: str, says: str) -> None:
    r = relation("r", ["x"])
    good = view("good", {"r": r}, [], {"x": "r.x"})
    bad = view("bad", {"r": r}, [], {"x": item})
    rows: Rows = {("1",): 1}
    evaluations = [unit(engine, one, {"r": rows}, {"r": rows}) for one in (good, bad)]
    with pytest.raises(EvaluationFailed, match="view bad: ") as caught:
        engine.evaluate(evaluations)
    assert says in caught.value.what
    assert caught.value.view == "bad"
    assert "SQLSTATE" not in str(caught.value)
    assert "spark.sql.ansi" not in str(caught.value)
    assert "\n" not in caught.value.what


def test_a_dead_jvm_is_nobodys_rows_fault_and_the_next_unit_starts_another(engine: Engine) -> None:
    evaluation = unit(engine, chain(2), {"a0": {("1", "1"): 1}, "a1": {("1", "1"): 1}}, {"a0": {("1", "1"): 1}})
    expected = rows_of(engine.evaluate([evaluation])[0])
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.kill()
    process.wait()
    with pytest.raises(EngineFailed, match="its Java process ended"):
        engine.evaluate([evaluation])
    assert rows_of(engine.evaluate([evaluation])[0]) == expected


def test_large_units_run_in_the_bulk_session_with_the_same_result(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[str, Rows] = {
        "a0": {("1", str(i)): 1 for i in range(50)},
        "a1": {(str(i), str(i)): 2 for i in range(50)},
        "a2": {(str(i), None): 1 for i in range(40)},
    }
    evaluation = unit(engine, chain(3), read, {"a0": read["a0"]})
    small = rows_of(engine.evaluate([evaluation])[0])
    monkeypatch.setattr("dyda.engine.engine.SMALL_ENTRIES", 0)
    assert rows_of(engine.evaluate([evaluation])[0]) == small
    monkeypatch.setattr(local_join, "LIMIT", 0)
    assert rows_of(engine.evaluate([evaluation])[0]) == small
    assert len(small) == 40
    assert set(small.values()) == {2}


@pytest.mark.parametrize("asking", ["for types", "to work beside", "in parts"])
def test_a_dead_jvm_says_so_whatever_it_is_asked(engine: Engine, asking: str) -> None:
    r = relation("s.r", {"id": "integer"}, rows=10)
    block = engine.block(view("v", {"a": r}, [], {"one": f"concat(a.id, '{asking}')"}))
    rows = build_evaluation(block, {"a": [pa.table({"id": ["1"]})]})
    ask: dict[str, Callable[[], object]] = {
        "for types": lambda: engine.types(block),
        "to work beside": lambda: engine.beside("somebody"),
        "in parts": lambda: engine.build([rows], lambda batches: 0, read_table, rest=lambda seconds: None),
    }
    engine.types(engine.block(chain(2)))
    process = SparkContext._gateway.proc  # type: ignore[union-attr]
    process.kill()
    process.wait()
    with pytest.raises(EngineFailed, match="its Java process ended"):
        ask[asking]()
    assert len(engine.types(block)) == 1, "another one is started"
