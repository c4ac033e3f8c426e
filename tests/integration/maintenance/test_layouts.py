"""What is unique in a view's rows is claimed exactly as long as it holds: never too early, never too long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dyda import commands
from dyda.errors import DydaError
from dyda.maintenance.arrivals import Arrivals
from dyda.maintenance.catalog_state import load
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.observe.round import Round, SourceNow
from dyda.maintenance.plan.analysis import SparkIfNeeded
from dyda.maintenance.plan.impact import AFTER_ALL
from dyda.maintenance.plan.planner import plan_changes
from dyda.maintenance.plan.unit_plan import FollowText, Maintain, ViewPlan
from dyda.model.layout import Layout
from dyda.model.message import SchemaChange, UpdateMessage
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.schema_change import Harmless, Step
from scheduler import Queued, Unit, UnitKind
from tests.recompute_oracle import printed
from tests.town import Town

NAMED = """-- dyda: index = (name), index = (note, id)
SELECT c.id, c.name, c.note /* dispensable */ FROM crm.customer c
"""
JOINED = "SELECT o.id, c.name FROM shop.orders o LEFT JOIN crm.customer c ON c.id = o.customer"
COUNTED = "SELECT c.name, count(*) AS n FROM crm.customer c GROUP BY c.name"
INDEXES = (("name",), ("note", "id"))


@pytest.fixture
def crm(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (id int CONSTRAINT one PRIMARY KEY, name text, note text)")
    town.execute("crm", "INSERT INTO customer VALUES (1, 'Ann', 'x'), (2, 'Bob', 'y')")
    town.source("shop", "CREATE TABLE orders (id int PRIMARY KEY, customer int)")
    town.execute("shop", "INSERT INTO orders VALUES (10, 1), (11, 2), (12, NULL)")
    town.view("named", NAMED)
    town.view("joined", JOINED)
    town.view("counted", COUNTED)
    town.apply()
    return town


def layouts(town: Town) -> dict[str, Layout]:
    with town.opened() as opened:
        return {record.name: record.layout for record in opened.warehouse.views()}


def keys(town: Town) -> dict[str, tuple[str, ...] | None]:
    return {name: layout.key for name, layout in layouts(town).items()}


def settle(town: Town) -> list[dict[str, tuple[str, ...] | None]]:
    """Until nothing is left to do; the keys after each step. No row of a view with a key repeats it, at any moment."""
    seen = []
    while True:
        with town.maintainer() as maintainer:
            outcome = maintainer.cycle()
        seen.append(keys(town))
        for view, key in seen[-1].items():
            if key is not None:
                query = f"SELECT 1 FROM public.{view} GROUP BY {', '.join(key)} HAVING count(*) > 1"
                assert not printed(town.warehouse, query), f"{view} claims {key}"
        if outcome is Outcome.IDLE:
            return seen


def last(town: Town, view: str) -> dict[str, Any]:
    """Its newest version."""
    return max(commands.views_history(town.folder, view), key=lambda version: version["version"])


def test_a_view_s_layout_comes_with_its_first_version(crm: Town) -> None:
    assert layouts(crm) == {
        "named": Layout(("id",), None, INDEXES),
        "joined": Layout(("id",)),
        "counted": Layout(("name",)),
    }


LOSSES = {
    "the constraint is dropped": "ALTER TABLE customer DROP CONSTRAINT one",
    "it may be deferred": "ALTER TABLE customer DROP CONSTRAINT one, ADD CONSTRAINT one PRIMARY KEY (id) DEFERRABLE",
    "another key takes its place": "ALTER TABLE customer DROP CONSTRAINT one, ADD UNIQUE (id, name)",
    "an inheritance child may repeat it": "CREATE TABLE child () INHERITS (customer)",
}
REPEATS = {
    "it may be deferred": "SELECT 1",
    "an inheritance child may repeat it": "INSERT INTO child VALUES (1, 'Ann', 'z')",
}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("what", list(LOSSES))
def test_a_key_that_a_source_gives_up_is_given_up_before_a_row_repeats_it(crm: Town, what: str, told: bool) -> None:
    hidden = () if told else ("SET LOCAL event_triggers = off",)
    crm.execute("crm", *hidden, LOSSES[what])
    crm.execute("crm", REPEATS.get(what, "INSERT INTO customer VALUES (1, 'Eve', 'z')"))
    settle(crm)
    found = keys(crm)
    assert (found["named"], found["joined"], found["counted"]) == (None, None, ("name",))
    assert layouts(crm)["named"].indexes == INDEXES
    crm.check_definitions("named", "joined", "counted")
    if told and "child" not in LOSSES[what]:
        version = last(crm, "joined")
        assert version["because"]["kind"] == "layout_changed"
        assert version["cause"] == "the key (id) no longer follows from the keys of its sources"
        assert version["layout"] == [{"event": "key_unproven", "columns": ["id"], "text": version["cause"]}]
        assert not version["evolved"], "its file is still what it is"


def test_a_key_that_may_be_null_is_given_up(crm: Town) -> None:
    crm.execute("shop", "ALTER TABLE orders DROP CONSTRAINT orders_pkey, ADD UNIQUE (id)")
    settle(crm)
    assert keys(crm)["joined"] == ("id",), "still NOT NULL"
    crm.execute("shop", "ALTER TABLE orders ALTER id DROP NOT NULL")
    crm.execute("shop", "INSERT INTO orders VALUES (NULL, 1), (NULL, 1)")
    settle(crm)
    assert keys(crm)["joined"] is None
    crm.check_definitions("joined")


def test_a_key_that_comes_and_goes_between_polls_is_never_claimed_in_between(crm: Town) -> None:
    """The source's catalog shows the key again when the units before it are processed."""
    crm.execute("crm", "ALTER TABLE customer DROP CONSTRAINT one")
    crm.execute("crm", "INSERT INTO customer VALUES (1, 'Eve', 'z')")
    crm.execute("crm", "ALTER TABLE customer ALTER note SET DEFAULT 'none'")
    crm.execute("crm", "DELETE FROM customer WHERE name = 'Eve'")
    crm.execute("crm", "ALTER TABLE customer ADD CONSTRAINT one PRIMARY KEY (id)")
    seen = settle(crm)
    assert any(found["named"] is None and found["joined"] is None for found in seen)
    assert seen[-1] == {"named": ("id",), "joined": ("id",), "counted": ("name",)}
    with crm.opened() as opened:
        assert [unit.kind for unit in opened.warehouse.units()].count("build") == 1, "none was built again"
    crm.check_definitions("named", "joined", "counted")


