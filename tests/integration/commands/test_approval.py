"""`schema_changes = "approve"`: a destructive change waits for an operator, and what does not depend on it goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from dyda import commands, faults
from dyda.errors import DydaError
from dyda.maintenance.catalog_state import load
from dyda.maintenance.observe.poll import poll
from tests.town import Town

KNOWLEDGE = """
[[join]]
between = ["booking.flight_res", "tours.tour"]
on = "flight_res.name = tour.tour_name"
[[function]]
attribute = "booking.flight_res.age"
equals = "tours.tour.age"
"""


@pytest.fixture
def travel(new_town: Callable[..., Town]) -> Town:
    town = new_town('schema_changes = "approve"')
    town.source("booking", "CREATE TABLE flight_res (name text, age int, dest text)")
    town.execute("booking", "INSERT INTO flight_res VALUES ('Ann', 7, 'Asia'), ('Bob', 9, 'Asia')")
    town.source("tours", "CREATE TABLE tour (tour_name text, age int)")
    town.execute("tours", "INSERT INTO tour VALUES ('Ann', 7), ('Cid', 3)")
    town.source("crm", "CREATE TABLE customer (name text)")
    town.view("ages", "-- dyda: extent = any\nSELECT f.name, f.age /* replaceable */ FROM booking.flight_res f")
    town.view("fixed", "SELECT f.age FROM booking.flight_res f")
    town.view("dests", "SELECT f.dest FROM booking.flight_res f")
    town.view("other", "SELECT c.name FROM crm.customer c")
    (town.folder / "knowledge.toml").write_text(KNOWLEDGE)
    town.apply()
    return town


def waiting(town: Town) -> dict[int, str]:
    return {
        message["id"]: message["reason"] for message in commands.pending(town.folder) if message["state"] == "approval"
    }


def test_a_destructive_change_waits_and_the_rest_goes_on(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.execute("crm", "INSERT INTO customer VALUES ('Eve')")
    travel.settle()
    ((number, reason),) = waiting(travel).items()
    assert reason == f"message {number} waits for approval: it rewrites ages; it breaks fixed"
    assert travel.extent("other") == {"Eve": 1}, "it does not depend on the change"
    assert travel.extent("ages") == {"Ann\t7": 1, "Bob\t9": 1}
    assert travel.state("ages")["state"] == "held"
    assert travel.state("ages")["reason"] == reason
    travel.execute("booking", "INSERT INTO flight_res VALUES ('Dan', 'Europe')")
    travel.settle()
    assert travel.extent("dests") == {"Asia": 2, "Europe": 1}, "it does not read what was dropped"
    assert travel.extent("ages") == {"Ann\t7": 1, "Bob\t9": 1}, "the source's order is kept"
    travel.execute("crm", "INSERT INTO customer VALUES ('Flo')")
    travel.settle()
    assert travel.extent("other") == {"Eve": 1, "Flo": 1}, "rows without the dropped column are nothing to it"


def test_the_plan_is_shown(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.settle()
    (number,) = waiting(travel)
    shown = commands.pending_show(travel.folder, number)
    plan = {view["name"]: view for view in shown["plan"]}
    assert {name: view["effect"] for name, view in plan.items()} == {"ages": "rewritten", "fixed": "broken"}
    assert "tours" in plan["ages"]["definition"]
    assert plan["fixed"]["definition"] is None
    assert "age" in plan["fixed"]["reason"]
    assert {name: view["plan"] for name, view in plan.items()} == {"ages": "adapt", "fixed": "freeze"}
    assert plan["fixed"]["cause"]["preference"] == {
        "part": "column",
        "name": "age",
        "dispensable": False,
        "replaceable": False,
    }
    text = travel.run("pending", "show", str(number)).stdout
    assert "ages would be:" in text
    assert "broken" in text


def test_the_next_unit_is_planned_view_by_view(travel: Town) -> None:
    """The same plan as `pending show` and, once it is approved, as what is executed; the units after it have none."""
    travel.execute("booking", "INSERT INTO flight_res VALUES ('Dan', 5, 'Europe')")
    with travel.opened() as opened, opened.warehouse.lock() as writer, poll(opened, writer, load(opened)):
        pass
    (unit,) = commands.pending_plan(travel.folder, travel.engine)["units"]
    assert {view["name"]: (view["plan"], view["effect"]) for view in unit["views"]} == {
        "ages": ("maintain", "none"),
        "dests": ("maintain", "none"),
        "fixed": ("maintain", "none"),
    }, "the view that reads nothing of it is not listed"
    travel.settle()
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.settle()
    (number,) = waiting(travel)
    assert commands.pending_plan(travel.folder, travel.engine)["units"] == []
    commands.pending_approve(travel.folder, number)
    travel.execute("crm", "INSERT INTO customer VALUES ('Eve')")
    with travel.opened() as opened, opened.warehouse.lock() as writer, poll(opened, writer, load(opened)):
        pass
    first, *others = commands.pending_plan(travel.folder, travel.engine)["units"]
    planned = {view["name"]: view for view in first["views"]}
    assert {name: (view["plan"], view["effect"]) for name, view in planned.items()} == {
        "ages": ("adapt", "rewritten"),
        "fixed": ("freeze", "broken"),
    }, "what it costs nothing has it already"
    assert [unit["views"] for unit in others] == [None] * len(others)
    assert {view["name"]: view for view in commands.pending_show(travel.folder, number)["plan"]} == {
        name: planned[name] for name in ("ages", "fixed")
    }
    text = travel.run("pending", "plan").stdout
    assert "unit 1, by view:" in text
    assert "freeze" in text
    travel.settle()
    assert travel.state("ages")["definition"] == planned["ages"]["definition"]


def test_approved_it_runs_as_planned_and_is_not_stopped_again(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.settle()
    (number,) = waiting(travel)
    foretold = {view["name"]: view["definition"] for view in commands.pending_show(travel.folder, number)["plan"]}
    answer = commands.pending_approve(travel.folder, number)
    assert answer == {"id": number, "state": "waiting", "reason": None, "cause": None, "views": ["ages", "fixed"]}
    with travel.maintainer() as maintainer, faults.on("unit.evaluated", _give_up), pytest.raises(RuntimeError):
        maintainer.cycle()
    assert [message["state"] for message in commands.pending(travel.folder)] == ["waiting"]
    travel.settle()  # by another process
    assert commands.pending(travel.folder) == []
    assert travel.extent("ages") == {"Ann\t7": 1}
    assert travel.state("ages")["definition"] == foretold["ages"]
    assert travel.state("fixed")["state"] == "broken"
    assert travel.state("dests")["state"] in ("fresh", "stale")


def _give_up() -> None:
    raise RuntimeError


def test_rejected_its_views_break_and_the_others_follow(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.settle()
    (number,) = waiting(travel)
    answer = commands.pending_reject(travel.folder, number)
    assert (answer["id"], answer["views"]) == (number, ["ages", "fixed"])
    travel.execute("booking", "INSERT INTO flight_res VALUES ('Dan', 'Europe')")
    travel.settle()
    assert commands.pending(travel.folder) == []
    for view in ("ages", "fixed"):
        state = travel.state(view)
        assert state["state"] == "broken"
        assert state["reason"].startswith("rejected by an operator: ")
        assert "ALTER TABLE flight_res DROP age" in state["reason"]
    assert travel.extent("ages") == {"Ann\t7": 1, "Bob\t9": 1}, "its last correct rows"
    assert travel.extent("dests") == {"Asia": 2, "Europe": 1}


def test_a_rejected_view_comes_back_with_its_file_only(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.settle()
    commands.pending_reject(travel.folder, *waiting(travel))
    travel.settle()
    answer = travel.apply()
    assert [view["name"] for view in answer["broken"]] == ["ages", "fixed"]
    travel.view("ages", "SELECT f.name FROM booking.flight_res f")
    assert [view["name"] for view in travel.apply()["changed"]] == ["ages"]
    assert travel.extent("ages") == {"Ann": 1, "Bob": 1}


def test_a_message_that_only_broken_views_needed_leaves_the_queue_at_once(new_town: Callable[..., Town]) -> None:
    town = new_town('schema_changes = "approve"')
    town.source("crm", "CREATE TABLE customer (name text)", "INSERT INTO customer VALUES ('A')")
    town.view("v", "SELECT c.name FROM crm.customer c")
    town.apply()
    town.execute("crm", "DROP TABLE customer")
    town.settle()
    commands.pending_reject(town.folder, *waiting(town))
    assert commands.pending(town.folder) == []
    town.settle()
    assert commands.pending(town.folder) == []
    assert town.state("v")["reason"].startswith("rejected by an operator: ")
    assert town.extent("v") == {"A": 1}


def test_harmless_changes_do_not_wait(travel: Town) -> None:
    for ddl in (
        "ALTER TABLE flight_res RENAME dest TO destination",
        "ALTER TABLE flight_res ADD phone text",
        "ALTER TABLE flight_res DROP phone",
        "ALTER TABLE flight_res ALTER age TYPE bigint",
        "ALTER TABLE flight_res RENAME TO reservation",
    ):
        travel.execute("booking", ddl)
        travel.settle()
        assert commands.pending(travel.folder) == [], ddl
    assert {view["state"] for view in commands.views(travel.folder)} <= {"fresh", "stale"}


def test_an_earlier_change_of_the_same_table_waits_with_it(travel: Town) -> None:
    """A unit sees the table as it is: the rename alone would carry the drop along."""
    travel.execute("booking", "ALTER TABLE flight_res RENAME name TO person")
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.settle()
    first, second = sorted(waiting(travel))
    assert waiting(travel)[first] == f"message {first} waits with message {second}, which changes the same table"
    assert travel.state("ages")["version"] == 1
    with pytest.raises(DydaError, match=f"nothing to reject\nReject that message: dyda pending reject {second}"):
        commands.pending_reject(travel.folder, first)
    refused = travel.run("pending", "approve", str(first), check=False)
    assert refused.returncode == 1
    assert f"dyda pending approve {second}" in refused.stderr
    assert travel.state("ages")["version"] == 1
    commands.pending_approve(travel.folder, second)
    travel.settle()
    assert commands.pending(travel.folder) == []
    assert travel.extent("ages") == {"Ann\t7": 1}
    assert travel.extent("dests") == {"Asia": 2}


def test_two_changes_of_one_table_are_approved_one_by_one(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.execute("booking", "ALTER TABLE flight_res DROP dest")
    travel.settle()
    first, second = sorted(waiting(travel))
    assert commands.pending_approve(travel.folder, first)["views"] == ["ages", "fixed"]
    travel.settle()
    assert waiting(travel)[first] == f"message {first} waits with message {second}, which changes the same table"
    with pytest.raises(DydaError, match=f"nothing to approve\nApprove that message: dyda pending approve {second}"):
        commands.pending_approve(travel.folder, first)
    commands.pending_approve(travel.folder, second)
    travel.settle()
    assert commands.pending(travel.folder) == []
    assert travel.state("dests")["state"] == "broken"


def test_no_view_is_built_over_a_table_whose_change_is_not_approved(travel: Town) -> None:
    """It would carry the change along, and the views with it that nobody has agreed to break."""
    before = {name: travel.extent(name) for name in ("ages", "fixed", "dests")}
    travel.execute("booking", "ALTER TABLE flight_res DROP age")  # not received yet: apply itself finds it
    travel.view("added", "SELECT f.name FROM booking.flight_res f")
    for _ in range(2):
        with pytest.raises(DydaError, match=r"view added cannot be built now: .* it breaks fixed") as refused:
            travel.apply()
        ((number, _),) = waiting(travel).items()
        assert refused.value.remedy == f"Decide about it first: dyda pending approve {number} (or reject)"
        assert [view["name"] for view in commands.views(travel.folder)] == ["ages", "dests", "fixed", "other"]
    with pytest.raises(DydaError, match="view dests cannot be built now"):
        commands.views_resync(travel.folder, "dests", engine=travel.engine)
    travel.view("added", "SELECT c.name FROM crm.customer c")
    travel.apply()
    assert travel.extent("added") == {}, "a view over other tables can be built"
    assert {name: travel.extent(name) for name in before} == before
    assert {travel.state(name)["version"] for name in before} == {1}
    states = {name: travel.state(name)["state"] for name in before}
    assert states == {"ages": "held", "fixed": "held", "dests": "fresh"}, "they wait, and none is broken"
    travel.view("added", "SELECT f.name FROM booking.flight_res f")
    commands.pending_approve(travel.folder, number)
    travel.settle()
    travel.apply()
    assert travel.extent("added") == {"Ann": 1, "Bob": 1}
    assert travel.state("fixed")["state"] == "broken"


def test_what_no_view_reads_may_be_renamed(travel: Town) -> None:
    """Not even where the rewriting that another message waits with would read it."""
    travel.execute("tours", "CREATE TABLE day (n int)", "INSERT INTO day VALUES (1)")
    travel.view("days", "SELECT d.n FROM tours.day d")
    travel.apply()
    travel.execute("tours", "ALTER TABLE tour RENAME tour_name TO title")
    travel.settle()
    assert commands.pending(travel.folder) == []
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.settle()
    (number,) = waiting(travel)
    travel.execute("tours", "ALTER TABLE tour RENAME title TO tour_title")
    travel.execute("tours", "ALTER TABLE tour RENAME TO trip")
    travel.settle()
    assert list(waiting(travel)) == [number]
    commands.pending_approve(travel.folder, number)
    travel.settle()
    assert commands.pending(travel.folder) == []
    assert travel.extent("ages") == {"Ann\t7": 1}
    assert "trip" in travel.state("ages")["definition"]


def test_a_swapped_table_is_judged_by_what_stands_there_now(travel: Town) -> None:
    travel.execute(
        "booking",
        "CREATE TABLE copy (name text, age int, dest text)",
        "INSERT INTO copy SELECT * FROM flight_res",
        "ALTER TABLE flight_res RENAME TO old",
        "ALTER TABLE copy RENAME TO flight_res",
    )
    travel.settle()
    assert commands.pending(travel.folder) == [], "it has every column that the views need"
    travel.execute(
        "booking",
        "CREATE TABLE copy (name text, dest text)",
        "ALTER TABLE flight_res RENAME TO older",
        "ALTER TABLE copy RENAME TO flight_res",
    )
    travel.settle()
    ((_, reason),) = waiting(travel).items()
    assert "it breaks fixed" in reason


def test_with_auto_what_waited_goes(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    travel.settle()
    assert waiting(travel)
    travel.maintenance = 'schema_changes = "auto"'
    travel._write_settings()
    travel.settle()
    assert commands.pending(travel.folder) == []
    assert travel.extent("ages") == {"Ann\t7": 1}


def test_what_is_not_for_approval_is_refused(travel: Town) -> None:
    for decide in (commands.pending_approve, commands.pending_reject):
        with pytest.raises(DydaError, match="message 999 is not in the queue"):
            decide(travel.folder, 999)
    travel.execute("booking", "INSERT INTO flight_res VALUES ('X', 1, 'y')")
    with travel.maintainer() as maintainer:
        source = maintainer.opened.source("booking")
        with source.open(maintainer.known.captured["booking"]) as snapshot:
            after = maintainer.known.views["ages"].positions["booking"]
            (number,) = maintainer.writer.receive("booking", snapshot.messages(after)).values()
    with pytest.raises(DydaError, match=f"message {number} is waiting: it cannot be approved"):
        commands.pending_approve(travel.folder, number)
    assert travel.run("pending", "approve", "one", check=False).returncode == 2


def test_the_command_line_while_a_daemon_runs(travel: Town) -> None:
    travel.execute("booking", "ALTER TABLE flight_res DROP age")
    assert travel.run("daemon", "--until-idle").returncode == 0, "an unapproved message does not count"
    (number,) = waiting(travel)
    daemon = subprocess.Popen(
        [sys.executable, "-m", "dyda", "-C", str(travel.folder), "daemon"], stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: commands.status(travel.folder)["daemon"]["running"])
        done = json.loads(travel.run("pending", "approve", str(number), "--json").stdout)
        assert done["views"] == ["ages", "fixed"]
        until(lambda: commands.pending(travel.folder) == [])
    finally:
        daemon.terminate()
        assert daemon.wait(60) == 0
    assert travel.extent("ages") == {"Ann\t7": 1}
    assert travel.state("fixed")["state"] == "broken"


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
