"""What polls keep of the log: they read what is new, and never trust what a crash may have undone (P2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dyda.model.message import UpdateMessage
from dyda.model.position import Position
from tests.integration.sources.conftest import Ground


def polled(ground: Ground, after: Position | None) -> tuple[list[UpdateMessage], Position, int]:
    """The messages of one poll, its position, and how many rows it read."""
    before = ground.source._received.rows
    with ground.open() as snapshot:
        messages = snapshot.messages(after)
        return messages, snapshot.position, ground.source._received.rows - before


def test_a_poll_reads_what_is_new(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    ground.watch("t", "u")
    _, start, _ = polled(ground, None)
    for number in range(50):
        ground.run(f"INSERT INTO t VALUES ({number})")
    messages, _, rows = polled(ground, start)
    assert (len(messages), rows) == (50, 50)
    late = ground.connect()
    ground.run("BEGIN; INSERT INTO u VALUES (1)", connection=late)
    ground.run("INSERT INTO t VALUES (51)")
    messages, position, rows = polled(ground, start)
    assert (len(messages), rows) == (51, 1)
    ground.run("COMMIT", connection=late)
    messages, _, rows = polled(ground, start)
    assert (len(messages), rows) == (52, 1), "it began before the last poll and ended after it"
    messages, _, rows = polled(ground, position)
    assert (len(messages), rows) == (1, 0), "what a position has is not told again"
    messages, _, rows = polled(ground, start)
    assert (len(messages), rows) == (52, 52), "an older position: all of it is read again"
    assert len(polled(ground, None)[0]) == 52
    ground.source.acknowledge(position)
    messages, _, rows = polled(ground, None)
    assert (len(messages), rows) == (1, 0), "what was acknowledged is gone from the log"


def test_kept_transactions_follow_the_names_of_the_reader(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    _, start, _ = polled(ground, None)
    ground.run("INSERT INTO t VALUES (1)")
    ground.run("ALTER TABLE t RENAME TO renamed")
    ground.run("INSERT INTO renamed VALUES (2)")
    other = type(relation.name)(relation.name.source, "public", "otherwise")
    for name in (relation.name, other, relation.name):
        with ground.source.open({name: relation.oid}) as snapshot:
            told = [message.relations for message in snapshot.messages(start)]
            assert told == [frozenset({name})] * 3


def test_P2_what_a_crash_may_have_undone_is_read_again(
    new_server: Callable[..., Any], grounds: Callable[..., Ground]
) -> None:
    """A visible transaction is lost and its number goes to another one: that one is told, not what was kept. The server
    may flush by itself before it dies, though it hardly ever does: then once more."""
    assert any(_told_after_a_crash(new_server, grounds) for _ in range(8)), "no number was given away twice"


def _told_after_a_crash(new_server: Callable[..., Any], grounds: Callable[..., Ground]) -> bool:
    server = new_server(
        synchronous_commit="off", wal_writer_delay="10s", wal_writer_flush_after="1GB", autovacuum="off"
    )
    ground = grounds(server.url())
    ground.run("SET synchronous_commit = on", "CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    t, u = ground.watch("t", "u")
    ground.run("SET synchronous_commit = on", "CHECKPOINT")
    server.hold("walwriter")  # before PostgreSQL 17 every page of WAL wakes it
    writer = ground.connect()
    ground.run("INSERT INTO t VALUES (1)", connection=writer)
    (lost,), _, _ = polled(ground, None)
    assert lost.relations == {t.name}
    server.crash()
    server.start()
    again = grounds(server.url())
    ((xid,),) = again.run("INSERT INTO u VALUES (1) RETURNING pg_current_xact_id()::text::bigint")
    messages, _, _ = polled(ground, None)
    told = {message.xid: message.relations for message in messages}
    assert told[xid] == {u.name}
    return bool(xid == lost.xid)


def test_a_session_that_was_ended_costs_one_full_reading(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.run("INSERT INTO t VALUES (1)")
    _, _, first = polled(ground, None)
    session = ground.source._received._session
    assert session is not None
    backend = session.info.backend_pid
    ground.run(f"SELECT pg_terminate_backend({backend}, 10000)")
    messages, _, rows = polled(ground, None)
    assert (len(messages), rows) == (1, first)


@pytest.mark.parametrize("statement", ["TRUNCATE dyda.log", "SELECT dyda.mark_gap()"])
def test_what_happens_to_the_log_itself_is_not_overlooked(ground: Ground, statement: str) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.run("INSERT INTO t VALUES (1)")
    assert len(polled(ground, None)[0]) == 1
    before = ground.source._received.rows
    ground.run(statement)
    messages, _, rows = polled(ground, None)
    expected = 0 if "TRUNCATE" in statement else 1
    assert (len(messages), rows) == (expected, expected), f"read again: {before}"


def test_the_images_of_some_transactions_are_found_also_where_an_older_version_attached(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (t,) = ground.watch("t")
    _, start, _ = polled(ground, None)
    for number in range(4):
        ground.run(f"INSERT INTO t VALUES ({number}), ({number + 10})")

    def images(first: int, last: int) -> list[str]:
        with ground.open() as snapshot:
            xids = [message.xid for message in snapshot.messages(start)]
            found = snapshot.changes({t.name: ["a"]}, start, {t.name: t}, xids[first:last])
            assert set(snapshot.writers(t)) == set(xids)
            return list(found[t.name].column("a").to_pylist())

    assert images(1, 3) == ["1", "11", "2", "12"]
    ground.run("DROP FUNCTION dyda.images_of(xid8[])")
    ground.source._received.forget()
    assert images(1, 3) == ["1", "11", "2", "12"]
