"""The plan in words."""

from __future__ import annotations

from tests.unit.vm.builders import relation, view
from vm.explain import explain
from vm.join_block import flatten
from vm.join_tree import plan_sweep


def test_every_relation_join_condition_output_and_cost_is_named() -> None:
    r, s, t = relation("a.r", ["x", "y"]), relation("b.s", ["x"]), relation("c.t", {"z": "text"})
    definition = view(
        "v", {"r": r, "s": s, "t": t}, ["r.x = s.x", "s.x = t.z", "r.y > 3"], {"y": "r.y", "twice": "r.y * 2"}
    )
    rows = explain(plan_sweep(flatten(definition)))
    told = [(row.step, row.subject) for row in rows]
    assert told == [
        ("relation", "a.public.r r"),
        ("relation", "b.public.s s"),
        ("relation", "c.public.t t"),
        ("join", "r.x = s.x"),
        ("join", "(r, s) with (t)"),
        ("condition", "`s`.`x` = `t`.`z`"),
        ("condition", "`r`.`y` > 3"),
        ("output", "y"),
        ("output", "twice"),
        ("cost", "r"),
        ("cost", "s"),
        ("cost", "t"),
    ]
    by_subject = {row.subject: row for row in rows}
    assert "the other side is scanned" in by_subject["(r, s) with (t)"].how
    assert by_subject["r"].how == "1 lookup and 1 scan"
    assert by_subject["t"].how == "2 scans"
    assert [row.queries for row in rows if row.step == "cost"] == [2, 2, 2]
    alone = explain(plan_sweep(flatten(view("v", {"r": r}, [], {"x": "r.x"}))))
    assert (alone[-1].how, alone[-1].queries) == ("no source query", 0)
