"""Schemas that move under a reader: what the log explains (C5), older images, names by oid, arrivals, locks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dyda.errors import BrokenUnit, SourceBusy
from dyda.model.message import DataUpdate, SchemaChange
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.model.schema_change import AddColumn, Rewrite, Step
from dyda.sources.reading.copy import read_partition
from tests.integration.sources.conftest import Ground, bag

UNSEEN = Rewrite("comes after a change that was not logged")
REPAIRED = Rewrite("disables its capture, so that rows may have changed uncaptured")


def known(*relations: Relation) -> dict[RelationName, int]:
    return {relation.name: relation.oid for relation in relations}


def steps(ground: Ground, relation: Relation, after: Position | None = None) -> list[Step]:
    with ground.source.open(known(relation)) as snapshot:
        found = [change for message in snapshot.messages(after) for change in message.changes]
    return [step for change in found if isinstance(change, SchemaChange) for step in change.steps]


def explained(ground: Ground, relation: Relation) -> bool:
    with ground.source.open(known(relation)) as snapshot:
        return snapshot.logged_fingerprints.get(relation.name) == snapshot.fingerprints[relation.name]


def hide(ground: Ground, *statements: str) -> None:
    """DDL that no event trigger sees."""
    for statement in statements:
        ground.run_unseen(statement)


# ---------------------------------------------------------------- what the log explains


def test_C5_a_hidden_rewrite_after_a_logged_change_is_not_explained(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    (relation,) = ground.watch("t")
    ground.run("ALTER TABLE t ADD COLUMN c int")
    assert explained(ground, relation)
    hide(ground, "ALTER TABLE t ALTER COLUMN a TYPE int USING a + 100")
    assert not explained(ground, relation)
    ground.source.attach([relation])
    assert not explained(ground, relation), "attaching again makes nothing known that was not"


def test_C5_a_hidden_rewrite_before_a_logged_change_is_told_with_it(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    (relation,) = ground.watch("t")
    hide(ground, "ALTER TABLE t ALTER COLUMN a TYPE int USING a + 100")
    assert not explained(ground, relation)
    ground.run("ALTER TABLE t ADD COLUMN c int")
    found = steps(ground, relation)
    assert [type(step) for step in found] == [AddColumn, Rewrite]
    assert found[1] == UNSEEN
    ground.run("ALTER TABLE t ADD COLUMN d int")
    assert [type(step) for step in steps(ground, relation)] == [AddColumn, Rewrite, AddColumn], "told once"


def test_C5_what_attaching_again_found_is_told_with_the_next_logged_change(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    hide(ground, "ALTER TABLE t ALTER COLUMN a TYPE int USING a + 100")
    ground.source.attach([relation])
    ground.run("ALTER TABLE t ADD COLUMN c int")
    assert UNSEEN in steps(ground, relation)
    assert explained(ground, relation)


def test_C5_rows_written_while_capture_was_off_are_told(ground: Ground) -> None:
    """A later DDL repairs capture; the rows written until then are nowhere."""
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    hide(ground, "DROP TRIGGER dyda_insert ON t", "INSERT INTO t VALUES (1)")
    assert not explained(ground, relation)
    ground.run("ALTER TABLE t ADD COLUMN c int")
    assert REPAIRED in steps(ground, relation)
    ground.run("INSERT INTO t VALUES (2)")
    assert ground.logged("t", ["a"]) == Counter({("2",): 1})


def test_C5_a_hidden_change_of_one_part_is_not_explained_by_a_logged_one_of_another(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE p (a int, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
    )
    (relation,) = ground.watch("p")
    hide(ground, "ALTER TABLE p1 ALTER b SET DEFAULT 1")
    ground.run("ALTER TABLE p2 ALTER b SET DEFAULT 1")
    assert not explained(ground, relation)


def test_C5_transactions_that_change_different_parts_at_once_are_explained(ground: Ground) -> None:
    """And neither waits for the other: the log is no bottleneck."""
    ground.run(
        "CREATE TABLE p (a int, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
    )
    (relation,) = ground.watch("p")
    gap = ground.gap()
    other = ground.connect()
    ground.run("BEGIN; ALTER TABLE p1 ALTER b SET DEFAULT 1", connection=other)
    ground.run("ALTER TABLE p2 ALTER b SET DEFAULT 1")
    assert explained(ground, relation)
    ground.run("COMMIT", connection=other)
    assert explained(ground, relation)
    assert ground.gap() == gap


def test_C5_an_entry_without_a_description_tells_that_nobody_knows(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    ground.run("DELETE FROM dyda.described", "ALTER TABLE t ADD COLUMN b int")
    with ground.source.open(known(relation)) as snapshot:
        (change,) = snapshot.messages(None)[0].changes
    assert isinstance(change, SchemaChange)
    assert change.steps == ()
    assert change.moves_rows
    ground.run("ALTER TABLE t ADD COLUMN c int")
    assert [type(step) for step in steps(ground, relation)] == [AddColumn], "from then on it is known"


def test_C5_by_name_alone_a_relation_that_left_is_explained(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    relations = ground.watch("t", "u")
    ground.run("ALTER TABLE t RENAME TO moved", "DROP TABLE u")
    with ground.open() as snapshot:
        assert snapshot.fingerprints == {relation.name: "absent" for relation in relations}
        assert snapshot.logged_fingerprints == snapshot.fingerprints


def test_a_schema_change_under_repeatable_read_is_told_or_a_gap(ground: Ground) -> None:
    """Its catalogs are those of its snapshot, so it cannot know what another transaction did since."""
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    (relation,) = ground.watch("t")
    gap = ground.gap()
    older = ground.connect()
    ground.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM u", connection=older)
    ground.run("ALTER TABLE t ADD COLUMN b int")
    ground.run("ALTER TABLE t ADD COLUMN c int; COMMIT", connection=older)
    assert ground.gap() > gap or [type(step) for step in steps(ground, relation)] == [AddColumn, AddColumn]
    assert ground.gap() > gap or explained(ground, relation)


def test_a_source_that_an_older_version_attached_is_upgraded(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    gap = ground.gap()
    ground.run_unseen(
        "DROP TABLE dyda.described, dyda.holder",
        "DROP FUNCTION dyda.observe, dyda.changed_relations, dyda.schema_entries",
        "DROP INDEX dyda.log_schema",
        "ALTER TABLE dyda.member DROP COLUMN lasting, DROP COLUMN writers",
    )
    ground.source.attach([relation])
    assert ground.gap() > gap
    ground.run("ALTER TABLE t ADD COLUMN b int")
    assert [type(step) for step in steps(ground, relation)] == [AddColumn]
    ground.run("DROP TABLE t", "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})


def test_attaching_again_does_not_wait_for_an_open_schema_change(
    grounds: Callable[..., Ground], database: Callable[[str], str]
) -> None:
    ground = grounds(database("crm"), attach_timeout=0.3)
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    altering = ground.connect()
    ground.run("BEGIN; ALTER TABLE t ADD COLUMN b int", connection=altering)
    ground.source.attach([relation])
    ground.run("COMMIT", connection=altering)
    assert explained(ground, relation)
    assert [type(step) for step in steps(ground, relation)] == [AddColumn]


# ---------------------------------------------------------------- images of older versions


def test_images_are_read_under_the_names_that_columns_have_now(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int, b text, c int)")
    ground.watch("t")
    ground.run(
        "INSERT INTO t VALUES (1, 'x', 10)",
        "ALTER TABLE t RENAME b TO a2",
        "ALTER TABLE t RENAME a TO b",
        "ALTER TABLE t ALTER c TYPE text",
        "INSERT INTO t VALUES (2, 'y', '20 EUR')",
    )
    expected = Counter({("1", "x", "10"): 1, ("2", "y", "20 EUR"): 1})
    assert ground.logged("t", ["b", "a2", "c"]) == expected == ground.rows("t", ["b", "a2", "c"])


def test_images_are_read_under_the_names_that_the_reader_knows(ground: Ground) -> None:
    """The queue is processed in order: what came before a schema change is read as the catalog knew it then."""
    ground.run("CREATE TABLE t (a int, b text)")
    (relation,) = ground.watch("t")
    ground.run("INSERT INTO t VALUES (1, 'x')", "ALTER TABLE t RENAME b TO c", "ALTER TABLE t RENAME a TO b")
    ground.run("INSERT INTO t VALUES (2, 'y')")
    with ground.source.open(known(relation)) as snapshot:
        found = snapshot.changes({relation.name: ["b", "a"]}, None, known={relation.name: relation})
        assert bag(found[relation.name]) == Counter({("x", "1"): 1, ("y", "2"): 1})
    ground.run("ALTER TABLE t DROP COLUMN c", "ALTER TABLE t ADD COLUMN c text", "INSERT INTO t VALUES (3, 'z')")
    with ground.source.open(known(relation)) as snapshot:
        with pytest.raises(BrokenUnit):  # the last image has no such column any more
            snapshot.changes({relation.name: ["b", "a"]}, None, known={relation.name: relation})
        first, second, third = (m.xid for m in snapshot.messages(None) if m.kind == "data")
        found = snapshot.changes(
            {relation.name: ["b", "a"]}, None, known={relation.name: relation}, xids=[first, second]
        )
        assert bag(found[relation.name]) == Counter({("x", "1"): 1, ("y", "2"): 1})
        with pytest.raises(BrokenUnit, match=r"a logged row lacks c"):  # the first images know another c
            snapshot.changes({relation.name: ["c"]}, None)
        some = snapshot.changes({relation.name: ["c"]}, None, partial=True)[relation.name]
        assert some.select(["c", "##lacks", "#xid"]).to_pylist() == [
            {"c": None, "##lacks": '["c"]', "#xid": first},
            {"c": None, "##lacks": '["c"]', "#xid": second},
            {"c": "z", "##lacks": None, "#xid": third},
        ]
        assert bag(snapshot.changes({relation.name: ["c"]}, None, xids=[third])[relation.name]) == Counter({("z",): 1})


def test_images_of_a_writer_whose_snapshot_is_older_than_the_schema(ground: Ground) -> None:
    """REPEATABLE READ reads old catalogs and writes new rows: the shape must be that of the rows."""
    ground.run(
        "CREATE TABLE p (a int, b text, c int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 (c int, b text, a int)",
        "ALTER TABLE p ATTACH PARTITION p1 FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t (a int, b int, c int)",
        "CREATE TABLE u (a int)",
    )
    ground.watch("p", "t")
    gap = ground.gap()
    for isolation in ("REPEATABLE READ", "SERIALIZABLE"):
        older = ground.connect()
        ground.run(f"BEGIN ISOLATION LEVEL {isolation}; SELECT FROM u", connection=older)
        ground.run(
            "ALTER TABLE t DROP COLUMN b, ADD COLUMN b int",
            "ALTER TABLE p DROP COLUMN b, ADD COLUMN b text",
            "ALTER TABLE t RENAME c TO cc; ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME cc TO a",
        )
        ground.run("INSERT INTO t (a, b, c) VALUES (1, 2, 3)", connection=older)
        ground.run("INSERT INTO p1 (a, b, c) VALUES (1, 'b', 3); UPDATE p SET b = 'bb'; COMMIT", connection=older)
        for table in ("t", "p"):
            assert ground.logged(table, ["a", "b", "c"]) == ground.rows(table, ["a", "b", "c"])
        ground.run("DELETE FROM t", "DELETE FROM p")
        with ground.open() as snapshot:
            position = snapshot.position
        ground.source.acknowledge(position)
    assert ground.gap() == gap


# ---------------------------------------------------------------- by oid


def test_a_renamed_relation_is_read_under_the_name_it_is_known_by(ground: Ground) -> None:
    ground.run("CREATE SCHEMA other", "CREATE TABLE t (a int, b text)")
    (relation,) = ground.watch("t")
    ground.run(
        "INSERT INTO t VALUES (1, 'before')", "ALTER TABLE t RENAME TO moved", "ALTER TABLE moved SET SCHEMA other"
    )
    ground.run("INSERT INTO other.moved VALUES (2, 'after')")
    with ground.source.open(known(relation)) as snapshot:
        assert {change.relation for m in snapshot.messages(None) for change in m.changes} == {relation.name}
        assert bag(snapshot.changes({relation.name: ["b"]}, None)[relation.name]) == Counter(
            {("before",): 1, ("after",): 1}
        )
        now = ground.name("moved", "other")
        assert snapshot.fingerprints[now] == snapshot.fingerprints[relation.name]
        position = snapshot.position
        assert snapshot.fingerprint_again() == snapshot.fingerprints
    found = ground.source.find([relation.oid])[relation.oid]
    assert found is not None
    assert found.name == now
    ground.source.attach([found])
    ground.run("INSERT INTO other.moved VALUES (3, 'later')", "CREATE TABLE t (z int)", "INSERT INTO t VALUES (1)")
    with ground.source.open(known(found)) as snapshot:
        assert [m.changes for m in snapshot.messages(position)] == [(DataUpdate(now, 1, 0),)], "the old name is free"
        assert not snapshot.fingerprints[now].startswith("uncaptured")
        keys = pa.table({"a": ["1", "2", "3"]})
        assert len(snapshot.lookup(found, ["a"], ["a"], keys)) == 3


def test_a_table_that_lost_its_name_in_a_swap_is_nobodys(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE t_new (a int)")
    (relation,) = ground.watch("t")
    ground.run("BEGIN; ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; COMMIT")
    ground.run("INSERT INTO t VALUES (1), (2)", "INSERT INTO t_old VALUES (3)")
    new = ground.source.describe([("public", "t")])[("public", "t")]
    with ground.source.open(known(relation)) as snapshot:
        swap, *rows = snapshot.messages(None)
        assert [type(step).__name__ for c in swap.schema_changes for step in c.steps] == [
            "RenameRelation",
            "ReplaceRelation",
        ]
        assert [m.changes for m in rows] == [(DataUpdate(relation.name, 2, 0),)]
        assert bag(snapshot.changes({relation.name: ["a"]}, None)[relation.name]) == Counter({("3",): 1})
    with ground.source.open(known(new)) as snapshot:
        assert [m.rows for m in snapshot.messages(swap_position(snapshot.position, rows))] == [2], "not t_old's"
        assert bag(snapshot.changes({relation.name: ["a"]}, None)[relation.name]) == Counter({("1",): 1, ("2",): 1})
        position = snapshot.position
    ground.source.attach([new])
    assert ground.run("SELECT count(*) FROM pg_trigger WHERE tgrelid = 't_old'::regclass") == [(4,)], "it may swap back"
    ground.source.acknowledge(position)
    ground.source.attach([new])
    assert ground.run("SELECT count(*) FROM pg_trigger WHERE tgrelid = 't_old'::regclass") == [(0,)]
    assert ground.run("SELECT count(DISTINCT root) FROM dyda.member") == [(1,)]


def swap_position(now: Position, rows: list[Any]) -> Position:
    """Everything but these messages."""
    return now.without([message.xid for message in rows])


def test_find_tells_relations_by_oid_as_they_are_now(ground: Ground) -> None:
    ground.run("CREATE SCHEMA other", "CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE gone (a int)")
    t, gone = ground.watch("t", "gone")
    ground.run("DROP TABLE gone", "ALTER TABLE t ADD COLUMN b text", "ALTER TABLE t SET SCHEMA other")
    found = ground.source.find([t.oid, gone.oid, 4_000_000_000])
    assert found[gone.oid] is None
    assert found[4_000_000_000] is None
    relation = found[t.oid]
    assert relation == ground.source.describe([("other", "t")])[("other", "t")]
    assert relation.name == ground.name("t", "other")
    assert [column.name for column in relation.columns] == ["a", "b"]
    assert relation.keys == (("a",),)
    assert ground.source.find([]) == {}


# ---------------------------------------------------------------- arrivals


def test_arrivals_are_schema_changes_committed_after_the_snapshot(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)", "CREATE TABLE v (a int)", "CREATE TABLE x (a int)")
    t, u, v, x = ground.watch("t", "u", "v", "x")
    ground.run("ALTER TABLE x ADD COLUMN b int")
    writer = ground.connect()
    ground.run("BEGIN; ALTER TABLE v ADD COLUMN b int", connection=writer)
    with ground.source.open(known(t, u, v, x)) as snapshot:
        assert snapshot.arrivals() == frozenset()
        ground.run("INSERT INTO t SELECT generate_series(1, 100)")
        assert snapshot.arrivals() == frozenset(), "rows are no news"
        ground.run("TRUNCATE u", "ALTER TABLE t RENAME TO moved")
        assert snapshot.arrivals() == {t.name, u.name}
        ground.run("COMMIT", connection=writer)
        assert snapshot.arrivals() == {t.name, u.name, v.name}, "older, but committed after the snapshot"
        ground.run("DROP TABLE x", "CREATE TABLE x (a int)")
        assert snapshot.arrivals() == {t.name, u.name, v.name, x.name}
        assert snapshot.queries == 0


def test_arrivals_are_found_by_their_own_index(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.run("INSERT INTO t SELECT generate_series(1, 20000)", "ALTER TABLE t ADD COLUMN b int", "ANALYZE dyda.log")
    plan = "\n".join(
        row
        for (row,) in ground.run(
            "EXPLAIN SELECT l.seq FROM dyda.log l WHERE l.op IN ('S', 'T') AND l.xid >= '10'::xid8"
            " AND NOT pg_visible_in_snapshot(l.xid, '10:10:')"
        )
    )
    assert "log_schema" in plan


# ---------------------------------------------------------------- locks


def test_locks_keep_schema_changes_away_until_the_snapshot_is_closed(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE p (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE u (a int)",
    )
    p, u = ground.watch("p", "u")
    done: list[float] = []

    def alter() -> None:
        ground.run("ALTER TABLE p1 ADD CHECK (a > -1)", connection=ground.connect())
        done.append(time.monotonic())

    with ground.source.open(known(p, u), lock=[p.name]) as snapshot:
        altering = threading.Thread(target=alter)
        altering.start()
        ground.run("ALTER TABLE u ADD COLUMN b int")  # exactly these relations
        while not ground.run("SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'p1'::regclass"):
            assert altering.is_alive()
        ground.run("SET lock_timeout = '5s'", "INSERT INTO u VALUES (1)")
        assert snapshot.fingerprint_again()[p.name] == snapshot.fingerprints[p.name]
        assert not done
        closed = time.monotonic()
    altering.join()
    assert done[0] >= closed


def test_what_is_read_under_locks_does_not_wait_behind_the_schema_changes_that_they_keep_away(ground: Ground) -> None:
    """Who asks for a lock after somebody who waits for a stronger one waits behind him: for ourselves, in the end."""
    ground.run(
        "CREATE TABLE p (a int, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        "INSERT INTO p VALUES (1, 'x'), (2, NULL), (11, '')",
    )
    (p,) = ground.watch("p")
    altering = threading.Thread(
        target=lambda: ground.run("ALTER TABLE p ADD COLUMN c int", connection=ground.connect())
    )
    with ground.source.open(known(p), lock=[p.name]) as snapshot:
        altering.start()
        while not ground.run("SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'p'::regclass"):
            assert altering.is_alive()
        assert len(snapshot.lookup(p, ["a", "b"], ["a"], pa.table({"a": ["1", "11", "5"]}))) == 2
        partitions = snapshot.scan(p, ["a", "b"])
        rows = pa.concat_tables([read_partition(partition) for partition in partitions])
        assert sorted(rows.to_pylist(), key=str) == [
            {"a": "1", "b": "x"},
            {"a": "11", "b": ""},
            {"a": "2", "b": None},
        ]
        assert sum(read_partition(partition).num_rows for partition in snapshot.scan(p, [])) == 3
        assert snapshot.fingerprint_again() == snapshot.fingerprints
        files = [Path(partition.file or "") for partition in partitions]
        assert altering.is_alive()
        assert all(file.exists() for file in files)
    altering.join()
    assert not any(file.exists() for file in files)
    assert ground.run("SELECT count(*) FROM pg_attribute WHERE attrelid = 'p2'::regclass AND attname = 'c'") == [(1,)]


def test_a_scan_that_takes_longer_than_the_locks_stand_goes_on_without_them(ground: Ground) -> None:
    """The schema change waits for the limit and no longer, however many pieces there are to read."""
    ground.run("CREATE TABLE t (a int, b text)", "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 1000) i")
    (t,) = ground.watch("t")
    with ground.source.open(known(t), lock=[t.name], lock_limit=4) as snapshot:
        assert all(partition.file for partition in snapshot.scan(t, ["a"]))
        started = time.monotonic()
        ground.run("SET lock_timeout = '20s'", "ALTER TABLE t ADD COLUMN c int")
        assert time.monotonic() - started < 12
        partitions = snapshot.scan(t, ["a"])
        assert [partition.file for partition in partitions] == [None]
        assert sum(read_partition(partition).num_rows for partition in partitions) == 1000
        assert snapshot.fingerprint_again() != snapshot.fingerprints


def test_locks_end_by_themselves_and_the_fingerprint_tells(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)")
    (relation,) = ground.watch("t")
    started = time.monotonic()
    with ground.source.open(known(relation), lock=[relation.name], lock_limit=0.5) as snapshot:
        ground.run("ALTER TABLE t ALTER a TYPE int USING a + 1")
        assert 0.4 < time.monotonic() - started < 5
        assert len(snapshot.lookup(relation, ["a"], ["a"], pa.table({"a": ["1", "2"]}))) == 0, "a lie, and no error"
        assert snapshot.fingerprint_again() != snapshot.fingerprints
        assert snapshot.arrivals() == {relation.name}
    with ground.source.open(known(relation)) as snapshot:
        assert [read_partition(part).num_rows for part in snapshot.scan(relation, ["a"])] == [1], "sessions still work"


def test_locks_are_asked_for_in_moments_and_given_up_in_time(ground: Ground) -> None:
    """No deadlock with a source's transaction that holds one table and wants the other."""
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    t, u = ground.watch("t", "u")
    holder = ground.connect()
    ground.run("BEGIN; ALTER TABLE u ADD COLUMN b int", connection=holder)
    with pytest.raises(SourceBusy):
        ground.source.open(known(t, u), lock=[t.name, u.name], lock_limit=0.6)
    opened: list[Any] = []
    opening = threading.Thread(
        target=lambda: opened.append(ground.source.open(known(t, u), lock=[t.name, u.name], lock_limit=20))
    )
    opening.start()
    for number in range(5):
        ground.run(f"ALTER TABLE t ADD COLUMN c{number} int", connection=holder)
    ground.run("COMMIT", connection=holder)
    opening.join()
    with opened[0] as snapshot:
        assert snapshot.fingerprint_again() == snapshot.fingerprints
        assert len(snapshot.messages(None)) == 1


