"""The rules of capture (CORRECTNESS.md, C): what happened to a watched relation is told, all of it and exactly."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from dyda.errors import DydaError, RelationRefused, SameDatabase, SourceInUse
from dyda.model.message import DataUpdate, SchemaChange, Truncation
from dyda.model.schema_change import AddColumn, ChangeType, RenameColumn, RenameRelation
from tests.conformance.place import Place, images, plus, table_now

OTHER = "22222222-2222-2222-2222-222222222222"

ODD_SETTINGS = (
    "SET extra_float_digits = -5; SET DateStyle = 'SQL, DMY'; SET IntervalStyle = sql_standard;"
    " SET TimeZone = 'Asia/Kathmandu'; SET bytea_output = escape"
)
ODD_VALUES = (
    "0.1::float8 + 0.2::float8, 1e-7::real, '2024-02-01', '2024-02-01 03:04:05.678901+05',"
    " '1 year 2 mons -3 days 04:05:06', '\\xdeadbeef', '{\"a\": null}', 'null', '{{1,NULL},{3,4}}', 1.500,"
    " E'a\\\\b\"c,(d)\\n\\te''f', '', NULL, '[2:3]={7,8}', true"
)
ODD_COLUMNS = {
    "f": "float8",
    "r": "real",
    "d": "date",
    "ts": "timestamptz",
    "i": "interval",
    "b": "bytea",
    "js": "json",
    "jn": "jsonb",
    "a": "int[]",
    "n": "numeric",
    "t": "text",
    "e": "text",
    "x": "text",
    "low": "int[]",
    "yes": "boolean",
}


def test_C1_images_lookups_and_scans_print_the_same_whatever_the_writers_settings(place: Place) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in ODD_COLUMNS.items())
    place.run(f"CREATE TABLE t (k int, {columns})")
    relation = place.watch("t")
    names = list(ODD_COLUMNS)
    place.run(ODD_SETTINGS, f"INSERT INTO t VALUES (1, {ODD_VALUES})")
    with place.open(relation) as snapshot:
        expected = place.rows("t", names)
        assert len(expected) == 1
        assert images(snapshot, relation, names) == expected
        assert table_now(snapshot, relation, names) == expected
        first = snapshot.position
    place.run("UPDATE t SET k = 2", "DELETE FROM t")
    with place.open(relation) as snapshot:
        gone = images(snapshot, relation, names, first)
    assert gone == Counter(dict.fromkeys(expected, -1)), "an update and a deletion know the whole old row"


def test_C1_long_values_that_an_update_leaves_alone_are_told_whole(place: Place) -> None:
    """They are stored out of line, and a log need not repeat them."""
    place.run("CREATE TABLE t (k int PRIMARY KEY, long text, n int)", "ALTER TABLE t ALTER long SET STORAGE EXTERNAL")
    relation = place.watch("t")
    place.run("INSERT INTO t VALUES (1, repeat('long', 5000), 0)")
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run("UPDATE t SET n = 1")
    with place.open(relation) as snapshot:
        found = images(snapshot, relation, ["k", "long", "n"], first)
    assert found == Counter({("1", "long" * 5000, "1"): 1, ("1", "long" * 5000, "0"): -1})


def test_C2_partitions_are_captured_whoever_names_them(place: Place) -> None:
    place.run(
        "CREATE TABLE p (a int, b int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 (b int, a int)",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)",
    )
    relation = place.watch("p")
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run(
        "INSERT INTO p VALUES (1, 1), (11, 2)", "INSERT INTO p2 VALUES (3, 12)", "UPDATE p SET a = 13 WHERE a = 1"
    )
    with place.open(relation) as snapshot:
        found = images(snapshot, relation, ["a", "b"], first)
    assert found == place.rows("p", ["a", "b"]) == Counter({("13", "1"): 1, ("11", "2"): 1, ("12", "3"): 1})


def test_C2_inheritance_children_are_part_of_the_relation(place: Place) -> None:
    place.run("CREATE TABLE t (a int)", "CREATE TABLE c (more text) INHERITS (t)")
    relation = place.watch("t")
    place.run("INSERT INTO t VALUES (1)", "INSERT INTO c VALUES (2, 'x')", "UPDATE t SET a = a + 10")
    with place.open(relation) as snapshot:
        assert images(snapshot, relation, ["a"]) == place.rows("t", ["a"]) == Counter({("11",): 1, ("12",): 1})


def test_C2_a_new_partition_is_captured_at_once_or_known_not_to_be(place: Place) -> None:
    place.run("CREATE TABLE p (a int) PARTITION BY LIST (a)", "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)")
    relation = place.watch("p")
    with place.open(relation) as snapshot:
        first, before = snapshot.position, snapshot.kept(relation.name)
    place.run("BEGIN; CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2); INSERT INTO p2 VALUES (2); COMMIT")
    with place.open(relation) as snapshot:
        told = images(snapshot, relation, ["a"], first) == Counter({("2",): 1})
        logged = snapshot.logged_fingerprints.get(relation.name) == snapshot.fingerprints[relation.name]
        assert not snapshot.agrees(relation.name, before)
        assert (told and logged) if snapshot.state.inline_schema_changes else not logged


@pytest.mark.parametrize(
    "kind",
    [
        "CREATE UNLOGGED TABLE t (a int)",
        "CREATE VIEW t AS SELECT 1 AS a",
        "CREATE MATERIALIZED VIEW t AS SELECT 1 AS a",
    ],
)
def test_C3_what_cannot_be_captured_is_refused_by_name(place: Place, kind: str) -> None:
    place.run(kind)
    with pytest.raises(RelationRefused, match=r"crm\.public\.t"):
        place.source.describe([("public", "t")])


def test_C4_truncate_is_no_list_of_deletions(place: Place) -> None:
    place.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (0)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run("BEGIN; INSERT INTO t VALUES (1); TRUNCATE t; INSERT INTO t VALUES (2), (3); COMMIT")
    with place.open(relation) as snapshot:
        (message,) = snapshot.messages(first)
        assert message.changes == (
            DataUpdate(relation.name, 1, 0),
            Truncation(relation.name, True),
            DataUpdate(relation.name, 2, 0),
        )


def test_C4_truncate_of_a_part_leaves_the_others(place: Place) -> None:
    place.run(
        "CREATE TABLE p (a int) PARTITION BY LIST (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1)",
        "CREATE TABLE p2 PARTITION OF p FOR VALUES IN (2)",
        "INSERT INTO p VALUES (1), (2)",
    )
    relation = place.watch("p")
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run("TRUNCATE p1")
    place.run("TRUNCATE p")
    with place.open(relation) as snapshot:
        told = [message.changes for message in snapshot.messages(first)]
    assert told == [(Truncation(relation.name, False),), (Truncation(relation.name, True),)]


def test_C5_capture_that_was_off_for_a_moment_shows(place: Place) -> None:
    place.run("CREATE TABLE t (a int)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        gap, kept = snapshot.gap, snapshot.kept(relation.name)
    place.run("SET event_triggers = off" if _has_event_triggers_setting(place) else "SELECT 1")
    place.run(place.way.silence.format("t"), "INSERT INTO t VALUES (1)", place.way.restore.format("t"))
    with place.open(relation) as snapshot:
        assert snapshot.gap != gap or not snapshot.agrees(relation.name, kept), "a row is missing, and nothing says so"


def _has_event_triggers_setting(place: Place) -> bool:
    return bool(place.run("SELECT 1 FROM pg_settings WHERE name = 'event_triggers'"))


def test_C6_a_transaction_that_was_open_is_in_the_build_or_in_the_messages(place: Place) -> None:
    """It wrote before capture was there, and commits after: attaching waits for it, or tells of it."""
    place.run("CREATE TABLE t (a int)")
    writer = place.connect()
    place.run("BEGIN; INSERT INTO t VALUES (1)", connection=writer)
    begun = threading.Event()

    def finish() -> None:
        begun.wait()
        place.run("INSERT INTO t VALUES (2); COMMIT", connection=writer)

    thread = threading.Thread(target=finish)
    thread.start()
    found = place.source.describe([("public", "t")])
    try:
        place.source.attach(found.values(), lambda blocked: begun.set())
    finally:
        begun.set()
    relation = found[("public", "t")]
    with place.open(relation) as snapshot:
        built, first = table_now(snapshot, relation, ["a"]), snapshot.position
    thread.join()
    place.run("INSERT INTO t VALUES (3)")
    with place.open(relation) as snapshot:
        assert plus(built, images(snapshot, relation, ["a"], first)) == place.rows("t", ["a"])
    assert place.rows("t", ["a"]) == Counter({("1",): 1, ("2",): 1, ("3",): 1})


def test_C7_a_source_has_one_consumer(place: Place) -> None:
    place.run("CREATE TABLE t (a int)")
    place.watch("t")
    with pytest.raises(SourceInUse):
        place.adapter(OTHER).attach([])
    with pytest.raises(SameDatabase):
        place.adapter(name="twin", others=["crm"]).attach([])


def test_schema_changes_come_in_order_with_rows(place: Place) -> None:
    """Within one transaction too: the images before and after have the columns that they had."""
    place.run("CREATE TABLE t (a int, b int)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        assert snapshot.state.inline_schema_changes
        first = snapshot.position
    place.run(
        "BEGIN; INSERT INTO t VALUES (1, 2); ALTER TABLE t RENAME b TO c; INSERT INTO t VALUES (3, 4);"
        " ALTER TABLE t ADD d text; UPDATE t SET d = 'x' WHERE a = 3; ALTER TABLE t ALTER a TYPE text USING a || '!';"
        " ALTER TABLE t RENAME TO u; INSERT INTO u VALUES ('5', 6, 'y'); COMMIT"
    )
    with place.open(relation) as snapshot:
        (message,) = snapshot.messages(first)
        kinds: list[Any] = [
            [type(step) for step in change.steps] if isinstance(change, SchemaChange) else change
            for change in message.changes
        ]
        name = relation.name
        assert kinds[:5] == [
            DataUpdate(name, 1, 0),
            [RenameColumn],
            DataUpdate(name, 1, 0),
            [AddColumn],
            DataUpdate(name, 1, 1),
        ]
        assert ChangeType in kinds[5]
        assert kinds[6:] == [[RenameRelation], DataUpdate(name, 1, 0)]
        found = images(snapshot, relation, ["a", "b"], first)
        assert found == Counter({("1", "2"): 1, ("3", "4"): 1, ("5", "6"): 1}), "by number, whatever the name is now"


def test_a_table_that_takes_the_name_is_captured_in_the_same_transaction(place: Place) -> None:
    place.run("CREATE TABLE t (a int)", "CREATE TABLE fresh (a int)")
    relation = place.watch("t")
    with place.open(relation) as snapshot:
        first = snapshot.position
    place.run("BEGIN; ALTER TABLE t RENAME TO gone; ALTER TABLE fresh RENAME TO t; INSERT INTO t VALUES (7); COMMIT")
    now = place.source.describe([("public", "t")])[("public", "t")]
    assert now.oid != relation.oid
    with place.open(relation) as snapshot:
        assert images(snapshot, now, ["a"], first) == Counter({("7",): 1})
        assert snapshot.fingerprints[relation.name] == snapshot.logged_fingerprints[relation.name]


def test_statements_of_the_sources_own_succeed_without_a_message_of_ours(place: Place) -> None:
    place.run("CREATE TABLE t (a int, b text)")
    place.watch("t")
    writer = place.connect()
    place.run(
        "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 50) i",
        "UPDATE t SET b = b || a",
        "DELETE FROM t WHERE a % 7 = 0",
        "ALTER TABLE t ADD c int",
        "UPDATE t SET c = 1",
        "TRUNCATE t",
        connection=writer,
    )
    assert writer.notices == []


def test_detaching_leaves_nothing(place: Place) -> None:
    place.run("CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE c () INHERITS (t)")
    before = _belongings(place)
    place.watch("t")
    assert _belongings(place) != before
    place.source.detach()
    assert _belongings(place) == before
    assert place.source.state().capture == "detached"


def _belongings(place: Place) -> list[object]:
    """All that capture could have put there, in this database or beside it."""
    return [
        place.run(question)
        for question in (
            "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' ORDER BY 1",
            "SELECT tgname, tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1, 2",
            "SELECT evtname FROM pg_event_trigger ORDER BY 1",
            "SELECT slot_name FROM pg_replication_slots WHERE database = current_database() ORDER BY 1",
            "SELECT pubname FROM pg_publication ORDER BY 1",
            "SELECT relname, relreplident FROM pg_class WHERE relname IN ('t', 'c') ORDER BY 1",
            "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'dyda%' || (SELECT oid FROM pg_database"
            " WHERE datname = current_database())",
        )
    ]


def test_released_tables_are_captured_no_longer(place: Place) -> None:
    place.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    t, u = place.watch("t"), place.watch("u")
    with place.open(t, u) as snapshot:
        first = snapshot.position
    place.source.release([u])
    place.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    assert set(place.source.state().watched) == {t.oid}
    with place.open(t) as snapshot:
        assert [message.relations for message in snapshot.messages(first)] == [frozenset({t.name})]


def test_what_is_in_the_way_is_told_with_a_remedy(place: Place) -> None:
    with pytest.raises(DydaError) as refused:
        place.source.describe([("public", "nowhere")])
    assert refused.value.remedy
    assert all(finding.remedy or finding.level == "ok" for finding in place.source.check([("public", "nowhere")]))
