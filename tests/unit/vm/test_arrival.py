"""Compensation by arrival order (paper 003), what defeats it (paper 000, Figure 1), and Nested SWEEP's absorption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from benchmarks.scenarios.arrival_order import ArrivalOrder, nested_sweep
from dyda.model.bag import Bag
from tests.unit.vm import test_figure5 as figure5
from tests.unit.vm.builders import Memory, Row, Rows, bag, projected, relation, view
from tests.unit.vm.judge import Condition, answer, difference, minus
from tests.unit.vm.test_sweep_property import Case, cases, prepared, tables
from vm.join_block import JoinBlock, flatten
from vm.join_tree import plan_sweep
from vm.sweep import Ask, sweep
from vm.worlds import Whole, Worlds

Change = tuple[str, Rows]


@dataclass
class Sources:
    """Sources that change while they are asked, announce each change at once and answer from the state they are in."""

    block: JoinBlock
    rows: dict[str, Rows]
    meanwhile: Iterator[Sequence[Change]] = field(default_factory=lambda: iter(()))
    told: Callable[[str, Rows], None] = lambda table, rows: None
    asked: int = 0

    def ask(self, alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        self.asked += 1
        for change in next(self.meanwhile, ()):
            self.commit(*change)
        by_alias = {one.alias: self.rows[one.relation.name.table] for one in self.block.occurrences}
        return Memory(self.block.by_alias, by_alias).ask(alias, columns, key, values)

    def commit(self, table: str, change: Rows) -> None:
        total = Counter(self.rows[table])
        for row, count in change.items():
            total[row] += count
        self.rows[table] = {row: n for row, n in total.items() if n}
        self.told(table, change)


def connected(
    block: JoinBlock, rows: dict[str, Rows], meanwhile: Sequence[Sequence[Change]] = ()
) -> tuple[Sources, ArrivalOrder]:
    sources = Sources(block, rows, iter(meanwhile))
    arrival = ArrivalOrder(block, sources.ask)
    named = {one.relation.name.table: one.relation for one in block.occurrences}

    def told(table: str, change: Rows) -> None:
        arrival.receive(named[table].name, bag([column.name for column in named[table].columns], change))

    sources.told = told
    return sources, arrival


def figure_5(worlds: dict[str, Worlds | Whole]) -> Counter[Row]:
    block = flatten(figure5.definition())
    carried = {one.alias: list(one.columns) for one in block.occurrences}
    return difference(carried, worlds, figure5.CONDITIONS, ["r2.d", "r3.f"])  # type: ignore[arg-type]


def test_section_5_2_updates_that_arrive_during_the_sweep_are_compensated_by_arrival_order() -> None:
    """The example as it is printed: ΔR2 is processed; ΔR3 and ΔR1 happen before their sources are asked."""
    block = flatten(figure5.definition())
    first, *others = [(name, {row: count}) for name, row, count in figure5.UPDATES]
    sources, arrival = connected(block, dict(figure5.INITIAL), [others])
    sources.commit(*first)
    arrival.absorb()
    worlds = sweep(plan_sweep(block), arrival.deltas, {}, arrival.ask)
    extent = Counter(figure5.STATES[0])
    extent.update(figure_5(worlds))
    assert {row: n for row, n in extent.items() if n} == figure5.STATES[1]
    assert (sources.asked, arrival.waiting) == (2, 2)


N = relation("other.n", ["k"])
R = relation("source.r", ["k", "x"])
TX, TX_NEW, TY, TY_NEW = ("1", "1"), ("1", "10"), ("1", "2"), ("1", "20")
ANSWERED: Rows = {TX_NEW: 1, TY: 1}
"""Q = {tx(10), ty(2)}: the first transaction is in it, the third is not."""
FIRST: Rows = {TX: -1, TX_NEW: 1}
THIRD: Rows = {TY: -1, TY_NEW: 1}


def figure_1(ask: Ask, pending: dict[str, Bag]) -> Counter[Row]:
    """ΔV of the insertion into n, which asks r, and must give both tuples as they were: x = 1 and x = 2."""
    block = joined()
    deltas = {"n": projected(block.by_alias["n"], {("1",): 1})}
    worlds = sweep(plan_sweep(block), deltas, pending, ask)
    columns = {"n": ["k"], "r": ["k", "x"]}
    return difference(columns, worlds, [Condition("n.k", "=", "r.k")], ["r.x"])  # type: ignore[arg-type]


def joined() -> JoinBlock:
    return flatten(view("v", {"n": N, "r": R}, ["n.k = r.k"], {"x": "r.x"}))


def test_figure_1_of_paper_000_defeats_arrival_order_although_the_network_is_FIFO() -> None:
    def ask(alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        arrival.receive(R.name, bag(["k", "x"], THIRD))  # T5, before the answer of T8; the first one's is sent at T10
        return bag(["k", "x"], ANSWERED)

    arrival = ArrivalOrder(joined(), ask)
    found = figure_1(arrival.ask, {})
    arrival.receive(R.name, bag(["k", "x"], FIRST))
    # ty is compensated although the answer does not hold it; tx is not although it does.
    assert found == {("10",): 1, ("2",): 2, ("20",): -1}
    assert found != {("1",): 1, ("2",): 1}


@pytest.mark.parametrize("shown", [(), (FIRST,), (THIRD,), (FIRST, THIRD)])
def test_figure_1_of_paper_000_is_harmless_where_log_and_rows_are_read_in_one_snapshot(shown: tuple[Rows, ...]) -> None:
    """Whatever the snapshot shows, it shows in the log too, and announcements do not matter."""
    rows: Counter[Row] = Counter({TX: 1, TY: 1})
    logged: Counter[Row] = Counter()
    for change in shown:
        for row, count in change.items():
            rows[row] += count
            logged[row] += count
    memory = Memory(joined().by_alias, {"n": {("1",): 1}, "r": {row: n for row, n in rows.items() if n}})
    pending = {"r": projected(joined().by_alias["r"], dict(logged))}
    assert figure_1(memory.ask, pending) == {("1",): 1, ("2",): 1}


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(), st.data())
def test_where_its_assumption_holds_arrival_order_gives_the_state_after_ours(case: Case, data: st.DataObject) -> None:
    """Others arrive between the hops of the sweep, and the state without them is reached (paper 003, Section 5.3)."""
    block, _ = prepared(case)
    later = moves(case.ours, case.read)
    cut = data.draw(st.integers(0, len(later)))
    sources, arrival = connected(block, dict(case.installed), [later[:cut], later[cut:]])
    for change in moves(case.installed, case.ours):
        sources.commit(*change)
    arrival.absorb()
    worlds = sweep(plan_sweep(block), arrival.deltas, {}, arrival.ask)
    event(f"{arrival.waiting} arrived meanwhile")
    assert found_by(block, case, worlds) == expected(block, case, arrival.deltas)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(cases(), st.data())
def test_nested_sweep_absorbs_what_arrives_and_gives_one_composite_change(case: Case, data: st.DataObject) -> None:
    block, _ = prepared(case)
    others = data.draw(st.lists(st.fixed_dictionaries(dict.fromkeys(case.read, tables)), max_size=4))
    later = [moves(one, two) for one, two in pairwise([case.ours, *others])]
    sources, arrival = connected(block, dict(case.installed), later)
    for change in moves(case.installed, case.ours):
        sources.commit(*change)
    rounds = data.draw(st.integers(1, 4))
    nested = nested_sweep(plan_sweep(block), arrival, rounds)
    event(f"{nested.rounds} rounds")
    assert nested.rounds <= rounds
    assert sources.asked <= 2 * (len(case.of) - 1) * nested.rounds
    assert nested.rounds == rounds or not arrival.waiting, "it stops early only if nothing is left"
    assert found_by(block, case, nested.worlds) == expected(block, case, nested.deltas)


def test_n_concurrent_updates_are_one_change_and_ask_only_for_what_is_new() -> None:
    """Section 6: r changes, and while s is asked for it s changes n times: all of it is one composite change."""
    r, s, t = relation("a.r", ["x"]), relation("b.s", ["x", "y"]), relation("c.t", ["y"])
    block = flatten(view("v", {"r": r, "s": s, "t": t}, ["r.x = s.x", "s.y = t.y"], {"y": "t.y"}))
    rows: dict[str, Rows] = {"r": {}, "s": {("1", "5"): 1}, "t": {("5",): 1, ("6",): 1}}
    inserted: list[Change] = [("s", {("1", "6"): 1}) for _ in range(5)]
    sources, arrival = connected(block, rows, [inserted])
    sources.commit("r", {("1",): 1})
    nested = nested_sweep(plan_sweep(block), arrival)
    columns = {one.alias: one.columns for one in block.occurrences}
    conditions = [Condition("r.x", "=", "s.x"), Condition("s.y", "=", "t.y")]
    assert difference(columns, dict(nested.worlds), conditions, ["t.y"]) == {("5",): 1, ("6",): 5}  # type: ignore[arg-type]
    assert nested.deltas["s"].to_dict() == {("1", "6"): 5}
    assert (nested.rounds, arrival.waiting) == (2, 0)
    # s and t for r's change; then t for the new key, and r for s's. Five sweeps of their own would ask ten times.
    assert sources.asked == 4


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_section_6_2_updates_that_interfere_for_ever_are_cut_off(rounds: int) -> None:
    """Two relations change in turn, each time the other is asked: without a bound there would be no end."""
    block = flatten(view("v", {"r": R, "s": relation("other.s", ["k", "x"])}, ["r.x = s.x"], {"x": "r.x"}))

    def for_ever() -> Iterator[Sequence[Change]]:
        number = 0
        while True:
            number += 1
            yield [("r" if number % 2 else "s", {("1", str(number)): 1})]

    sources, arrival = connected(block, {"r": {}, "s": {}})
    sources.meanwhile = for_ever()
    sources.commit("r", {("1", "0"): 1})
    nested = nested_sweep(plan_sweep(block), arrival, rounds)
    assert nested.rounds == rounds
    assert arrival.waiting, "what arrived in the last round stays for the next change"


def moves(one: dict[str, Rows], two: dict[str, Rows]) -> list[Change]:
    return [(name, minus(two[name], one[name])) for name in one if minus(two[name], one[name])]


def found_by(block: JoinBlock, case: Case, worlds: Mapping[str, Worlds | Whole]) -> Counter[Row]:
    """ΔV. What must be scanned is not asked for by key, so it is nothing that arrival order could bring in order."""
    assume(not any(isinstance(world, Whole) for world in worlds.values()))
    carried = {one.alias: one.columns for one in block.occurrences}
    return difference(carried, worlds, case.conditions, case.items)  # type: ignore[arg-type]


def expected(block: JoinBlock, case: Case, deltas: Mapping[str, Bag]) -> Counter[Row]:
    """ΔV by brute force, from the installed state to the one after `deltas`."""
    carried = {one.alias: one.columns for one in block.occurrences}
    installed = {one.alias: projected(one, case.installed[case.of[one.alias]]) for one in block.occurrences}
    states = [installed, {alias: rows + deltas[alias] for alias, rows in installed.items()}]
    old, new = (
        answer(carried, {alias: rows.to_dict() for alias, rows in state.items()}, case.conditions, case.items)
        for state in states
    )
    return Counter(minus(new, old))
