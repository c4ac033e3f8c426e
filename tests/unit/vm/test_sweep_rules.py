"""The rules of sweeps and worlds (W1 to W5, R4, R5), each with the case that taught it."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from dyda.maintenance.execute.possible_rows import limits
from dyda.model.bag import Bag
from dyda.model.relation import Relation, RelationName
from tests.unit.vm.builders import Memory, Rows, entries, projected, relation, view
from tests.unit.vm.judge import Condition, difference
from vm.join_block import JoinBlock, flatten
from vm.join_tree import plan_sweep
from vm.sweep import SweepLimits, sweep
from vm.worlds import Whole, Worlds


def chain(n: int) -> tuple[list[tuple[int, int]], str]:
    return [(i, i + 1) for i in range(n - 1)], "chain"


def star(n: int) -> tuple[list[tuple[int, int]], str]:
    return [(0, i) for i in range(1, n)], "star"


def binary(n: int) -> tuple[list[tuple[int, int]], str]:
    return [((i - 1) // 2, i) for i in range(1, n)], "tree"


def block_of(n: int, edges: list[tuple[int, int]], *, one_relation: bool = False) -> JoinBlock:
    relations = [relation("r0" if one_relation else f"r{i}", ["x", "y"]) for i in range(n)]
    conditions = [f"a{i}.x = a{j}.x" for i, j in edges]
    return flatten(view("v", {f"a{i}": r for i, r in enumerate(relations)}, conditions, {"o": "a0.y"}))


def everywhere(block: JoinBlock, rows: Rows) -> Memory:
    return Memory(block.by_alias, dict.fromkeys(block.by_alias, rows))


SHAPES = [(*shape(n), n) for n in range(2, 9) for shape in (chain, star, binary)]


@pytest.mark.parametrize(("edges", "name", "n"), SHAPES, ids=[f"{name}-{n}" for _, name, n in SHAPES])
def test_W1_one_update_costs_n_minus_1_queries_and_a_batch_at_most_twice_that(
    edges: list[tuple[int, int]], name: str, n: int
) -> None:
    block = block_of(n, edges)
    plan = plan_sweep(block)
    delta: Rows = {("1", "2"): 1}
    for changed in block.by_alias:
        memory = everywhere(block, {("1", "1"): 1, **delta})
        sweep(plan, {changed: projected(block.by_alias[changed], delta)}, {}, memory.ask)
        assert len(memory.asked) == n - 1 == plan.queries(changed)
        assert changed not in {alias for alias, _, _ in memory.asked}
    memory = everywhere(block, {("1", "1"): 1, **delta})
    deltas = {alias: projected(block.by_alias[alias], delta) for alias in block.by_alias}
    sweep(plan, deltas, {}, memory.ask)
    assert len(memory.asked) == 2 * (n - 1)


@pytest.mark.parametrize("n", range(2, 9))
def test_W1_a_self_joined_relation_counts_once_per_occurrence(n: int) -> None:
    block = block_of(n, chain(n)[0], one_relation=True)
    memory = everywhere(block, {("1", "1"): 1, ("1", "2"): 1})
    deltas = {alias: projected(block.by_alias[alias], {("1", "2"): 1}) for alias in block.by_alias}
    sweep(plan_sweep(block), deltas, {}, memory.ask)
    assert len(memory.asked) == 2 * (n - 1)


def test_W1_edges_outside_the_spanning_tree_are_not_asked_along() -> None:
    triangle = block_of(3, [(0, 1), (1, 2), (0, 2)])
    plan = plan_sweep(triangle)
    assert sum(len(component.edges) for component in plan.components) == 2
    memory = everywhere(triangle, {("1", "1"): 1})
    sweep(plan, {"a0": projected(triangle.by_alias["a0"], {("1", "1"): 1})}, {}, memory.ask)
    assert len(memory.asked) == 2


def test_W1_several_equalities_between_two_occurrences_are_one_composite_key() -> None:
    r, s = relation("r", ["x", "y"]), relation("s", ["x", "y"])
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x", "s.y = r.y"], {"o": "s.x"}))
    plan = plan_sweep(block)
    assert [edge.pairs for edge in plan.components[0].edges] == [(("x", "x"), ("y", "y"))]
    # ('1', '11') and ('11', '1') must not be taken for one another.
    memory = Memory(block.by_alias, {"r": {("1", "11"): 1}, "s": {("1", "11"): 1, ("11", "1"): 1, ("1", None): 1}})
    worlds = sweep(plan, {"r": projected(block.by_alias["r"], {("1", "11"): 1})}, {}, memory.ask)
    assert memory.asked == [("s", ("x", "y"), [("1", "11")])]
    assert entries(worlds["s"].table) == {("1", "11"): (1, 1)}
    deltas = {
        "r": projected(block.by_alias["r"], {("1", "11"): 1}),
        "s": projected(block.by_alias["s"], {("11", "1"): 1}),
    }
    worlds = sweep(plan, deltas, {}, memory.ask)
    assert entries(worlds["s"].table) == {("1", "11"): (1, 1), ("11", "1"): (0, 1)}


def test_W1_one_column_equal_to_two_of_the_other_side_is_one_key_column() -> None:
    r, s = relation("r", ["x"]), relation("s", ["x", "y"])
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x", "r.x = s.y"], {"o": "r.x"}))
    given: dict[str, Rows] = {"r": {("1",): 1}, "s": {("1", "1"): 1}}
    memory = Memory(block.by_alias, given)
    for changed, rows in given.items():
        sweep(plan_sweep(block), {changed: projected(block.by_alias[changed], rows)}, {}, memory.ask)
    assert [(alias, key) for alias, key, _ in memory.asked] == [("s", ("x",)), ("r", ("x",))]


def test_W1_no_key_no_query() -> None:
    block = block_of(3, chain(3)[0])
    memory = everywhere(block, {("1", "1"): 1})
    worlds = sweep(plan_sweep(block), {"a0": projected(block.by_alias["a0"], {("9", "9"): 1})}, {}, memory.ask)
    assert [alias for alias, _, _ in memory.asked] == ["a1"]
    assert worlds["a1"].table.num_rows == worlds["a2"].table.num_rows == 0
    # Inserted and deleted again within the unit: nothing changed, nothing to ask.
    memory = everywhere(block, {("1", "1"): 1})
    nothing = projected(block.by_alias["a0"], {("1", "1"): 1}) - projected(block.by_alias["a0"], {("1", "1"): 1})
    sweep(plan_sweep(block), {"a0": nothing}, {}, memory.ask)
    assert memory.asked == []


def test_W2_rows_learned_from_one_neighbour_travel_to_the_others_and_not_back() -> None:
    """a1 and a2 change; a0 between them learns rows from a1 whose keys a2 needs, though a0 itself did not change."""
    r, s, t = relation("r", ["x", "y"]), relation("s", ["x"]), relation("t", ["y"])
    block = flatten(view("v", {"r": r, "s": s, "t": t}, ["r.x = s.x", "r.y = t.y"], {"o": "t.y"}))
    memory = Memory(
        block.by_alias, {"r": {("1", "5"): 1, ("2", "6"): 1}, "s": {("1",): 1}, "t": {("5",): 1, ("6",): 1}}
    )
    deltas = {
        "s": projected(block.by_alias["s"], {("1",): 1}),
        "t": projected(block.by_alias["t"], {("6",): 1}),
    }
    sweep(plan_sweep(block), deltas, {}, memory.ask)
    asked = {(alias, tuple(map(tuple, values))) for alias, _, values in memory.asked}
    # r is asked by s with 1 and by t with 6. Then t learns r's 5 (never 6, which t itself brought), s learns r's 2.
    assert asked == {("r", (("1",),)), ("r", (("6",),)), ("t", (("5",),)), ("s", (("2",),))}


def test_W3_a_row_deleted_by_a_not_ours_update_is_restored_and_its_key_travels() -> None:
    r, s, t = relation("r", ["x"]), relation("s", ["x", "y"]), relation("t", ["y"])
    block = flatten(view("v", {"r": r, "s": s, "t": t}, ["r.x = s.x", "s.y = t.y"], {"o": "t.y"}))
    memory = Memory(block.by_alias, {"r": {("1",): 1}, "s": {("1", "6"): 1}, "t": {("5",): 1, ("6",): 1}})
    pending = {"s": projected(block.by_alias["s"], {("1", "5"): -1, ("1", "6"): 1})}
    worlds = sweep(plan_sweep(block), {"r": projected(block.by_alias["r"], {("1",): 1})}, pending, memory.ask)
    assert entries(worlds["s"].table) == {("1", "5"): (1, 1)}
    # … and the key of the row that the same update inserted does not.
    assert memory.asked[-1] == ("t", ("y",), [("5",)])


def test_W4_a_changed_row_that_a_hop_covered_is_never_taken_for_unread() -> None:
    """Both sides of a join change. (0, Δ) for both would count new ⋈ new only and lose Δ ⋈ old."""
    r, s = relation("r", ["x"]), relation("s", ["x"])
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"o": "r.x"}))
    memory = Memory(block.by_alias, {"r": {("1",): 3}, "s": {("1",): 5}})
    deltas = {"r": projected(block.by_alias["r"], {("1",): 1}), "s": projected(block.by_alias["s"], {("1",): 2})}
    worlds = sweep(plan_sweep(block), deltas, {}, memory.ask)
    assert entries(worlds["r"].table) == {("1",): (2, 3)}
    assert entries(worlds["s"].table) == {("1",): (3, 5)}
    found = difference({"r": ["x"], "s": ["x"]}, worlds, [Condition("r.x", "=", "s.x")], ["r.x"])  # type: ignore[arg-type]
    assert found == {("1",): 3 * 5 - 2 * 3}


def test_W5_rows_that_two_hops_fetch_count_once() -> None:
    r, s, t = relation("r", ["x"]), relation("s", ["x", "y"]), relation("t", ["y"])
    block = flatten(view("v", {"s": s, "r": r, "t": t}, ["r.x = s.x", "s.y = t.y"], {"o": "s.x"}))
    memory = Memory(
        block.by_alias, {"r": {("1",): 1}, "s": {("1", "5"): 2, ("1", "6"): 1, ("2", "5"): 1}, "t": {("5",): 1}}
    )
    deltas = {"r": projected(block.by_alias["r"], {("1",): 1}), "t": projected(block.by_alias["t"], {("5",): 1})}
    worlds = sweep(plan_sweep(block), deltas, {}, memory.ask)
    assert entries(worlds["s"].table) == {("1", "5"): (2, 2), ("1", "6"): (1, 1), ("2", "5"): (1, 1)}


def whole_reason(block: JoinBlock, changed: str, rows: Rows, memory: Memory | None = None) -> dict[str, str]:
    worlds = sweep(
        plan_sweep(block),
        {changed: projected(block.by_alias[changed], rows)},
        {},
        (memory or Memory(block.by_alias, {alias: {} for alias in block.by_alias})).ask,
    )
    return {alias: world.reason for alias, world in worlds.items() if isinstance(world, Whole)}


@pytest.mark.parametrize(
    ("left", "right", "pushed"),
    [
        ("integer", "text", False),  # Spark joins 7 = '007'; a lookup would lose the row
        ("integer", "bigint", True),
        ("integer", "numeric(10,2)", False),
        ("numeric", "numeric(10,2)", True),
        ("text", "varchar", True),
        ("text", "character", False),
        ("real", "double precision", False),
        ("date", "timestamp", False),
        ("uuid", "text", False),
        ("MOOD", "MOOD", False),
    ],
)
def test_R4_only_equalities_within_one_family_are_pushed(left: str, right: str, pushed: bool) -> None:
    r, s = relation("r", {"x": left}), relation("s", {"x": right})
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"o": "r.x"}))
    assert (len(plan_sweep(block).components) == 1) == pushed
    assert whole_reason(block, "r", {("7",): 1}) == ({} if pushed else {"s": "no pushable equality leads to s"})


@pytest.mark.parametrize(("kind", "pushed"), [("double precision", False), ("real", False), ("integer", True)])
def test_R4_floats_are_no_keys_between_what_a_step_keeps_and_a_relation(kind: str, pushed: bool) -> None:
    """Spark writes 1.0E10 where PostgreSQL writes 10000000000: as texts they do not meet."""
    r, s = relation("r", {"x": kind}), relation("s", {"x": kind})
    kept = replace(s, name=RelationName("", "v", "0"))
    block = flatten(view("v", {"r": r, "s": kept}, ["r.x = s.x"], {"o": "r.x"}))
    assert (len(plan_sweep(block).components) == 1) == pushed
    assert len(plan_sweep(flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"o": "r.x"}))).components) == 1


def test_R4_a_source_may_answer_with_more_rows_but_only_those_asked_for_count() -> None:
    """A collation that ignores case: the source holds 'ANN' for equal to 'Ann'; Spark does not."""
    r, s = relation("r", {"x": "text"}), relation("s", {"x": "text"})
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"o": "r.x"}))

    def ask(alias: str, columns: object, key: object, values: pa.Table) -> Bag:
        return projected(block.by_alias[alias], {("Ann",): 1, ("ANN",): 1})

    deltas = {"r": projected(block.by_alias["r"], {("Ann",): 1}), "s": projected(block.by_alias["s"], {("ANN",): 1})}
    worlds = sweep(plan_sweep(block), deltas, {}, ask)
    # 'ANN' at s is ours and was reached by no key of ours: it stays (0, 1) and is not also counted as fetched.
    assert entries(worlds["s"].table) == {("Ann",): (1, 1), ("ANN",): (0, 1)}


@pytest.mark.parametrize(
    ("kind", "key", "same", "other"),
    [
        ("numeric", "1.50", "1.5", "15"),
        ("numeric", "100", "100.00", "1"),
        ("numeric", "0.00", "0", "0.01"),
        ("double precision", "-0", "0", "1"),
        ("real", "NaN", "NaN", "Infinity"),
    ],
)
def test_R4_values_that_Spark_holds_equal_are_one_key(kind: str, key: str, same: str, other: str) -> None:
    r, s = relation("r", {"x": kind}), relation("s", {"x": kind})
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"o": "r.x"}))

    def ask(alias: str, columns: object, keys: object, values: pa.Table) -> Bag:
        assert values.num_rows == 1
        return projected(block.by_alias[alias], {(same,): 1, (other,): 1})

    deltas = {"r": projected(block.by_alias["r"], {(key,): 1, (same,): 1})}
    worlds = sweep(plan_sweep(block), deltas, {}, ask)
    assert entries(worlds["s"].table) == {(same,): (1, 1)}


def test_R4_a_key_that_the_target_cannot_hold_is_not_asked_for() -> None:
    r, s = relation("r", {"x": "bigint"}), relation("s", {"x": "smallint"})
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"o": "r.x"}))
    memory = Memory(block.by_alias, {"r": {}, "s": {("7",): 1}})
    rows: Rows = {("7",): 1, ("32768",): 1, ("-32769",): 1, ("9223372036854775807",): 1}
    sweep(plan_sweep(block), {"r": projected(block.by_alias["r"], rows)}, {}, memory.ask)
    assert memory.asked == [("s", ("x",), [("7",)])]


def test_R5_null_keys_never_travel_and_are_never_covered() -> None:
    block = block_of(2, [(0, 1)])
    memory = everywhere(block, {(None, "1"): 1, ("1", "1"): 1})
    delta = projected(block.by_alias["a0"], {(None, "1"): 1})
    worlds = sweep(plan_sweep(block), {"a0": delta}, {}, memory.ask)
    assert memory.asked == []
    assert entries(worlds["a0"].table) == {(None, "1"): (0, 1)}
    both = {alias: projected(block.by_alias[alias], {(None, "1"): 1, ("1", "1"): 1}) for alias in block.by_alias}
    worlds = sweep(plan_sweep(block), both, {}, memory.ask)
    assert entries(worlds["a0"].table) == {(None, "1"): (0, 1), ("1", "1"): (0, 1)}


@pytest.mark.parametrize("kind", ["integer", "text"])
def test_R5_a_null_among_the_keys_is_not_asked_for(kind: str) -> None:
    r, s = relation("r", {"x": kind, "y": kind}), relation("s", {"x": kind, "y": kind})
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x", "r.y = s.y"], {"o": "r.x"}))
    memory = Memory(block.by_alias, {"r": {}, "s": {("1", None): 1, (None, None): 1, ("1", "2"): 1}})
    rows: Rows = {("1", None): 1, (None, "2"): 1, (None, None): 1, ("1", "2"): 1}
    worlds = sweep(plan_sweep(block), {"r": projected(block.by_alias["r"], rows)}, {}, memory.ask)
    assert memory.asked == [("s", ("x", "y"), [("1", "2")])]
    assert entries(worlds["s"].table) == {("1", "2"): (1, 1)}


def cross(conditions: list[str]) -> JoinBlock:
    relations: dict[str, Relation] = {name: relation(name, ["x"]) for name in "rst"}
    return flatten(view("v", relations, conditions, {"o": "r.x"}))


def test_a_change_on_one_side_of_a_cross_join_sweeps_that_side_and_scans_the_other() -> None:
    block = cross(["r.x = s.x", "s.x < t.x"])
    memory = Memory(block.by_alias, {"r": {("1",): 1}, "s": {("1",): 1}, "t": {("2",): 1}})
    assert whole_reason(block, "r", {("1",): 1}, memory) == {"t": "no pushable equality leads to t"}
    assert [alias for alias, _, _ in memory.asked] == ["s"]
    assert set(whole_reason(block, "t", {("1",): 1})) == {"r", "s"}


def test_changes_on_both_sides_of_a_cross_join_scan_everything() -> None:
    block = cross(["r.x = s.x"])
    deltas = {alias: projected(block.by_alias[alias], {("1",): 1}) for alias in ("r", "t")}
    pending = {"s": projected(block.by_alias["s"], {("4",): -1})}
    worlds = sweep(plan_sweep(block), deltas, pending, Memory(block.by_alias, {}).ask)
    assert all(isinstance(world, Whole) for world in worlds.values())
    assert entries(worlds["r"].table) == {("1",): (-1, 0)}
    assert entries(worlds["s"].table) == {("4",): (1, 1)}


@pytest.mark.parametrize(("rows", "keys", "scanned"), [(100, 50, False), (10**6, 60, True), (200, 45, True)])
def test_many_keys_make_a_scan_cheaper_than_a_lookup(rows: int, keys: int, scanned: bool) -> None:
    r, s = relation("r", ["x"]), relation("s", ["x"], rows=rows)
    block = flatten(view("v", {"r": r, "s": s}, ["r.x = s.x"], {"o": "r.x"}))
    limits = SweepLimits(keys=55, share=0.2, share_from=42 if rows == 200 else 10**9)
    memory = Memory(block.by_alias, {"r": {}, "s": {}})
    changed: Rows = {(str(i),): 1 for i in range(keys)}
    worlds = sweep(plan_sweep(block), {"r": projected(block.by_alias["r"], changed)}, {}, memory.ask, limits)
    assert isinstance(worlds["s"], Whole) == scanned
    assert isinstance(worlds["r"], Worlds) != scanned
    if scanned:
        assert f"{keys} distinct keys" in worlds["s"].reason  # type: ignore[union-attr]
        assert memory.asked == []


def test_many_keys_of_rows_that_a_condition_excludes_do_not_travel() -> None:
    """Lines of 150 parts change; only parts of size 1 count, and their other lines are asked for alone."""
    parts = relation("part", ["id", "size"], keys=["id"])
    lines = relation("line", ["part", "n"])
    conditions = ["l.part = p.id", "m.part = p.id", "p.size = 1"]
    block = flatten(view("v", {"l": lines, "p": parts, "m": lines}, conditions, {"n": "m.n"}))
    rows: Rows = {(str(number), str(number)): 1 for number in range(150)}
    sizes: Rows = {(str(number), str(number % 50)): 1 for number in range(150)}
    asked = {}
    for kept in ({}, limits(block, [block])):
        memory = Memory(block.by_alias, {"l": rows, "p": sizes, "m": rows})
        sweep(plan_sweep(block), {"l": projected(block.by_alias["l"], rows)}, {}, memory.ask, possible=kept)
        asked[bool(kept)] = {alias: len(keys) for alias, _, keys in memory.asked}
    assert asked == {False: {"p": 150, "m": 150}, True: {"p": 150, "m": 3}}


def test_a_condition_of_one_view_excludes_nothing_that_another_needs() -> None:
    parts, lines = relation("part", ["id", "size"], keys=["id"]), relation("line", ["part", "n"])

    def block(*conditions: str) -> JoinBlock:
        relations = {"l": lines, "p": parts}
        return flatten(view("v", relations, ["l.part = p.id", *conditions], {"n": "l.n", "size": "p.size"}))

    rows = pa.table({"id": ["1", "2", "3"], "size": ["1", "2", "3"]})
    one, two = block("p.size = 1"), block("p.size > 2")
    assert limits(one, [one])["p"](rows) == pa.chunked_array([[True, False, False]])
    assert limits(one, [one, two])["p"](rows) == pa.chunked_array([[True, False, True]])
    assert "p" not in limits(one, [one, block()])
    assert limits(one, [one])["p"](pa.table({"id": ["1"], "size": ["none"]})) is None, "told where it is evaluated"
