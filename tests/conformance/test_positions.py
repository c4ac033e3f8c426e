"""The rules of positions (CORRECTNESS.md, P): which transactions a state has, in which order, and for how long."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

import psycopg2
import pyarrow as pa
import pytest

from dyda.errors import DydaError
from dyda.sources import SourceIdentity
from tests.conformance.place import Place, counted, images, plus, table_now
from tests.conftest import Server


def test_P1_position_messages_and_tables_are_one_state(place: Place) -> None:
    """Committed before the snapshot: in all three. Open or committed after it: in none."""
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    open_writer = place.connect()
    place.run("INSERT INTO t VALUES (1)")
    place.run("BEGIN; INSERT INTO t VALUES (2)", connection=open_writer)
    place.run("INSERT INTO t VALUES (3)")
    with place.open(relation) as snapshot:
        place.run("COMMIT", connection=open_writer)
        place.run("INSERT INTO t VALUES (4)")
        keys = pa.table({"a": ["1", "2", "3", "4"]})
        expected = Counter({("1",): 1, ("3",): 1})
        assert counted(snapshot.lookup(relation, ["a"], ["a"], keys)) == expected
        assert table_now(snapshot, relation, ["a"]) == expected
        assert images(snapshot, relation, ["a"]) == expected
        assert [snapshot.position.includes(message.xid) for message in snapshot.messages(None)] == [True, True]
        first = snapshot.position
    with place.open(relation) as snapshot:
        rest = snapshot.messages(first)
        assert [message.rows for message in rest] == [1, 1]
        assert not any(first.includes(message.xid) for message in rest)
        assert images(snapshot, relation, ["a"], first) == Counter({("2",): 1, ("4",): 1})


def test_P1_rows_of_subtransactions_belong_to_the_transaction(place: Place) -> None:
    """A subtransaction's own number looks finished too early: it is committed into a parent that is still open."""
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    writer = place.connect()
    place.run("BEGIN; SAVEPOINT a; INSERT INTO t VALUES (1); RELEASE a; SAVEPOINT b", connection=writer)
    place.run("INSERT INTO t VALUES (2); ROLLBACK TO b; INSERT INTO t VALUES (3); RELEASE b", connection=writer)
    ((xid,),) = place.run("SELECT pg_current_xact_id()::text::bigint", connection=writer)
    place.run("CREATE TABLE pushes_xmax_on (a int)")
    with place.open(relation) as snapshot:
        between = snapshot.position
        assert snapshot.messages(None) == []
    place.run("COMMIT", connection=writer)
    with place.open(relation) as snapshot:
        (message,) = snapshot.messages(between)
        assert (message.xid, message.rows) == (xid, 2)
        assert images(snapshot, relation, ["a"], between) == Counter({("1",): 1, ("3",): 1})


@pytest.mark.parametrize("synchronous_commit", ["on", "off"])
def test_P1_every_state_under_load_is_the_last_one_plus_its_messages(place: Place, synchronous_commit: str) -> None:
    """Writers at full speed, with savepoints and rollbacks. Without synchronous commit a transaction is seen long
    before its WAL is written, so that whoever cuts a stream by its place in the WAL takes too few."""
    place.run("CREATE TABLE t (a int, b int)", "INSERT INTO t SELECT i, 0 FROM generate_series(0, 59) i")
    relation = place.watch("t")
    stop = threading.Event()
    done: list[int] = []

    def write(number: int) -> None:
        chance = random.Random(number)
        connection = place.connect()
        place.run(f"SET synchronous_commit = {synchronous_commit}", connection=connection)
        count = 0
        while not stop.is_set():
            a, b = chance.randrange(60), chance.randrange(1000)
            statements = [
                f"INSERT INTO t VALUES ({a}, {b})",
                f"UPDATE t SET b = b + 1 WHERE a = {a}",
                f"DELETE FROM t WHERE a = {a} AND b % 3 = 1",
                f"SAVEPOINT s; DELETE FROM t WHERE a = {a}; ROLLBACK TO s",
                f"SAVEPOINT s; INSERT INTO t VALUES ({a}, -1); RELEASE s",
            ]
            end = chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])
            try:
                place.run(
                    "; ".join(["BEGIN", *chance.sample(statements, chance.randint(1, 4)), end]), connection=connection
                )
                count += 1
            except psycopg2.errors.DeadlockDetected:
                place.run("ROLLBACK", connection=connection)
        done.append(count)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    with place.open(relation) as snapshot:
        held, position, gap = table_now(snapshot, relation, ["a", "b"]), snapshot.position, snapshot.gap
    for writer in writers:
        writer.start()
    try:
        for number in range(20):
            with place.open(relation) as snapshot:
                now = table_now(snapshot, relation, ["a", "b"])
                seen = {message.xid for message in snapshot.messages(position)}
                assert plus(held, images(snapshot, relation, ["a", "b"], position)) == now
                assert all(snapshot.position.includes(xid) and not position.includes(xid) for xid in seen)
                snapshot.compare([relation.name])
                held, position = now, snapshot.position
            if number % 4 == 3:
                place.source.acknowledge(position)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert min(done) > 5
    with place.open(relation) as snapshot:
        assert plus(held, images(snapshot, relation, ["a", "b"], position)) == place.rows("t", ["a", "b"])
        assert snapshot.gap == gap


