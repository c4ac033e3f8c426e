"""Reading under a snapshot while tables move: rules R1 to R5, scans, and how long a source's DDL waits."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from dyda import faults
from dyda.errors import BrokenUnit, MissingRights, SourceBusy, SourceUnreachable
from dyda.model.bag import Bag
from dyda.sources import grants
from dyda.sources.reading import queries
from dyda.sources.reading.copy import ReadFailed, read_partition
from tests.integration.sources.conftest import Ground, as_role, bag

SETUP = (
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE TYPE pair AS (x int, y mood)",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE TABLE p (a int, b text DEFAULT 'x', m mood, q pair[], n positive, g int GENERATED ALWAYS AS (a + 1) STORED)"
    " PARTITION BY RANGE (a)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
    "CREATE TABLE spare (a int, b text, m mood, q pair[], n positive, g int GENERATED ALWAYS AS (a + 1) STORED)",
    "CREATE TABLE unrelated (a int)",
    "INSERT INTO p (a) SELECT generate_series(0, 19)",
)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE p ADD COLUMN c int",
        "ALTER TABLE p DROP COLUMN b",
        "ALTER TABLE p RENAME COLUMN b TO c",
        "ALTER TABLE p ALTER COLUMN b TYPE varchar(10)",
        "ALTER TABLE p ALTER COLUMN n TYPE positive USING n + 100",
        "ALTER TABLE p ALTER COLUMN b SET DEFAULT 'y'",
        "ALTER TABLE p ALTER COLUMN b SET NOT NULL",
        "ALTER TABLE p RENAME TO elsewhere",
        "ALTER TABLE p SET SCHEMA dyda",
        "ALTER SCHEMA public RENAME TO other",
        "ALTER TABLE p1 RENAME TO p1x",
        "ALTER TABLE p DETACH PARTITION p1",
        "ALTER TABLE p ATTACH PARTITION spare FOR VALUES FROM (30) TO (40)",
        "CREATE TABLE p3 PARTITION OF p DEFAULT",
        "DROP TABLE p2",
        "DROP TABLE p",
        "ALTER TABLE p1 ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE p2 FORCE ROW LEVEL SECURITY",
        "ALTER TABLE p2 SET UNLOGGED",
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
        "ALTER TYPE mood ADD VALUE 'calm'",
        "ALTER TYPE pair ADD ATTRIBUTE z int",
        "ALTER TYPE pair RENAME ATTRIBUTE x TO w CASCADE",
        "ALTER TABLE p1 DISABLE TRIGGER dyda_insert",
        "ALTER TABLE p1 DISABLE TRIGGER dyda_update; ALTER TABLE p1 ENABLE ALWAYS TRIGGER dyda_update",
        "DROP TRIGGER dyda_delete ON p2",
        "ALTER TABLE p RENAME COLUMN b TO c; ALTER TABLE p RENAME COLUMN c TO b",
        "BEGIN; ALTER TABLE p DETACH PARTITION p1;"
        " ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10); COMMIT",
    ],
)
def test_R2_whatever_gives_rows_their_meaning_changes_the_fingerprint(ground: Ground, change: str) -> None:
    """And, where event triggers are allowed, is in the log too (C5: what is not logged is a gap)."""
    ground.run(*SETUP)
    (relation,) = ground.watch("p")
    with ground.open() as snapshot:
        before = snapshot.fingerprints
        position = snapshot.position
        ground.run(*change.split("; ")) if not change.startswith("BEGIN") else ground.run(change)
        assert snapshot.fingerprint_again() != before
    with ground.open() as snapshot:
        assert snapshot.fingerprints != before
        logged = {message.kind for message in snapshot.messages(position)}
        if "TRIGGER" not in change:
            assert logged == {"schema"}
            assert {name for m in snapshot.messages(position) for name in m.relations} == {relation.name}


@pytest.mark.parametrize(
    "harmless",
    ["ANALYZE p", "VACUUM", "INSERT INTO p (a) VALUES (1)", "CREATE INDEX ON p (a)", "ALTER TABLE unrelated ADD b int",
     "CREATE TABLE another (a int)", "DROP TABLE unrelated", "CREATE TYPE mood2 AS ENUM ('a')"],
)  # fmt: skip
def test_R2_what_does_not_matter_changes_nothing(ground: Ground, harmless: str) -> None:
    ground.run(*SETUP)
    ground.watch("p")
    with ground.open() as snapshot:
        before, position = snapshot.fingerprints, snapshot.position
        ground.run(harmless)
        assert snapshot.fingerprint_again() == before
    with ground.open() as snapshot:
        assert snapshot.fingerprints == before
        assert all(message.kind == "data" for message in snapshot.messages(position))


@pytest.mark.parametrize("passing", ["GRANT SELECT ON p1 TO PUBLIC", "VACUUM FULL p1", "CLUSTER p1 USING p1_a"])
def test_R2_what_moves_rows_breaks_a_running_unit_and_no_later_one(ground: Ground, passing: str) -> None:
    """Page ranges mean nothing any more after VACUUM FULL, but the rows are the same."""
    ground.run(*SETUP, "CREATE INDEX p1_a ON p1 (a)")
    ground.watch("p")
    with ground.open() as snapshot:
        before = snapshot.fingerprints
        ground.run(passing)
        with pytest.raises(BrokenUnit, match="tables changed while they were being read"):
            snapshot.fingerprint_again()
    with ground.open() as snapshot:
        assert snapshot.fingerprints == before


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ("TRUNCATE p", 0),
        ("TRUNCATE p1", 10),
        ("DROP TABLE p1", 10),
        ("ALTER TABLE p ALTER COLUMN b TYPE text USING b || '!'", 0),
        ("ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY", 10),
        ("BEGIN; TRUNCATE p; COPY p (a) FROM PROGRAM 'echo 3' WITH (FREEZE); COMMIT", 1),
        ("BEGIN; ALTER SCHEMA public RENAME TO aside; ALTER SCHEMA twin RENAME TO public; COMMIT", 0),
    ],
)
def test_R1_R2_tables_that_lie_to_an_older_snapshot_are_noticed(ground: Ground, change: str, seen: int) -> None:
    """The rows read are wrong and no error was raised: exactly what the fingerprint after the last read is for."""
    ground.run(*SETUP, "CREATE SCHEMA twin", "CREATE TABLE twin.p (a int, b text)")
    (relation,) = ground.watch("p")
    keys = pa.table({"a": [str(a) for a in range(20)]})
    with ground.open() as snapshot:
        if "FREEZE" in change:
            change = change.replace("TRUNCATE p; COPY p", "TRUNCATE p1; COPY p1")
            seen = 11
        ground.run(change)
        assert len(snapshot.lookup(relation, ["a"], ["a"], keys)) == seen, "not 20, and no error"
        moved = False
        try:
            moved = snapshot.fingerprint_again() != snapshot.fingerprints
        except BrokenUnit:
            moved = True
        assert moved


def test_R2_names_that_lead_elsewhere_for_a_moment_are_noticed(ground: Ground) -> None:
    """A-B-A: another table stands under the name while the lookup runs, and is gone again before the check."""
    ground.run(
        "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "CREATE SCHEMA twin", "CREATE TABLE twin.t (a int)"
    )
    (relation,) = ground.watch("t")
    there = "BEGIN; ALTER SCHEMA public RENAME TO aside; ALTER SCHEMA twin RENAME TO public; COMMIT"
    back = "BEGIN; ALTER SCHEMA public RENAME TO twin; ALTER SCHEMA aside RENAME TO public; COMMIT"
    with ground.open() as snapshot:
        ground.run(there)
        assert len(snapshot.lookup(relation, ["a"], ["a"], pa.table({"a": ["1"]}))) == 0, "the wrong table"
        ground.run(back)
        with pytest.raises(BrokenUnit):
            snapshot.fingerprint_again()


def test_R2_a_dropped_table_or_column_breaks_the_unit(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int, b int)", "INSERT INTO t VALUES (1, 2)", "CREATE TABLE u (a int)")
    relation, gone = ground.watch("t", "u")
    keys = pa.table({"a": ["1"]})
    with ground.open() as snapshot:
        (partition,) = snapshot.scan(relation, ["a"])
        ground.run("ALTER TABLE t DROP COLUMN b", "DROP TABLE u")
        with pytest.raises(BrokenUnit, match="b"):
            snapshot.lookup(relation, ["b"], ["a"], keys)
        with pytest.raises(BrokenUnit, match="u"):
            snapshot.lookup(gone, ["a"], ["a"], keys)
        ground.run("ALTER TABLE t RENAME TO moved")
        with pytest.raises(ReadFailed, match="does not exist") as failed:
            read_partition(partition)
        assert failed.value.sqlstate == "42P01"
    with ground.open() as snapshot:
        assert snapshot.fingerprints[gone.name] == "absent"


def test_R3_row_security_is_an_error_and_never_a_subset(ground: Ground, database: Callable[..., str]) -> None:
    ground.run(
        "CREATE TABLE t (a int)",
        "INSERT INTO t VALUES (1), (2)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY half ON t USING (a = 1)",
    )
    (relation,) = ground.watch("t")
    role = f"reader_{relation.oid}_{time.time_ns()}"
    ground.run(f"CREATE ROLE {role} LOGIN PASSWORD 'reader'", grants(role, [("public", "t")]))
    try:
        reader = Ground(as_role(ground.url, role, "reader"))
        keys = pa.table({"a": ["1", "2"]})
        try:
            # A superuser has attached: the role that tables are read as sees all rows.
            with reader.source.open([relation.name]) as snapshot:
                assert len(snapshot.lookup(relation, ["a"], ["a"], keys)) == 2
            ((name,),) = ground.run("SELECT 'dyda_reader_' || oid FROM pg_database WHERE datname = current_database()")
            ground.run(f"ALTER ROLE {name} NOBYPASSRLS")
            with (
                reader.source.open([relation.name]) as snapshot,
                pytest.raises(MissingRights, match="row-level security") as refused,
            ):
                snapshot.lookup(relation, ["a"], ["a"], keys)
            assert refused.value.remedy == "`dyda sources check` prints the ALTER ROLE … BYPASSRLS to run."
            findings = reader.source.check([("public", "t")])
            assert [f.remedy for f in findings if f.level == "error"] == [f'ALTER ROLE "{role}" BYPASSRLS;']
        finally:
            reader.close()
    finally:
        ground.run(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_R4_a_lookup_finds_at_least_what_spark_calls_equal(ground: Ground) -> None:
    """Within a family the key is cast to the widest type: nothing is out of range, nothing is cut off."""
    ground.run(
        "CREATE TABLE t (s smallint, i int, n numeric(5,2), p numeric, v varchar(3), c char(5), na name, f float8,"
        " r real, bo bool, u uuid, ts timestamptz, by bytea)",
        "INSERT INTO t VALUES (7, 7, 7.00, 7.0, 'abc', 'ab', 'abc', '-0', 'NaN', true,"
        " 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '2024-01-01 00:00+05', '\\xDEAD')",
    )
    (relation,) = ground.watch("t")
    with ground.open() as snapshot:

        def found(column: str, *values: str) -> int:
            return len(snapshot.lookup(relation, ["s"], [column], pa.table({column: list(values)})))

        assert found("s", "7", "5000000000") == 1
        assert found("i", "7", "-9223372036854775808") == 1
        assert found("n", "7", "123456789.123") == 1
        assert found("p", "7.000") == 1
        assert found("v", "abc", "abcd") == 1
        assert found("v", "abcd") == 0
        assert found("c", "ab   ") == 1
        assert found("c", "ab") == 1
        assert found("na", "abc", "x" * 100) == 1
        assert found("f", "0") == 1
        assert found("r", "NaN") == 1
        assert found("bo", "t") == 1
        assert found("u", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11") == 1
        assert found("ts", "2023-12-31 19:00:00+00") == 1
        assert found("by", "\\xdead") == 1
        assert found("s", "007") == 1, "as an integer; Spark decides"


def test_R5_nulls_neither_ask_nor_answer(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int, b text)", "INSERT INTO t VALUES (1, 'x'), (1, NULL), (NULL, 'x'), (NULL, NULL)")
    (relation,) = ground.watch("t")
    with ground.open() as snapshot:
        keys = pa.table({"a": pa.array(["1", None, "1"]), "b": pa.array(["x", "x", None])})
        assert bag(snapshot.lookup(relation, ["b", "a"], ["a", "b"], keys).table) == Counter({("x", "1"): 1})
        assert snapshot.queries == 1
        nothing = pa.table({"a": pa.array([None], pa.string())})
        assert snapshot.lookup(relation, ["a"], ["a"], nothing) == Bag.empty(["a"])
        assert snapshot.queries == 1, "without a key nobody is asked"
        one = snapshot.lookup(relation, ["b"], ["a"], pa.table({"a": ["1"]}))
        assert bag(one.table) == Counter({("x",): 1, (None,): 1}), "one column: NULL is an empty line"


def test_lookups_count_duplicates_and_work_without_columns(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "INSERT INTO t SELECT 1 FROM generate_series(1, 3)")
    (relation,) = ground.watch("t")
    ground.run("INSERT INTO t VALUES (1)", "DELETE FROM t")
    ground.run("INSERT INTO t VALUES (1), (1)")
    with ground.open() as snapshot:
        key = pa.table({"a": ["1"]})
        assert bag(snapshot.lookup(relation, ["a"], ["a"], key).table) == Counter({("1",): 2})
        assert snapshot.lookup(relation, [], ["a"], key).to_dict() == {(): 2}
        assert [read_partition(part).num_rows for part in snapshot.scan(relation, [])] == [2]
        empty = snapshot.changes({relation.name: []}, None)[relation.name]
        assert empty.column_names == ["#xid", "#count"]
        assert sum(empty.column("#count").to_pylist()) == -1


def test_faults_stand_around_each_lookup(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    (relation,) = ground.watch("t")
    passed: list[str] = []
    with (
        ground.open() as snapshot,
        faults.on("sweep.before-hop", lambda: passed.append("before")),
        faults.on("sweep.after-hop", lambda: passed.append("after")),
    ):
        snapshot.lookup(relation, ["a"], ["a"], pa.table({"a": ["1"]}))
    assert passed == ["before", "after"]


def test_scans_read_every_row_once_in_page_ranges_of_every_part(ground: Ground, monkeypatch: Any) -> None:
    monkeypatch.setattr(queries, "PAGES", 3)
    ground.run(
        *SETUP, "TRUNCATE p", "INSERT INTO p (a, b) SELECT i % 20, repeat('x', i % 300) FROM generate_series(1, 5000) i"
    )
    (relation,) = ground.watch("p")
    expected = ground.rows("p", ["b", "a"])
    with ground.open() as snapshot:
        ground.run("DELETE FROM p WHERE a % 2 = 0", "UPDATE p SET b = 'later'", "INSERT INTO p (a) VALUES (3)")
        partitions = snapshot.scan(relation, ["b", "a"])
        assert len(partitions) > 10
        tables = [read_partition(partition) for partition in partitions]
        found: Counter[tuple[str | None, ...]] = Counter()
        for table in tables:
            found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert found == expected
        assert snapshot.queries == 1
    assert "password" not in repr(partitions[0])
    with pytest.raises(ReadFailed, match="snapshot"):
        read_partition(partitions[0])


def test_an_empty_relation_has_no_partitions(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    with ground.open() as snapshot:
        assert snapshot.scan(relation, ["a"]) == []


def test_a_locked_table_is_busy_and_not_broken(grounds: Callable[..., Ground], database: Callable[..., str]) -> None:
    ground = grounds(database("crm"), lock_timeout=0.1, statement_timeout=0.4)
    ground.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    (relation,) = ground.watch("t")
    locker = ground.connect()
    with ground.open() as snapshot:
        ground.run("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE", connection=locker)
        with pytest.raises(SourceBusy, match="lock timeout"):
            snapshot.lookup(relation, ["a"], ["a"], pa.table({"a": ["1"]}))
        ground.run("ROLLBACK", connection=locker)
        assert len(snapshot.lookup(relation, ["a"], ["a"], pa.table({"a": ["1"]}))) == 1


def test_sessions_that_died_are_replaced(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    end = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name = 'dyda' AND datname = current_database()"
    )
    ground.run(end)
    assert ground.source.state().capture == "attached"
    with ground.open() as snapshot:
        ground.run(end)
        with pytest.raises(SourceUnreachable):
            snapshot.messages(None)
    with ground.open() as snapshot:
        assert snapshot.messages(None) == []


def test_an_alter_table_waits_for_one_lookup_at_the_most(ground: Ground, monkeypatch: Any) -> None:
    """50 ALTER TABLEs against lookups of 300 ms, back to back: none waits longer than two of them."""
    ground.run(
        "CREATE TABLE t (a int)",
        "INSERT INTO t VALUES (1)",
        "CREATE SCHEMA slow",
        "CREATE FUNCTION slow.key(int) RETURNS int LANGUAGE sql VOLATILE AS 'SELECT $1 FROM pg_sleep(0.3)'",
    )
    (relation,) = ground.watch("t")
    from psycopg2 import sql

    # The product's own lookup, made slow in its key predicate.
    monkeypatch.setattr(
        queries, "_compared", lambda column: sql.SQL("slow.key({})").format(sql.Identifier("t", column.name))
    )
    begun, stop = threading.Event(), threading.Event()
    lookups: list[float] = []

    def look() -> None:
        with ground.open() as snapshot:
            while not stop.is_set():
                started = time.perf_counter()
                snapshot.lookup(relation, ["a"], ["a"], pa.table({"a": ["1"]}))
                lookups.append(time.perf_counter() - started)
                begun.set()

    looking = threading.Thread(target=look)
    looking.start()
    waits = []
    try:
        assert begun.wait(30)
        for number in range(50):
            started = time.perf_counter()
            ground.run(f"ALTER TABLE t ALTER COLUMN a SET DEFAULT {number}")
            waits.append(time.perf_counter() - started)
    finally:
        stop.set()
        looking.join()
    assert len(lookups) >= 10, "the lookups were back to back"
    assert min(lookups) >= 0.3
    assert max(waits) < 2 * max(lookups), waits
