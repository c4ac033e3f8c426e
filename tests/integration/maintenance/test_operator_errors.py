"""An expression is computed for the rows that the query has, and for no others.

Outer, semi and anti joins are maintained as sums of signed terms (vm/compile.py), in which rows meet that take each
other away. Nobody's query has those, so nothing may fail on them; what fails in the query itself is held as ever.
More operators are in tests/unit/vm/test_careful.py, without Spark.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda import commands
from tests.town import Town

R, S, Q = "one.r r", "two.s s", "one.q q"
LEFT = f"{R} LEFT JOIN {S} ON r.k = s.k"
QUOTIENT = "CAST(10 / coalesce(s.v, 0) AS INT)"

VIEWS = {
    "padded": f"SELECT r.id, {QUOTIENT} AS x FROM {LEFT}",
    "padded_right": (
        f"SELECT s.id, CAST(120 / coalesce(r.id, 0) AS INT) AS x FROM {R} RIGHT JOIN {S} ON r.k = s.k WHERE s.k < 90"
    ),
    "padded_filtered": f"SELECT r.id FROM {LEFT} WHERE {QUOTIENT} > 2",
    "padded_sum": f"SELECT r.k, sum({QUOTIENT}) AS x, count(*) AS c FROM {LEFT} GROUP BY r.k",
    "padded_least": f"SELECT r.k, min({QUOTIENT}) AS x FROM {LEFT} GROUP BY r.k HAVING min({QUOTIENT}) > 1",
    "anti": f"SELECT r.id, CAST(10 / r.v AS INT) AS x FROM {R} WHERE NOT EXISTS (SELECT 1 FROM {Q} WHERE q.k = r.k)",
    "joined": f"SELECT r.id FROM {R} JOIN {S} ON r.k = s.k WHERE CAST(10 / s.v AS INT) > 2",
    "exists": (
        f"SELECT r.id FROM {R} JOIN {S} ON r.k = s.k WHERE EXISTS (SELECT 1 FROM {Q} WHERE CAST(10 / s.v AS INT) > q.v)"
    ),
}

RUN = ("padded", "padded_filtered", "padded_sum")
"""Of these, what is taken through runs of transactions."""

SCRIPT: list[tuple[str, list[tuple[str, str]]]] = [
    (
        "rows come with their match, and a zero comes beside what keeps it out",
        [
            ("one", "INSERT INTO r VALUES (3, 3, 5), (4, 4, 1); INSERT INTO q VALUES (5, 5, 3)"),
            ("two", "INSERT INTO s VALUES (3, 3, 1), (30, 3, 5), (4, 4, 2)"),
            ("one", "INSERT INTO r VALUES (5, 5, 0)"),
            ("two", "INSERT INTO s VALUES (5, 5, 2)"),
        ],
    ),
    (
        "one of two matches goes, another changes",
        [("two", "DELETE FROM s WHERE id = 30; UPDATE s SET v = 10 WHERE id = 4")],
    ),
    (
        "a row goes with its match; what is matched changes its key with it",
        [
            ("one", "DELETE FROM r WHERE id = 3; UPDATE r SET k = 7 WHERE id = 4"),
            ("two", "DELETE FROM s WHERE k = 3; UPDATE s SET k = 7 WHERE id = 4"),
        ],
    ),
]


@pytest.mark.parametrize("consistency", ["strong", "complete"])
def test_nothing_fails_on_rows_that_another_term_takes_away(new_town: Callable[..., Town], consistency: str) -> None:
    complete = consistency == "complete"
    town = new_town(f'consistency = "{consistency}"')
    town.source("one", "CREATE TABLE r (id int, k int, v int)", "CREATE TABLE q (id int, k int, v int)")
    town.source("two", "CREATE TABLE s (id int, k int, v int)")
    town.execute("one", "INSERT INTO r VALUES (1, 1, 2), (2, 2, 0)", "INSERT INTO q VALUES (1, 2, 4)")
    # There is no such key in r: `joined` and `exists` do not have the row, and ask nothing of it.
    town.execute("two", "INSERT INTO s VALUES (1, 1, 5), (2, 2, 2), (9, 99, 0)")
    for name in RUN if complete else VIEWS.keys() - set(RUN[1:]):
        town.view(name, VIEWS[name])
    town.apply()
    town.check()
    for told, transactions in SCRIPT[:2] if complete else SCRIPT:
        # With `complete` each transaction is a state of its own, so the match must be there first.
        for source in ("two", "one"):
            for statements in (text for name, text in transactions if name == source):
                town.execute(source, statements)
            if complete:
                town.settle()
        town.settle()
        states = {view["name"]: (view["state"], view["reason"]) for view in commands.views(town.folder)}
        assert set(states.values()) == {("fresh", None)}, told
        town.check()
    if complete:
        return

    # What the query itself fails on is held, and named, as ever.
    town.execute("one", "INSERT INTO r VALUES (8, 8, 3)")
    town.settle()
    state = town.state("padded")
    assert state["state"] == "held"
    assert "ivision by zero" in state["reason"]
    assert "row of one.public.r: id = 8" in state["reason"]
    assert town.state("anti")["state"] == "fresh"
    town.execute("two", "INSERT INTO s VALUES (8, 8, 1)")
    for message in commands.pending(town.folder):
        if message["state"] == "quarantined":
            commands.pending_skip(town.folder, message["id"], "its match has come")
    town.settle()
    assert {view["state"] for view in commands.views(town.folder)} == {"fresh"}
    town.check()
