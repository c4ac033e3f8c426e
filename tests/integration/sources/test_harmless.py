"""Capture waits for no lock longer than 40 ms; what it misses is counted as a gap. A statement fails because of it only
where not even that can be counted: rows that nobody would ever hear of."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg2
import pytest

from dyda.errors import BrokenUnit
from tests.integration.sources.conftest import Ground, plus


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
        assert snapshot.state.unsettled
    ground.run("COMMIT", connection=writer)
    with ground.open() as snapshot:
        assert not snapshot.state.unsettled


def test_a_writer_that_goes_uncaptured_during_a_unit_breaks_it(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    with ground.open() as snapshot:
        locker = ground.connect()
        ground.run("BEGIN; LOCK TABLE dyda.log IN ACCESS EXCLUSIVE MODE", connection=locker)
        ground.run("INSERT INTO t VALUES (1)")
        ground.run("ROLLBACK", connection=locker)
        with pytest.raises(BrokenUnit, match="capture missed changes while tables were being read"):
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
            assert snapshot.state.unsettled
        ground.run("COMMIT", connection=writer)
        with ground.open() as snapshot:
            assert not snapshot.state.unsettled
    finally:
        ground.close()


def test_a_gap_that_cannot_be_marked_fails_the_statement_where_the_lock_table_is_full(
    new_server: Callable[..., Any],
) -> None:
    """Without a lock to be had, neither the log nor a sequence can be written."""
    settings = {"max_locks_per_transaction": "10", "max_connections": "10", "autovacuum": "off"}
    server = new_server(max_prepared_transactions="0", **settings)
    ground = Ground(server.url())
    try:
        ground.run("CREATE TABLE t (a int)", *(f"CREATE TABLE other{n} (a int)" for n in range(40)))
        ground.watch("t")
        writer, hog = ground.connect(), ground.connect()
        ground.run("INSERT INTO t VALUES (0)", connection=writer)
        gap = ground.gap()
        others = ", ".join(f"other{n}" for n in range(40))  # no room left for locks that need no entry in the table
        ground.run(
            f"BEGIN; SELECT pg_current_xact_id(); LOCK TABLE t, {others} IN ROW EXCLUSIVE MODE", connection=writer
        )
        with pytest.raises(psycopg2.Error, match="shared memory"):
            ground.run("SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 100000) n", connection=hog)
        with pytest.raises(psycopg2.errors.OutOfMemory, match="shared memory"):
            ground.run("INSERT INTO t VALUES (1)", connection=writer)
        ground.run("ROLLBACK", connection=writer)
        ground.run("SELECT pg_advisory_unlock_all()", connection=hog)
        assert ground.gap() == gap
        assert ground.rows("t", ["a"]) == ground.logged("t", ["a"])
    finally:
        ground.close()


def test_nobody_can_hide_rows_by_what_he_sets_or_how_deep_he_writes(ground: Ground) -> None:
    """Either the rows are logged, or a gap is marked, or the statement fails."""
    ground.run(
        "CREATE TABLE t (a int)",
        "CREATE FUNCTION deep(n int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN IF n = 0 THEN INSERT INTO t VALUES (9);"
        " ELSE PERFORM deep(n - 1); END IF; END $$",
    )
    ground.watch("t")
    writer = ground.connect()

    def honest(*statements: str) -> str:
        with ground.open() as snapshot:
            ground.source.acknowledge(snapshot.position)
        before, gap = ground.rows("t", ["a"]), ground.gap()
        try:
            ground.run(*statements, connection=writer)
            failed = ""
        except psycopg2.Error as error:
            failed = str(error)
            ground.run("ROLLBACK", connection=writer)
        logged = plus(before, ground.logged("t", ["a"])) == ground.rows("t", ["a"])
        assert logged or ground.gap() > gap, statements
        assert not (logged and not failed and ground.gap() > gap), "no gap where nothing was missed"
        return failed

    assert "DyDa could neither capture this change nor record that it was missed" in honest(
        "INSERT INTO t SELECT 1 FROM set_config('transaction_read_only', 'on', true)"
    )
    assert "read-only" in honest(
        "BEGIN; INSERT INTO t VALUES (1)",
        *["INSERT INTO t VALUES (2)"] * 40,  # these are written outside of the EXCEPTION block
        "INSERT INTO t SELECT 1 FROM set_config('transaction_read_only', 'on', true)",
        "COMMIT",
    )
    for name, value in (
        ("lock_timeout", "1ms"),
        ("statement_timeout", "1"),
        ("default_transaction_read_only", "on"),
        ("default_transaction_isolation", "serializable"),
        ("session_replication_role", "replica"),
        ("row_security", "off"),
        ("dyda.quiet", "on"),
        ("dyda.failed", "x"),
        ("dyda.logging", "x"),
        ("dyda.planned", "1"),
        ("search_path", ""),
    ):
        honest("BEGIN", f"INSERT INTO t SELECT 1 FROM set_config('{name}', '{value}', true)", "COMMIT")
        honest("BEGIN", f"SELECT set_config('{name}', '{value}', true)", "INSERT INTO public.t VALUES (2)", "COMMIT")
    honest(
        "BEGIN",
        "SELECT set_config('dyda.logging', repeat('.', 40), true)",
        "INSERT INTO t VALUES (3)",
        "COMMIT",
    )
    # Shortly before the stack is used up there is room for the INSERT, but not for all that capture does.
    low, high = 1, 20000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if honest(f"SELECT deep({middle})") else (middle, high)
    for depth in range(max(low - 12, 1), low + 12):
        honest(f"SELECT deep({depth})")


def test_a_long_transaction_takes_few_transaction_ids(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int PRIMARY KEY, b text)")
    ground.watch("t")
    newest = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    ((before,),) = ground.run(newest)
    ground.run(
        "DO $$ BEGIN FOR i IN 1..300 LOOP INSERT INTO t VALUES (i, 'x'); UPDATE t SET b = 'y' || i WHERE a = i;"
        " DELETE FROM t WHERE a = i - 3; END LOOP; INSERT INTO t SELECT i FROM generate_series(1001, 1250) i;"
        " UPDATE t SET b = repeat('long', 1000) WHERE a > 1000; DELETE FROM t WHERE a BETWEEN 1100 AND 1150; END $$"
    )
    ((after,),) = ground.run(newest)
    assert after - before < 64, "more would overflow what each session keeps in memory for all readers"
    assert ground.logged("t", ["a", "b"]) == ground.rows("t", ["a", "b"])
    # The order of what happened to a row stays, a rolled-back savepoint leaves nothing, and the count starts again.
    ground.run("DELETE FROM t")
    ground.run(
        "DO $$ BEGIN FOR i IN 1..40 LOOP BEGIN INSERT INTO t VALUES (i, 'x'); RAISE 'no'; EXCEPTION WHEN OTHERS THEN"
        " INSERT INTO t VALUES (i, 'z'); END; END LOOP; UPDATE t SET a = -a; TRUNCATE t; INSERT INTO t VALUES (7);"
        " END $$"
    )
    assert ground.run("SELECT op::text FROM dyda.log ORDER BY seq DESC LIMIT 2") == [("I",), ("T",)]
    assert ground.rows("t", ["a"]) == Counter({("7",): 1})


def test_a_big_row_late_in_a_transaction_is_captured_the_safe_way(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int, b bytea)", "ALTER TABLE t ALTER b SET STORAGE EXTERNAL")
    ground.watch("t")
    gap = ground.gap()
    ground.run("BEGIN", *["INSERT INTO t VALUES (1)"] * 35)
    ground.run("INSERT INTO t SELECT 2, decode(repeat('00', 1000000), 'hex')")
    assert ground.gap() == gap
    ground.run("COMMIT")
    assert ground.run("SELECT count(*), max(length(image)) > 2000000 FROM dyda.log") == [(36, True)]


def run_both(ground: Ground, first: tuple[str, ...], second: tuple[str, ...]) -> None:
    """Two SERIALIZABLE transactions that overlap wholly. Raises if one fails."""
    one, other = ground.connect(), ground.connect()
    for connection in (one, other):
        ground.run("BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT FROM pg_class LIMIT 1", connection=connection)
    for mine, theirs in zip(first, second, strict=True):
        ground.run(mine, connection=one)
        ground.run(theirs, connection=other)
    ground.run("COMMIT", connection=one)
    ground.run("COMMIT", connection=other)


def test_serializable_transactions_on_different_tables_do_not_fail(ground: Ground) -> None:
    """Neither their rows nor their schema changes have read anything that the other one wrote."""
    for name in ("one", "two"):
        ground.run(
            f"CREATE TABLE {name} (a int PRIMARY KEY, b text)",
            f"CREATE TABLE p_{name} (a int) PARTITION BY RANGE (a)",
            f"CREATE TABLE p_{name}_0 PARTITION OF p_{name} FOR VALUES FROM (0) TO (10)",
            f"CREATE TABLE new_{name} (a int)",
        )
    ground.watch("one", "two", "p_one", "p_two")
    gap = ground.gap()
    scripts = (
        ("INSERT INTO {} VALUES (1), (2)", "UPDATE {} SET b = 'y'", "DELETE FROM {} WHERE a = 1", "TRUNCATE {}"),
        ("ALTER TABLE {} ADD COLUMN c int", "INSERT INTO {} VALUES (3)", "ALTER TABLE {} RENAME COLUMN b TO d"),
        ("ALTER TABLE {} DROP COLUMN c", "ALTER TABLE {} ALTER COLUMN a TYPE bigint"),
        ("ALTER TABLE p_{} ADD COLUMN x int", "INSERT INTO p_{} VALUES (1)"),
        (
            "CREATE TABLE p_{0}_1 PARTITION OF p_{0} FOR VALUES FROM (10) TO (20)",
            "INSERT INTO p_{0} VALUES (11)",
            "DROP TABLE p_{0}_0",
        ),
        ("ALTER TABLE p_{0} DETACH PARTITION p_{0}_1", "DROP TABLE p_{0}_1"),
        ("ALTER TABLE {0} RENAME TO old_{0}", "ALTER TABLE new_{0} RENAME TO {0}", "INSERT INTO {0} VALUES (5)"),
        ("DROP TABLE p_{}",),
    )
    for script in scripts:
        run_both(ground, tuple(s.format("one") for s in script), tuple(s.format("two") for s in script))
    assert ground.gap() == gap
    told = ground.run("SELECT root, image::json ->> 'command' FROM dyda.log WHERE op = 'S' ORDER BY seq")
    assert len(told) == 2 * 11, told
    attached = ground.source.describe([("public", "one"), ("public", "two")])
    ground.source.attach(attached.values())
    assert ground.run("SELECT FROM dyda.member WHERE root = 0") == []


def test_a_migration_sees_no_notice_of_ours(ground: Ground) -> None:
    ground.run("CREATE TABLE p (a int) PARTITION BY RANGE (a)", "CREATE TABLE t (a int)")
    ground.watch("p", "t")
    migration = ground.connect()
    ground.run(
        "SET client_min_messages = notice",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 (a int)",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)",
        "ALTER TABLE p DETACH PARTITION p2",
        "BEGIN; CREATE TABLE new (a int); ALTER TABLE t RENAME TO old; ALTER TABLE new RENAME TO t; DROP TABLE old",
        "COMMIT",
        "ALTER TABLE t ADD COLUMN b int; ALTER TABLE t DROP COLUMN b; INSERT INTO t VALUES (1); TRUNCATE t",
        "DROP TABLE t, p, p2",
        connection=migration,
    )
    assert migration.notices == []
