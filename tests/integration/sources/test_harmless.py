"""Capture never fails a source's transaction and never delays it beyond 100 ms; what it misses is counted as a gap."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg2
import pytest

from dyda.errors import BrokenUnit
from tests.integration.sources.conftest import Ground


def timed(ground: Ground, statement: str, connection: Any = None) -> float:
    started = time.perf_counter()
    ground.run(statement, connection=connection)
    return time.perf_counter() - started


def test_a_locked_log_lets_writers_commit_within_bounds(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    gap = ground.gap()
    usual = statistics.median(timed(ground, "INSERT INTO t VALUES (0)") for _ in range(9))
    locker = ground.connect()
    ground.run("BEGIN; LOCK TABLE dyda.log, dyda.member, dyda.consumer IN ACCESS EXCLUSIVE MODE", connection=locker)
    waits = sorted(timed(ground, f"INSERT INTO t VALUES ({i})") - usual for i in range(5))
    # The median, because another process may take the machine away for a moment.
    assert 0.03 < statistics.median(waits) < 0.1
    many = timed(ground, "BEGIN; " + "INSERT INTO t VALUES (7); " * 20 + "COMMIT")
    assert many < 0.1 + 30 * max(usual, 0.003), "after its first failure a transaction does not wait again"
    ground.run("ROLLBACK", connection=locker)
    assert ground.gap() > gap
    assert ground.run("SELECT count(*) FROM t") == [(34,)]


def test_what_cannot_be_asked_about_the_logs_size_is_a_gap_and_no_error(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.run("INSERT INTO t VALUES (1)", "SELECT setval('dyda.measure_at', 1)")
    gap = ground.gap()
    locker = ground.connect()
    ground.run("BEGIN; LOCK TABLE dyda.consumer IN ACCESS EXCLUSIVE MODE", connection=locker)
    ground.run("INSERT INTO t VALUES (2)")
    ground.run("ROLLBACK", connection=locker)
    assert ground.gap() > gap
    assert ground.run("SELECT count(*) FROM t") == [(2,)]


@pytest.mark.parametrize(
    "damage",
    [
        "DROP TABLE dyda.log",
        "DROP SEQUENCE dyda.log_sequence CASCADE",
        "ALTER TABLE dyda.log DROP COLUMN image",
        "DROP TABLE dyda.consumer",
        "DROP SEQUENCE dyda.measure_at",
        "DROP FUNCTION dyda.places()",
        "DROP FUNCTION dyda.mark_gap()",
        "ALTER TABLE dyda.log ADD CHECK (false) NOT VALID",
    ],
)
def test_a_damaged_log_lets_writers_commit_and_is_noticed_and_mended(ground: Ground, damage: str) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    with ground.open() as snapshot:
        before = snapshot.gap
    ground.run(damage)
    if "mark_gap" in damage:
        ground.run("DROP SEQUENCE dyda.measure_at")  # something has to go wrong first
    ground.run("INSERT INTO t VALUES (1)", "UPDATE t SET a = 2", "TRUNCATE t", "INSERT INTO t VALUES (3)")
    ground.run("ALTER TABLE t ADD COLUMN b int", "DROP TABLE IF EXISTS nothing")
    assert ground.run("SELECT a FROM t") == [(3,)]
    with ground.open() as snapshot:
        assert snapshot.gap != before
    if "CHECK" in damage:
        return  # whoever does this has to detach and attach again
    ground.source.attach([relation])
    with ground.open() as snapshot:
        mended = snapshot.gap
        assert mended != before
        assert not snapshot.fingerprints[relation.name].startswith("uncaptured")
    ground.run("INSERT INTO t VALUES (4)")
    with ground.open() as snapshot:
        assert snapshot.gap == mended
        assert len(snapshot.changes({relation.name: ["a"]}, None)[relation.name]) >= 1


def test_dropping_everything_of_ours_is_noticed_and_mended(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    with ground.open() as snapshot:
        before = snapshot.gap
    ground.run("DROP SCHEMA dyda CASCADE", "INSERT INTO t VALUES (1)")
    with ground.open() as snapshot:
        assert snapshot.gap != before
        assert snapshot.fingerprints[relation.name].startswith("uncaptured")
        assert snapshot.messages(None) == []
        assert len(snapshot.changes({relation.name: ["a"]}, None)[relation.name]) == 0
    ground.watch("t")
    with ground.open() as snapshot:
        assert snapshot.gap != before


def test_a_gap_is_counted_although_the_writer_rolls_back_to_a_savepoint(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    gap = ground.gap()
    locker, writer = ground.connect(), ground.connect()
    ground.run("BEGIN; LOCK TABLE dyda.log IN ACCESS EXCLUSIVE MODE", connection=locker)
    ground.run("BEGIN; SAVEPOINT s; INSERT INTO t VALUES (1); ROLLBACK TO s", connection=writer)
    ground.run("ROLLBACK", connection=locker)
    ground.run("INSERT INTO t VALUES (2); COMMIT", connection=writer)
    assert ground.gap() > gap
    assert ground.logged("t", ["a"]) == Counter({("2",): 1})


def test_a_gap_settles_only_when_the_writer_that_left_it_has_ended(ground: Ground) -> None:
    """Otherwise a resync between its failure and its commit would miss its rows for ever."""
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    gap = ground.gap()
    locker, writer = ground.connect(), ground.connect()
    ground.run("BEGIN; LOCK TABLE dyda.log IN ACCESS EXCLUSIVE MODE", connection=locker)
    ground.run("BEGIN; INSERT INTO t VALUES (1)", connection=writer)
    ground.run("ROLLBACK", connection=locker)
    with ground.open() as snapshot:
        assert snapshot.gap > gap
        assert not snapshot.gap_settled
    ground.run("COMMIT", connection=writer)
    with ground.open() as snapshot:
        assert snapshot.gap_settled


def test_a_writer_that_goes_uncaptured_during_a_unit_breaks_it(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    with ground.open() as snapshot:
        locker = ground.connect()
        ground.run("BEGIN; LOCK TABLE dyda.log IN ACCESS EXCLUSIVE MODE", connection=locker)
        ground.run("INSERT INTO t VALUES (1)")
        ground.run("ROLLBACK", connection=locker)
        with pytest.raises(BrokenUnit, match="not captured"):
            snapshot.fingerprint_again()


def test_nobody_can_hide_rows_or_feign_a_gap_by_setting_our_parameters(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ((root,),) = ground.run("SELECT 't'::regclass::oid")
    ground.watch("t")
    gap = ground.gap()
    ground.run(
        "BEGIN; SELECT set_config('dyda.failed', pg_current_xact_id()::text, true); INSERT INTO t VALUES (1); COMMIT"
    )
    for noted in (f'{{"{root}": 2}}', "x" * 32 + f'{{"{root}": 2}}', "no json"):
        ground.run(f"SET dyda.noted = '{noted}'", "CREATE TEMPORARY TABLE own (a int)", "ALTER TABLE own ADD b int")
        ground.run("DROP TABLE own", "RESET dyda.noted")
    assert ground.gap() == gap
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})
    assert ground.run("SELECT op::text FROM dyda.log") == [("I",)]


def test_log_limit_stops_capture_and_an_empty_log_starts_it_again(
    grounds: Callable[..., Ground], database: Callable[[str], str]
) -> None:
    ground = grounds(database("crm"), log_limit=200_000)
    ground.run("CREATE TABLE t (a int, b text)")
    ground.watch("t")
    gap = ground.gap()
    ground.run("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 3000) i")
    assert ground.gap() == gap, "the statement that crosses the limit is still captured"
    ground.run("INSERT INTO t VALUES (0, 'lost')")
    assert ground.gap() > gap
    with ground.open() as snapshot:
        position = snapshot.position
        assert ground.source.acknowledge(position) == 3000
        assert sum(m.rows for m in snapshot.messages(None)) == 3000, "P6: an older snapshot still reads the log"
    ground.run("INSERT INTO t VALUES (1, 'lost too')")  # a snapshot was open: nothing was truncated
    with ground.open() as snapshot:
        position = snapshot.position
    ground.run("INSERT INTO dyda.log (op, root, relid) SELECT 'T', root, root FROM dyda.watched")
    with ground.open() as snapshot:
        position = snapshot.position
    assert ground.source.acknowledge(position) == 1
    gap = ground.gap()
    ground.run("INSERT INTO t VALUES (2, 'captured')")
    assert ground.gap() == gap
    assert ground.logged("t", ["a", "b"]) == Counter({("2", "captured"): 1})


def test_statements_that_touch_no_row_cost_no_transaction_id(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.run("BEGIN; UPDATE t SET a = 1; DELETE FROM t")
    assert ground.run("SELECT pg_current_xact_id_if_assigned()") == [(None,)]
    ground.run("COMMIT")


def test_users_ddl_never_fails_because_of_us(ground: Ground) -> None:
    ground.run("CREATE TABLE p (a int) PARTITION BY RANGE (a)")
    ground.watch("p")
    gap = ground.gap()
    locker = ground.connect()
    ground.run("BEGIN; LOCK TABLE dyda.watched, dyda.member, dyda.log IN ACCESS EXCLUSIVE MODE", connection=locker)
    assert timed(ground, "CREATE TABLE p1 PARTITION OF p DEFAULT") < 0.5
    assert timed(ground, "ALTER TABLE p ADD COLUMN b int") < 0.5
    assert timed(ground, "DROP TABLE p1") < 0.5
    ground.run("ROLLBACK", connection=locker)
    assert ground.gap() > gap


def test_a_full_lock_table_loses_no_gap(new_server: Callable[..., Any]) -> None:
    """Neither the log nor the lock that marks an open gap can be had; the counter moves all the same."""
    settings = {"max_locks_per_transaction": "10", "max_connections": "10", "autovacuum": "off"}
    server = new_server(max_prepared_transactions="0", **settings)
    ground = Ground(server.url())
    try:
        ground.run("CREATE TABLE t (a int)")
        ground.watch("t")
        writer, hog = ground.connect(), ground.connect()
        ground.run("INSERT INTO t VALUES (0)", connection=writer)  # its caches are warm: it needs no lock but ours
        gap = ground.gap()
        ground.run("BEGIN; SELECT pg_current_xact_id(); LOCK TABLE t IN ROW EXCLUSIVE MODE", connection=writer)
        with pytest.raises(psycopg2.Error, match="shared memory"):
            ground.run("SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 100000) n", connection=hog)
        ground.run("INSERT INTO t VALUES (1)", connection=writer)
        ground.run("SELECT pg_advisory_unlock_all()", connection=hog)
        assert ground.gap() > gap
        with ground.open() as snapshot:
            assert not snapshot.gap_settled
        ground.run("COMMIT", connection=writer)
        with ground.open() as snapshot:
            assert snapshot.gap_settled
    finally:
        ground.close()
