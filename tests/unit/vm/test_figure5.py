"""Paper 003, Section 5.2 and Figure 5, on the pure sweep: the states and counts that are printed there."""

from __future__ import annotations

from collections import Counter

from dyda.model.algebra.nodes import ViewDefinition
from tests.unit.vm.builders import Memory, Row, Rows, entries, projected, relation, view
from tests.unit.vm.judge import Condition, difference
from vm.join_block import flatten
from vm.join_tree import plan_sweep
from vm.sweep import sweep

CONDITIONS = (Condition("r1.b", "=", "r2.c"), Condition("r2.d", "=", "r3.e"))
COLUMNS = {"r1": ["a", "b"], "r2": ["c", "d"], "r3": ["e", "f"]}
INITIAL: dict[str, Rows] = {
    "r1": {("1", "3"): 1, ("2", "3"): 1},
    "r2": {("3", "7"): 1},
    "r3": {("5", "6"): 1, ("7", "8"): 1},
}
UPDATES: tuple[tuple[str, Row, int], ...] = (("r2", ("3", "5"), 1), ("r3", ("7", "8"), -1), ("r1", ("2", "3"), -1))
STATES: tuple[Rows, ...] = (
    {("7", "8"): 2},
    {("5", "6"): 2, ("7", "8"): 2},
    {("5", "6"): 2},
    {("5", "6"): 1},
)


def definition() -> ViewDefinition:
    relations = {name: relation(f"source{name[1]}.{name}", columns) for name, columns in COLUMNS.items()}
    return view("v", relations, [str(condition) for condition in CONDITIONS], {"d": "r2.d", "f": "r3.f"})


def after(updates: int) -> dict[str, Rows]:
    state = {name: Counter(rows) for name, rows in INITIAL.items()}
    for name, row, count in UPDATES[:updates]:
        state[name][row] += count
    return {name: {row: n for row, n in rows.items() if n} for name, rows in state.items()}


def change(update: int, seen: int) -> tuple[Counter[Row], Memory]:
    """ΔV for one update, with the sources already `seen` updates ahead: later ones are not ours."""
    block = flatten(definition())
    memory = Memory(block.by_alias, after(seen))
    name, row, count = UPDATES[update]
    deltas = {name: projected(block.by_alias[name], {row: count})}
    pending = {n: projected(block.by_alias[n], {r: c}) for n, r, c in UPDATES[update + 1 : seen]}
    worlds = sweep(plan_sweep(block), deltas, pending, memory.ask)
    carried = {occurrence.alias: list(occurrence.columns) for occurrence in block.occurrences}
    return difference(carried, worlds, CONDITIONS, ["r2.d", "r3.f"]), memory  # type: ignore[arg-type]


def test_figure_5_sequential_updates_give_the_printed_states() -> None:
    extent = Counter(STATES[0])
    for update in range(3):
        delta, memory = change(update, seen=update + 1)
        extent.update(delta)
        assert {row: n for row, n in extent.items() if n} == STATES[update + 1]
        assert len(memory.asked) == 2


def test_figure_5_concurrent_updates_give_the_printed_states_in_the_same_order() -> None:
    extent = Counter(STATES[0])
    for update in range(3):
        delta, memory = change(update, seen=3)
        extent.update(delta)
        assert {row: n for row, n in extent.items() if n} == STATES[update + 1]
        assert len(memory.asked) <= 2


def test_section_5_2_the_concurrent_delete_is_compensated_and_restored() -> None:
    """ΔR2 = +(3,5) meets ΔR1 = −(2,3): the answer {(1,3)} is compensated to {(1,3), (2,3)}; ΔR3's error term is ∅."""
    block = flatten(definition())
    memory = Memory(block.by_alias, after(3))
    pending = {n: projected(block.by_alias[n], {r: c}) for n, r, c in UPDATES[1:]}
    deltas = {"r2": projected(block.by_alias["r2"], {("3", "5"): 1})}
    worlds = sweep(plan_sweep(block), deltas, pending, memory.ask)
    assert memory.asked == [("r1", ("b",), [("3",)]), ("r3", ("e",), [("5",)])]
    assert block.by_alias["r1"].columns == ("b",)
    assert entries(worlds["r1"].table) == {("3",): (2, 2)}
    assert entries(worlds["r2"].table) == {("3", "5"): (0, 1)}
    assert entries(worlds["r3"].table) == {("5", "6"): (1, 1)}


def test_section_6_a_batch_of_all_three_updates_reaches_the_last_state_at_once() -> None:
    block = flatten(definition())
    memory = Memory(block.by_alias, after(3))
    deltas = {n: projected(block.by_alias[n], {r: c}) for n, r, c in UPDATES}
    worlds = sweep(plan_sweep(block), deltas, {}, memory.ask)
    carried = {occurrence.alias: list(occurrence.columns) for occurrence in block.occurrences}
    delta = difference(carried, worlds, CONDITIONS, ["r2.d", "r3.f"])  # type: ignore[arg-type]
    extent = Counter(STATES[0])
    extent.update(delta)
    assert {row: n for row, n in extent.items() if n} == STATES[3]
    assert len(memory.asked) <= 4