def _after_a_crash(server: Server, place: Place, *, durable: bool) -> tuple[list[int], bool, SourceIdentity]:
    """The rows of a transaction that committed without waiting for the disk, whether the mark is still there, and the
    identity before."""
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    place.run("CHECKPOINT")
    server.hold("walwriter")
    place.run("SET synchronous_commit = off; INSERT INTO t VALUES (1)")
    with place.open(relation) as snapshot:
        assert len(snapshot.messages(None)) == 1 or not durable
        if durable:
            snapshot.make_durable()
        mark, identity = snapshot.mark, snapshot.identity
        server.crash()
    server.start()
    place.reconnect()
    rows = [a for (a,) in place.run("SELECT a FROM t")]
    with place.open(relation) as snapshot:
        told = sum(message.rows for message in snapshot.messages(None))
        assert told == len(rows), "what is told and what is there are one"
        assert snapshot.identity == identity, "a crash is no other source"
        return rows, mark in snapshot.state.marks, identity


def test_P2_what_was_made_durable_survives_a_crash(
    new_server: Callable[..., Server], places: Callable[..., Place]
) -> None:
    server = new_server(wal_level="logical", wal_writer_delay="10s")
    rows, marked, _ = _after_a_crash(server, places(server.url()), durable=True)
    assert (rows, marked) == ([1], True)


def test_P3_a_position_that_leaves_a_transaction_out_keeps_it(place: Place) -> None:
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    for value in range(3):
        place.run(f"INSERT INTO t VALUES ({value})")
    with place.open(relation) as snapshot:
        held = snapshot.messages(None)[1].xid
        position = snapshot.position.without([held])
    place.source.acknowledge(position)
    for source in (place.source, place.adapter()):
        with source.open({relation.name: relation.oid or 0}) as snapshot:
            assert [message.xid for message in snapshot.messages(position)] == [held]
            assert images(snapshot, relation, ["a"], position) == Counter({("1",): 1})


def test_P4_conflicting_transactions_come_in_the_order_of_their_writes(place: Place) -> None:
    """A begins and writes first, but its conflicting write waits for B's commit: A is after B."""
    place.run("CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, 'old')")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        first = snapshot.position
    a, b = place.connect(), place.connect()
    place.run("BEGIN; INSERT INTO t VALUES (2, 'by a')", connection=a)
    place.run("BEGIN; UPDATE t SET b = 'by b' WHERE a = 1; COMMIT", connection=b)
    place.run("UPDATE t SET b = b || ', then a' WHERE a = 1; COMMIT", connection=a)
    with place.open(relation) as snapshot:
        messages = snapshot.messages(first)
        assert [message.rows for message in messages] == [2, 3]