def test_locks_follow_a_relation_that_was_renamed(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    ground.run("ALTER TABLE t RENAME TO moved")
    locks = "SELECT count(*) FROM pg_locks WHERE relation = 'moved'::regclass AND mode = 'AccessShareLock'"
    with ground.source.open(known(relation), lock=[relation.name]):
        assert ground.run(locks) == [(2,)], "one that holds them, one that reads"
    assert ground.run(locks) == [(0,)]
    ground.run("DROP TABLE moved")
    with pytest.raises(BrokenUnit):
        ground.source.open(known(relation), lock=[relation.name])
    with pytest.raises(BrokenUnit):
        ground.source.open([relation.name], lock=[relation.name])


def test_a_schema_change_between_fingerprint_and_snapshot_raises_no_false_alarm(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fingerprints are older than the snapshot; a logged change in between must not look like a hidden one."""
    from dyda.sources.connection import Sessions

    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    begin: Callable[..., Any] = Sessions.begin
    waiting = [f"ALTER TABLE t ADD COLUMN c{number} int" for number in range(2)]
    connection = ground.connect()

    def interfering(self: Sessions, *arguments: Any) -> Any:
        found = begin(self, *arguments)
        if waiting and getattr(interfering, "calls", 0) % 3 == 1:  # the snapshot's own session
            ground.run(waiting.pop(), connection=connection)
        interfering.calls = getattr(interfering, "calls", 0) + 1  # type: ignore[attr-defined]
        return found

    ground.run("ALTER TABLE t ADD COLUMN b int")
    monkeypatch.setattr(Sessions, "begin", interfering)
    assert explained(ground, relation)
    assert not waiting
