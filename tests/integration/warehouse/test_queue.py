"""The update message queue, what it says of views and sources, and requests between processes."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dyda.errors import DydaError, RequestFailed, UnknownView
from dyda.model.cause import Text
from dyda.model.message import DataUpdate, MessageState, SchemaChange, Truncation, UpdateMessage
from dyda.model.position import Position
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from dyda.model.view_state import ViewState
from dyda.warehouse import Identity, Installation, RelationState, SourceState, ViewChange, Warehouse
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import NEXT, PEOPLE, START, add, create, entries, version

Query = Callable[..., list[tuple[Any, ...]]]
OTHER = RelationName("crm", 'odd "schema"', "täble")
NOON = datetime.datetime(2024, 5, 6, 12, tzinfo=datetime.UTC)


def message(xid: int, relation: RelationName = PEOPLE) -> UpdateMessage:
    return UpdateMessage("crm", xid, xid * 10, (DataUpdate(relation, 2, 1),))


def test_messages_come_back_as_they_were_in_arrival_order(warehouse: Warehouse, writer: Writer) -> None:
    mixed = UpdateMessage(
        "crm", 2**40, 7, (DataUpdate(PEOPLE, 1, 0), Truncation(OTHER), SchemaChange(OTHER, "ALTER TABLE", "…")), NOON
    )
    sent = [message(13), mixed, message(12)]
    numbers = writer.receive("crm", sent)
    records = warehouse.messages()
    assert [record.message for record in records] == sent
    assert [record.kind for record in records] == ["data", "mixed", "data"]
    assert numbers == {record.xid: record.id for record in records}
    assert warehouse.message(numbers[13]).rows == 3
    assert len(warehouse.messages("crm", limit=2)) == 2
    with pytest.raises(DydaError, match="no pending message 99"):
        warehouse.message(99)


def test_receiving_again_changes_nothing(warehouse: Warehouse, writer: Writer) -> None:
    first = writer.receive("crm", [message(11), message(12)])
    writer.mark_messages([first[12]], MessageState.HELD, Text("by hand"))
    again = writer.receive("crm", [message(12), message(13), message(11)])
    assert again == {**first, 13: again[13]}
    assert [(record.xid, record.state) for record in warehouse.messages()] == [
        (11, "waiting"),
        (12, "held"),
        (13, "waiting"),
    ]


def test_a_source_that_gives_its_transaction_ids_again_has_a_queue_anew(warehouse: Warehouse, writer: Writer) -> None:
    before = writer.receive("crm", [message(11)])
    writer.account_for({}, [], [], ["crm"])
    assert warehouse.messages() == []
    after = writer.receive("crm", [message(11)])
    assert [record.id for record in warehouse.messages()] == [after[11]] != [before[11]]


def test_P2_a_transaction_that_got_the_id_of_one_that_a_crash_has_undone_is_another(
    warehouse: Warehouse, writer: Writer
) -> None:
    numbers = writer.receive("crm", [message(11), message(12), message(13)])
    writer.mark_messages([numbers[12]], MessageState.HELD, Text("by hand"))
    other = replace(message(12), last_sequence=99)
    again = writer.receive("crm", [message(11), other, message(13)])
    assert (again[11], again[13]) == (numbers[11], numbers[13])
    assert again[12] > numbers[13], "it comes after all that was there"
    assert [(record.xid, record.state) for record in warehouse.messages()] == [
        (11, "waiting"),
        (13, "waiting"),
        (12, "waiting"),
    ]
    assert writer.receive("crm", [other]) == {12: again[12]}


def test_what_every_extent_has_is_not_received_again(warehouse: Warehouse, writer: Writer) -> None:
    """A crash between installation and acknowledgement: the source still shows transactions that are installed."""
    create(writer, "one", version(("name", "text")))
    create(writer, "two", version(("name", "text")))
    add(writer, "one", entries(("x", 1)), START, NEXT)
    numbers = writer.receive("crm", [message(9), message(15), message(25)])
    assert sorted(numbers) == [15, 25], "9 is in both extents, 15 only in one"
    assert [record.xid for record in warehouse.messages()] == [15, 25]


def test_installation_removes_what_is_done(warehouse: Warehouse, writer: Writer) -> None:
    numbers = writer.receive("crm", [message(11), message(12)])
    writer.install(Installation(done=(numbers[11],)))
    assert [record.xid for record in warehouse.messages()] == [12]


def test_states_that_users_are_shown(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "people", version(("name", "text")))
    assert warehouse.view("people").state == "stale", "its source was never polled"
    writer.note_source("crm", reachable=True)
    record = warehouse.view("people")
    assert (record.state, record.pending) == ("fresh", 0)
    assert record.lag_seconds is not None
    assert record.lag_seconds < 10
    numbers = writer.receive("crm", [message(11, OTHER), message(12)])
    record = warehouse.view("people")
    assert (record.state, record.pending) == ("stale", 1), "a message about another relation does not concern it"
    writer.mark_messages([numbers[12]], MessageState.HELD, Text("by hand"))
    assert (warehouse.view("people").state, warehouse.view("people").reason) == ("held", "by hand")
    writer.mark_messages([numbers[12]], MessageState.WAITING)
    add(writer, "people", entries(("x", 1)))
    assert warehouse.view("people").state == "fresh", "its own position has the message, though others may not"
    query("UPDATE dyda.source SET polled_at = now() - interval '11 seconds'")
    assert warehouse.view("people").state == "stale"
    writer.set_state("people", ViewState.RESYNC, Text("asked for"))
    assert (warehouse.view("people").state, warehouse.view("people").reason) == ("resync", "asked for")
    with pytest.raises(UnknownView, match="this project has: people"):
        warehouse.view("nobody")


def test_lag_is_the_age_of_the_oldest_change_that_is_missing(warehouse: Warehouse, writer: Writer) -> None:
    create(writer, "people", version(("name", "text")))
    writer.note_source("crm", reachable=True)
    committed = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=100)
    writer.receive("crm", [UpdateMessage("crm", 12, 1, (DataUpdate(PEOPLE, 1, 0),), committed)])
    record = warehouse.view("people")
    assert record.fresh_at == committed
    assert record.lag_seconds == pytest.approx(100, abs=30)
    (source,) = warehouse.sources()
    assert source.pending == 1
    assert source.lag_seconds == pytest.approx(100, abs=30)


@pytest.mark.parametrize("by_unit", [False, True])
def test_lag_means_the_same_in_every_state(warehouse: Warehouse, writer: Writer, query: Query, by_unit: bool) -> None:
    """A view that was last changed an hour ago, of a source that is polled all the time, is up to date. Breaking, or
    waiting for anything, it is so up to that moment, or up to the change that it lacks, and falls behind from then on.
    """

    def lag() -> float:
        found = warehouse.view("people").lag_seconds
        assert found is not None
        return found

    def stop(state: str) -> None:
        if by_unit:
            writer.install(Installation((ViewChange("people", state=ViewState(state), cause=Text("why")),)))
        else:
            writer.set_state("people", ViewState(state), Text("why"))

    create(writer, "people", version(("name", "text")))
    writer.note_source("crm", reachable=True)
    for state in ("held", "resync", "broken"):
        query("UPDATE dyda.view SET state = 'live', fresh_at = now() - interval '1 hour'")
        query("UPDATE dyda.source SET polled_at = now() - interval '5 seconds'")
        assert lag() == pytest.approx(5, abs=3)
        stop(state)
        assert lag() == pytest.approx(5, abs=3), state
        query("UPDATE dyda.source SET polled_at = now()")
        assert lag() == pytest.approx(0 if state == "held" else 5, abs=3), "one that is held has all there is"
        stop(state)  # once more: it is no fresher by that
        assert lag() == pytest.approx(0 if state == "held" else 5, abs=3)

    query("UPDATE dyda.view SET state = 'live', fresh_at = now() - interval '1 hour'")
    committed = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=100)
    numbers = writer.receive("crm", [UpdateMessage("crm", 12, 1, (DataUpdate(PEOPLE, 1, 0),), committed)])
    for state in ("held", "resync", "broken"):
        query("UPDATE dyda.view SET state = 'live'")
        stop(state)
        assert warehouse.view("people").fresh_at == committed, state
    writer.install(Installation(done=(numbers[12],)))  # nobody waits for it any more
    assert warehouse.view("people").fresh_at == committed


def test_positions_of_all_shapes_are_understood_by_the_warehouse_too(warehouse: Warehouse, writer: Writer) -> None:
    create(writer, "people", version(("name", "text")))
    later = 2**40 + 7  # a server that has been through many epochs
    synthetic = Position(5, later, frozenset({5, 12, 2**35 + 5}))
    add(writer, "people", entries(("x", 1)), START, synthetic)
    sent = [4, 5, 6, 12, 2**35 + 5, 2**36 + 5, later]
    writer.receive("crm", [message(xid) for xid in sent])
    expected = [xid for xid in sent if not synthetic.includes(xid)]
    assert [record.xid for record in warehouse.messages()] == expected
    assert warehouse.view("people").pending == len(expected)


def test_sources_and_relations_are_remembered(warehouse: Warehouse, writer: Writer) -> None:
    relation = Relation(
        OTHER,
        4711,
        (
            Column('a "b"', PgType("numeric", "numeric(10,2)"), 1, True, "s"),
            Column("m", PgType("mood", "mood", False), 3),
        ),
        (('a "b"',),),
        12,
    )
    state = SourceState("crm", Identity("7391", "1"), gap=0, capture="attached", order="commit", reachable=True)
    writer.install(Installation(sources=(state,), relations=(RelationState(relation, "abc"),)))
    writer.save_relations([RelationState(relation)])
    (record,) = warehouse.relations()
    assert (record.relation, record.fingerprint, record.captured) == (relation, "abc", True)
    writer.note_source("crm", reachable=False, error="refused")
    (source,) = warehouse.sources()
    assert source.identity == Identity("7391", "1")
    assert source.identity != Identity("7391", "2")
    assert (source.gap, source.capture, source.order) == (0, "attached", "commit")
    assert (source.reachable, source.error, source.polled_at) == (False, "refused", None)
    writer.note_source("crm", reachable=True)
    (source,) = warehouse.sources()
    assert (source.reachable, source.error) == (True, None)
    assert source.polled_at is not None
    writer.forget_source("crm")
    assert (warehouse.sources(), warehouse.relations()) == ([], [])


def test_a_request_is_done_by_the_holder_of_the_lock(warehouse: Warehouse, writer: Writer) -> None:
    number = warehouse.submit("resync", {"name": "people"})
    seen: list[Any] = []

    def serve() -> None:
        request = writer.take_request()
        assert request is not None
        assert (request.id, request.verb, request.arguments) == (number, "resync", {"name": "people"})
        writer.progress(number, {"done": 1, "total": 2})
        told.wait(20)
        writer.finish(number, {"rows": 5})

    told = threading.Event()

    def on_progress(news: Any) -> None:
        seen.append(news)
        told.set()

    daemon = threading.Thread(target=serve)
    daemon.start()
    assert warehouse.wait(number, on_progress) == {"rows": 5}
    daemon.join()
    assert seen == [{"done": 1, "total": 2}]
    assert writer.take_request() is None


def test_a_failed_request_brings_its_error_along(warehouse: Warehouse, writer: Writer) -> None:
    number = warehouse.submit("apply", {})
    assert writer.take_request() is not None
    writer.finish(number, error=DydaError("no such table", "Create it."))
    with pytest.raises(RequestFailed, match=r"no such table\nCreate it\."):
        warehouse.wait(number)


def test_a_request_that_nobody_can_do_is_taken_back(warehouse: Warehouse) -> None:
    number = warehouse.submit("apply", {})
    with pytest.raises(RequestFailed, match="the daemon ended before it was done"):
        warehouse.wait(number)
    assert warehouse.request(number).state == "cancelled"
    with warehouse.lock() as writer:
        assert writer.take_request() is None
