"""What an operator decides about a message is in the catalog, holds what depends on it, and survives."""

from __future__ import annotations

from typing import Any

import pytest

from dyda import commands
from dyda.errors import DydaError, ProjectBusy
from dyda.model.cause import Quarantined, Text, Uncomputable
from dyda.model.message import MessageState
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from tests.integration.queue.conftest import Project, altered, rows


def states(project: Project) -> dict[int, str]:
    return {message["id"]: message["state"] for message in commands.pending(project.folder)}


def units(project: Project) -> list[list[int]]:
    return [unit["messages"] for unit in commands.pending_plan(project.folder)["units"]]


def view(project: Project, name: str) -> dict[str, Any]:
    return next(found for found in commands.views(project.folder) if found["name"] == name)


def test_P3_a_held_message_holds_what_depends_on_it_and_nothing_else(project: Project) -> None:
    one, two, three, other = project.receive(
        rows("crm.customer"), rows("crm.customer"), rows("crm.customer"), rows("people.friend")
    )
    answer = commands.pending_hold(project.folder, two)
    cause = {"kind": "held_by_operator", "message": two}
    reason = f"message {two} is held by an operator"
    assert answer == {"id": two, "state": "held", "reason": reason, "cause": cause, "views": ["asia_customer"]}
    assert units(project) == [[one, other]]
    waiting = commands.pending_plan(project.folder)["waiting"]
    assert [(entry["id"], entry["state"]) for entry in waiting] == [(two, "held"), (three, "waiting")]
    assert waiting[0]["reason"] == view(project, "asia_customer")["reason"] == f"message {two} is held by an operator"
    assert view(project, "asia_customer")["state"] == "held"
    assert view(project, "pairs")["state"] == "stale"
    assert f"{three} came after {two}" in waiting[1]["reason"]
    shown = {message["id"]: message["unit"] for message in commands.pending(project.folder)}
    assert shown == {one: 1, two: None, three: None, other: 1}
    assert commands.pending_release(project.folder, two)["state"] == "waiting"
    assert units(project) == [[one, two, three, other]]


def test_a_held_schema_change_holds_who_would_query_what_it_changes(project: Project) -> None:
    customer, flight, friend = project.receive(
        rows("crm.customer"), altered("booking.flight_res"), rows("people.friend")
    )
    commands.pending_hold(project.folder, flight)
    assert units(project) == [[friend]]
    assert [entry["id"] for entry in commands.pending_plan(project.folder)["waiting"]] == [customer, flight]


def test_holding_twice_is_once(project: Project) -> None:
    (number,) = project.receive(rows("crm.customer"))
    assert commands.pending_hold(project.folder, number) == commands.pending_hold(project.folder, number)


def test_a_message_that_is_not_in_the_queue_is_a_clear_error(project: Project) -> None:
    for decide in (commands.pending_hold, commands.pending_release, commands.pending_retry):
        with pytest.raises(DydaError, match="message 99 is not in the queue: it is installed already") as raised:
            decide(project.folder, 99)
        assert "dyda pending" in raised.value.remedy
    with pytest.raises(DydaError, match="message 99 is not in the queue"):
        commands.pending_skip(project.folder, 99, "it is wrong")


@pytest.mark.parametrize(
    ("state", "verb", "remedy"),
    [
        ("waiting", "release", "in its turn"),
        ("waiting", "retry", "in its turn"),
        ("quarantined", "hold", "dyda pending retry"),
        ("quarantined", "release", "dyda pending retry"),
        ("held", "retry", "dyda pending release"),
        ("skipped", "hold", "cannot be undone"),
        ("skipped", "skip", "cannot be undone"),
    ],
)
def test_what_a_state_does_not_allow_is_refused_and_changes_nothing(
    project: Project, state: str, verb: str, remedy: str
) -> None:
    (number,) = project.receive(rows("crm.customer"))
    project.mark(number, state, "as it was")
    extra = ("a reason",) if verb == "skip" else ()
    with pytest.raises(DydaError, match=f"message {number} is {state}") as raised:
        getattr(commands, f"pending_{verb}")(project.folder, number, *extra)
    assert remedy in raised.value.remedy
    (message,) = commands.pending(project.folder)
    assert (message["state"], message["reason"]) == (state, "as it was")


def test_decisions_survive_the_death_of_who_made_them(project: Project) -> None:
    """A new process takes the lock over; what was running waits again, what was decided stays."""
    held, skipped, running = project.receive(rows("crm.customer"), rows("people.friend"), rows("people.friend"))
    commands.pending_hold(project.folder, held)
    commands.pending_skip(project.folder, skipped, "a test row")
    with OpenProject.open(project.folder) as opened:
        dying = opened.warehouse.lock(role="daemon")
        dying.mark_messages([running], MessageState.RUNNING, unit=1)
        dying._connection.close()
    with project.writer():
        assert states(project) == {held: "held", skipped: "skipped", running: "waiting"}


