"""Views that are swept together: each finds exactly its own difference in what the sweep of all brought."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.unit.vm.builders import Memory, relation, run_of, view
from tests.unit.vm.judge import answer, difference, minus, tagged
from tests.unit.vm.test_sweep_property import COLUMNS, Case, cases, changes, completed, prepared, tables
from vm.join_block import flatten
from vm.join_tree import SweepPlan, plan_sweep
from vm.shared_sweeps import course, own_worlds, together
from vm.sweep import sweep
from vm.worlds import Whole, Worlds


@st.composite
def alike(draw: st.DrawFn) -> list[Case]:
    """The same join under select lists of their own: one may not see what is a change to another."""
    case = draw(cases())
    column = st.tuples(st.sampled_from(list(case.of)), st.sampled_from(COLUMNS)).map(".".join)
    lists = draw(st.lists(st.lists(column, min_size=1, max_size=3), min_size=1, max_size=3))
    return [case, *(replace(case, items=tuple(items)) for items in lists)]


def swept_plan(found: list[Case]) -> tuple[list[SweepPlan], SweepPlan, Memory]:
    plans = [plan_sweep(prepared(case)[0]) for case in found]
    assert len({course(plan) for plan in plans}) == 1
    plan = together(plans)
    event(f"{len({plan.block.occurrences for plan in plans})} sets of columns")
    read = {alias: found[0].read[name] for alias, name in found[0].of.items()}
    return plans, plan, Memory(plan.block.by_alias, read)


def own_rows(
    worlds: dict[str, Worlds | Whole], plan: SweepPlan, own: SweepPlan, memory: Memory
) -> tuple[dict[str, tuple[str, ...]], dict[str, Worlds]]:
    """Per alias the columns of the view, and its worlds with what it would scan."""
    mine = Memory(own.block.by_alias, memory.rows)
    columns = {occurrence.alias: occurrence.columns for occurrence in own.block.occurrences}
    found = own_worlds(worlds, plan, own)
    return columns, {alias: completed(world, mine, alias) for alias, world in found.items()}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(alike())
def test_each_view_finds_exactly_its_own_difference(found: list[Case]) -> None:
    plans, plan, memory = swept_plan(found)
    worlds = sweep(plan, *changes(found[0], plan.block), memory.ask)
    assert len(memory.asked) <= 2 * (len(found[0].of) - 1)
    for case, own in zip(found, plans, strict=True):
        columns, complete = own_rows(worlds, plan, own, memory)
        full = dict.fromkeys(case.of, COLUMNS)
        before, after = (
            answer(full, {alias: state[name] for alias, name in case.of.items()}, case.conditions, case.items)
            for state in (case.installed, case.ours)
        )
        assert difference(columns, complete, case.conditions, case.items) == Counter(minus(after, before))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(alike(), st.data())
def test_W6_also_for_each_transaction_of_a_run(found: list[Case], data: st.DataObject) -> None:
    first = found[0]
    between = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(first.read, tables)), max_size=2))
    states = [first.installed, *between, first.ours]
    plans, plan, memory = swept_plan(found)
    deltas = {
        alias: run_of(plan.block.by_alias[alias], [minus(b[name], a[name]) for a, b in pairwise(states)])
        for alias, name in first.of.items()
    }
    worlds = sweep(plan, deltas, changes(first, plan.block)[1], memory.ask)
    for case, own in zip(found, plans, strict=True):
        columns, complete = own_rows(worlds, plan, own, memory)
        full = dict.fromkeys(case.of, COLUMNS)
        answers = [
            answer(full, {alias: state[name] for alias, name in case.of.items()}, case.conditions, case.items)
            for state in states
        ]
        expected = {tag: minus(b, a) for tag, (a, b) in enumerate(pairwise(answers), 1)}
        told = tagged(columns, complete, case.conditions, case.items)
        assert told == {tag: rows for tag, rows in expected.items() if rows}


def test_only_the_same_join_of_the_same_tables_is_swept_together() -> None:
    r, s = relation("a.r", ["x", "y"]), relation("b.s", ["x", "y"])

    def of(scans: dict[str, object], conditions: list[str]) -> object:
        return course(plan_sweep(flatten(view("v", scans, conditions, {"o": f"{next(iter(scans))}.x"}))))  # type: ignore[arg-type]

    along_x = of({"r": r, "s": s}, ["r.x = s.x"])
    assert of({"one": r, "other": s}, ["one.x = other.x", "one.y > 3"]) == along_x, "names and conditions do not matter"
    assert of({"r": r, "s": s}, ["r.x = s.y"]) != along_x
    assert of({"s": s, "r": r}, ["r.x = s.x"]) != along_x
    assert of({"r": r, "s": replace(s, oid=7)}, ["r.x = s.x"]) != along_x, "another table under the name"
    assert of({"r": r, "s": s}, []) != along_x
