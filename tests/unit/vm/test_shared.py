"""Lookups that views share: each key is asked for once per snapshot, whatever the number of views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from dyda.model.bag import Bag
from dyda.model.relation import Relation
from tests.unit.vm.builders import Memory, Row, Rows, bag, entries, projected, relation, view
from tests.unit.vm.test_sweep_property import Case, cases, changes, completed, prepared
from vm.join_block import flatten
from vm.join_tree import plan_sweep
from vm.shared_lookups import SharedLookups, asking, needed_columns
from vm.sweep import sweep


class Source:
    """Relations in memory, asked by relation; writes down what it was asked."""

    def __init__(self, rows: Mapping[Relation, Rows]) -> None:
        self.rows = rows
        self.asked: list[tuple[str, tuple[str, ...], tuple[str, ...], list[Row]]] = []

    def lookup(self, one: Relation, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        wanted = set(zip(*(values.column(name).to_pylist() for name in key), strict=True))
        self.asked.append((one.name.table, tuple(columns), tuple(key), sorted(wanted)))
        names = [column.name for column in one.columns]
        at = [names.index(column) for column in key]
        found = {row: n for row, n in self.rows[one].items() if tuple(row[i] for i in at) in wanted}
        return bag(names, found).select(columns)


R = relation("r", ["x", "y"])
S = relation("s", ["x", "y", "z"])
ROWS: dict[Relation, Rows] = {
    R: {("1", "5"): 1, ("2", "6"): 1},
    S: {("1", "7", "8"): 1, ("2", "7", "9"): 2, ("3", "7", "9"): 1},
}


def keys(*values: str, name: str = "x") -> pa.Table:
    return pa.table({name: pa.array(values, pa.string())})


def test_a_relation_is_asked_once_for_any_number_of_views() -> None:
    blocks = [
        flatten(view(f"v{item}", {"r": R, "s": S}, ["r.x = s.x", condition], {"o": f"s.{item}"}))
        for item, condition in (("y", "s.x > 0"), ("z", "r.y > 0"), ("x", "s.z < 4"))
    ]
    source = Source(ROWS)
    shared = SharedLookups({"s": source.lookup}, needed_columns(blocks))
    for block in blocks:
        delta = projected(block.by_alias["r"], {("1", "5"): 1, ("2", "6"): 1})
        worlds = sweep(plan_sweep(block), {"r": delta}, {}, asking(block, shared))
        alone = sweep(plan_sweep(block), {"r": delta}, {}, asking(block, SharedLookups({"s": Source(ROWS).lookup})))
        assert entries(worlds["s"].table) == entries(alone["s"].table)
    assert source.asked == [("s", ("x", "y", "z"), ("x",), [("1",), ("2",)])]
    assert (shared.asked, shared.saved) == (1, 2)


def test_only_values_that_were_never_asked_for_are_asked_for() -> None:
    source = Source(ROWS)
    shared = SharedLookups({"s": source.lookup})
    assert shared(S, ["x", "z"], ["x"], keys("1", "9")).to_dict() == {("1", "8"): 1}
    found = shared(S, ["x", "z"], ["x"], keys("2", "1")).to_dict()
    assert found == {("1", "8"): 1, ("2", "9"): 2}
    # A key that found nothing is known to find nothing.
    assert shared(S, ["x", "z"], ["x"], keys("9", "2")).to_dict() == found
    assert [asked[-1] for asked in source.asked] == [[("1",), ("9",)], [("2",)]]
    assert (shared.asked, shared.saved) == (2, 1)


def test_another_key_or_another_relation_of_the_same_name_is_another_question() -> None:
    other = relation("s", ["x", "y"])
    source = Source({**ROWS, other: {("1", "7"): 4}})
    shared = SharedLookups({"s": source.lookup})
    assert shared(S, ["x", "y"], ["x"], keys("1")).to_dict() == {("1", "7"): 1}
    assert shared(other, ["x", "y"], ["x"], keys("1")).to_dict() == {("1", "7"): 4}
    assert shared(S, ["x", "y"], ["y"], keys("7", name="y")).to_dict() == {("1", "7"): 1, ("2", "7"): 2, ("3", "7"): 1}
    assert shared.asked == 3


def test_views_that_remember_another_size_of_a_relation_share_it() -> None:
    source = Source(ROWS)
    shared = SharedLookups({"s": source.lookup}, {replace(S, estimated_rows=7): ["y"], S: ["z"]})
    shared(S, ["x"], ["x"], keys("1"))
    shared(replace(S, estimated_rows=8), ["x"], ["x"], keys("1"))
    assert [asked[1] for asked in source.asked] == [("x", "y", "z")]


def test_composite_keys_are_one_question_in_whatever_order_their_columns_stand() -> None:
    source = Source(ROWS)
    shared = SharedLookups({"s": source.lookup})
    pairs = pa.table({"x": ["1", "2"], "y": ["7", "7"]})
    first = shared(S, ["z"], ["x", "y"], pairs)
    assert first == shared(S, ["z"], ["y", "x"], pairs.select(["y", "x"]))
    assert (shared.asked, shared.saved) == (1, 1)
    # ('1', '17') is not ('11', '7').
    shared(S, ["z"], ["x", "y"], pa.table({"x": ["11"], "y": ["7"]}))
    shared(S, ["z"], ["x", "y"], pa.table({"x": ["1"], "y": ["17"]}))
    assert shared.asked == 3


def test_columns_that_nobody_announced_are_asked_for_all_the_same() -> None:
    source = Source(ROWS)
    shared = SharedLookups({"s": source.lookup}, {S: ["x"]})
    shared(S, ["x"], ["x"], keys("1"))
    assert shared(S, ["x", "z"], ["x"], keys("1")).to_dict() == {("1", "8"): 1}
    assert [asked[1] for asked in source.asked] == [("x",), ("x", "z")]


@pytest.mark.parametrize("kind", ["text", "numeric"])
def test_R4_a_row_that_two_questions_find_because_the_source_is_less_strict_counts_once(kind: str) -> None:
    """A collation that ignores case finds both rows for either key; 1.50 and 1.5 are one key to us, too."""
    one = relation("s", {"x": kind})
    rows: Rows = {("Ann",): 1, ("ANN",): 1} if kind == "text" else {("1.5",): 1, ("2.50",): 1}

    def lookup(one: Relation, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        return bag(["x"], rows)

    shared = SharedLookups({"s": lookup})
    asked = ["Ann", "ANN"] if kind == "text" else ["1.5", "2.5"]
    shared(one, ["x"], ["x"], keys(asked[0]))
    assert shared(one, ["x"], ["x"], keys(asked[1])).to_dict() == rows


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_a_sweep_over_shared_lookups_reads_the_same_worlds(case: Case) -> None:
    """All occurrences of a relation share what is remembered, and a second view asks nothing."""
    block, memory = prepared(case)
    deltas, pending = changes(case, block)
    source = Source({block.by_alias[alias].relation: case.read[name] for alias, name in case.of.items()})
    shared = SharedLookups({"s": source.lookup}, needed_columns([block]))
    expected = sweep(plan_sweep(block), deltas, pending, memory.ask)
    for _ in range(2):
        worlds = sweep(plan_sweep(block), deltas, pending, asking(block, shared))
        for alias, world in worlds.items():
            found = entries(completed(world, memory, alias).table)
            assert found == entries(completed(expected[alias], Memory(block.by_alias, memory.rows), alias).table)
        assert shared.asked == len(source.asked) <= len(memory.asked)
    assert shared.asked + shared.saved == 2 * len(memory.asked)