def test_changes_that_move_no_key_leave_it_alone(crm: Town) -> None:
    """Also while several wait: the source's catalog is ahead of each of them but the last."""
    before = {name: crm.state(name)["version"] for name in ("named", "joined", "counted")}
    crm.execute("crm", "ALTER TABLE customer ADD a int")
    crm.execute("crm", "INSERT INTO customer VALUES (3, 'Eve', 'z', 1)")
    crm.execute("crm", "ALTER TABLE customer ADD b int")
    crm.execute("crm", "ALTER TABLE customer ALTER note SET DEFAULT 'none'")
    settle(crm)
    assert {name: crm.state(name)["version"] for name in before} == before
    crm.execute("crm", "ALTER TABLE customer RENAME id TO number")
    crm.execute("crm", "ALTER TABLE customer ADD c int")
    assert all(found["named"] == ("id",) for found in settle(crm)), "the view's own names stay"
    crm.check_definitions("named", "joined", "counted")


def test_a_key_that_only_other_views_have_seen_is_not_claimed(crm: Town) -> None:
    """The catalog describes the table with a key whose message this view still waits for, while it processes another
    source's schema change."""
    crm.execute("crm", "ALTER TABLE customer DROP CONSTRAINT one")
    settle(crm)
    before = crm.state("joined")["positions"]["crm"]
    added = crm.execute("crm", "ALTER TABLE customer ADD CONSTRAINT one PRIMARY KEY (id)")
    settle(crm)
    with crm.opened() as opened:
        known = load(opened)
        view = known.views["joined"]
        behind = replace(view.record, layout=Layout(), positions={**view.positions, "crm": Position.parse(before)})
        known = replace(known, views={"joined": replace(view, record=behind)})
        customer, orders = RelationName("crm", "public", "customer"), RelationName("shop", "public", "orders")
        waiting = Queued(1, _message(customer, added, Harmless("changes its constraints", keys=True)))
        other = Queued(2, _message(orders, AFTER_ALL, Harmless("changes its owner", keys=False)))

        def planned(*queue: Queued) -> ViewPlan:
            sources = dict.fromkeys(("crm", "shop"), SourceNow(Position(AFTER_ALL + 1, AFTER_ALL + 1)))
            round = Round(opened.project, known, Arrivals.of(queue), sources, dict(behind.positions))
            unit = Unit((other,), "alone", UnitKind.SCHEMA)
            (plan,) = plan_changes(round, unit, {}, SparkIfNeeded(opened.engine)).views
            return plan

        assert isinstance(planned(waiting, other), Maintain)
        found = planned(other)
        assert isinstance(found, FollowText)
        assert found.version.layout.key == ("id",)


def _message(relation: RelationName, xid: int, step: Step) -> UpdateMessage:
    return UpdateMessage(relation.source, xid, xid, (SchemaChange(relation, "ALTER TABLE", "", (step,)),))


def test_impact_says_which_key_goes(crm: Town) -> None:
    impact = commands.impact(crm.folder, "ALTER TABLE crm.customer DROP CONSTRAINT customer_pkey")
    found = {view["name"]: (view["effect"], view["plan"], view["reason"]) for view in impact["views"]}
    reason = "the key (id) no longer follows from the keys of its sources"
    assert found["named"] == found["joined"] == ("adapted", "follow_text", reason)
    assert found["counted"][0] == "none"


def test_an_index_lost_with_its_column_is_said(crm: Town) -> None:
    crm.execute("crm", "ALTER TABLE customer DROP COLUMN note")
    settle(crm)
    assert layouts(crm)["named"] == Layout(("id",), None, (("name",),))
    assert last(crm, "named")["layout"] == [
        {"event": "index_lost", "columns": ["note", "id"], "text": "the index (note, id) is gone"}
    ]


def test_a_header_that_changes_changes_the_layout(crm: Town) -> None:
    crm.view("joined", f"-- dyda: key = (id, name), index = (name)\n{JOINED}")
    crm.apply()
    assert layouts(crm)["joined"] == Layout(("id", "name"), ("id", "name"), (("name",),))
    crm.view("named", NAMED.replace("index = (name)", "key = (name)"))
    crm.apply()
    assert layouts(crm)["named"] == Layout(("id",), ("name",), (("note", "id"),)), "declared, not proven"
    before = layouts(crm)["counted"]
    crm.view("counted", f"-- dyda: key = (n)\n{COUNTED}")
    with pytest.raises(DydaError, match=r"view counted: \(n\) is not a key of its rows: 2 rows have \(1\)"):
        crm.apply()
    assert layouts(crm)["counted"] == before
    crm.view("counted", f"-- dyda: index = (n)\n{COUNTED}")
    crm.apply()
    assert layouts(crm)["counted"] == Layout(("name",), None, (("n",),))
    crm.check_definitions("joined", "named", "counted")
