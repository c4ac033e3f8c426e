"""What is combined before Spark is asked: every combination that the conditions can keep, and no more than need be."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from dyda.engine import local_join
from tests.unit.vm.builders import relation, view
from vm import Evaluation, delta_evaluation, flatten
from vm.worlds import NEW, NEW_WORLD, OLD, TAGGED, TWO_WORLDS, Counting, Worlds

Entry = tuple[tuple[str | None, ...], int, int]
"""A row's texts and its two numbers."""


def evaluated(
    types: dict[str, str], conditions: list[str], entries: dict[str, list[Entry]], counting: Counting = TWO_WORLDS
) -> Evaluation:
    """Relations of columns `types`; the view computes with all of them, so that they travel as values alone."""
    relations = {alias: relation(alias, types) for alias in entries}
    items = {f"{alias}_{column}": f"{alias}.{column} IS NULL" for alias in entries for column in types}
    block = flatten(view("v", relations, conditions, items))
    worlds = {}
    for alias, rows in entries.items():
        columns = {
            name: pa.array([row[list(types).index(name)] for row, _, _ in rows], pa.string())
            for name in block.by_alias[alias].columns
        }
        numbers = {OLD: pa.array([o for _, o, _ in rows], pa.int64()), NEW: pa.array([n for *_, n in rows], pa.int64())}
        worlds[alias] = Worlds(pa.table({**columns, **numbers}), counting)
    return delta_evaluation(block, worlds)


def rows_of(table: pa.Table | None) -> list[tuple[Any, ...]]:
    assert table is not None
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("integer", ["1", "2", None]),
        ("text", ["", "a", None]),
        ("boolean", ["t", "f", None]),
        ("date", ["2024-02-29", "0001-01-01", None]),
        ("timestamp", ["2024-02-29 00:00:00", "2024-02-29 00:00:00.000001", None]),
        ("numeric(10,2)", ["1.00", "-1.00", None]),
        ("bytea", ["\\x", "\\x00", None]),
        ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000", None]),
    ],
)
def test_an_equality_keeps_what_is_equal_and_nothing_that_is_null(kind: str, values: list[str | None]) -> None:
    entries: list[Entry] = [((value,), 0, 1) for value in values]
    found = local_join.combinations(evaluated({"x": kind}, ["r.x = s.x"], {"r": entries, "s": entries}))
    assert [(one == other, n) for one, other, n in rows_of(found)] == [(True, 1)] * 2


@pytest.mark.parametrize("kind", ["integer", "text"])
@pytest.mark.parametrize("right", [["2", "1", "3", None], ["1", "2", "1", None, None], ["3"], []])
def test_keys_meet_all_that_have_them_once_or_often(kind: str, right: list[str | None]) -> None:
    left = ["1", "1", "2", None, "4"]
    types = {"x": kind, "number": "integer"}
    entries: dict[str, list[Entry]] = {
        alias: [((value, str(number)), 0, 1) for number, value in enumerate(values)]
        for alias, values in (("r", left), ("s", right))
    }
    block = evaluated(types, ["r.x = s.x"], entries)
    if not right:
        assert block.is_empty
        return
    found = local_join.combinations(block)
    assert found is not None
    met = sorted((r, s) for (r, one), (s, other) in product(enumerate(left), enumerate(right)) if one and one == other)
    numbers = [name for name in found.column_names if pa.types.is_integer(found.schema.field(name).type)]
    pairs = found.select([name for name in numbers if name.endswith("_1")])
    assert rows_of(pairs) == met


@pytest.mark.parametrize(
    ("one", "other", "equal", "not_equal"),
    [
        ("smallint", "bigint", ("7", "7"), ("7", "9223372036854775807")),
        ("numeric(10,2)", "numeric", ("1.50", "1.5"), ("1.50", "1.500000000000000001")),
        ("numeric(38,0)", "numeric(38,38)", ("0", "0.0"), ("9" * 38, "0." + "9" * 38)),
    ],
)
def test_types_of_one_kind_meet_by_value(
    one: str, other: str, equal: tuple[str, str], not_equal: tuple[str, str]
) -> None:
    r, s = relation("r", {"x": one}), relation("s", {"x": other})
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"o": "1"}))
    for (mine, theirs), met in ((equal, 1), (not_equal, 0)):
        tables = {
            alias: pa.table({"x": [text], OLD: pa.array([0], pa.int64()), NEW: pa.array([1], pa.int64())})
            for alias, text in (("r", mine), ("s", theirs))
        }
        worlds = {alias: Worlds(table) for alias, table in tables.items()}
        assert len(rows_of(local_join.combinations(delta_evaluation(block, worlds)))) == met


