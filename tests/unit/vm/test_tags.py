"""Rule W6: a run of transactions in one sweep, each with a tag of its own."""

from __future__ import annotations

import pyarrow as pa

from tests.unit.vm.builders import Memory, Row, Rows, projected, relation, run_of, view
from tests.unit.vm.judge import Condition, tagged
from vm.evaluation import delta_evaluation
from vm.join_block import JoinBlock, flatten
from vm.join_tree import plan_sweep
from vm.sweep import sweep
from vm.worlds import TAGGED, TWO_WORLDS, Whole

CONDITIONS = [Condition("r.x", "=", "s.x")]


def block_of() -> JoinBlock:
    r, s = relation("r", ["x"]), relation("s", ["x", "y"])
    return flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"x": "r.x", "y": "s.y"}))


def counted(table: pa.Table) -> dict[tuple[Row, int], int]:
    """{(row, tag): count}."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return {(tuple(row), tag): count for *row, count, tag in rows}


def swept(read: dict[str, Rows], deltas: dict[str, list[Rows]], pending: dict[str, Rows] | None = None):  # type: ignore[no-untyped-def]
    block = block_of()
    memory = Memory(block.by_alias, read)
    worlds = sweep(
        plan_sweep(block),
        {alias: run_of(block.by_alias[alias], run) for alias, run in deltas.items()},
        {alias: projected(block.by_alias[alias], rows) for alias, rows in (pending or {}).items()},
        memory.ask,
    )
    columns = {alias: one.columns for alias, one in block.by_alias.items()}
    return worlds, memory, tagged(columns, worlds, CONDITIONS, ["r.x", "s.y"])  # type: ignore[arg-type]


def test_W6_a_row_inserted_and_deleted_within_the_run_has_its_states() -> None:
    """Condensed it would be nothing; but one commit shows it, and the next one does not."""
    read: dict[str, Rows] = {"r": {}, "s": {("1", "5"): 1}}
    worlds, memory, found = swept(read, {"r": [{("1",): 1}, {("1",): -1}]})
    assert memory.asked == [("s", ("x",), [("1",)])]
    assert counted(worlds["r"].table) == {(("1",), 1): 1, (("1",), 2): -1}
    assert found == {1: {("1", "5"): 1}, 2: {("1", "5"): -1}}
    assert not delta_evaluation(block_of(), worlds).is_empty


def test_W6_the_key_of_such_a_row_covers_changes_of_other_transactions() -> None:
    """s changes between the two: its change meets the row, so it must not be taken for alone (W4)."""
    read: dict[str, Rows] = {"r": {}, "s": {("1", "5"): 1}}
    worlds, _, found = swept(read, {"r": [{("1",): 1}, {}, {("1",): -1}], "s": [{}, {("1", "5"): 1}, {}]})
    assert counted(worlds["s"].table) == {(("1", "5"), 2): 1}, "the row was not there before"
    assert found == {2: {("1", "5"): 1}, 3: {("1", "5"): -1}}


def test_W6_nothing_is_condensed_across_tags_and_everything_within_one() -> None:
    read: dict[str, Rows] = {"r": {("1",): 1}, "s": {("1", "5"): 1}}
    within: Rows = {("1",): 0}
    worlds, memory, found = swept(read, {"r": [within, {("1",): 1}, {("1",): -1}]})
    assert found == {2: {("1", "5"): 1}, 3: {("1", "5"): -1}}
    worlds, memory, found = swept(read, {"r": [within]})
    assert (memory.asked, found) == ([], {})
    assert delta_evaluation(block_of(), worlds).is_empty


def test_W6_the_latest_transaction_of_a_combination_has_it() -> None:
    read: dict[str, Rows] = {"r": {("1",): 2}, "s": {("1", "5"): 3}}
    worlds, _, found = swept(read, {"r": [{("1",): 1}, {}], "s": [{}, {("1", "5"): 1}]})
    # old 1 · 2; after the first transaction 2 · 2; after the second 2 · 3.
    assert counted(worlds["r"].table) == {(("1",), 0): 1, (("1",), 1): 1}
    assert counted(worlds["s"].table) == {(("1", "5"), 0): 2, (("1", "5"), 2): 1}
    assert found == {1: {("1", "5"): 2}, 2: {("1", "5"): 2}}


def test_W6_what_is_not_ours_belongs_to_no_transaction_of_the_run() -> None:
    read: dict[str, Rows] = {"r": {("1",): 1}, "s": {("1", "6"): 1}}
    pending: dict[str, Rows] = {"s": {("1", "5"): -1, ("1", "6"): 1}}
    worlds, _, found = swept(read, {"r": [{("1",): 1}]}, pending)
    assert counted(worlds["s"].table) == {(("1", "5"), 0): 1}
    assert found == {1: {("1", "5"): 1}}


def test_W6_a_scan_is_the_old_world_once_the_entries_beside_it_are_taken_out() -> None:
    r, s = relation("r", ["x"]), relation("s", ["x"])
    block = flatten(view("v", {"r": r, "s": s}, ["r.x < s.x"], {"x": "r.x"}))
    deltas = {alias: run_of(block.by_alias[alias], [{("1",): 1}, {("1",): 1}]) for alias in ("r", "s")}
    pending = {"s": projected(block.by_alias["s"], {("4",): 1})}
    worlds = sweep(plan_sweep(block), deltas, pending, Memory(block.by_alias, {}).ask)
    assert isinstance(worlds["s"], Whole)
    assert TAGGED.scanned == (1, 0)
    assert counted(worlds["s"].table) == {(("4",), 0): -1, (("1",), 0): -2, (("1",), 1): 1, (("1",), 2): 1}


def test_one_transaction_needs_no_tags() -> None:
    block = block_of()
    memory = Memory(block.by_alias, {"r": {("1",): 1}, "s": {("1", "5"): 1}})
    worlds = sweep(plan_sweep(block), {"r": projected(block.by_alias["r"], {("1",): 1})}, {}, memory.ask)
    assert {world.counting for world in worlds.values()} == {TWO_WORLDS}
    assert not delta_evaluation(block, worlds).tagged
