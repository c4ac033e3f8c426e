"""Positions, order, durability: rules P1, P2, P4, P6; and Figure 1 of paper 000 with real transactions."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg2
import pyarrow as pa

from dyda.model.position import Position
from dyda.sources.reading.copy import read_partition
from tests.integration.sources.conftest import Ground, bag, plus


def test_P1_position_log_and_tables_are_one_state(ground: Ground) -> None:
    """Committed before the snapshot: in all three. Open or committed after it: in none."""
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    open_writer = ground.connect()
    ground.run("INSERT INTO t VALUES (1)")
    ground.run("BEGIN; INSERT INTO t VALUES (2)", connection=open_writer)
    ground.run("INSERT INTO t VALUES (3)")
    with ground.open() as snapshot:
        ground.run("COMMIT", connection=open_writer)
        ground.run("INSERT INTO t VALUES (4)")
        keys = pa.table({"a": ["1", "2", "3", "4"]})
        expected = Counter({("1",): 1, ("3",): 1})
        assert bag(snapshot.lookup(relation, ["a"], ["a"], keys).table) == expected
        assert bag(snapshot.changes({relation.name: ["a"]}, None)[relation.name]) == expected
        assert all(snapshot.position.includes(message.xid) for message in snapshot.messages(None))
        assert len(snapshot.messages(None)) == 2
        first = snapshot.position
    with ground.open() as snapshot:
        rest = snapshot.messages(first)
        assert [message.rows for message in rest] == [1, 1]
        assert not any(first.includes(message.xid) for message in rest)
        assert bag(snapshot.changes({relation.name: ["a"]}, first)[relation.name]) == Counter({("2",): 1, ("4",): 1})


def test_P1_rows_written_in_subtransactions_carry_the_top_level_transaction(ground: Ground) -> None:
    """A subtransaction's own id looks finished too early: it is committed into a parent that is still open."""
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    writer = ground.connect()
    ground.run("BEGIN; SAVEPOINT a; INSERT INTO t VALUES (1); RELEASE a; SAVEPOINT b", connection=writer)
    ground.run("INSERT INTO t VALUES (2); RELEASE b", connection=writer)
    ((xid,),) = ground.run("SELECT pg_current_xact_id()::text::bigint", connection=writer)
    ground.run("CREATE TABLE pushes_xmax_on (a int)")
    with ground.open() as snapshot:
        between = snapshot.position
        assert snapshot.messages(None) == []
    ground.run("COMMIT", connection=writer)
    with ground.open() as snapshot:
        (message,) = snapshot.messages(between)
        assert (message.xid, message.rows) == (xid, 2)
        assert set(snapshot.changes({relation.name: ["a"]}, between)[relation.name].column("#xid").to_pylist()) == {xid}
    assert ground.run("SELECT count(*) FROM dyda.log WHERE xmin::text <> xid::text") == [(2,)]


def test_P1_every_snapshot_under_load_agrees_with_its_log(ground: Ground) -> None:
    """Writers at full speed, with savepoints and rollbacks; each snapshot's table is the first one plus its log."""
    ground.run(
        "CREATE TABLE p (a int, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (50)",
        "CREATE TABLE p2 (b int, a int)",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (50) TO (100)",
        "INSERT INTO p SELECT i, 0 FROM generate_series(0, 99) i",
    )
    (relation,) = ground.watch("p")
    stop = threading.Event()
    done: list[int] = []

    def write(number: int) -> None:
        chance = random.Random(number)
        connection = ground.connect()
        count = 0
        while not stop.is_set():
            a, b = chance.randrange(100), chance.randrange(1000)
            statements = [
                f"INSERT INTO p VALUES ({a}, {b})",
                f"UPDATE p SET b = b + 1 WHERE a = {a}",
                f"UPDATE p SET a = {b % 100} WHERE a = {a}",
                f"DELETE FROM p WHERE a = {a} AND b % 3 = 1",
                f"UPDATE p1 SET b = {b} WHERE a < {a // 10}",
                f"INSERT INTO p2 VALUES ({b}, {50 + a // 2})",
                f"SAVEPOINT s; DELETE FROM p WHERE a = {a}; ROLLBACK TO s",
            ]
            chosen = chance.sample(statements, chance.randint(1, 4))
            end = chance.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"])
            try:
                ground.run("; ".join(["BEGIN", *chosen, end]), connection=connection)
                count += 1
            except (psycopg2.errors.DeadlockDetected, psycopg2.errors.SerializationFailure):
                # The second: a row that was to be locked moved to another partition. PostgreSQL's own, without us too.
                ground.run("ROLLBACK", connection=connection)
        done.append(count)

    def scanned(snapshot: Any) -> Counter[tuple[str | None, ...]]:
        found: Counter[tuple[str | None, ...]] = Counter()
        for part in snapshot.scan(relation, ["a", "b"]):
            found.update(zip(*(column.to_pylist() for column in read_partition(part).columns), strict=True))
        return found

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    with ground.open() as snapshot:
        first, start = scanned(snapshot), snapshot.position
    gap = ground.gap()
    for writer in writers:
        writer.start()
    try:
        held, position = first, start
        for number in range(15):
            with ground.open() as snapshot:
                now = scanned(snapshot)
                changes = snapshot.changes({relation.name: ["a", "b"]}, position)[relation.name]
                assert plus(held, bag(changes)) == now
                seen = {message.xid for message in snapshot.messages(position)}
                assert set(changes.column("#xid").to_pylist()) <= seen
                assert snapshot.fingerprint_again() == snapshot.fingerprints
                held, position = now, snapshot.position
            if number % 4 == 3:
                ground.source.acknowledge(position)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert min(done) > 5
    assert ground.gap() == gap
    assert plus(held, ground.logged("p", ["a", "b"], position)) == ground.rows("p", ["a", "b"])


