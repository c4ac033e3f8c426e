"""Left and right sweeps at once (paper 003, Section 5.3): the same questions and answers, several of them in flight."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from dyda.model.bag import Bag
from tests.unit.vm.builders import Memory, Row, Rows, entries, projected, relation, view
from tests.unit.vm.test_sweep_property import Case, cases, changes, completed, prepared
from vm.join_block import JoinBlock, flatten
from vm.join_tree import plan_sweep
from vm.sweep import SweepLimits, demand, sweep
from vm.worlds import Whole

PATIENCE = 20
"""Seconds until a barrier that nobody else reaches gives up and fails the test."""


@pytest.fixture
def workers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def chain(n: int, *, sources: int) -> JoinBlock:
    """a0 ─ a1 ─ … over so many sources."""
    relations = {f"a{i}": relation(f"s{i % sources}.r{i}", ["x", "y"]) for i in range(n)}
    conditions = [f"a{i}.y = a{i + 1}.x" for i in range(n - 1)]
    return flatten(view("v", relations, conditions, {"x": "a0.x"}))


def everywhere(block: JoinBlock) -> Memory:
    return Memory(block.by_alias, {key: {("1", "1"): 1} for key in block.by_alias})


def delta(block: JoinBlock, alias: str) -> dict[str, Bag]:
    return {alias: projected(block.by_alias[alias], {("1", "1"): 1})}


@pytest.mark.parametrize("changed", range(1, 4))
def test_the_left_and_the_right_neighbour_are_asked_at_the_same_time(changed: int, workers: ThreadPoolExecutor) -> None:
    block = chain(5, sources=5)
    memory = everywhere(block)
    both = threading.Barrier(2)
    met: list[str] = []

    def ask(alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        if alias in (f"a{changed - 1}", f"a{changed + 1}"):
            both.wait(PATIENCE)  # each goes on only while the other is asked too
            met.append(alias)
        return memory.ask(alias, columns, key, values)

    sweep(plan_sweep(block), delta(block, f"a{changed}"), {}, ask, workers=workers)
    assert len(met) == 2
    assert len(memory.asked) == 4


def test_demand_goes_out_on_all_sides_at_once(workers: ThreadPoolExecutor) -> None:
    block = chain(3, sources=3)
    memory = everywhere(block)
    both = threading.Barrier(2)

    def ask(alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        if alias != "a1":
            both.wait(PATIENCE)
        return memory.ask(alias, columns, key, values)

    demand(plan_sweep(block), "a1", ["x"], pa.table({"x": ["1"]}), {}, ask, workers=workers)
    assert next(alias for alias, _, _ in memory.asked) == "a1"
    assert len(memory.asked) == 3


def test_a_source_is_asked_by_the_left_and_the_right_sweep_at_once_and_by_nobody_else(
    workers: ThreadPoolExecutor,
) -> None:
    """It is somebody else's machine."""
    relations = {alias: relation(f"s.{alias}", ["x", "y"]) for alias in ("hub", "a", "b", "c", "d")}
    block = flatten(view("v", relations, [f"hub.y = {alias}.x" for alias in "abcd"], {"x": "hub.x"}))
    memory = everywhere(block)
    two = threading.Barrier(2)
    inside = threading.BoundedSemaphore(2)

    def ask(alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        assert inside.acquire(blocking=False), "three at once"
        try:
            two.wait(PATIENCE)  # each goes on only while another is asked too
            return memory.ask(alias, columns, key, values)
        finally:
            inside.release()

    sweep(plan_sweep(block), delta(block, "hub"), {}, ask, workers=workers)
    assert len(memory.asked) == 4


def test_an_error_comes_home_after_everybody_has_stopped_reading(workers: ThreadPoolExecutor) -> None:
    block = chain(3, sources=3)
    failing, reading = threading.Event(), threading.Event()

    def ask(alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        if alias == "a0":
            failing.set()
            raise ConnectionError("the source went away")
        assert failing.wait(PATIENCE)
        reading.set()
        return Bag.empty(columns)

    with pytest.raises(ConnectionError, match="went away"):
        sweep(plan_sweep(block), delta(block, "a1"), {}, ask, workers=workers)
    assert reading.is_set()


def test_too_many_keys_stop_the_sweep_with_its_reason(workers: ThreadPoolExecutor) -> None:
    block = chain(3, sources=3)
    rows: Rows = {("1", str(i)): 1 for i in range(9)}
    deltas = {"a1": projected(block.by_alias["a1"], rows)}
    worlds = sweep(plan_sweep(block), deltas, {}, everywhere(block).ask, SweepLimits(keys=5), workers)
    assert {alias for alias, world in worlds.items() if isinstance(world, Whole)} == {"a0", "a1", "a2"}


def questions(asked: list[tuple[str, tuple[str, ...], list[Row]]]) -> list[tuple[str, tuple[str, ...], list[Row]]]:
    return sorted(asked)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_the_same_questions_and_the_same_worlds_as_one_after_the_other(case: Case) -> None:
    block, memory = prepared(case)
    deltas, pending = changes(case, block)
    one_by_one = sweep(plan_sweep(block), deltas, pending, memory.ask)
    parallel = Memory(block.by_alias, memory.rows)
    with ThreadPoolExecutor(4) as pool:
        at_once = sweep(plan_sweep(block), deltas, pending, parallel.ask, workers=pool)
    assert questions(parallel.asked) == questions(memory.asked)
    for alias in block.by_alias:
        expected = entries(completed(one_by_one[alias], memory, alias).table)
        assert entries(completed(at_once[alias], memory, alias).table) == expected
