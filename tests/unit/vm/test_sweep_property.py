"""Sweep and two worlds against brute force: random joins, self-joins, duplicates, NULLs, changes that are not ours."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.unit.vm.hand import Memory, Rows, projected, relation, view
from tests.unit.vm.judge import Condition, answer, difference, minus
from vm.block import flatten
from vm.evaluation import delta_evaluation
from vm.sweep import NEW, OLD, Whole, Worlds, plan_sweep, sweep

COLUMNS = ("x", "y")
values = st.sampled_from(["1", "2", "3", None])
tables = st.dictionaries(st.tuples(values, values), st.integers(1, 2), max_size=4)


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
    relations = {name: relation(name, list(COLUMNS)) for name in case.read}
    definition = view(
        "v",
        {alias: relations[name] for alias, name in case.of.items()},
        [str(condition) for condition in case.conditions],
        {f"o{i}": item for i, item in enumerate(case.items)},
    )
    block = flatten(definition)
    plan = plan_sweep(block)
    memory = Memory(block.by_alias, {alias: case.read[name] for alias, name in case.of.items()})
    deltas, pending = {}, {}
    for alias, name in case.of.items():
        deltas[alias] = projected(block.by_alias[alias], minus(case.ours[name], case.installed[name]))
        pending[alias] = projected(block.by_alias[alias], minus(case.read[name], case.ours[name]))
    worlds = sweep(plan, deltas, pending, memory.ask)
    complete = {}
    for alias, world in worlds.items():
        if isinstance(world, Whole):
            event("scanned")
            world = _scanned(world, memory, alias)
        complete[alias] = world
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


def _scanned(world: Whole, memory: Memory, alias: str) -> Worlds:
    rows = memory.text(memory.occurrences[alias])
    ones = pa.array([1] * rows.num_rows, pa.int64())
    return Worlds(pa.concat_tables([world.table, rows.append_column(OLD, ones).append_column(NEW, ones)]))
