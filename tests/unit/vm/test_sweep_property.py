"""Sweep and two worlds against brute force: random joins, self-joins, duplicates, NULLs, changes that are not ours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from dyda.maintenance.execute.possible_rows import limits
from dyda.model.bag import Bag
from tests.unit.vm.builders import Memory, Rows, projected, relation, run_of, view
from tests.unit.vm.judge import Among, Condition, answer, difference, minus, present, tagged
from vm.evaluation import delta_evaluation
from vm.join_block import JoinBlock, flatten
from vm.join_tree import plan_sweep
from vm.sweep import demand, sweep
from vm.worlds import NEW, OLD, Whole, Worlds

SWEEP = import_module("vm.sweep")
COLUMNS = ("x", "y")
values = st.sampled_from(["1", "2", "3", None])
tables: st.SearchStrategy[Rows] = st.dictionaries(st.tuples(values, values), st.integers(1, 2), max_size=4)


@dataclass(frozen=True)
class Case:
    """A random view and, per relation, three states: installed, with ours, and as read in the snapshot."""

    of: dict[str, str]
    conditions: tuple[Condition, ...]
    items: tuple[str, ...]
    installed: dict[str, Rows]
    ours: dict[str, Rows]
    read: dict[str, Rows]


@st.composite
def cases(draw: st.DrawFn, occurrences: int = 4) -> Case:
    count = draw(st.integers(1, occurrences))
    aliases = [f"a{i}" for i in range(count)]
    names = [f"r{i}" for i in range(draw(st.integers(1, count)))]
    of = {alias: names[i] if i < len(names) else draw(st.sampled_from(names)) for i, alias in enumerate(aliases)}
    column = st.sampled_from(COLUMNS)
    conditions = []
    for position in range(1, count):
        # Mostly a tree of equalities; now and then no condition, or one that no source can look up.
        other = aliases[draw(st.integers(0, position - 1))]
        comparison = draw(st.sampled_from(["=", "=", "=", "=", "<", ""]))
        if comparison:
            conditions.append(Condition(f"{other}.{draw(column)}", comparison, f"{aliases[position]}.{draw(column)}"))
    for _ in range(draw(st.integers(0, 2))):
        left, right = draw(st.sampled_from(aliases)), draw(st.sampled_from([*aliases, ""]))
        comparison = draw(st.sampled_from(["=", "<>"]))
        end = f"{right}.{draw(column)}" if right else draw(st.sampled_from(["1", "2"]))
        conditions.append(Condition(f"{left}.{draw(column)}", comparison, end))
    items = tuple(f"{draw(st.sampled_from(aliases))}.{draw(column)}" for _ in range(draw(st.integers(1, 3))))
    states: list[dict[str, Rows]] = [{}, {}, {}]
    for name in names:
        states[0][name] = draw(tables)
        states[1][name] = draw(st.one_of(st.just(states[0][name]), tables))
        states[2][name] = draw(st.one_of(st.just(states[1][name]), tables))
    return Case(of, tuple(conditions), items, *states)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_sweep_gives_exactly_the_difference_that_brute_force_finds(case: Case) -> None:
    block, memory = prepared(case)
    deltas, pending = changes(case, block)
    worlds = sweep(plan_sweep(block), deltas, pending, memory.ask)
    event("scanned" if any(isinstance(world, Whole) for world in worlds.values()) else "looked up")
    complete = {alias: completed(world, memory, alias) for alias, world in worlds.items()}
    event(f"{len(case.of)} occurrences")
    carried = {occurrence.alias: occurrence.columns for occurrence in block.occurrences}
    found = difference(carried, complete, case.conditions, case.items)
    full = dict.fromkeys(case.of, COLUMNS)
    states = [
        answer(full, {alias: state[name] for alias, name in case.of.items()}, case.conditions, case.items)
        for state in (case.installed, case.ours)
    ]
    expected = Counter(minus(states[1], states[0]))
    assert found == expected
    assert len(memory.asked) <= 2 * (len(case.of) - 1)
    if delta_evaluation(block, worlds, lambda occurrence: [1]).is_empty:
        assert not expected


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_a_sweep_in_which_no_key_travels_from_rows_that_no_condition_keeps_gives_the_same(case: Case) -> None:
    block, memory = prepared(case)
    deltas, pending = changes(case, block)
    possible = limits(block, [block])
    event("limited" if possible else "not limited")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SWEEP, "MANY_KEYS", 0)
        patch.setattr(SWEEP, "WORTH", 1)
        worlds = sweep(plan_sweep(block), deltas, pending, memory.ask, possible=possible)
    complete = {alias: completed(world, memory, alias) for alias, world in worlds.items()}
    carried = {occurrence.alias: occurrence.columns for occurrence in block.occurrences}
    found = difference(carried, complete, case.conditions, case.items)
    full = dict.fromkeys(case.of, COLUMNS)
    before, after = (
        answer(full, {alias: state[name] for alias, name in case.of.items()}, case.conditions, case.items)
        for state in (case.installed, case.ours)
    )
    assert found == Counter(minus(after, before))


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.data())
def test_demand_gives_exactly_the_combinations_with_the_keys_that_are_asked_for(
    case: Case, data: st.DataObject
) -> None:
    """In the new world, and with our changes given, in both."""
    block, memory = prepared(case)
    alias = data.draw(st.sampled_from(list(case.of)))
    key = data.draw(st.sampled_from(block.by_alias[alias].columns))
    wanted = data.draw(st.sets(st.sampled_from(["1", "2", "3", "9", None]), max_size=3))
    deltas, pending = changes(case, block)
    given = data.draw(st.booleans())
    values = pa.table({key: pa.array(list(wanted), pa.string())})
    worlds = demand(plan_sweep(block), alias, [key], values, pending, memory.ask, deltas=deltas if given else None)
    assert len(memory.asked) <= len(case.of)
    carried = {occurrence.alias: occurrence.columns for occurrence in block.occurrences}
    event("scanned" if isinstance(worlds[alias], Whole) else "looked up")
    kept = [Among(f"{alias}.{key}", frozenset(wanted))]
    restricted: list[Condition | Among] = [*case.conditions, *(kept if isinstance(worlds[alias], Whole) else [])]
    complete = {other: completed(world, memory, other) for other, world in worlds.items()}
    full = dict.fromkeys(case.of, COLUMNS)
    states = [
        answer(full, {other: state[name] for other, name in case.of.items()}, [*case.conditions, *kept], case.items)
        for state in (case.installed, case.ours)
    ]
    assert present(carried, complete, restricted, case.items) == states[1]
    expected = minus(states[1], states[0]) if given else {}
    assert difference(carried, complete, restricted, case.items) == expected


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(), st.data())
def test_W6_a_tagged_sweep_gives_the_difference_of_each_transaction(case: Case, data: st.DataObject) -> None:
    """Any number of states lies between the installed one and ours; what is not ours yet is compensated as ever."""
    between = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(case.read, tables)), max_size=2))
    states = [case.installed, *between, case.ours]
    block, memory = prepared(case)
    deltas = {
        alias: run_of(block.by_alias[alias], [minus(b[name], a[name]) for a, b in pairwise(states)])
        for alias, name in case.of.items()
    }
    _, pending = changes(case, block)
    worlds = sweep(plan_sweep(block), deltas, pending, memory.ask)
    assert len(memory.asked) <= 2 * (len(case.of) - 1)
    carried = {occurrence.alias: occurrence.columns for occurrence in block.occurrences}
    complete = {alias: completed(world, memory, alias) for alias, world in worlds.items()}
    found = tagged(carried, complete, case.conditions, case.items)
    full = dict.fromkeys(case.of, COLUMNS)
    answers = [
        answer(full, {alias: state[name] for alias, name in case.of.items()}, case.conditions, case.items)
        for state in states
    ]
    expected = {tag: minus(b, a) for tag, (a, b) in enumerate(pairwise(answers), 1)}
    event(f"{len(states) - 1} transactions")
    assert found == {tag: rows for tag, rows in expected.items() if rows}
    if delta_evaluation(block, worlds, lambda occurrence: [1]).is_empty:
        assert not found


def prepared(case: Case) -> tuple[JoinBlock, Memory]:
    relations = {name: relation(name, list(COLUMNS)) for name in case.read}
    definition = view(
        "v",
        {alias: relations[name] for alias, name in case.of.items()},
        [str(condition) for condition in case.conditions],
        {f"o{i}": item for i, item in enumerate(case.items)},
    )
    block = flatten(definition)
    return block, Memory(block.by_alias, {alias: case.read[name] for alias, name in case.of.items()})


def changes(case: Case, block: JoinBlock) -> tuple[dict[str, Bag], dict[str, Bag]]:
    """Ours, and what is not ours yet."""
    deltas, pending = {}, {}
    for alias, name in case.of.items():
        deltas[alias] = projected(block.by_alias[alias], minus(case.ours[name], case.installed[name]))
        pending[alias] = projected(block.by_alias[alias], minus(case.read[name], case.ours[name]))
    return deltas, pending


def completed(world: Worlds | Whole, memory: Memory, alias: str) -> Worlds:
    if isinstance(world, Worlds):
        return world
    rows = memory.text(memory.occurrences[alias])
    one, other = (pa.array([number] * rows.num_rows, pa.int64()) for number in world.counting.scanned)
    return Worlds(pa.concat_tables([world.table, rows.append_column(OLD, one).append_column(NEW, other)]))
