"""Broken views come back by themselves when what they read does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda.engine import Engine
from dyda.errors import EngineFailed
from dyda.maintenance.cycle import Outcome
from tests.recompute_oracle import printed
from tests.town import Town

VIEW = "SELECT c.name, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name"


@pytest.fixture
def joined(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (name text)", "INSERT INTO customer VALUES ('Ann'), ('Bob')")
    town.source(
        "booking", "CREATE TABLE flight (name text, no int)", "INSERT INTO flight VALUES ('Ann', 1), ('Bob', 2)"
    )
    town.view("joined", VIEW)
    town.view("customers", "SELECT c.name FROM crm.customer c")
    town.apply()
    return town


def test_a_rebuild_that_spark_could_not_make_is_made_later(joined: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the same process, although nothing has changed at the source since."""
    joined.execute("booking", "ALTER TABLE flight DROP COLUMN no")
    joined.settle()
    joined.execute("booking", "ALTER TABLE flight ADD COLUMN no int DEFAULT 6")

    def failing(*arguments: object) -> int:
        raise EngineFailed("no memory")

    with joined.maintainer() as maintainer:
        with monkeypatch.context() as patched:
            patched.setattr(Engine, "build", failing)
            assert maintainer.cycle() is Outcome.BLOCKED
        outcomes = [maintainer.cycle() for _ in range(3)]
    assert Outcome.WORKED in outcomes, outcomes
    assert joined.state("joined")["state"] == "fresh"
    joined.check()


def test_a_view_recovers_without_event_triggers(joined: Town) -> None:
    """Nobody logs that the table is back, and nothing captures it: the poll sees it, and capture comes first (C6)."""
    events = printed(joined.sources["booking"], "SELECT evtname FROM pg_event_trigger")
    joined.execute("booking", *(f'DROP EVENT TRIGGER "{name}"' for name in events), "DROP TABLE flight")
    joined.settle()
    assert joined.state("joined")["state"] == "broken"
    events = printed(joined.sources["booking"], "SELECT evtname FROM pg_event_trigger")
    joined.execute(
        "booking",
        *(f'DROP EVENT TRIGGER "{name}"' for name in events),
        "CREATE TABLE flight (name text, no int)",
        "INSERT INTO flight VALUES ('Bob', 5)",
    )
    joined.settle()
    assert joined.state("joined")["state"] == "fresh"
    joined.check()
    joined.execute("booking", "INSERT INTO flight VALUES ('Ann', 7)")
    joined.settle()
    joined.check()


FROM = "FROM one.r r JOIN two.s s ON r.k = s.k"
TOGETHER = {
    "needed": f"SELECT r.k, r.a, s.b /* dispensable */ {FROM}",
    "dispensable": f"SELECT r.k, r.a /* dispensable */, s.b /* dispensable */ {FROM}",
    "appended": f"-- dyda: new_columns = append\nSELECT r.k, s.b /* dispensable */ {FROM}",
    "grouped": f"SELECT r.a, count(*) AS n, max(s.b) AS b /* dispensable */ {FROM} GROUP BY r.a",
}


@pytest.mark.parametrize("merged", [True, False])
def test_a_column_comes_back_while_a_dispensable_one_goes_elsewhere(town: Town, merged: bool) -> None:
    """The same becomes of the views whether the changes are merged into one unit or come one by one."""
    town.source("one", "CREATE TABLE r (k int, a int)", "INSERT INTO r VALUES (1, 2), (2, 3)")
    town.source("two", "CREATE TABLE s (k int, b int)", "INSERT INTO s VALUES (1, 3), (1, 4)")
    for name, text in TOGETHER.items():
        town.view(name, text)
    town.apply()
    steps = [
        ("one", "ALTER TABLE r DROP a"),
        ("two", "ALTER TABLE s DROP b"),
        ("one", "ALTER TABLE r ADD a int DEFAULT 7"),
    ]
    with town.maintainer() as maintainer:
        for source, ddl in steps:
            town.execute(source, ddl)
            while not merged and maintainer.cycle() is not Outcome.IDLE:
                pass
        while maintainer.cycle() is not Outcome.IDLE:
            assert "broken" not in {town.state(name)["state"] for name in TOGETHER}, "not even for a moment"
    columns = {name: [column["name"] for column in town.state(name)["columns"]] for name in TOGETHER}
    assert columns == {"needed": ["k", "a"], "dispensable": ["k"], "appended": ["k", "a"], "grouped": ["a", "n"]}
    assert {town.state(name)["state"] for name in TOGETHER} == {"fresh"}
    assert town.extent("needed") == {"1\t7": 2}, "the values of the new column"
    town.check_definitions(*TOGETHER)
    town.execute("one", "INSERT INTO r VALUES (1, 8)")
    town.settle()
    town.check_definitions(*TOGETHER)


def test_a_view_that_stays_broken_is_judged_once_and_not_at_every_poll(
    joined: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined.execute("booking", "ALTER TABLE flight DROP COLUMN no")
    joined.settle()
    with joined.maintainer() as maintainer:
        describe: Callable[..., object] = maintainer.opened.describe
        asked: list[object] = []

        def counted(*name: object) -> object:
            asked.append(name)
            return describe(*name)

        monkeypatch.setattr(maintainer.opened, "describe", counted)
        maintainer.cycle()
        first = len(asked)
        for _ in range(3):
            maintainer.cycle()
    assert first > 0
    assert len(asked) == first
