"""Demand: the rows that given keys are made of (rule K1): a group lost its extreme, or its sum must be redone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.vm.builders import Memory, Rows, entries, projected, relation, view
from tests.unit.vm.judge import Condition, present
from vm.evaluation import world_evaluation
from vm.join_block import JoinBlock, flatten
from vm.join_tree import plan_sweep
from vm.sweep import SweepLimits, demand
from vm.worlds import Whole, Worlds


def texts(column: str, *values: str | None) -> pa.Table:
    return pa.table({column: pa.array(values, pa.string())})


def block_of(*conditions: str, x: str = "integer") -> JoinBlock:
    """r(x, y), s(y, z), t(z): x is the group, z what is aggregated."""
    relations = {
        "r": relation("r", {"x": x, "y": "integer"}),
        "s": relation("s", ["y", "z"]),
        "t": relation("t", ["z"]),
    }
    return flatten(view("v", relations, conditions or ("r.y = s.y", "s.z = t.z"), {"x": "r.x", "z": "t.z"}))


READ: dict[str, Rows] = {
    "r": {("1", "5"): 1, ("2", "6"): 1, (None, "6"): 1},
    "s": {("5", "7"): 1, ("5", "8"): 2, ("6", "9"): 1},
    "t": {("7",): 1, ("8",): 1, ("9",): 1},
}


def test_K1_all_rows_of_the_demanded_groups_are_read_and_no_others() -> None:
    block = block_of()
    memory = Memory(block.by_alias, READ)
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x", "1", "1"), {}, memory.ask)
    assert memory.asked == [
        ("r", ("x",), [("1",)]),
        ("s", ("y",), [("5",)]),
        ("t", ("z",), [("7",), ("8",)]),
    ]
    assert entries(worlds["s"].table) == {("5", "7"): (1, 1), ("5", "8"): (2, 2)}
    conditions = [Condition("r.y", "=", "s.y"), Condition("s.z", "=", "t.z")]
    columns = {alias: one.columns for alias, one in block.by_alias.items()}
    found = present(columns, worlds, conditions, ["r.x", "t.z"])  # type: ignore[arg-type]
    assert found == {("1", "7"): 1, ("1", "8"): 2}
    assert not world_evaluation(block, worlds).is_empty


def test_K1_the_root_may_lie_in_the_middle_and_every_hop_leads_away_from_it() -> None:
    block = block_of()
    memory = Memory(block.by_alias, READ)
    demand(plan_sweep(block), "s", ["z"], texts("z", "9"), {}, memory.ask)
    assert memory.asked[0] == ("s", ("z",), [("9",)])
    assert sorted(memory.asked[1:]) == [("r", ("y",), [("6",)]), ("t", ("z",), [("9",)])]


def test_W3_what_is_not_ours_is_taken_out_of_the_demanded_rows_before_their_keys_travel() -> None:
    block = block_of()
    memory = Memory(block.by_alias, READ)
    pending = {"r": projected(block.by_alias["r"], {("1", "5"): 1, ("1", "6"): -1, ("2", "6"): 1})}
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x", "1"), pending, memory.ask)
    assert entries(worlds["r"].table) == {("1", "6"): (1, 1)}
    assert memory.asked[1] == ("s", ("y",), [("6",)])


def test_a_changed_row_that_no_demanded_key_reaches_does_not_count() -> None:
    """A sweep would keep it as (0, 1); here nobody asked for it."""
    block = block_of()
    deltas = {"r": projected(block.by_alias["r"], {("2", "6"): 1, ("1", "4"): -1, ("1", "5"): 1})}
    memory = Memory(block.by_alias, READ)
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x", "1"), {}, memory.ask, deltas=deltas)
    assert entries(worlds["r"].table) == {("1", "5"): (0, 1), ("1", "4"): (1, 0)}
    # The row of the old world is not read any more, and its key travels all the same.
    assert memory.asked[1] == ("s", ("y",), [("4",), ("5",)])


def reasons(worlds: dict[str, Worlds | Whole]) -> dict[str, str]:
    return {alias: world.reason for alias, world in worlds.items() if isinstance(world, Whole)}


def test_R5_a_null_key_is_scanned_for() -> None:
    block = block_of()
    memory = Memory(block.by_alias, READ)
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x", "1", None), {}, memory.ask)
    assert reasons(worlds) == dict.fromkeys("rst", "a key of r is NULL, which no lookup finds")
    assert memory.asked == []


def test_R5_a_composite_key_is_asked_for_by_its_columns_without_null() -> None:
    """More rows come along than asked for, but no scan."""
    block = block_of()
    memory = Memory(block.by_alias, READ)
    keys = pa.table({"x": pa.array(["1", None], pa.string()), "y": pa.array(["5", "6"], pa.string())})
    worlds = demand(plan_sweep(block), "r", ["x", "y"], keys, {}, memory.ask)
    assert memory.asked[0] == ("r", ("y",), [("5",), ("6",)])
    assert reasons(worlds) == {}
    assert entries(worlds["r"].table) == {("1", "5"): (1, 1), ("2", "6"): (1, 1), (None, "6"): (1, 1)}


def test_R4_a_composite_key_is_asked_for_by_its_columns_that_can_be_looked_up() -> None:
    block = block_of(x="double precision")
    memory = Memory(block.by_alias, READ)
    demand(plan_sweep(block), "r", ["x", "y"], pa.table({"x": ["1.0"], "y": ["5"]}), {}, memory.ask)
    assert memory.asked[0] == ("r", ("y",), [("5",)])


@pytest.mark.parametrize("kind", ["MOOD", "double precision"])
def test_R4_a_key_that_no_source_can_be_asked_for_is_scanned_for(kind: str) -> None:
    block = block_of(x=kind)
    memory = Memory(block.by_alias, READ)
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x", "1"), {}, memory.ask)
    assert reasons(worlds) == dict.fromkeys("rst", "no source can look up x of r")


def test_what_lookups_do_not_connect_is_scanned_and_the_rest_is_not() -> None:
    block = block_of("r.y = s.y", "s.z < t.z")
    memory = Memory(block.by_alias, READ)
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x", "1"), {}, memory.ask)
    assert reasons(worlds) == {"t": "no pushable equality leads to t"}
    assert [alias for alias, _, _ in memory.asked] == ["r", "s"]


def test_too_many_keys_on_the_way_scan_what_lies_behind_and_keep_what_lies_before() -> None:
    block = block_of()
    memory = Memory(block.by_alias, READ)
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x", "1"), {}, memory.ask, SweepLimits(keys=1))
    assert reasons(worlds) == {"t": "2 distinct keys travel from s to t: a scan is cheaper than a lookup"}
    memory = Memory(block.by_alias, READ)
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x", "1", "2"), {}, memory.ask, SweepLimits(keys=1))
    assert set(reasons(worlds)) == {"r", "s", "t"}
    assert memory.asked == []


def test_no_key_no_query() -> None:
    block = block_of()
    memory = Memory(block.by_alias, READ)
    worlds = demand(plan_sweep(block), "r", ["x"], texts("x"), {}, memory.ask)
    assert memory.asked == []
    assert all(world.table.num_rows == 0 for world in worlds.values())
    assert world_evaluation(block, worlds).is_empty
