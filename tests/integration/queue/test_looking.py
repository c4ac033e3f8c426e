"""The queue as the catalog holds it: its order with reasons, its graph, and what each message waits for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dyda import commands
from dyda.maintenance.catalog_state import load
from dyda.maintenance.view_reads import schedule_of, view_reads
from dyda.open_project import OpenProject
from scheduler import MessageState
from tests.integration.queue.conftest import Project, altered, relation, rows


def test_S4_a_view_reads_the_columns_it_uses_and_rereads_what_it_joins_with_itself(project: Project) -> None:
    with OpenProject.open(project.folder) as opened:
        reads = {name: view_reads(view) for name, view in load(opened).views.items()}
    asia = reads["asia_customer"]
    assert asia.reads == {
        relation("crm.customer"): frozenset({"name"}),
        relation("booking.flight_res"): frozenset({"name", "dest"}),
    }
    assert asia.rereads == frozenset()
    assert reads["pairs"].reads == {relation("people.friend"): frozenset({"name", "dest"})}
    assert reads["pairs"].rereads == {relation("people.friend")}


def test_states_in_the_catalog_are_states_of_the_schedule(project: Project) -> None:
    numbers = project.receive(*[rows("crm.customer")] * 6)
    for number, state in zip(numbers, ("held", "approval", "quarantined", "broken", "skipped"), strict=False):
        project.mark(number, state, "because")
    with OpenProject.open(project.folder) as opened:
        schedule = schedule_of(opened.warehouse.messages(), load(opened))
    assert len(schedule) == 5
    assert numbers[4] not in schedule, "a skipped message holds nobody"
    states = [waiting.state for waiting in schedule.waiting()]
    assert states == [
        MessageState.HELD,
        MessageState.APPROVAL,
        MessageState.WAITING,
        MessageState.WAITING,
        MessageState.WAITING,
    ]


def test_an_empty_queue(project: Project) -> None:
    assert commands.pending(project.folder) == []
    assert commands.pending_plan(project.folder) == {"units": [], "waiting": [], "notes": []}
    assert commands.pending_graph(project.folder) == {"messages": [], "edges": [], "merged": []}


def test_data_updates_alone_are_one_batch(project: Project) -> None:
    one, two, three = project.receive(rows("crm.customer"), rows("booking.flight_res"), rows("crm.customer"))
    plan = commands.pending_plan(project.folder)
    assert [(unit["unit"], unit["kind"], unit["messages"]) for unit in plan["units"]] == [
        (1, "data", [one, two, three])
    ]
    shown = {message["id"]: message for message in commands.pending(project.folder)}
    assert [shown[number]["depends_on"] for number in (one, two, three)] == [[], [], [one]]
    assert {message["unit"] for message in shown.values()} == {1}


def test_a_later_schema_change_comes_first_and_the_plan_says_why(project: Project) -> None:
    """Figure 5a of paper 001: maintaining the customer would query flight_res, which has changed."""
    customer, flight = project.receive(rows("crm.customer"), altered("booking.flight_res"))
    plan = commands.pending_plan(project.folder)
    assert [unit["messages"] for unit in plan["units"]] == [[flight], [customer]]
    assert plan["units"][0]["kind"] == "schema"
    assert f"message {flight} before {customer}" in plan["units"][0]["reason"]
    assert "booking.public.flight_res" in plan["units"][0]["reason"]
    shown = {message["id"]: message for message in commands.pending(project.folder)}
    assert shown[customer]["depends_on"] == [flight]
    assert (shown[flight]["unit"], shown[customer]["unit"]) == (1, 2)


def test_messages_that_depend_on_each_other_are_merged(project: Project) -> None:
    """The cyclic example of Section 4.4: each of two schema changes would query what the other changed."""
    first, second, third = project.receive(altered("crm.customer"), altered("booking.flight_res"), rows("crm.address"))
    plan = commands.pending_plan(project.folder)
    assert [(unit["kind"], unit["messages"]) for unit in plan["units"]] == [
        ("merged", [first, second]),
        ("idle", [third]),
    ]
    assert "depend on each other" in plan["units"][0]["reason"]
    graph = commands.pending_graph(project.folder)
    assert graph["merged"] == [[first, second]]
    assert {(edge["before"], edge["after"], edge["kind"]) for edge in graph["edges"]} == {
        (first, second, "concurrency"),
        (second, first, "concurrency"),
    }
    assert all(edge["reason"] for edge in graph["edges"])
    assert json.dumps(graph)


def test_optimistic_detection_is_mentioned_where_it_matters(new_project: Callable[..., Project]) -> None:
    project = new_project('detection = "optimistic"')
    project.receive(rows("crm.customer"))
    assert commands.pending_plan(project.folder)["notes"] == []
    project.receive(altered("booking.flight_res"))
    plan = commands.pending_plan(project.folder)
    assert "arrival order until a unit breaks" in plan["notes"][0]
    assert plan["units"][0]["kind"] == "schema", "the legal order is shown all the same"


def test_complete_consistency_is_one_message_after_the_other(new_project: Callable[..., Project]) -> None:
    project = new_project('consistency = "complete"')
    numbers = project.receive(*[rows("crm.customer")] * 3)
    assert [unit["messages"] for unit in commands.pending_plan(project.folder)["units"]] == [[n] for n in numbers]


@pytest.mark.parametrize(
    ("format", "begins", "holds"),
    [
        ("text", b"1  crm  data", b"concurrency: processing"),
        ("dot", b"digraph pending {", b"style=dashed"),
        ("svg", b"<?xml", b"concurrency: would query"),
        ("png", b"\x89PNG", b"IEND"),
    ],
)
def test_the_graph_in_every_format(project: Project, format: str, begins: bytes, holds: bytes) -> None:
    project.receive(rows("crm.customer"), altered("booking.flight_res"), rows("people.friend"))
    picture = commands.pending_picture(project.folder, format)
    assert picture.startswith(begins)
    assert holds in picture


def test_show_works_where_the_log_cannot_be_read(project: Project) -> None:
    """The source is away: the header is shown, and why the rows are not."""
    (number,) = project.receive((rows("crm.customer", 3), altered("crm.address")))
    shown = commands.pending_show(project.folder, number)
    assert (shown["kind"], shown["rows"], shown["unit"]) == ("mixed", 3, 1)
    assert [change["kind"] for change in shown["changes"]] == ["data", "schema"]
    assert shown["samples"] == []
    assert "crm cannot be reached" in shown["unreadable"]


def test_looking_changes_nothing_and_needs_no_lock(project: Project, tmp_path: Path) -> None:
    project.receive(rows("crm.customer"), altered("booking.flight_res"))
    with project.daemon() as said:
        before = commands.pending(project.folder)
        commands.pending_plan(project.folder)
        commands.pending_picture(project.folder, "text")
        assert commands.pending(project.folder) == before
    assert said == []