def test_P3_a_synthetic_position_keeps_what_was_left_out(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    for value in range(3):
        ground.run(f"INSERT INTO t VALUES ({value})")
    with ground.open() as snapshot:
        held = snapshot.messages(None)[1].xid
        position = snapshot.position.without([held])
    assert ground.source.acknowledge(position) == 2
    with ground.open() as snapshot:
        assert [message.xid for message in snapshot.messages(position)] == [held]
        assert bag(snapshot.changes({relation.name: ["a"]}, position)[relation.name]) == Counter({("1",): 1})


def test_P4_order_is_by_last_sequence(new_server: Callable[..., Any], grounds: Callable[..., Ground]) -> None:
    """A begins first and logs first, but its conflicting write comes after B's commit: A is after B."""
    ground = grounds(new_server(fsync="off", track_commit_timestamp="off").url())
    ground.run("CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, 'old')")
    ground.watch("t")
    assert ground.source.state().order == "sequence"
    a, b = ground.connect(), ground.connect()
    ground.run("BEGIN; INSERT INTO t VALUES (2, 'by a')", connection=a)
    ground.run("BEGIN; UPDATE t SET b = 'by b' WHERE a = 1; COMMIT", connection=b)
    ground.run("UPDATE t SET b = b || ', then a' WHERE a = 1; COMMIT", connection=a)
    with ground.open() as snapshot:
        messages = snapshot.messages(None)
        assert [message.rows for message in messages] == [2, 3]
        assert [message.last_sequence for message in messages] == sorted(m.last_sequence for m in messages)
        assert messages[0].committed_at is None


def test_P4_commit_order_where_the_source_can_tell(
    new_server: Callable[..., Any], grounds: Callable[..., Ground]
) -> None:
    ground = grounds(new_server(fsync="off", track_commit_timestamp="on").url())
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    assert ground.source.state().order == "commit"
    a, b = ground.connect(), ground.connect()
    ground.run("BEGIN; INSERT INTO t VALUES (1)", connection=a)
    ground.run("BEGIN; INSERT INTO t VALUES (2), (3)", connection=b)
    ground.run("COMMIT", connection=b)
    ground.run("COMMIT", connection=a)
    with ground.open() as snapshot:
        assert [message.rows for message in snapshot.messages(None)] == [2, 1]


def test_P4_the_sequence_hands_out_one_number_at_a_time(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    assert ground.run("SELECT DISTINCT cache_size FROM pg_sequences WHERE schemaname = 'dyda'") == [(1,)]


def test_P2_what_was_made_durable_survives_a_crash(
    new_server: Callable[..., Any], grounds: Callable[..., Ground]
) -> None:
    rows, logged = _after_a_crash(new_server, grounds, durable=True)
    assert rows == Counter({("1",): 1})
    assert logged == Counter({("1",): 1})


def test_P2_what_was_not_made_durable_is_lost(new_server: Callable[..., Any], grounds: Callable[..., Ground]) -> None:
    """The danger is real. The server may flush by itself before it dies, though it hardly ever does: then once more."""
    outcomes = (_after_a_crash(new_server, grounds, durable=False) for _ in range(8))
    assert any(outcome == (Counter(), Counter()) for outcome in outcomes), "visible was durable each time"


def _after_a_crash(
    new_server: Callable[..., Any], grounds: Callable[..., Ground], durable: bool
) -> tuple[Counter[tuple[str | None, ...]], Counter[tuple[str | None, ...]]]:
    """kill -9 of a server with synchronous_commit = off: the table and the log afterwards. If the visible transaction
    is lost, its number may be given to another one, which a position that claims it would skip for ever."""
    server = new_server(
        synchronous_commit="off", wal_writer_delay="10s", wal_writer_flush_after="1GB", autovacuum="off"
    )
    ground = grounds(server.url())
    ground.run("SET synchronous_commit = on", "CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    ground.run("SET synchronous_commit = on", "CHECKPOINT")
    server.hold("walwriter")  # before PostgreSQL 17 every page of WAL wakes it
    writer = ground.connect()
    ((xid,),) = ground.run("INSERT INTO t VALUES (1) RETURNING pg_current_xact_id()::text::bigint", connection=writer)
    with ground.open() as snapshot:
        assert snapshot.position.includes(xid)
        assert len(snapshot.messages(None)) == 1
        identity = snapshot.identity
        if durable:
            snapshot.make_durable()
    server.crash()
    server.start()
    assert ground.source.state().identity == identity, "a crash is no failover"
    again = grounds(server.url())
    again.relations["t"] = relation
    return again.rows("t", ["a"]), again.logged("t", ["a"])


def test_P6_an_older_snapshot_reads_log_and_tables_after_acknowledging(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    ground.run("INSERT INTO t VALUES (1), (2)")
    with ground.open() as older:
        ground.run("DELETE FROM t WHERE a = 1")
        with ground.open() as newer:
            assert ground.source.acknowledge(newer.position) == 3
        ground.run("VACUUM dyda.log", "VACUUM t")
        assert bag(older.changes({relation.name: ["a"]}, None)[relation.name]) == Counter({("1",): 1, ("2",): 1})
        found = older.lookup(relation, ["a"], ["a"], pa.table({"a": ["1", "2"]}))
        assert bag(found.table) == Counter({("1",): 1, ("2",): 1})
    assert ground.run("SELECT count(*) FROM dyda.log") == [(0,)]


def test_acknowledging_leaves_what_the_position_does_not_cover(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.run("INSERT INTO t VALUES (1)")
    with ground.open() as snapshot:
        ground.run("INSERT INTO t VALUES (2)")
        assert ground.source.acknowledge(snapshot.position) == 1
        assert ground.source.acknowledge(snapshot.position) == 0
    assert ground.logged("t", ["a"]) == Counter({("2",): 1})
    assert ground.source.acknowledge(Position(1, 1)) == 0


def test_figure_1_of_paper_000_interference_is_known_exactly(ground: Ground) -> None:
    """Two misdetections of arrival-order compensation, with real concurrent transactions.

    Left: an update commits before the query is answered, but its message arrives later: it would be missed.
    Right: an update's message arrives before the answer, but it commits after the query was evaluated: it would be
    compensated although it is not in the answer. Here the answer and the log are read in one snapshot.
    """
    ground.run("CREATE TABLE r (k int, v text)", "INSERT INTO r VALUES (1, 'first')")
    (relation,) = ground.watch("r")
    keys = pa.table({"k": ["1"]})
    early, late = ground.connect(), ground.connect()
    ground.run("BEGIN; INSERT INTO r VALUES (1, 'committed before the query')", connection=early)
    ground.run("BEGIN; INSERT INTO r VALUES (1, 'sent before, committed after')", connection=late)
    ground.run("COMMIT", connection=early)
    with ground.open() as snapshot:
        answers = [bag(snapshot.lookup(relation, ["k", "v"], ["k"], keys).table)]
        ground.run("COMMIT", connection=late)
        answers.append(bag(snapshot.lookup(relation, ["k", "v"], ["k"], keys).table))
        interfering = bag(snapshot.changes({relation.name: ["k", "v"]}, None)[relation.name])
        position = snapshot.position
    assert answers[0] == answers[1]
    minus = Counter({row: -count for row, count in interfering.items()})
    assert plus(answers[0], minus) == Counter({("1", "first"): 1}), "compensated exactly, nothing missed, nothing twice"
    assert ground.logged("r", ["v"], position) == Counter({("sent before, committed after",): 1})


def test_marks_of_units_that_failed_do_not_pile_up_and_the_one_that_is_remembered_stays(ground: Ground) -> None:
    """Each attempt leaves a mark, and none of them is remembered by an installation while all of them fail."""
    ground.run("CREATE TABLE r (k int)")
    ground.watch("r")
    with ground.open() as snapshot:
        snapshot.make_durable()
        remembered = snapshot.mark
        for _ in range(150):
            snapshot.make_durable(remembered)
        last = snapshot.mark
    marks = [mark for (mark,) in ground.run("SELECT mark FROM dyda.mark ORDER BY number")]
    assert len(marks) <= 103
    assert (marks[0], marks[-1]) == (remembered, last)
