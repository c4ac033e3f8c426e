"""Whatever a view computes, a plan that is kept gives the rows that a Spark job gives, and fails where a job fails."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dyda.engine import Engine
from dyda.errors import EvaluationFailed, UnsupportedSql
from tests.unit.vm.builders import Memory, Row, projected, relation, view
from tests.unit.vm.judge import rows_of
from vm import Evaluation, delta_evaluation, plan_sweep, sweep

EXAMPLES = int(os.environ.get("DYDA_EXAMPLES", "30"))

COLUMNS = {
    "i": "integer",
    "l": "bigint",
    "d": "numeric(12,2)",
    "f": "double precision",
    "s": "text",
    "b": "boolean",
    "day": "date",
    "at": "timestamp",
}
KINDS = {"i": "int", "l": "int", "d": "num", "f": "num", "s": "text", "b": "bool", "day": "date", "at": "time"}

VALUES: dict[str, st.SearchStrategy[str | None]] = {
    "i": st.sampled_from([None, "0", "1", "-7", "2147483647", "-2147483648"]),
    "l": st.sampled_from([None, "0", "3", "9223372036854775807"]),
    "d": st.sampled_from([None, "0.00", "1.50", "-2.25", "9999999999.99"]),
    "f": st.sampled_from([None, "0", "-0", "0.5", "NaN", "Infinity", "1e300"]),
    "s": st.sampled_from([None, "", "a", " 12 ", "7", "ä b", "2024-02-30", "\ufeffx", "t"]),
    "b": st.sampled_from([None, "t", "f"]),
    "day": st.sampled_from([None, "2024-02-29", "1969-12-31", "9999-12-31"]),
    "at": st.sampled_from([None, "2024-02-29 23:59:59.999999", "1969-12-31 00:00:00"]),
}
ROWS = st.lists(st.tuples(*(VALUES[name] for name in COLUMNS)), min_size=1, max_size=6)


@st.composite
def expressions(draw: st.DrawFn, kind: str, depth: int = 3) -> str:
    """SQL of one kind. Much of it fails over some rows: divisions by zero, casts, sums that do not fit."""

    def of(kind: str) -> str:
        return draw(expressions(kind, depth - 1))

    names = [f"a.{name}" for name, its in KINDS.items() if its == kind]
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from([*names, *CONSTANTS[kind]]))
    form = draw(st.sampled_from(FORMS[kind]))
    return form.format(**{name: of(kind) for name, kind in ARGUMENTS.items() if f"{{{name}}}" in form})


ARGUMENTS = {"x": "int", "y": "int", "n": "num", "m": "num", "s": "text", "t": "text", "p": "bool", "q": "bool"} | {
    "u": "date",
    "v": "time",
}
CONSTANTS = {
    "int": ["1", "0", "CAST(NULL AS INT)"],
    "num": ["1.5", "CAST(0 AS DOUBLE)"],
    "text": ["'x'", "''"],
    "bool": ["true", "CAST(NULL AS BOOLEAN)"],
    "date": ["DATE '2024-01-31'"],
    "time": ["TIMESTAMP_NTZ '2024-01-31 12:00:00'"],
}
FORMS = {
    "int": [
        "({x} + {y})",
        "({x} * {y})",
        "({x} % {y})",
        "abs({x})",
        "length({s})",
        "CAST({s} AS INT)",
        "CAST({n} AS INT)",
        "CASE WHEN {p} THEN {x} ELSE {y} END",
        "coalesce({x}, {y})",
        "year({u})",
        "({x} DIV {y})",
        "nullif({x}, {y})",
    ],
    "num": [
        "({x} / {y})",
        "({n} + {m})",
        "CAST({x} AS DECIMAL(5,2))",
        "round({n}, 1)",
        "CAST({s} AS DOUBLE)",
        "sqrt({x})",
    ],
    "text": [
        "upper({s})",
        "({s} || {t})",
        "CAST({x} AS STRING)",
        "CAST({n} AS STRING)",
        "CAST({u} AS STRING)",
        "CAST({v} AS STRING)",
        "substr({s}, {x}, 2)",
        "CASE WHEN {p} THEN {s} WHEN {q} THEN {t} END",
        "trim({s})",
        "replace({s}, 'a', {t})",
    ],
    "bool": [
        "({x} < {y})",
        "({n} >= {m})",
        "({s} = {t})",
        "({p} AND {q})",
        "({p} OR {q})",
        "NOT {p}",
        "({s} IS NULL)",
        "{x} IN (0, 1, {y})",
        "({s} LIKE 'a%')",
        "({u} > CAST({s} AS DATE))",
        "({x} <=> {y})",
    ],
    "date": ["date_add({u}, {x})", "CAST({s} AS DATE)", "coalesce({u}, DATE '2024-01-31')", "CAST({v} AS DATE)"],
    "time": [
        "({v} + INTERVAL 1 DAY)",
        "CAST({u} AS TIMESTAMP_NTZ)",
        "coalesce({v}, TIMESTAMP_NTZ '2024-01-31 12:00:00')",
    ],
}
KIND = st.sampled_from(list(FORMS))


@st.composite
def questions(draw: st.DrawFn) -> tuple[dict[str, str], list[str], list[Row]]:
    """The items and the conditions of a view, and the rows that come."""
    items = {f"c{number}": draw(expressions(draw(KIND))) for number in range(draw(st.integers(1, 3)))}
    return items, draw(st.lists(expressions("bool"), max_size=2)), draw(ROWS)


def test_a_plan_that_is_kept_gives_what_a_job_gives(engine: Engine) -> None:
    """The first rows make the plan; it is asked again for others."""
    asked, kept = 0, 0

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="DYDA_EXAMPLES" not in os.environ,
        suppress_health_check=list(HealthCheck),
        phases=[phase for phase in Phase if phase is not Phase.explain],
        print_blob=True,
    )
    @given(st.lists(questions(), min_size=1, max_size=4), st.lists(ROWS, min_size=2, max_size=2))
    def compare(views: list[tuple[dict[str, str], list[str], list[Row]]], later: list[list[Row]]) -> None:
        nonlocal asked, kept
        for unit in [[rows for _, _, rows in views], *([rows] * len(views) for rows in later)]:
            evaluations = [
                change(engine, f"v{number}", items, conditions, rows)
                for number, ((items, conditions, _), rows) in enumerate(zip(views, unit, strict=True))
            ]
            before = engine.prepared.answered
            found = outcome(engine, evaluations)
            kept += engine.prepared.answered - before
            with by_jobs(engine):
                assert found == outcome(engine, evaluations)
            asked += len(evaluations) if isinstance(found, list) else 0

    compare()
    assert kept > 0.8 * asked, "what is computed for a few rows costs no job"


@pytest.mark.parametrize(
    "test", ["nullif(1 % a.i, 5) < 3", "1 % a.i BETWEEN 0 AND 3", "(1 % a.i >= 0 AND 1 % a.i < 3)"]
)
def test_what_a_row_does_not_reach_is_not_computed_for_it(engine: Engine, test: str) -> None:
    """Neither alone nor with other views, by a plan that is kept or by a job. Unless it is told not to, Spark computes
    it before anything else, for every row; but not in a CASE, where it is when several views are asked at once."""
    rows: list[Row] = [(number, *[None] * (len(COLUMNS) - 1)) for number in ("0", "1", "2")]
    conditional = change(engine, "v0", {"c0": "a.i"}, [f"a.i > 0 AND {test}"], rows)
    other = change(engine, "v1", {"c0": "a.i + 1"}, ["a.i < 2"], rows)
    assert not isinstance(alone := outcome(engine, [conditional]), str), alone
    beside = outcome(engine, [conditional, other])
    with by_jobs(engine):
        assert outcome(engine, [conditional]) == alone
        assert outcome(engine, [conditional, other]) == beside
    assert beside[0] == alone[0]
    assert len(alone[0]) == 2


@contextlib.contextmanager
def by_jobs(engine: Engine) -> Iterator[None]:
    engine.prepared.most_rows, before = 0, engine.prepared.most_rows
    yield
    engine.prepared.most_rows = before


def change(engine: Engine, name: str, items: Mapping[str, str], conditions: list[str], rows: list[Row]) -> Evaluation:
    block = engine.block(view(name, {"a": relation("one.r", COLUMNS)}, conditions, items))
    counted: dict[Row, int] = {}
    for row in rows:
        counted[row] = counted.get(row, 0) + 1
    memory = Memory(block.by_alias, {"a": counted})
    worlds = sweep(plan_sweep(block), {"a": projected(block.by_alias["a"], counted)}, {}, memory.ask)
    return delta_evaluation(block, worlds)


def outcome(engine: Engine, asked: list[Evaluation]) -> Any:
    try:
        tables: list[pa.Table] = engine.evaluate(asked)
    except (EvaluationFailed, UnsupportedSql) as error:  # or a view of types that do not fit together
        return str(error)
    return [rows_of(table) for table in tables]