def test_receiving_again_does_not_undo_a_decision(project: Project) -> None:
    (number,) = project.receive(rows("crm.customer"))
    commands.pending_hold(project.folder, number)
    with OpenProject.open(project.folder) as opened:
        messages = [record.message for record in opened.warehouse.messages()]
        with opened.warehouse.lock() as writer:
            writer.receive("crm", messages)
    assert states(project) == {number: "held"}


class TestRetry:
    def test_a_quarantined_message_and_the_views_held_for_it_are_tried_again(self, project: Project) -> None:
        bad, later = project.receive(rows("crm.customer"), rows("crm.customer"))
        project.mark(bad, "quarantined", "crm.customer.name: the value …")
        with project.writer() as writer:
            writer.set_state("asia_customer", ViewState.HELD, Quarantined((bad,), Uncomputable("the value …")))
            writer.set_state("pairs", ViewState.HELD, Quarantined((bad * 10,), Uncomputable("another one")))
        answer = commands.pending_retry(project.folder, bad)
        assert answer == {"id": bad, "state": "waiting", "reason": None, "cause": None, "views": ["asia_customer"]}
        assert view(project, "asia_customer")["state"] == "stale"
        assert view(project, "pairs")["state"] == "held", "it is held for another message"
        assert units(project) == [[bad, later]]

    def test_messages_that_were_quarantined_as_one_are_tried_again_as_one(self, project: Project) -> None:
        first, second, alone = project.receive(*[rows("crm.customer")] * 3)
        for number in (first, second, alone):
            project.mark(number, "quarantined", "crm.customer.name: the value …")
        with project.writer() as writer:
            writer.set_state("asia_customer", ViewState.HELD, Quarantined((first, second), Uncomputable("the value …")))
        answer = commands.pending_retry(project.folder, second)
        assert answer["views"] == ["asia_customer"]
        assert states(project) == {first: "waiting", second: "waiting", alone: "quarantined"}


class TestSkip:
    def test_the_views_it_touches_are_marked_and_it_holds_nobody(self, project: Project) -> None:
        bad, later, other = project.receive(rows("crm.customer"), rows("crm.customer"), rows("people.friend"))
        project.mark(bad, "quarantined", "a value")
        answer = commands.pending_skip(project.folder, bad, "  a row of a test  ")
        cause = {"kind": "skipped", "note": "a row of a test"}
        assert answer == {
            "id": bad,
            "state": "skipped",
            "reason": "a row of a test",
            "cause": cause,
            "views": ["asia_customer"],
        }
        marked = view(project, "asia_customer")
        assert marked["state"] == "resync"
        assert marked["reason"] == f"message {bad} was skipped: a row of a test"
        assert marked["cause"] == {"kind": "message_skipped", "message": bad, "note": "a row of a test"}
        assert view(project, "pairs")["state"] != "resync"
        assert units(project) == [[later, other]]
        (waiting,) = commands.pending_plan(project.folder)["waiting"]
        reason = f"message {bad} is skipped: a row of a test"
        assert waiting == {"id": bad, "state": "skipped", "reason": reason, "cause": cause, "views": []}

    def test_a_view_that_is_held_for_it_is_marked_too(self, project: Project) -> None:
        (bad,) = project.receive(rows("crm.customer"))
        project.mark(bad, "quarantined", "a value")
        with project.writer() as writer:
            writer.set_state("asia_customer", ViewState.HELD, Quarantined((bad,), Uncomputable("a value")))
        assert commands.pending_skip(project.folder, bad, "wrong")["views"] == ["asia_customer"]
        assert view(project, "asia_customer")["state"] == "resync"

    def test_a_message_that_concerns_no_view_marks_none(self, project: Project) -> None:
        (number,) = project.receive(rows("crm.address"))
        assert commands.pending_skip(project.folder, number, "why not")["views"] == []

    def test_a_broken_view_is_left_alone(self, project: Project) -> None:
        (number,) = project.receive(altered("crm.customer"))
        with project.writer() as writer:
            writer.set_state("asia_customer", ViewState.BROKEN, Text("its definition no longer holds"))
        assert commands.pending_skip(project.folder, number, "wrong")["views"] == []
        assert view(project, "asia_customer")["state"] == "broken"

    @pytest.mark.parametrize("reason", ["", "  "])
    def test_it_needs_a_reason(self, project: Project, reason: str) -> None:
        (number,) = project.receive(rows("crm.customer"))
        with pytest.raises(DydaError, match="needs a reason"):
            commands.pending_skip(project.folder, number, reason)
        assert states(project) == {number: "waiting"}


