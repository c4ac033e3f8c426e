"""Every view that is not fresh says why, and since when: in `views`, `views show` and `status` alike."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

from dyda import commands
from tests.integration.maintenance.test_lanes import LANES, cycles, held, running, settle
from tests.integration.maintenance.test_waiting import receive, waiting
from tests.town import Town

EXPECTED = {
    "fresh": ("fresh", None, ""),
    "pending": ("stale", "messages_pending", "1 message waits to be processed"),
    "holding": ("held", "held_by_operator", "is held by an operator"),
    "unapproved": ("held", "needs_approval", "waits for approval: it breaks unapproved"),
    "behind": ("held", "several", "which changes the same table"),
    "poisoned": ("held", "quarantined", "is quarantined: view poisoned"),
    "broken": ("broken", "schema_changed", "ALTER TABLE f DROP v"),
    "rejected": ("broken", "rejected", "rejected by an operator"),
    "away": ("stale", "source_away", "cannot be reached"),
    "skipped": ("resync", "message_skipped", "was skipped: a test"),
    "hidden": ("broken", "unshown", ""),
}
TABLES = dict(zip(EXPECTED, "abcdjefkglh", strict=True))


def test_every_state_has_its_reason(new_town: Callable[..., Town]) -> None:
    town = new_town('schema_changes = "approve"')
    columns = "(k int, v int)"
    town.source("shop", *(f"CREATE TABLE {table} {columns}" for table in "abcdjefklh"))
    town.source("crm", f"CREATE TABLE g {columns}")
    for name, table in TABLES.items():
        shown = "10 / t.v AS v" if name == "poisoned" else "t.v"
        town.view(name, f"SELECT t.k, {shown} FROM {'crm' if name == 'away' else 'shop'}.{table} t")
    town.apply()
    began = datetime.datetime.now(datetime.UTC)
    town.execute("shop", "ALTER TABLE f DROP v")
    town.execute("shop", "ALTER TABLE k DROP v")
    town.settle()
    for number, (stopped,) in waiting(town).items():
        (commands.pending_approve if stopped == "broken" else commands.pending_reject)(town.folder, number)
    town.settle()
    town.execute("shop", "INSERT INTO c VALUES (1, 1)")
    commands.pending_hold(town.folder, *receive(town))
    town.execute("shop", "ALTER TABLE d DROP v")
    town.execute("shop", "ALTER TABLE j RENAME v TO w")
    town.execute("shop", "ALTER TABLE j DROP w")
    town.execute("shop", "INSERT INTO e VALUES (1, 0)")
    town.settle()
    town.in_warehouse("DROP VIEW public.hidden")
    town.execute("crm", "INSERT INTO g VALUES (1, 1)")
    town.source_url("crm", town.sources["crm"].replace("/crm_", "/nowhere_"))
    with town.maintainer() as maintainer:
        maintainer.cycle()
    town.execute("shop", "INSERT INTO b VALUES (1, 1)")
    town.execute("shop", "INSERT INTO l VALUES (1, 1)")
    (skipped,) = (m["id"] for m in received(town) if m["relations"] == ["shop.public.l"])
    commands.pending_skip(town.folder, skipped, "a test")
    ended = datetime.datetime.now(datetime.UTC)
    every = commands.views(town.folder)
    found, reasons = {}, {}
    for view in every:
        kind = None if view["cause"] is None else view["cause"]["kind"]
        found[view["name"]] = (view["state"], kind)
        reasons[view["name"]] = view["reason"] or ""
        if view["state"] == "fresh":
            assert view["since"] is None
        else:
            assert began - datetime.timedelta(minutes=1) < datetime.datetime.fromisoformat(view["since"]) <= ended, view
        assert told(commands.views_show(town.folder, view["name"])) == told(view)
    assert list(map(told, commands.status(town.folder)["views"])) == list(map(told, every))
    assert found == {name: expected[:2] for name, expected in EXPECTED.items()}
    assert {name for name, reason in reasons.items() if EXPECTED[name][2] not in reason} == set(), reasons


def told(view: dict[str, Any]) -> dict[str, Any]:
    return {key: view[key] for key in ("name", "state", "reason", "cause", "since")}


def received(town: Town) -> list[dict[str, Any]]:
    receive(town)
    return commands.pending(town.folder)


def test_a_view_that_a_lane_builds_says_so(new_town: Callable[..., Town]) -> None:
    """While its rows are read, and while it catches up; what is new is listed under `lanes` until it is shown."""
    town = new_town(LANES)
    town.source("shop", "CREATE TABLE a (k int)", "INSERT INTO a VALUES (1)", "CREATE TABLE b (k int)")
    town.view("first", "SELECT a.k FROM shop.a")
    town.view("second", "SELECT b.k FROM shop.b")
    town.apply()
    town.execute("shop", "SET event_triggers = off", "ALTER TABLE a DISABLE TRIGGER ALL")
    town.execute("shop", "INSERT INTO a VALUES (2)")  # capture does not see it (C5)

    def says_why() -> None:
        view = town.state("first")
        assert (view["state"], view["cause"]["kind"]) == ("resync", "relation_drifted")
        assert None not in (view["reason"], view["since"])
        (lane,) = commands.status(town.folder)["lanes"]
        assert lane["view"] == "first"
        assert None not in (lane["reason"], lane["since"], lane["step"])
        assert town.state("second")["state"] == "fresh"

    with running(town) as maintainer:
        with held("lane.opened") as lane:
            cycles(maintainer, lane.there.is_set)
            says_why()
        cycles(maintainer, lambda: bool(maintainer.lanes and maintainer.lanes.hidden))
        says_why()  # it catches up
        settle(maintainer)
    town.check()
    assert told(town.state("first")) == {
        "name": "first",
        "state": "fresh",
        "reason": None,
        "cause": None,
        "since": None,
    }