def test_P5_each_reader_has_a_position_of_its_own(place: Place) -> None:
    """What one has is not lost to another that has less, until both acknowledge."""
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    positions = []
    for value in range(4):
        with place.open(relation) as snapshot:
            positions.append(snapshot.position)
            snapshot.messages(positions[0])
        place.run(f"INSERT INTO t VALUES ({value})")
    with place.open(relation) as snapshot:
        for number in (3, 1, 0, 2):
            expected = Counter({(str(value),): 1 for value in range(number, 4)})
            assert len(snapshot.messages(positions[number])) == 4 - number
            assert images(snapshot, relation, ["a"], positions[number]) == expected
    place.source.acknowledge(positions[2])
    with place.open(relation) as snapshot:
        assert images(snapshot, relation, ["a"], positions[2]) == Counter({("2",): 1, ("3",): 1})


def test_P5_messages_outlive_the_adapter(place: Place) -> None:
    """A process that ends before it acknowledges is told all of it again."""
    place.run("CREATE TABLE t (a int, b text)")
    relation = place.watch("t")
    oids = {relation.name: relation.oid or 0}
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run("INSERT INTO t VALUES (1, 'x')", "BEGIN; UPDATE t SET b = 'y'; ALTER TABLE t ADD c int; COMMIT")
    with place.open(relation) as snapshot:
        told, seen = snapshot.messages(first), images(snapshot, relation, ["a", "b"], first)
        assert len(told) == 2
    place.source.close()
    for _ in range(2):
        again = place.adapter()
        with again.open(oids) as snapshot:
            assert snapshot.messages(first) == told
            assert images(snapshot, relation, ["a", "b"], first) == seen
        again.close()


def test_P5_a_command_may_read_beside_the_daemon(place: Place) -> None:
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    beside = place.adapter()
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run("INSERT INTO t VALUES (1)")
    with place.open(relation) as one, beside.open({relation.name: relation.oid or 0}) as other:
        assert one.messages(first) == other.messages(first) != []
        assert images(one, relation, ["a"], first) == images(other, relation, ["a"], first) == Counter({("1",): 1})


def test_P6_an_older_snapshot_keeps_what_is_acknowledged_meanwhile(place: Place) -> None:
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run("INSERT INTO t VALUES (1)")
    with place.open(relation) as older:
        place.run("INSERT INTO t VALUES (2)")
        with place.open(relation) as newer:
            assert len(newer.messages(first)) == 2
            position = newer.position
        place.source.acknowledge(position)
        assert images(older, relation, ["a"], first) == Counter({("1",): 1})
        assert table_now(older, relation, ["a"]) == Counter({("1",): 1})
    with place.open(relation) as snapshot:
        assert snapshot.messages(position) == []


def test_inboxes_add_up(place: Place) -> None:
    """What is new and what is gone since the last poll, as against all that waits."""
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        after = snapshot.position
        number, waiting = snapshot.inbox(after).number, dict(snapshot.inbox(after).messages)
    for value in range(6):
        place.run(f"INSERT INTO t VALUES ({value})")
        with place.open(relation) as snapshot:
            if value == 3:
                after = snapshot.position
                place.source.acknowledge(after)
            inbox = snapshot.inbox(after)
            if inbox.before == number:
                waiting = {xid: one for xid, one in waiting.items() if xid not in inbox.gone}
                waiting |= {message.xid: message for message in inbox.new}
                assert waiting == inbox.messages
            number, waiting = inbox.number, dict(inbox.messages)
            assert len(waiting) == (value + 1 if value < 3 else value - 3)
            assert snapshot.writers(relation) == inbox.messages.keys() or set(snapshot.writers(relation)) == set(
                waiting
            )


def test_a_schema_change_after_the_snapshot_is_seen_to_arrive(place: Place) -> None:
    place.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    t, u = place.watch("t"), place.watch("u")
    with place.open(t, u) as snapshot:
        assert snapshot.arrivals() == frozenset()
        place.run("ALTER TABLE t ADD b int", "INSERT INTO u VALUES (1)")
        assert snapshot.arrivals() == {t.name}


def test_a_source_that_is_away_is_said_to_be(new_server: Callable[..., Server], places: Callable[..., Place]) -> None:
    server = new_server(fsync="off", wal_level="logical")
    place = places(server.url())
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    place.run("INSERT INTO t VALUES (1)")
    server.stop()
    with pytest.raises(DydaError), place.open(relation):
        pass
    server.start()
    with place.open(relation) as snapshot:
        assert images(snapshot, relation, ["a"]) == Counter({("1",): 1})