@pytest.mark.parametrize("kind", ["double precision", "real"])
def test_floats_are_left_to_spark(kind: str) -> None:
    """For Spark NaN equals NaN, and the two zeros are one."""
    entries: list[Entry] = [((value,), 0, 1) for value in ("NaN", "-0", "0")]
    found = local_join.combinations(evaluated({"x": kind}, ["r.x = s.x"], {"r": entries, "s": entries}))
    assert len(rows_of(found)) == 9


def test_what_is_no_equality_is_left_to_spark() -> None:
    entries: list[Entry] = [((str(number),), 0, 1) for number in range(3)]
    found = local_join.combinations(evaluated({"x": "integer"}, ["r.x < s.x + 0"], {"r": entries, "s": entries}))
    assert rows_of(found) == sorted(((a, b, 1) for a, b in product(range(3), repeat=2)), key=repr)


def test_two_worlds_count_what_changes() -> None:
    """(1, 1) × (2, 0) was there twice and is gone; (1, 1) × (1, 1) stays and is not even asked about."""
    r: list[Entry] = [(("1",), 1, 1)]
    s: list[Entry] = [(("1",), 2, 0), (("1",), 1, 1)]
    evaluation = evaluated({"x": "integer"}, ["r.x = s.x"], {"r": r, "s": s})
    assert rows_of(local_join.combinations(evaluation)) == [(1, 1, -2)]


def test_a_world_as_it_is_counts_what_is_there() -> None:
    r: list[Entry] = [(("1",), 1, 1)]
    s: list[Entry] = [(("1",), 2, 0), (("1",), 1, 3)]
    evaluation = evaluated({"x": "integer"}, ["r.x = s.x"], {"r": r, "s": s}, NEW_WORLD)
    assert rows_of(local_join.combinations(evaluation)) == [(1, 1, 3)]


def test_W6_a_combination_belongs_to_the_latest_of_its_transactions() -> None:
    r: list[Entry] = [(("1",), 1, 0), (("1",), -1, 3)]
    s: list[Entry] = [(("1",), 2, 0), (("1",), 5, 2)]
    evaluation = evaluated({"x": "integer"}, ["r.x = s.x"], {"r": r, "s": s}, TAGGED)
    # old × old belongs to nobody
    assert rows_of(local_join.combinations(evaluation)) == [(1, 1, -2, 3), (1, 1, -5, 3), (1, 1, 5, 2)]


def test_a_term_that_is_subtracted_counts_the_other_way() -> None:
    evaluation = evaluated({"x": "integer"}, [], {"r": [(("1",), 0, 4)]})
    negative = delta_evaluation(evaluation.block, {"r": Worlds(evaluation.frames[0].table)}, sign=-1)
    assert rows_of(local_join.combinations(negative)) == [(1, -4)]


def test_too_many_combinations_are_spark_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_join, "LIMIT", 30)
    alike: list[Entry] = [(("1",), 0, 1)] * 6
    apart: list[Entry] = [((str(number),), 0, 1) for number in range(6)]
    conditions = ["r.x = s.x"]
    assert local_join.combinations(evaluated({"x": "integer"}, conditions, {"r": alike, "s": alike})) is None
    assert local_join.combinations(evaluated({"x": "integer"}, [], {"r": apart, "s": apart})) is None
    assert len(rows_of(local_join.combinations(evaluated({"x": "integer"}, conditions, {"r": apart, "s": apart})))) == 6


def test_counts_beyond_64_bits_are_spark_s_to_refuse() -> None:
    many: list[Entry] = [(("1",), 0, 2**40)]
    assert local_join.combinations(evaluated({"x": "integer"}, ["r.x = s.x"], {"r": many, "s": many})) is None
