"""The state before changes (paper 004, Section 4): one function, the bug without it, and the six ways to condense."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vm.sweep_state
from dyda.model.bag import Bag
from tests.unit.vm.builders import Memory, Row, Rows, bag, entries, projected, relation, view
from tests.unit.vm.judge import Condition, answer, difference, minus
from tests.unit.vm.test_sweep_property import tables
from vm.evaluation import delta_evaluation
from vm.join_block import flatten
from vm.join_tree import plan_sweep
from vm.sweep import sweep
from vm.worlds import before

COLUMNS = ("x", "y")


@settings(deadline=None)
@given(tables, tables)
def test_before_is_the_inverse_of_the_update(old: Rows, new: Rows) -> None:
    """Equations 11 and 12: post = pre − deleted + inserted, so pre = post − inserted + deleted."""
    change = bag(COLUMNS, minus(new, old))
    assert before(bag(COLUMNS, new), change) == bag(COLUMNS, old)
    assert bag(COLUMNS, old) + change == bag(COLUMNS, new)


@settings(deadline=None)
@given(tables, tables, tables)
def test_before_two_changes_is_before_one_and_then_the_other(first: Rows, second: Rows, third: Rows) -> None:
    """Paper 000, Equation 3: the state asked for lies before the one installed last, which lies before the one read."""
    changes = [bag(COLUMNS, minus(second, first)), bag(COLUMNS, minus(third, second))]
    read = bag(COLUMNS, third)
    assert before(read, *changes) == before(before(read, changes[1]), changes[0]) == bag(COLUMNS, first)


def insertions_on_both_sides() -> tuple[Counter[Row], Counter[Row]]:
    """ΔV of insertions into both sides of a join, which meet: by the sweep, and as it must be."""
    r, s = relation("r", ["x"]), relation("s", ["x"])
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"x": "r.x"}))
    old: Rows = {("1",): 1}
    inserted: Rows = {("1",): 1, ("2",): 1}
    new: Rows = {("1",): 2, ("2",): 1}
    memory = Memory(block.by_alias, {"r": new, "s": new})
    deltas = {alias: projected(block.by_alias[alias], inserted) for alias in ("r", "s")}
    worlds = sweep(plan_sweep(block), deltas, {}, memory.ask)
    columns, conditions = {"r": ["x"], "s": ["x"]}, [Condition("r.x", "=", "s.x")]
    states = [answer(columns, dict.fromkeys("rs", rows), conditions, ["r.x"]) for rows in (old, new)]
    found = difference(columns, worlds, conditions, ["r.x"])  # type: ignore[arg-type]
    return found, Counter(minus(states[1], states[0]))


def test_changes_that_meet_count_once() -> None:
    found, expected = insertions_on_both_sides()
    assert found == expected == {("1",): 3, ("2",): 1}


def test_the_state_bug_appears_where_the_state_read_is_taken_for_the_state_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Equation 9: formulas for the state before, over the state after, count ΔR ⋈ ΔS once too often.

    That is Δ₁ ⋈ post₂ + post₁ ⋈ Δ₂ + Δ₁ ⋈ Δ₂ in the place of Δ₁ ⋈ pre₂ + pre₁ ⋈ Δ₂ + Δ₁ ⋈ Δ₂.
    """

    def bypassed(rows: Bag, *changes: Bag) -> Bag:
        return rows.consolidate()

    monkeypatch.setattr(vm.sweep_state, "before", bypassed)
    found, expected = insertions_on_both_sides()
    delta: Counter[Row] = Counter({("1",): 1, ("2",): 1})
    post: Counter[Row] = Counter({("1",): 2, ("2",): 1})

    def joined(one: Counter[Row], other: Counter[Row]) -> Counter[Row]:
        total: Counter[Row] = Counter()
        for left, right in product(one, other):
            if left == right:
                total[left] += one[left] * other[right]
        return total

    assert found == joined(delta, post) + joined(post, delta) + joined(delta, delta)
    assert found != expected


OLD, MIDDLE, NEW = ("1", "old"), ("1", "between"), ("1", "new")
SCENARIOS: dict[str, tuple[list[tuple[Row, int]], Rows]] = {
    "1 inserted": ([(NEW, 1)], {NEW: 1}),
    "2 deleted": ([(OLD, -1)], {OLD: -1}),
    "3 inserted, …, deleted": ([(MIDDLE, 1), (MIDDLE, -1), (NEW, 1), (NEW, -1)], {}),
    "4 inserted, …, inserted": ([(MIDDLE, 1), (MIDDLE, -1), (NEW, 1)], {NEW: 1}),
    "5 deleted, …, deleted": ([(OLD, -1), (MIDDLE, 1), (MIDDLE, -1), (OLD, 1), (OLD, -1)], {OLD: -1}),
    "6 deleted, …, inserted": ([(OLD, -1), (MIDDLE, 1), (MIDDLE, -1), (NEW, 1)], {OLD: -1, NEW: 1}),
    "6 deleted, …, inserted as it was": ([(OLD, -1), (MIDDLE, 1), (MIDDLE, -1), (OLD, 1)], {}),
}


def logged(operations: list[tuple[Row, int]]) -> Bag:
    """The images as the log has them, one entry per operation."""
    total = Bag.empty(COLUMNS)
    for row, count in operations:
        total += bag(COLUMNS, {row: count})
    return total


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_condensing_keeps_what_the_scenario_keeps(scenario: str) -> None:
    """Paper 004, Section 4.3.1: what happens between the first and the last state cancels out."""
    operations, kept = SCENARIOS[scenario]
    condensed = logged(operations).consolidate()
    assert condensed.to_dict() == kept
    assert len(condensed) == len(kept)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_intermediate_changes_reach_neither_a_source_nor_spark(scenario: str) -> None:
    operations, kept = SCENARIOS[scenario]
    r, s = relation("r", {"x": "integer", "y": "text"}), relation("s", {"y": "text"})
    block = flatten(view("v", {"r": r, "s": s}, ["r.y = s.y"], {"x": "r.x"}))
    memory = Memory(block.by_alias, {"r": {}, "s": {("old",): 1, ("between",): 1, ("new",): 1}})
    worlds = sweep(plan_sweep(block), {"r": logged(operations)}, {}, memory.ask)
    evaluation = delta_evaluation(block, worlds)
    shipped = {frame.occurrence.alias: entries(frame.table) for frame in evaluation.frames}
    assert shipped["r"] == {row: (0, n) for row, n in kept.items()}
    assert shipped["s"] == {(y,): (1, 1) for _, y in kept}
    asked = [value for _, _, values in memory.asked for (value,) in values]
    assert sorted(map(str, asked)) == sorted(y for _, y in kept if y)
    assert evaluation.is_empty == (not kept)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([OLD, MIDDLE, NEW]), st.sampled_from([1, -1])), max_size=8))
def test_condensing_does_not_depend_on_the_order_of_the_images(operations: list[tuple[Row, int]]) -> None:
    """Signed counts are enough: within a log, positions need not be compared (paper 004, Section 4.3.2, warns)."""
    assert logged(operations).consolidate() == logged(operations[::-1]).consolidate()