class TestApproval:
    def test_approved_it_waits_for_its_turn_and_stays_approved(self, project: Project) -> None:
        bad, later, other = project.receive(altered("crm.customer"), rows("crm.customer"), rows("people.friend"))
        project.mark(bad, "approval", f"message {bad} waits for approval: it breaks asia_customer")
        assert units(project) == [[other]]
        assert view(project, "asia_customer")["state"] == "held"
        answer = commands.pending_approve(project.folder, bad)
        assert answer == {"id": bad, "state": "waiting", "reason": None, "cause": None, "views": ["asia_customer"]}
        with OpenProject.open(project.folder) as opened:
            assert [record.approved for record in opened.warehouse.messages()] == [True, False, False]
        assert units(project) == [[bad], [later, other]]

    def test_rejected_its_views_break_and_the_message_is_gone(self, project: Project) -> None:
        bad, later, other = project.receive(altered("crm.customer"), rows("crm.customer"), rows("people.friend"))
        project.mark(bad, "approval", f"message {bad} waits for approval: it breaks asia_customer")
        answer = commands.pending_reject(project.folder, bad)
        assert (answer["state"], answer["views"]) == ("rejected", ["asia_customer"])
        broken = view(project, "asia_customer")
        assert broken["state"] == "broken"
        assert broken["reason"] == f"rejected by an operator: message {bad} of crm: ALTER TABLE customer …"
        assert view(project, "pairs")["state"] == "stale"
        assert states(project) == {later: "waiting", other: "waiting"}

    def test_what_does_not_wait_for_approval_cannot_be_decided(self, project: Project) -> None:
        (number,) = project.receive(altered("crm.customer"))
        for decide, done in ((commands.pending_approve, "approved"), (commands.pending_reject, "rejected")):
            with pytest.raises(DydaError, match=f"message {number} is waiting: it cannot be {done}"):
                decide(project.folder, number)
        project.mark(number, "approval", "why")
        with pytest.raises(DydaError, match="it cannot be released") as raised:
            commands.pending_release(project.folder, number)
        assert f"dyda pending approve {number}" in raised.value.remedy

    def test_a_running_daemon_does_it(self, project: Project) -> None:
        one, two = project.receive(altered("crm.customer"), altered("people.friend"))
        for number in (one, two):
            project.mark(number, "approval", "why")
        with project.daemon() as said:
            assert commands.pending_approve(project.folder, one)["state"] == "waiting"
            assert commands.pending_reject(project.folder, two)["views"] == ["pairs"]
            with pytest.raises(DydaError, match=f"message {two} is not in the queue"):
                commands.pending_reject(project.folder, two)
        assert [line.split(": ")[1] for line in said] == ["approve", "reject", "reject"]
        assert states(project) == {one: "waiting"}


class TestWhileADaemonRuns:
    def test_it_does_what_is_asked(self, project: Project) -> None:
        one, two, three = project.receive(rows("crm.customer"), rows("people.friend"), rows("crm.customer"))
        project.mark(three, "quarantined", "a value")
        with project.daemon() as said:
            assert commands.pending_hold(project.folder, one)["state"] == "held"
            assert commands.pending_release(project.folder, one)["state"] == "waiting"
            assert commands.pending_retry(project.folder, three)["state"] == "waiting"
            assert commands.pending_skip(project.folder, two, "wrong")["views"] == ["pairs"]
        assert [line.split(": ")[1] for line in said] == ["hold", "release", "retry", "skip"]
        assert states(project) == {one: "waiting", two: "skipped", three: "waiting"}

    def test_its_refusal_reaches_the_operator_and_it_goes_on(self, project: Project) -> None:
        (number,) = project.receive(rows("crm.customer"))
        with project.daemon():
            with pytest.raises(DydaError, match=f"message {number} is waiting: it cannot be released") as raised:
                commands.pending_release(project.folder, number)
            assert "in its turn" in raised.value.remedy
            assert commands.pending_hold(project.folder, number)["state"] == "held"

    def test_another_command_that_works_is_waited_for_and_named(
        self, project: Project, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dyda.commands.pending_decisions.OTHERS_END", 0.2)
        (number,) = project.receive(rows("crm.customer"))
        with (
            OpenProject.open(project.folder) as opened,
            opened.warehouse.lock(role="apply"),
            pytest.raises(ProjectBusy, match="dyda apply"),
        ):
            commands.pending_hold(project.folder, number)
        assert states(project) == {number: "waiting"}
