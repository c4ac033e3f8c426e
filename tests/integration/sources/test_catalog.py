"""What a source says it has, what is refused by name (C3), rights, and names that need quoting."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from psycopg2 import sql

from dyda.errors import MissingRights, RelationRefused, SourceUnreachable, UnknownRelation
from dyda.model.types import PgType
from dyda.sources import PostgresSource, SourceSettings
from dyda.sources.reading.copy import read_partition
from tests.integration.sources.conftest import PROJECT, Ground, as_role, bag


def test_describe_tells_types_keys_and_sizes(ground: Ground) -> None:
    ground.run(
        "CREATE TYPE mood AS ENUM ('sad')",
        "CREATE DOMAIN small AS numeric(5,2)",
        "CREATE DOMAIN smaller AS small",
        "CREATE TABLE t (id int PRIMARY KEY, gone int, a smaller NOT NULL, b varchar(7) NOT NULL, c char(3),"
        " d timestamptz, e int[], f mood, g mood[], h numeric, i mood NOT NULL, UNIQUE (b, a), UNIQUE (c))",
        "ALTER TABLE t DROP COLUMN gone",
        "CREATE UNIQUE INDEX ON t (h) WHERE h > 0",
        "INSERT INTO t (id, a, b, i) SELECT i, i, i, 'sad' FROM generate_series(1, 500) i",
    )
    relation = ground.source.describe([("public", "t")])[("public", "t")]
    assert relation.column("a").type == PgType("numeric", "numeric(5,2)")
    assert relation.column("b").type == PgType("character varying", "character varying(7)")
    assert relation.column("c").type == PgType("character", "character(3)")
    assert relation.column("d").type.name == "timestamp with time zone"
    assert relation.column("e").type == PgType("integer[]", "integer[]")
    assert not relation.column("f").type.builtin
    assert not relation.column("g").type.builtin
    assert relation.column("h").type == PgType("numeric", "numeric")
    assert relation.column("a").number == 3
    assert relation.keys == (("id",), ("b", "a")), "c may be NULL and h's index is partial"
    assert relation.estimated_rows > 0
    ground.run("ANALYZE t")
    assert ground.source.describe([("public", "t")])[("public", "t")].estimated_rows == 500


def test_which_unique_constraints_are_keys(ground: Ground) -> None:
    """Only what PostgreSQL enforces at every moment, for all rows, and cannot drop without a trace."""
    ground.run(
        "CREATE TABLE t (a int NOT NULL, b int NOT NULL, c int NOT NULL, d int NOT NULL, e text NOT NULL, f int,"
        " g int NOT NULL, UNIQUE (a, b) INCLUDE (c), UNIQUE (c) DEFERRABLE, UNIQUE (f), EXCLUDE (g WITH =))",
        "CREATE UNIQUE INDEX ON t (d)",
        "CREATE UNIQUE INDEX ON t (e) WHERE a > 0",
        "CREATE UNIQUE INDEX ON t (lower(e))",
        "CREATE UNIQUE INDEX named ON t (g, e)",
        "ALTER TABLE t ADD CONSTRAINT named UNIQUE USING INDEX named",
    )
    if ground.connect().server_version >= 150000:
        ground.run("ALTER TABLE t ADD h int, ADD UNIQUE NULLS NOT DISTINCT (h)")
    assert ground.source.describe([("public", "t")])[("public", "t")].keys == (("a", "b"), ("g", "e"))
    ground.run("CREATE TABLE p (a int, b int, PRIMARY KEY (a)) PARTITION BY RANGE (a)")
    ground.run("CREATE TABLE q PARTITION OF p FOR VALUES FROM (0) TO (9)")
    assert ground.source.describe([("public", "p")])[("public", "p")].keys == (("a",),), "its index sees all parts"


def test_an_inheritance_parents_index_is_no_key(ground: Ground) -> None:
    ground.run("CREATE TABLE parent (a int PRIMARY KEY)", "CREATE TABLE child () INHERITS (parent)")
    assert ground.source.describe([("public", "parent")])[("public", "parent")].keys == ()


def test_a_not_null_constraint_that_is_not_validated_promises_nothing(ground: Ground) -> None:
    if ground.connect().server_version < 180000:
        pytest.skip("NOT NULL constraints that are not validated came with PostgreSQL 18")
    ground.run(
        "CREATE TABLE t (a int UNIQUE, b int NOT NULL UNIQUE)",
        "INSERT INTO t VALUES (NULL, 1), (NULL, 2)",
        "ALTER TABLE t ADD CONSTRAINT later NOT NULL a NOT VALID",
    )
    relation = ground.source.describe([("public", "t")])[("public", "t")]
    assert [column.not_null for column in relation.columns] == [False, True]
    assert relation.keys == (("b",),)
    ground.run("DELETE FROM t", "ALTER TABLE t VALIDATE CONSTRAINT later")
    relation = ground.source.describe([("public", "t")])[("public", "t")]
    assert [column.not_null for column in relation.columns] == [True, True]
    assert relation.keys == (("a",), ("b",))


def test_unknown_relations_are_answered_with_near_names(ground: Ground) -> None:
    ground.run("CREATE TABLE customer (a int)", 'CREATE TABLE "Odd Name" (a int)')
    with pytest.raises(UnknownRelation, match=r"Did you mean crm\.public\.customer"):
        ground.source.describe([("public", "custmer")])
    with pytest.raises(UnknownRelation, match="`Odd Name`"):
        ground.source.describe([("public", "odd name")])
    assert ground.source.relations() == [("public", "Odd Name"), ("public", "customer")]


PARTED = "CREATE TABLE x (a int) PARTITION BY LIST (a); "
FOREIGN = "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w; "
SUBSCRIBED = (
    "CREATE TABLE x (a int);"
    " CREATE SUBSCRIPTION {random} CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false);"
    " INSERT INTO pg_subscription_rel (srsubid, srrelid, srsubstate)"
    " SELECT oid, 'x'::regclass, 'i' FROM pg_subscription WHERE subname = '{random}'"
)


@pytest.mark.parametrize(
    ("setup", "why"),
    [
        ("CREATE UNLOGGED TABLE x (a int)", "unlogged"),
        ("CREATE VIEW x AS SELECT 1 AS a", "a view"),
        ("CREATE MATERIALIZED VIEW x AS SELECT 1 AS a", "a materialized view"),
        ("CREATE SEQUENCE x", "a sequence"),
        ("CREATE TABLE p (a int) PARTITION BY LIST (a); CREATE TABLE x PARTITION OF p DEFAULT", "child of public.p"),
        ("CREATE TABLE p (a int); CREATE TABLE x () INHERITS (p)", "public.p"),
        ("CREATE TABLE x (a int); CREATE TABLE q (b int); CREATE TABLE c () INHERITS (x, q)", "inherits from public.q"),
        (PARTED + "CREATE UNLOGGED TABLE x1 PARTITION OF x DEFAULT", "x1 is unlogged"),
        (FOREIGN + "CREATE FOREIGN TABLE x (a int) SERVER s", "a foreign table"),
        (FOREIGN + PARTED + "CREATE FOREIGN TABLE x1 PARTITION OF x DEFAULT SERVER s", "x1 is a foreign table"),
        (SUBSCRIBED, "subscription"),
    ],
)  # fmt: skip
def test_C3_what_cannot_be_captured_is_refused_by_name(ground: Ground, setup: str, why: str) -> None:
    name = f"sub{time.time_ns()}"
    subscription = "SUBSCRIPTION" in setup
    if subscription:
        ground.run("SET allow_system_table_mods = on", "SET client_min_messages = error")
    for statement in setup.replace("{random}", name).split("; "):
        ground.run(statement)
    try:
        with pytest.raises(RelationRefused, match=why) as refused:
            ground.source.describe([("public", "x")])
        assert "crm.public.x" in refused.value.what
        assert refused.value.remedy
        assert any(finding.level == "error" for finding in ground.source.check([("public", "x")]))
    finally:
        if subscription:
            ground.run(f"ALTER SUBSCRIPTION {name} SET (slot_name = NONE)", f"DROP SUBSCRIPTION {name}")


def test_C3_temporary_and_system_tables_are_refused(ground: Ground) -> None:
    ground.run("CREATE TEMPORARY TABLE x (a int)")
    ((schema,),) = ground.run("SELECT nspname FROM pg_namespace WHERE oid = pg_my_temp_schema()")
    with pytest.raises(RelationRefused, match="temporary"):
        ground.source.describe([(schema, "x")])
    with pytest.raises(RelationRefused, match="system"):
        ground.source.describe([("pg_catalog", "pg_class")])


ODD = ['a"b', "with space", "ünïcödé", "per%cent", "#count", "dyda row", "#xid", "##count", "k0", "t", "x" * 63,
       "back\\slash", "'quote'", "Upper", "select", "{}", "%s", "new\nline"]  # fmt: skip


def test_odd_identifiers_work_everywhere(ground: Ground) -> None:
    for place, odd in enumerate(ODD):
        schema = f"s {place} {odd}"[:30]
        with ground.connect().cursor() as cursor:
            cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
            table = sql.Identifier(schema, odd)
            columns = sql.SQL(", ").join(sql.SQL("{} text").format(sql.Identifier(name)) for name in ODD)
            cursor.execute(
                sql.SQL("CREATE TABLE {} ({}) PARTITION BY LIST ({})").format(table, columns, sql.Identifier("t"))
            )
            part = sql.Identifier(schema, "part " + odd[:50])
            cursor.execute(sql.SQL("CREATE TABLE {} PARTITION OF {} DEFAULT").format(part, table))
        (relation,) = ground.watch(odd, schema=schema)
        with ground.connect().cursor() as cursor:
            places = sql.SQL(", ").join(sql.Literal(f"{odd} {i}") for i in range(len(ODD)))
            cursor.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(part, places))
        expected = Counter({tuple(f"{odd} {i}" for i in range(len(ODD))): 1})
        with ground.source.open([relation.name]) as snapshot:
            (message,) = snapshot.messages(None)[-1:]
            assert message.relations == {relation.name}
            assert bag(snapshot.changes({relation.name: ODD}, None)[relation.name]) == expected
            keys = pa.table([pa.array([f"{odd} {ODD.index(odd)}"])], names=[odd])
            found = snapshot.lookup(relation, ODD, [odd], keys)
            assert bag(found.table) == expected
            assert len(set(found.table.column_names)) == len(ODD) + 1, "delivered under names that do not clash"
            (partition,) = snapshot.scan(relation, ODD)
            assert Counter(zip(*(c.to_pylist() for c in read_partition(partition).columns), strict=True)) == expected
        if place >= 6:
            continue
        with ground.connect().cursor() as cursor:
            cursor.execute(sql.SQL("ALTER TABLE {} ADD COLUMN more int").format(table))
        with ground.source.open([relation.name]) as snapshot:
            assert snapshot.messages(None)[-1].moved_without_rows == {relation.name}
    ground.source.detach()


@pytest.fixture
def role(ground: Ground) -> Iterator[Callable[[], tuple[str, PostgresSource]]]:
    """Roles that may log in and nothing else, each with an adapter that uses it."""
    made: list[tuple[str, PostgresSource]] = []

    def make() -> tuple[str, PostgresSource]:
        name = f'role "{time.time_ns()}'
        ground.run(f"CREATE ROLE {_quoted(name)} LOGIN PASSWORD 'reader'")
        url = as_role(ground.url, name, "reader")
        made.append((name, PostgresSource(SourceSettings("crm", url), PROJECT)))
        return made[-1]

    yield make
    for name, source in made:
        source.close()
        ground.run(f"REASSIGN OWNED BY {_quoted(name)} TO CURRENT_USER", f"DROP OWNED BY {_quoted(name)}")
        ground.run(f"DROP ROLE {_quoted(name)}")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_a_role_with_select_and_our_functions_is_enough(ground: Ground, role: Callable[[], Any]) -> None:
    """`check` prints each missing GRANT, of partitions too, which are read one by one; once they are given, everything
    works."""
    ground.run("CREATE SCHEMA shop", "CREATE TABLE shop.t (a int) PARTITION BY LIST (a)")
    ground.run("CREATE TABLE shop.t1 PARTITION OF shop.t DEFAULT", "INSERT INTO shop.t VALUES (1)")
    (relation,) = ground.watch("t", schema="shop")
    name, reader = role()
    with pytest.raises(MissingRights):
        reader.open([relation.name])
    for _ in range(6):
        errors = [finding for finding in reader.check([("shop", "t")]) if finding.level == "error"]
        if not errors:
            break
        assert all(f"TO {_quoted(name)}" in error.remedy for error in errors)
        ground.run(errors[0].remedy)
    assert not errors
    assert ground.run(f"SELECT has_table_privilege({_literal(name)}, 'dyda.log', 'SELECT')") == [(False,)]
    with reader.open([relation.name]) as snapshot:
        ground.run("INSERT INTO shop.t VALUES (2)")
        assert len(snapshot.lookup(relation, ["a"], ["a"], pa.table({"a": ["1", "2"]}))) == 1
        assert [read_partition(part).num_rows for part in snapshot.scan(relation, ["a"])] == [1]
        assert snapshot.fingerprint_again() == snapshot.fingerprints
        snapshot.make_durable()
    with reader.open([relation.name]) as snapshot:
        assert [message.rows for message in snapshot.messages(None)] == [1]
        assert len(snapshot.changes({relation.name: ["a"]}, None)[relation.name]) == 1
    assert reader.acknowledge(snapshot.position) == 1
    reader.attach([relation])  # nothing is left to do
    ground.run("CREATE TABLE shop.other (a int)")
    with pytest.raises(MissingRights):
        reader.attach(ground.source.describe([("shop", "other")]).values())


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def test_the_log_is_closed_to_the_applications_users(ground: Ground, role: Callable[[], Any]) -> None:
    ground.run("CREATE TABLE t (a int)", "GRANT ALL ON t TO PUBLIC")
    ground.watch("t")
    _, user = role()
    connection = ground.connect(user.settings.url)
    ground.run("INSERT INTO t VALUES (1)", connection=connection)
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})
    for attempt in (
        "SELECT * FROM dyda.log",
        "DELETE FROM dyda.log",
        "SELECT * FROM dyda.entries(NULL)",
        "SELECT nextval('dyda.gap')",
        "SELECT dyda.mark_gap()",
    ):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            ground.run(attempt, connection=connection)


def test_polling_an_owner_without_event_triggers_still_notices_everything(
    ground: Ground, role: Callable[[], Any]
) -> None:
    name, owner = role()
    ((database,),) = ground.run("SELECT current_database()")
    ground.run(
        f"GRANT CREATE ON SCHEMA public TO {_quoted(name)}",
        f"SET ROLE {_quoted(name)}",
        "CREATE TABLE p (a int) PARTITION BY RANGE (a)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    )
    errors = [finding for finding in owner.check([("public", "p")]) if finding.level == "error"]
    assert [error.remedy for error in errors] == [f"GRANT CREATE ON DATABASE {_quoted(database)} TO {_quoted(name)};"]
    ground.run("RESET ROLE", errors[0].remedy)
    owner.attach(owner.describe([("public", "p")]).values())
    assert owner.state().capture == "polling"
    assert [finding.level for finding in owner.check([("public", "p")])] == ["ok", "ok", "warning", "warning", "ok"]
    relation = owner.describe([("public", "p")])[("public", "p")]
    with owner.open([relation.name]) as snapshot:
        before = snapshot.fingerprints
    ground.run(
        f"SET ROLE {_quoted(name)}",
        "INSERT INTO p VALUES (1)",
        "CREATE TABLE p2 PARTITION OF p DEFAULT",
        "INSERT INTO p2 VALUES (100)",
        "RESET ROLE",
    )
    with owner.open([relation.name]) as snapshot:
        assert snapshot.fingerprints[relation.name].startswith("uncaptured")
    owner.attach([relation])
    with owner.open([relation.name]) as snapshot:
        assert snapshot.fingerprints != before
        assert not snapshot.fingerprints[relation.name].startswith("uncaptured")
        position = snapshot.position
    ground.run(f"SET ROLE {_quoted(name)}", "INSERT INTO p2 VALUES (101)", "ALTER TABLE p DETACH PARTITION p1")
    ground.run("RESET ROLE")
    with owner.open([relation.name]) as snapshot:
        assert bag(snapshot.changes({relation.name: ["a"]}, position)[relation.name]) == Counter({("101",): 1})
        assert snapshot.fingerprints != before
    owner.attach([relation])
    assert ground.run("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'p1'::regclass") == [(0,)]
    owner.detach()


def test_a_table_of_another_owner_names_the_grant(ground: Ground, role: Callable[[], Any]) -> None:
    name, plain = role()
    ((database,),) = ground.run("SELECT current_database()")
    ground.run("CREATE TABLE t (a int)", f"GRANT SELECT ON t TO {_quoted(name)}")
    ground.run(f"GRANT CREATE ON DATABASE {_quoted(database)} TO {_quoted(name)}")
    errors = [finding for finding in plain.check([("public", "t")]) if finding.level == "error"]
    ((me,),) = ground.run("SELECT current_user")
    assert [error.remedy for error in errors] == [f"GRANT {_quoted(me)} TO {_quoted(name)};"]
    with pytest.raises(MissingRights):
        plain.attach(plain.describe([("public", "t")]).values())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://someone:s3cr3t@127.0.0.1:1/nowhere",
        "postgresql://someone:s3cr3t@127.0.0.1:port/nowhere",
        "host=127.0.0.1 port=1 user=someone password=s3cr3t bogus_option=1",
        "postgres//someone:s3cr3t@host",
    ],
)
def test_an_unreachable_source_is_named_and_no_password_is_shown(url: str) -> None:
    source = PostgresSource(SourceSettings("crm", url), PROJECT)
    with pytest.raises(SourceUnreachable) as unreachable:
        source.relations()
    (finding,) = source.check([])
    for shown in (
        str(unreachable.value),
        repr(source.settings),
        finding.what,
        finding.remedy,
        str(unreachable.value.args),
    ):
        assert "s3cr3t" not in shown
    assert "crm" in unreachable.value.what
    assert finding.level == "error"


def test_a_wrong_password_is_never_shown(new_server: Callable[..., Any]) -> None:
    server = new_server(fsync="off")
    with psycopg2.connect(server.url()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
    connection.close()
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
    server.stop()
    server.start()
    url = as_role(server.url(), "locked", "wr0ngword")
    with pytest.raises(SourceUnreachable) as refused:
        PostgresSource(SourceSettings("crm", url), PROJECT).relations()
    assert "wr0ngword" not in str(refused.value)
    assert "password" in str(refused.value)
