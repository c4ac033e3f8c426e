"""What the log says happened is what happened: rules C1, C2, C4, C5, C6, C7."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dyda.errors import BrokenUnit, RelationRefused, SourceBusy, SourceInUse
from dyda.model.message import DataUpdate, SchemaChange, Truncation
from dyda.sources import PostgresSource, SourceSettings
from dyda.sources.capture import install
from dyda.sources.log.row_images import places_of
from dyda.sources.reading.rights import install_reader
from tests.integration.sources.conftest import Ground, plus

ODD_WRITER = (
    "SET extra_float_digits = -5; SET DateStyle = 'German'; SET IntervalStyle = 'sql_standard';"
    " SET bytea_output = escape; SET TimeZone = 'Asia/Kathmandu'; SET search_path = 'pg_catalog';"
    " SET quote_all_identifiers = on"
)


def test_C1_images_do_not_depend_on_the_writers_settings(ground: Ground) -> None:
    columns = ["f", "d", "ts", "tz", "i", "b", "m", "r"]
    ground.run(
        "CREATE TABLE t (f float8, d date, ts timestamp, tz timestamptz, i interval, b bytea, m money, r regclass)"
    )
    ground.watch("t")
    ground.run(
        ODD_WRITER,
        "INSERT INTO public.t VALUES (0.1::float8 + 0.2, '2024-02-01', '2024-02-01 10:11:12.5', '2024-02-01 00:00+00',"
        " '1 day 2 hours', '\\x00ff', 12.5, 'public.t')",
    )
    logged = ground.logged("t", columns)
    assert logged == ground.rows("t", columns)
    assert next(iter(logged))[:3] == ("0.30000000000000004", "2024-02-01", "2024-02-01 10:11:12.5")


def test_C1_a_users_cast_from_rows_to_text_is_not_used(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE t (a int)",
        "CREATE FUNCTION lie(t) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT '(999)' $$",
        "CREATE CAST (t AS text) WITH FUNCTION lie(t)",
    )
    ground.watch("t")
    ground.run("INSERT INTO t VALUES (1)")
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})


def test_C1_virtual_generated_columns_are_marked_and_never_read_from_images(ground: Ground) -> None:
    if ground.connect().server_version < 180000:
        pytest.skip("virtual columns came with PostgreSQL 18")
    ground.run("CREATE TABLE t (a int, v int GENERATED ALWAYS AS (a + 1), s int GENERATED ALWAYS AS (a + 2) STORED)")
    (relation,) = ground.watch("t")
    assert [column.generated for column in relation.columns] == ["", "v", "s"]
    ground.run("INSERT INTO t VALUES (1)")
    assert ground.logged("t", ["a", "s"]) == Counter({("1", "3"): 1})
    with pytest.raises(BrokenUnit):
        ground.logged("t", ["v"])


def test_C2_every_way_to_write_into_a_hierarchy_is_logged_once(ground: Ground) -> None:
    """Parent, partitions and their partitions; columns in other orders; rows that move; MERGE, upserts, CTEs, COPY."""
    ground.run(
        "CREATE TABLE p (a int, b text) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE p2 (b text, dropped int, a int)",
        "ALTER TABLE p2 DROP COLUMN dropped",
        "ALTER TABLE p ATTACH PARTITION p2 FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE p3 PARTITION OF p FOR VALUES FROM (20) TO (40) PARTITION BY LIST (b)",
        "CREATE TABLE p3x PARTITION OF p3 DEFAULT",
        "CREATE UNIQUE INDEX ON p1 (a) WHERE b = 'up'",
        "INSERT INTO p SELECT i, 'start' FROM generate_series(0, 39) i",
    )
    ground.watch("p")
    columns = ["a", "b"]
    before = ground.rows("p", columns)
    for statement in (
        "INSERT INTO p VALUES (1000 % 40, 'x'), (11, NULL)",
        "INSERT INTO p2 (a, b) VALUES (12, 'direct')",
        "INSERT INTO p3x VALUES (25, 'leaf')",
        "UPDATE p SET b = b || '!' WHERE a % 3 = 0",
        "UPDATE p SET a = (a + 7) % 40",
        "UPDATE p2 SET b = 'only two'",
        "UPDATE p3 SET a = a + 1 WHERE a < 30",
        "DELETE FROM p WHERE a % 5 = 0",
        "DELETE FROM p3x WHERE a = 31",
        "WITH gone AS (DELETE FROM p WHERE a < 5 RETURNING *) INSERT INTO p SELECT a + 20, b FROM gone",
        "WITH one AS (INSERT INTO p VALUES (33, 'cte') RETURNING a) UPDATE p SET b = 'cte too' WHERE a = 34",
        "INSERT INTO p1 VALUES (6, 'up')",
        "INSERT INTO p1 VALUES (6, 'up'), (7, 'up') ON CONFLICT (a) WHERE b = 'up' DO UPDATE SET b = 'sert'",
        "INSERT INTO p1 VALUES (7, 'up') ON CONFLICT DO NOTHING",
    ):
        position = _position(ground)
        ground.run(statement)
        after = ground.rows("p", columns)
        assert plus(before, ground.logged("p", columns, position)) == after, statement
        before = after
    if ground.connect().server_version >= 150000:
        position = _position(ground)
        ground.run(
            "MERGE INTO p USING (VALUES (26, 'm'), (27, 'n'), (39, 'o')) AS s (a, b) ON p.a = s.a"
            " WHEN MATCHED AND s.a = 27 THEN DELETE WHEN MATCHED THEN UPDATE SET b = s.b, a = 3"
            " WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)"
        )
        assert plus(before, ground.logged("p", columns, position)) == ground.rows("p", columns)


def _position(ground: Ground):  # type: ignore[no-untyped-def]
    with ground.open() as snapshot:
        return snapshot.position


def test_C2_inheritance_children_with_columns_of_their_own(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE parent (a int, b text)",
        "CREATE TABLE child (extra int) INHERITS (parent)",
        "CREATE TABLE other (b text, more int, a int)",
        "ALTER TABLE other INHERIT parent",
        "CREATE TABLE grandchild () INHERITS (child, other)",
    )
    ground.watch("parent")
    ground.run(
        "INSERT INTO parent VALUES (1, 'p')",
        "INSERT INTO child VALUES (2, 'c', 20)",
        "INSERT INTO other (a, b, more) VALUES (3, 'o', 30)",
        "INSERT INTO grandchild (a, b) VALUES (4, 'g')",
        "UPDATE parent SET b = b || '1'",
        "UPDATE child SET a = a * 10",
        "UPDATE ONLY child SET b = 'only'",
        "DELETE FROM other WHERE b LIKE 'g%'",
    )
    assert ground.logged("parent", ["b", "a"]) == ground.rows("parent", ["b", "a"])


def test_C2_new_parts_are_captured_by_the_transaction_that_creates_them(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE p (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parent (a int)",
    )
    ground.watch("p", "parent")
    ground.run(
        "BEGIN; CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20); INSERT INTO p2 VALUES (11);"
        " CREATE TABLE child (b int) INHERITS (parent); INSERT INTO child VALUES (1, 2); COMMIT",
        "CREATE TABLE late (a int)",
        "ALTER TABLE late INHERIT parent",
        "INSERT INTO late VALUES (5)",
    )
    assert ground.logged("p", ["a"]) == Counter({("11",): 1})
    assert ground.logged("parent", ["a"]) == Counter({("1",): 1, ("5",): 1})
    with ground.open() as snapshot:
        kinds = {type(change) for message in snapshot.messages(None) for change in message.changes}
        assert kinds == {DataUpdate, SchemaChange}
        assert not any(text.startswith("uncaptured") for text in snapshot.fingerprints.values())


def test_C2_a_part_that_leaves_is_no_longer_captured(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE p (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE parent (a int)",
        "CREATE TABLE child () INHERITS (parent)",
    )
    ground.watch("p", "parent")
    position = _position(ground)
    ground.run("ALTER TABLE p DETACH PARTITION p1", "ALTER TABLE child NO INHERIT parent")
    ground.run("INSERT INTO p1 VALUES (1)", "INSERT INTO child VALUES (1)")
    with ground.open() as snapshot:
        messages = snapshot.messages(position)
        assert [type(change) for message in messages for change in message.changes] == [SchemaChange, SchemaChange]
    assert ground.run("SELECT count(*) FROM pg_trigger WHERE tgrelid IN ('p1'::regclass, 'child'::regclass)") == [(0,)]


def test_C2_another_table_under_a_watched_name_is_captured(ground: Ground) -> None:
    """What an online schema changer does: build a copy, then swap the names in one transaction."""
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE t_new (a int, b int)")
    ground.watch("t")
    position = _position(ground)
    ground.run(
        "BEGIN; ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; INSERT INTO t VALUES (1, 2); COMMIT",
        "INSERT INTO t VALUES (3, 4)",
    )
    with ground.open() as snapshot:
        messages = snapshot.messages(position)
        assert {message.kind for message in messages} == {"mixed", "data"}
        assert {str(relation) for message in messages for relation in message.relations} == {"crm.public.t"}
        assert not snapshot.fingerprints[ground.name("t")].startswith("uncaptured")
    assert ground.logged("t", ["a", "b"], position) == Counter({("1", "2"): 1, ("3", "4"): 1})


def test_C2_foreign_key_actions_are_captured(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE city (id int PRIMARY KEY)",
        "CREATE TABLE house (city int REFERENCES city ON DELETE CASCADE ON UPDATE CASCADE, n int)",
        "CREATE TABLE part (city int REFERENCES city ON DELETE SET NULL, n int) PARTITION BY LIST (n)",
        "CREATE TABLE part1 PARTITION OF part FOR VALUES IN (1)",
        "INSERT INTO city SELECT generate_series(1, 4)",
        "INSERT INTO house SELECT 1 + i % 4, i FROM generate_series(1, 8) i",
        "INSERT INTO part SELECT 1 + i % 4, 1 FROM generate_series(1, 8) i",
    )
    ground.watch("city", "house", "part")
    before = {table: ground.rows(table, ["city", "n"]) for table in ("house", "part")}
    ground.run("DELETE FROM city WHERE id <= 2")
    for table in ("house", "part"):
        assert plus(before[table], ground.logged(table, ["city", "n"])) == ground.rows(table, ["city", "n"])
    ground.run("DELETE FROM part", "UPDATE city SET id = id * 10")
    assert plus(before["house"], ground.logged("house", ["city", "n"])) == ground.rows("house", ["city", "n"])


def test_capture_survives_ddl_in_the_same_session_and_columns_that_come_and_go(ground: Ground) -> None:
    """The trigger's cached plans, its shape and the images all follow the table."""
    ground.run("CREATE TABLE t (a int, b text, c int)")
    ground.watch("t")
    ground.run(
        "INSERT INTO t VALUES (1, 'x', 10)",
        "ALTER TABLE t DROP COLUMN b",
        "INSERT INTO t VALUES (2, 20)",
        "ALTER TABLE t RENAME COLUMN c TO renamed",
        "ALTER TABLE t ADD COLUMN b numeric DEFAULT 7",
        "INSERT INTO t VALUES (3, 30, 1.50)",
        "DELETE FROM t WHERE a = 3",
        "INSERT INTO t VALUES (4, 40)",
    )
    # By number: an image written when the column had another name still lands in it.
    assert ground.logged("t", ["a", "renamed"]) == Counter({("1", "10"): 1, ("2", "20"): 1, ("4", "40"): 1})
    with pytest.raises(BrokenUnit):
        ground.logged("t", ["b"])  # the first images know another b


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_writers_whose_plans_are_older_than_the_schema_are_captured_right(ground: Ground, isolation: str) -> None:
    """Which column is which is found out when a writer's session plans (dyda.places), and kept until that is void."""
    ground.run(
        "CREATE TABLE t (a int, b int, c int)",
        "CREATE TABLE child (d int) INHERITS (t)",
        "CREATE TABLE p (a int, b int, c int) PARTITION BY RANGE (a)",
        "CREATE TABLE middle (c int, b int, a int) PARTITION BY RANGE (a)",
        "CREATE TABLE leaf (b int, a int, gone int, c int)",
        "ALTER TABLE leaf DROP COLUMN gone",
        "ALTER TABLE middle ATTACH PARTITION leaf FOR VALUES FROM (0) TO (1000)",
        "ALTER TABLE p ATTACH PARTITION middle FOR VALUES FROM (0) TO (1000)",
        "CREATE TABLE q (c int, d int, a int, b int) PARTITION BY RANGE (a)",
    )
    ground.watch("t", "p", "q")
    gap = ground.gap()
    writer = ground.connect()

    def write(number: int, also: str = "") -> None:
        ground.run(f"BEGIN ISOLATION LEVEL {isolation}", connection=writer)
        for table in ("t", "child", "leaf"):
            row = f"{number}, {number + 100}, {number + 200}"
            ground.run(f"INSERT INTO {table} (a, b, c{also}) VALUES ({row}{', 5' if also else ''})", connection=writer)
            ground.run(f"UPDATE {table} SET b = b + 1 WHERE a = {number}", connection=writer)
        ground.run("COMMIT", connection=writer)

    def right(*tables: str) -> None:
        for table in tables:
            columns = ["a", "b", "c"]
            assert ground.logged(table, columns) == ground.rows(table, columns), table

    write(1)
    write(2)
    right("t", "p")
    for alteration in (
        "ALTER TABLE t RENAME a TO x; ALTER TABLE t RENAME c TO a; ALTER TABLE t RENAME x TO c",
        "ALTER TABLE p RENAME a TO x; ALTER TABLE p RENAME c TO a; ALTER TABLE p RENAME x TO c",
    ):
        ground.run(alteration)
        write(3)
        right("t", "p")
    # Columns under names that others had: old images cannot be read, new ones must not be taken for them.
    with ground.open() as snapshot:
        ground.source.acknowledge(snapshot.position)
    ground.run("DELETE FROM t", "DELETE FROM p")
    ground.run("ALTER TABLE t DROP COLUMN b, ADD COLUMN b int", "ALTER TABLE p DROP COLUMN b, ADD COLUMN b int")
    with ground.open() as snapshot:
        ground.source.acknowledge(snapshot.position)
    write(4)
    right("t", "p")
    # Another relation's part, with other numbers: the table itself is not altered.
    ground.run("DELETE FROM p", "ALTER TABLE p DETACH PARTITION middle", "ALTER TABLE middle ADD COLUMN d int")
    ground.run("ALTER TABLE q ATTACH PARTITION middle FOR VALUES FROM (0) TO (1000)")
    write(5)
    assert ground.logged("q", ["a", "b", "c"]) == ground.rows("q", ["a", "b", "c"]) != Counter()
    assert ground.logged("t", ["a", "b", "c"]) == ground.rows("t", ["a", "b", "c"])
    assert ground.gap() == gap


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_part_of_a_part_is_captured_right_without_a_word_of_the_schema(ground: Ground, isolation: str) -> None:
    """Columns of the watched relation are renamed while the middle of its hierarchy hangs elsewhere: the lowest table
    is not altered at all, and so its writers' plans stay."""
    ground.run(
        "CREATE TABLE top (a int, b int)",
        "CREATE TABLE middle () INHERITS (top)",
        "CREATE TABLE leaf () INHERITS (middle)",
    )
    ground.watch("top")
    writer = ground.connect()
    insert = f"BEGIN ISOLATION LEVEL {isolation}; INSERT INTO leaf (a, b) VALUES (1, 2); COMMIT"
    ground.run(insert, insert, connection=writer)
    ground.run_unseen(
        "ALTER TABLE middle NO INHERIT top; ALTER TABLE top RENAME a TO x; ALTER TABLE top RENAME b TO a;"
        " ALTER TABLE top RENAME x TO b; ALTER TABLE middle INHERIT top",
    )
    with ground.open() as snapshot:
        ground.source.acknowledge(snapshot.position)
    before = ground.rows("top", ["a", "b"])
    ground.run(insert, connection=writer)
    assert plus(before, ground.logged("top", ["a", "b"])) == ground.rows("top", ["a", "b"])
    assert ground.logged("top", ["a", "b"]) == Counter({("1", "2"): 1})


def test_rows_are_captured_also_where_nobody_knows_any_more_whose_they_are(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    gap = ground.gap()
    ground.run("DELETE FROM dyda.member", "INSERT INTO t VALUES (1)", "UPDATE t SET a = 2", "TRUNCATE t")
    assert ground.logged("t", ["a"]) == Counter({("2",): 1})
    assert ground.run("SELECT op::text FROM dyda.log ORDER BY seq") == [("I",), ("D",), ("I",), ("T",)]
    assert ground.gap() == gap


def test_triggers_of_an_older_version_are_left_as_they_are_and_capture(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    for event, tables in (
        ("insert", 'REFERENCING NEW TABLE AS "dyda new"'),
        ("update", 'REFERENCING OLD TABLE AS "dyda old" NEW TABLE AS "dyda new"'),
        ("delete", 'REFERENCING OLD TABLE AS "dyda old"'),
        ("truncate", ""),
    ):
        ground.run_unseen(
            f"DROP TRIGGER dyda_{event} ON t",
            f"CREATE TRIGGER dyda_{event} AFTER {event} ON t {tables} EXECUTE FUNCTION dyda.capture()",
            f"ALTER TABLE t ENABLE ALWAYS TRIGGER dyda_{event}",
        )
    triggers = "SELECT oid FROM pg_trigger WHERE tgname LIKE 'dyda%' ORDER BY 1"
    before, gap = ground.run(triggers), ground.gap()
    ground.source.attach([relation])
    ground.run("INSERT INTO t VALUES (1), (2)", "UPDATE t SET a = 3 WHERE a = 1", "DELETE FROM t WHERE a = 2")
    assert ground.logged("t", ["a"]) == Counter({("3",): 1})
    assert (ground.run(triggers), ground.gap()) == (before, gap)


def test_a_source_that_an_older_version_attached_goes_on_without_a_gap(ground: Ground) -> None:
    """It has dyda.shape in the place of what came later; its log says so too."""
    ground.run("CREATE TABLE t (a int, b text)")
    (relation,) = ground.watch("t")
    ground.run_unseen(
        "DROP SEQUENCE dyda.measure_at",
        "DROP FUNCTION dyda.measure(), dyda.places(), dyda.places(oid, oid), dyda.capturing(oid, oid)",
        "CREATE FUNCTION dyda.shape(oid, oid) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'",
        "INSERT INTO dyda.log (op, root, relid, shape, image) SELECT 'I', root, root, s, i FROM dyda.watched,"
        """ (VALUES ('[[1, 2], ["a", "b"], [23, 25]]', '(1,x)'), (NULL, '(2,)')) AS old (s, i)""",
    )
    gap = ground.gap()
    with ground.open() as snapshot:
        assert snapshot.state.attached
    ground.source.attach([relation])
    ground.run("INSERT INTO t VALUES (3, 'y')")
    assert ground.logged("t", ["a", "b"]) == Counter({("1", "x"): 1, ("2", None): 1, ("3", "y"): 1})
    assert ground.gap() == gap
    assert ground.run("SELECT to_regprocedure('dyda.shape(oid, oid)')::text") == [(None,)]


def test_what_a_newer_version_brings_is_of_use_to_capture_from_the_moment_it_is_there(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Capture belongs to its own role already; what is new is made by the role that attaches."""
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    ground.run_unseen("DROP FUNCTION dyda.is_copy()", "DROP SEQUENCE dyda.home_number")
    gap = ground.gap()

    def write_and_install_reader(cursor: Any, source: str) -> None:
        """What follows the transaction that brings it."""
        ground.run("INSERT INTO t VALUES (1)")
        install_reader(cursor, source)

    monkeypatch.setattr(install, "install_reader", write_and_install_reader)
    ground.source.attach([relation])
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})
    assert ground.gap() == gap


@pytest.mark.parametrize(
    ("columns", "shape"),
    [
        (["a", "b", "c"], "1,2,3"),
        (["b", "a", "c"], "2,1,3"),
        (["x", "a", "b", "y", "z", "c"], "0,1,2,0,0,3"),
        (["a", "c"], "1,3"),
        ([], ""),
    ],
)
def test_a_shape_says_where_each_column_belongs(ground: Ground, columns: list[str], shape: str) -> None:
    ground.run(
        "CREATE TABLE t (a int, b int, c int)", f"CREATE TABLE u ({', '.join(f'{name} int' for name in columns)})"
    )
    ground.watch("t")
    places = "SELECT dyda.places('u'::regclass, 't'::regclass)"
    assert ground.run(places) == [(shape,)]
    ground.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert ground.run(places) == [(shape,)]
    ground.run("COMMIT")
    numbers = {"a": 1, "b": 2, "c": 3}
    assert places_of(shape) == [numbers.get(name, 0) for name in columns]


def test_the_shape_of_a_watched_relations_own_rows_is_short(ground: Ground) -> None:
    ground.run(f"CREATE TABLE t ({', '.join(f'c{number} int' for number in range(1, 13))})")
    ground.watch("t")
    ground.run("ALTER TABLE t DROP COLUMN c4, DROP COLUMN c6, DROP COLUMN c12", "INSERT INTO t VALUES (1)")
    ((shape,),) = ground.run("SELECT shape FROM dyda.log WHERE op = 'I'")
    assert shape == "1-3,5,7-11"
    assert places_of(shape) == [1, 2, 3, 5, 7, 8, 9, 10, 11]


def test_C4_truncate_is_a_marker_without_rows(ground: Ground) -> None:
    ground.run(
        "CREATE TABLE p (a int PRIMARY KEY) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE referring (a int REFERENCES p)",
        "INSERT INTO p VALUES (1), (2)",
    )
    ground.watch("p", "referring")
    ground.run("TRUNCATE p CASCADE")
    with ground.open() as snapshot:
        (message,) = snapshot.messages(None)
        assert set(message.changes) == {Truncation(ground.name("p"), True), Truncation(ground.name("referring"), True)}
        assert message.kind == "schema"
    ground.run("DROP TABLE referring", "TRUNCATE p1")
    with ground.open() as snapshot:
        assert snapshot.messages(None)[-1].changes == (Truncation(ground.name("p")),)


TRUNCATIONS = {
    "a table": (["CREATE TABLE t (a int)"], "TRUNCATE t", True),
    "rows before and after it": (["CREATE TABLE t (a int)"], "INSERT INTO t VALUES (1); TRUNCATE t", True),
    "children": (["CREATE TABLE t (a int)", "CREATE TABLE c () INHERITS (t)"], "TRUNCATE t", False),
    "spared children": (["CREATE TABLE t (a int)", "CREATE TABLE c () INHERITS (t)"], "TRUNCATE ONLY t", False),
    "a child": (["CREATE TABLE t (a int)", "CREATE TABLE c () INHERITS (t)"], "TRUNCATE c", False),
    "partitions": (
        ["CREATE TABLE t (a int) PARTITION BY LIST (a)", "CREATE TABLE c PARTITION OF t DEFAULT"],
        "TRUNCATE c, t",
        True,
    ),
    "an older snapshot": (
        ["CREATE TABLE t (a int)"],
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; TRUNCATE t",
        False,
    ),
    "a trigger that may write": (
        [
            "CREATE TABLE t (a int)",
            "CREATE TABLE u (a int)",
            "CREATE FUNCTION refill() RETURNS trigger LANGUAGE plpgsql"
            " AS 'BEGIN INSERT INTO t VALUES (7); RETURN NULL; END'",
            "CREATE TRIGGER a_refill AFTER TRUNCATE ON u EXECUTE FUNCTION refill()",
        ],
        "TRUNCATE u, t",
        False,
    ),
}


@pytest.mark.parametrize("case", TRUNCATIONS)
def test_C4_a_truncation_says_whether_anything_is_left(ground: Ground, case: str) -> None:
    """Only what is certain counts: TRUNCATE ONLY spares children, an older snapshot may not show them, and a trigger of
    the same statement may write before the truncation is logged."""
    setup, statement, whole = TRUNCATIONS[case]
    ground.run(*setup)
    ground.watch("t")
    ground.run("BEGIN", *statement.split("; "), "COMMIT")
    with ground.open() as snapshot:
        (message,) = snapshot.messages(None)
    (truncation,) = (change for change in message.changes if isinstance(change, Truncation))
    assert truncation == Truncation(ground.name("t"), whole)


def test_C5_disabling_and_enabling_a_trigger_leaves_its_mark(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    (relation,) = ground.watch("t")
    with ground.open() as snapshot:
        before = snapshot.fingerprints
    ground.run_unseen(  # even where nobody logs the ALTER TABLE
        "ALTER TABLE t DISABLE TRIGGER USER",
        "INSERT INTO t VALUES (1)",
        "ALTER TABLE t ENABLE TRIGGER USER",
    )
    with ground.open() as snapshot:
        assert snapshot.fingerprints[relation.name].startswith("uncaptured")
        assert snapshot.fingerprint_again() != snapshot.fingerprints, "nothing read from it may be installed"
    ground.source.attach([relation])
    with ground.open() as snapshot:
        assert not snapshot.fingerprints[relation.name].startswith("uncaptured")
        assert snapshot.fingerprints != before, "enabled again as ALWAYS it is still not as it was"


def test_C6_attach_waits_for_open_writers_and_then_misses_nothing(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    writer = ground.connect()
    ground.run("BEGIN; INSERT INTO t VALUES (1)", connection=writer)
    found = ground.source.describe([("public", "t")])
    attaching = threading.Thread(target=ground.source.attach, args=(found.values(),))
    attaching.start()
    try:
        later = ground.connect()
        ground.run("SET statement_timeout = '5s'", "INSERT INTO t VALUES (2)", connection=later)
    finally:
        assert attaching.is_alive(), "it cannot be done while a writer that is not captured is open"
        ground.run("COMMIT", connection=writer)
        attaching.join()
    ground.run("INSERT INTO t VALUES (3)")
    ground.watch("t")
    with ground.open() as snapshot:
        partitions = snapshot.scan(ground.relations["t"], ["a"])
        assert len(partitions) == 1
    assert ground.logged("t", ["a"]) == Counter({("3",): 1})


def test_C6_attach_gives_up_in_time_and_says_so(grounds, database) -> None:  # type: ignore[no-untyped-def]
    ground = grounds(database("crm"), attach_timeout=0.3)
    ground.run("CREATE TABLE t (a int)")
    ground.run("BEGIN; INSERT INTO t VALUES (1)", connection=ground.connect())
    with pytest.raises(SourceBusy, match="lock timeout"):
        ground.watch("t")


def test_C7_a_second_project_is_refused(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    relations = ground.watch("t")
    ground.run("INSERT INTO t VALUES (1)")
    other = PostgresSource(SourceSettings("crm", ground.url), "another project")
    try:
        attempts: list[Callable[[], object]] = [lambda: other.attach(relations), other.detach]
        for attempt in attempts:
            with pytest.raises(SourceInUse, match="another project"):
                attempt()
        with ground.open() as snapshot, pytest.raises(SourceInUse):
            other.acknowledge(snapshot.position)
        assert any(finding.level == "error" for finding in other.check([]))
    finally:
        other.close()
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})


def test_attach_again_moves_nothing_and_disturbs_no_writer(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    ground.watch("t")
    gap = ground.gap()
    with ground.open() as snapshot:
        before = snapshot.fingerprints
    writer = ground.connect()
    ground.run("BEGIN; INSERT INTO t VALUES (1)", connection=writer)
    ground.watch("t", "u")
    ground.run("INSERT INTO t VALUES (2)")
    ground.run("COMMIT", connection=writer)
    with ground.open() as snapshot:
        assert snapshot.fingerprints.items() >= before.items()
        assert snapshot.gap == gap
        assert not [m for m in snapshot.messages(None) if m.kind != "data"], "our own DDL is no schema change"


def test_detach_leaves_no_trace(ground: Ground) -> None:
    traces = (
        "SELECT array(SELECT nspname::text FROM pg_namespace ORDER BY 1), array(SELECT tgname FROM pg_trigger),"
        " array(SELECT evtname FROM pg_event_trigger), (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_class)"
    )
    ground.run('CREATE TABLE "t""x" (a int)', "CREATE TABLE p (a int) PARTITION BY RANGE (a)")
    ground.run("CREATE TABLE p1 PARTITION OF p DEFAULT")
    before = ground.run(traces)
    ground.watch('t"x', "p")
    ground.run('INSERT INTO "t""x" VALUES (1)')
    assert ground.source.state().capture == "attached"
    ground.source.detach()
    assert ground.run(traces) == before
    assert ground.source.state().capture == "detached"
    ground.source.detach()
    ground.watch('t"x')
    ground.run('INSERT INTO "t""x" VALUES (2)')
    assert ground.logged('t"x', ["a"]) == Counter({("2",): 1})


def test_detach_keeps_what_others_put_into_the_schema(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "CREATE SCHEMA dyda", "CREATE TABLE dyda.project (id int)")
    ground.watch("t")
    ground.source.detach()
    assert ground.run("SELECT to_regclass('dyda.project') IS NOT NULL, to_regclass('dyda.log') IS NULL") == [
        (True, True)
    ]


def test_release_stops_one_relation(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)", "CREATE TABLE u (a int)")
    relation, _ = ground.watch("t", "u")
    ground.run("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)")
    ground.source.release([relation])
    ground.run("INSERT INTO t VALUES (2)")
    with ground.source.open([ground.name("u")]) as snapshot:
        assert {change.relation for m in snapshot.messages(None) for change in m.changes} == {ground.name("u")}
        with pytest.raises(RelationRefused):
            snapshot.changes({ground.name("t"): ["a"]}, None)
