"""What a table's owner wrote is evaluated when we read: never with more rights than to read what is watched."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg2
import pyarrow as pa
import pytest

from dyda.errors import DydaError, MissingRights
from dyda.model.relation import Relation
from dyda.sources import PostgresSource, SourceSettings
from dyda.sources.capture.check import grants
from dyda.sources.connection import FRESH
from dyda.sources.reading.copy import ReadFailed, read_partition
from dyda.sources.reading.rights import find_access
from tests.integration.security.conftest import Role
from tests.integration.sources.conftest import PROJECT, Ground, bag

ROWS = Counter({("1", "x"): 1, ("2", "y"): 1})

# Harmless until app.armed says otherwise. Replaced when everything is attached: IMMUTABLE is the owner's word for it.
TRAP = """
CREATE OR REPLACE FUNCTION app.trap({argument}) RETURNS {result} LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT armed FROM app.switch) THEN
        RAISE EXCEPTION 'trapped as % of %', current_user, session_user;
    END IF;
    RETURN {value};
END $$
"""


@dataclass(frozen=True)
class Kind:
    """`made`: the owner's DDL. `fires`: how a read meets it (lookup, scan)."""

    made: tuple[str, ...]
    fires: tuple[str, ...] = ("lookup", "scan")
    argument: str = "int"
    result: str = "boolean"
    value: str = "true"
    key: str = "a"
    partitioned: str = ""


PLAIN = "CREATE TABLE app.t (a int, b text)"
KINDS = {
    "index predicate": Kind((PLAIN, "CREATE INDEX ON app.t (b) WHERE app.trap(1)")),
    "index expression": Kind(
        (PLAIN, "CREATE INDEX ON app.t ((a + app.trap(1)))"), ("lookup", "scan"), result="int", value="1"
    ),
    "extended statistics": Kind(
        (PLAIN, "CREATE STATISTICS app.s ON (a + app.trap(1)), b FROM app.t"), result="int", value="1"
    ),
    "check of an inheritance child": Kind(
        (PLAIN, "CREATE TABLE app.child (CHECK (app.trap(1))) INHERITS (app.t)"), fires=()
    ),
    "partition key": Kind(
        (
            "CREATE TABLE app.t (a int, b text) PARTITION BY RANGE ((a + app.trap(1)))",
            "CREATE TABLE app.part PARTITION OF app.t DEFAULT",
        ),
        ("lookup",),
        result="int",
        value="1",
    ),
    "partial index of a partition": Kind(
        (
            "CREATE TABLE app.t (a int, b text) PARTITION BY RANGE (a)",
            "CREATE TABLE app.part PARTITION OF app.t DEFAULT",
            "CREATE INDEX ON app.part (b) WHERE app.trap(1)",
        )
    ),
    "operator": Kind(
        (
            PLAIN,
            "CREATE OPERATOR app.### (RIGHTARG = int, FUNCTION = app.trap)",
            "CREATE INDEX ON app.t (b) WHERE OPERATOR(app.###) 1",
        )
    ),
    "cast": Kind(
        (
            "CREATE TABLE app.t (a app.label, b text)",
            "CREATE CAST (app.label AS text) WITH FUNCTION app.trap(app.label)",
        ),
        (),
        argument="app.label",
        result="text",
        value="'wrong'",
    ),
}


@pytest.fixture
def owner(ground: Ground, role: Callable[[str], Role]) -> Role:
    """Somebody who owns schema app and what is in it, and nothing else."""
    found = role("owner")
    ground.run(f"CREATE SCHEMA app AUTHORIZATION {found.quoted}")
    mine = ground.connect(found.url)
    ground.run(
        "CREATE TYPE app.label AS ENUM ('1', '2', '3')",
        "CREATE TABLE app.switch (armed boolean)",
        "INSERT INTO app.switch VALUES (false)",
        "GRANT USAGE ON SCHEMA app TO PUBLIC",
        "GRANT SELECT ON app.switch TO PUBLIC",
        connection=mine,
    )
    return found


def prepare(ground: Ground, owner: Role, kind: Kind) -> None:
    ground.run(
        TRAP.format(argument=kind.argument, result=kind.result, value=kind.value),
        *kind.made,
        "INSERT INTO app.t VALUES ('1', 'x'), ('2', 'y')",
        "ANALYZE app.t",
        connection=ground.connect(owner.url),
    )


def arm(ground: Ground) -> None:
    ground.run("UPDATE app.switch SET armed = true")


def reader_role(ground: Ground) -> str:
    ((name,),) = ground.run("SELECT 'dyda_reader_' || d.oid FROM pg_database d WHERE d.datname = current_database()")
    return str(name)


def watch(source: PostgresSource, table: str = "t") -> Relation:
    source.attach(source.describe([("app", table)]).values())
    return source.describe([("app", table)])[("app", table)]


def lookup(source: PostgresSource, relation: Relation, key: str = "a") -> Counter[tuple[str | None, ...]]:
    with source.open([relation.name]) as snapshot:
        values = pa.table({key: pa.array(["1", "2", "3"])})
        return bag(snapshot.lookup(relation, ["a", "b"], [key], values).table)


def scan(source: PostgresSource, relation: Relation) -> Counter[tuple[str | None, ...]]:
    with source.open([relation.name]) as snapshot:
        found: Counter[tuple[str | None, ...]] = Counter()
        for part in snapshot.scan(relation, ["a", "b"]):
            found.update(zip(*(column.to_pylist() for column in read_partition(part).columns), strict=True))
        return found


READS = {"lookup": lookup, "scan": scan}


@pytest.fixture
def sources() -> Iterator[Callable[..., PostgresSource]]:
    """Sources as others reach them, closed at the end."""
    with contextlib.ExitStack() as stack:

        def make(url: str, **settings: object) -> PostgresSource:
            source = PostgresSource(SourceSettings("crm", url, **settings), PROJECT)  # type: ignore[arg-type]
            stack.callback(source.close)
            return source

        yield make


def springs(ground: Ground, source: PostgresSource, relation: Relation, kind: Kind) -> dict[str, str]:
    """Right rows before; and the role that each trap had, by the way of reading that it was met in."""
    ground.run("UPDATE app.switch SET armed = false")
    assert lookup(source, relation) == scan(source, relation) == ROWS
    arm(ground)
    source.close()  # a session keeps what it once evaluated
    found = {}
    for way, read in READS.items():
        try:
            assert read(source, relation) == ROWS
        except (DydaError, ReadFailed) as error:
            found[way] = str(error).partition("trapped as ")[2].partition(" of ")[0]
    assert set(found) == set(kind.fires)
    return found


@pytest.mark.parametrize("name", KINDS)
def test_a_superuser_evaluates_nothing_that_an_owner_wrote(ground: Ground, owner: Role, name: str) -> None:
    prepare(ground, owner, KINDS[name])
    arm(ground)
    relation = watch(ground.source)  # attaching evaluates nothing
    assert set(springs(ground, ground.source, relation, KINDS[name]).values()) <= {reader_role(ground)}


# What a trap may try to keep of a session for later, when we go on in it with our rights.
ATTEMPTS = {
    "RESET ROLE": False,
    "SET ROLE postgres": False,
    "SET SESSION AUTHORIZATION DEFAULT": False,
    "SET transaction_read_only = off": False,
    "ALTER FUNCTION dyda.read(text) SECURITY INVOKER": False,
    "CREATE TEMPORARY TABLE pg_class (oid oid)": False,
    "SELECT * FROM dyda.entries(NULL)": False,
    "SELECT * FROM app.secret": False,
    "DEALLOCATE ALL": True,
    "PREPARE dyda_hierarchy (oid[]) AS SELECT app.own()": True,
    "PREPARE dyda_fingerprint (oid[]) AS SELECT app.own()": True,
    "PREPARE dyda_access (oid[]) AS SELECT app.own()": True,
    "DECLARE later CURSOR WITH HOLD FOR SELECT app.own()": True,
    "SET search_path = app, pg_catalog": True,
    "SET row_security = on": True,
    "SET default_transaction_read_only = off": True,
    "LISTEN own": True,
}
ACT = """
CREATE FUNCTION app.own() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
        PERFORM pg_catalog.pg_advisory_lock_shared(666, 666);
    END IF;
    RETURN true;
END $$;
CREATE FUNCTION app.pg_relation_size(oid) RETURNS bigint LANGUAGE sql AS 'SELECT app.own()::int::bigint';
CREATE FUNCTION app.act() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    attempts text[] := {attempts};
BEGIN
    FOR i IN 1 .. pg_catalog.cardinality(attempts) LOOP
        BEGIN
            EXECUTE attempts[i];
            PERFORM pg_catalog.pg_advisory_lock_shared(700, i);
        EXCEPTION WHEN OTHERS THEN
            PERFORM pg_catalog.pg_advisory_lock_shared(800, i);
        END;
    END LOOP;
END $$;
CREATE OR REPLACE FUNCTION app.trap(int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF (SELECT armed FROM app.switch) THEN
        PERFORM app.act();
    END IF;
    RETURN app.own();
END $$;
"""
MARKS = "SELECT classid::bigint, objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid IN (666, 700, 800)"


@pytest.mark.parametrize("locked", [False, True])
def test_nothing_that_a_trap_leaves_in_a_session_meets_our_rights(ground: Ground, owner: Role, locked: bool) -> None:
    """Prepared statements outlive a transaction, WITH HOLD cursors run at its COMMIT, settings stay until its end."""
    prepare(ground, owner, KINDS["index predicate"])
    relation = watch(ground.source)
    attempts = "ARRAY[" + ", ".join(f"'{attempt}'" for attempt in ATTEMPTS) + "]"
    ground.run(ACT.replace("{attempts}", attempts), connection=ground.connect(owner.url))
    ground.run("CREATE TABLE app.secret (a int)")
    arm(ground)
    ground.source.close()
    for _ in range(2):
        lock = [relation.name] if locked else []
        with ground.source.open([relation.name], lock=lock) as snapshot:
            for _ in range(2):
                values = pa.table({"a": pa.array(["1", "2", "3"])})
                assert bag(snapshot.lookup(relation, ["a", "b"], ["a"], values).table) == ROWS
                parts = snapshot.scan(relation, ["a", "b"])
                assert sum(read_partition(part).num_rows for part in parts) == 2
            snapshot.messages(None)
            snapshot.compare([relation.name])
            snapshot.make_durable()
        ground.source.acknowledge(snapshot.position)
    found = set(ground.run(MARKS))
    assert {(700 if done else 800, place) for place, done in enumerate(ATTEMPTS.values(), 1)} == found


def test_the_reader_role_can_only_read_what_is_watched(ground: Ground, owner: Role) -> None:
    """Nobody but who runs DyDa may call dyda.read, and only to read. It comes and goes with capture."""
    prepare(ground, owner, KINDS["partial index of a partition"])
    ground.run("CREATE TABLE public.other (a int)")
    relation = watch(ground.source)
    name = reader_role(ground)
    assert ground.run("SELECT proowner::regrole::text FROM pg_proc WHERE oid = 'dyda.read(text)'::regprocedure") == [
        (name,)
    ]
    granted = (
        "SELECT c.oid::regclass::text, a.privilege_type FROM pg_class c CROSS JOIN aclexplode(c.relacl) a"
        f" WHERE a.grantee = '{name}'::regrole ORDER BY 1"
    )
    assert ground.run(granted) == [("app.part", "SELECT"), ("app.t", "SELECT")]
    # A partition that comes later is readable in the transaction that creates it.
    ground.run(
        "DROP TABLE app.part", "CREATE TABLE app.later PARTITION OF app.t DEFAULT", "INSERT INTO app.t VALUES (7)"
    )
    assert ground.run(granted) == [("app.later", "SELECT"), ("app.t", "SELECT")]
    relation = watch(ground.source)
    assert scan(ground.source, relation) == {("7", None): 1}
    asking = "SELECT * FROM dyda.read('SELECT 1') AS r (a int)"
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        ground.run(asking, connection=ground.connect(owner.url))
    with pytest.raises(psycopg2.Error, match="READ ONLY"):
        ground.run(asking)
    read_only = ground.connect()
    ground.run("SET default_transaction_read_only = on", connection=read_only)
    for query in ("SELECT * FROM public.other", "SELECT seq FROM dyda.log", "SELECT rolname FROM pg_authid"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            ground.run(f"SELECT * FROM dyda.read('{query}') AS r (a text)", connection=read_only)
    ground.source.release([relation])
    assert ground.run(granted) == []
    ground.source.detach()
    assert ground.run(f"SELECT FROM pg_roles WHERE rolname = '{name}'") == []


def test_a_member_of_the_reader_role_could_replace_what_a_superuser_calls(
    ground: Ground, owner: Role, role: Callable[[str], Role]
) -> None:
    prepare(ground, owner, KINDS["index predicate"])
    relation = watch(ground.source)
    member, name = role("member"), reader_role(ground)
    ground.run(f"GRANT {name} TO {member.quoted}")
    with pytest.raises(MissingRights, match="would run with the rights of postgres") as refused:
        lookup_without_healing(ground, relation)
    assert refused.value.remedy.startswith(f"REVOKE {name} FROM {member.quoted} CASCADE;")
    # Reading as a superuser mends it: the membership is of no other use.
    assert lookup(ground.source, relation) == ROWS
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        ground.run(f"SET ROLE {name}", connection=member.connect())
    for fault in ("LOGIN", "CREATEROLE"):
        ground.run(f"ALTER ROLE {name} {fault}")
        with pytest.raises(MissingRights, match="would run"):
            lookup(ground.source, relation)
        ground.run(f"ALTER ROLE {name} NO{fault}")
    ground.run(f"GRANT pg_read_all_data TO {name}")
    with pytest.raises(MissingRights, match="would run"):
        scan(ground.source, relation)
    ground.run(f"REVOKE pg_read_all_data FROM {name}")
    ground.run("ALTER FUNCTION dyda.read(text) SECURITY INVOKER")
    assert scan(ground.source, relation) == ROWS, "made again"
    # A source that an older version attached: reading as a superuser prepares what is missing.
    ground.run("DROP FUNCTION dyda.read(text), dyda.let_read(oid, boolean)", f"DROP OWNED BY {name}; DROP ROLE {name}")
    assert scan(ground.source, relation) == lookup(ground.source, relation) == ROWS
    assert ground.run("SELECT prosecdef FROM pg_proc WHERE oid = 'dyda.read(text)'::regprocedure") == [(True,)]


def lookup_without_healing(ground: Ground, relation: Relation) -> None:
    with ground.source.open([relation.name]) as snapshot, ground.source._sessions.transaction(FRESH) as cursor:
        tables = snapshot._before[relation.name].members
        find_access(cursor, ground.source.settings, tables).require(relation.name)


def test_a_superusers_table_with_functions_of_others_is_not_trusted(
    ground: Ground, owner: Role, sources: Callable[..., PostgresSource]
) -> None:
    """And one without them is read directly, as fast as ever; so is one whose owner the settings trust."""
    ground.run("CREATE TABLE app.plain (a int PRIMARY KEY, b text)", "CREATE INDEX ON app.plain (lower(b))")
    ground.run("CREATE TABLE app.t (a int, b text)", "INSERT INTO app.t VALUES (1, 'x'), (2, 'y')")
    ground.run(TRAP.format(argument="int", result="boolean", value="true"), connection=ground.connect(owner.url))
    plain, relation = watch(ground.source, "plain"), watch(ground.source)
    with ground.source.open([plain.name, relation.name]) as snapshot:
        assert not any("dyda.read" in part.query for part in snapshot.scan(relation, ["a"]))
    ground.run("CREATE INDEX ON app.t (b) WHERE app.trap(1)")
    with ground.source.open([plain.name, relation.name]) as snapshot:
        assert all("dyda.read" in part.query for part in snapshot.scan(relation, ["a"]))
    trusting = sources(ground.url, trusted_owners=(owner.name,))
    with trusting.open([relation.name]) as snapshot:
        assert not any("dyda.read" in part.query for part in snapshot.scan(relation, ["a"]))


def test_row_security_is_no_obstacle_to_a_superuser_nor_a_silent_subset(ground: Ground, owner: Role) -> None:
    prepare(ground, owner, KINDS["index predicate"])
    mine = ground.connect(owner.url)
    relation = watch(ground.source)
    ground.run(
        "CREATE POLICY p ON app.t USING (app.trap(a))", "ALTER TABLE app.t ENABLE ROW LEVEL SECURITY", connection=mine
    )
    relation = watch(ground.source)
    assert lookup(ground.source, relation) == scan(ground.source, relation) == ROWS
    ground.run(f"ALTER ROLE {reader_role(ground)} NOBYPASSRLS")
    assert scan(ground.source, relation) == ROWS, "given again"


@pytest.mark.parametrize("name", ["index predicate", "partition key"])
def test_a_role_without_a_reader_role_refuses_to_read_what_others_own(
    ground: Ground, owner: Role, role: Callable[[str], Role], sources: Callable[..., PostgresSource], name: str
) -> None:
    """The statements that it prints are enough. A role that can only read needs none."""
    prepare(ground, owner, KINDS[name])
    plain = role("plain")
    ((database,),) = ground.run("SELECT quote_ident(current_database())")
    ground.run(f"GRANT CREATE ON DATABASE {database} TO {plain.quoted}", f"GRANT {owner.quoted} TO {plain.quoted}")
    source = sources(plain.url)
    with pytest.raises(MissingRights, match=f"functions of {owner.name} would run") as refused:
        watch(source)
    statements, trusted = refused.value.remedy.rsplit("\n", 1)
    assert f'trusted_owners = ["{owner.name}"]' in trusted
    (error,) = [finding for finding in source.check([("app", "t")]) if finding.level == "error"]
    assert error.remedy == refused.value.remedy
    assert ground.run("SELECT FROM pg_trigger WHERE NOT tgisinternal") == [], "nothing was captured"
    ground.run(statements)
    assert [finding for finding in source.check([("app", "t")]) if finding.level == "error"] == []
    relation = watch(source)
    assert set(springs(ground, source, relation, KINDS[name]).values()) == {reader_role(ground)}
    # A role that can only read needs no other to do it; the settings can trust the owner.
    weak = role("weak")
    ground.run(grants(weak.name, [("app", "t")], reader=False), "GRANT SELECT ON ALL TABLES IN SCHEMA app TO PUBLIC")
    assert set(springs(ground, sources(weak.url), relation, KINDS[name]).values()) == {weak.name}
    assert set(springs(ground, sources(plain.url, trusted_owners=(owner.name,)), relation, KINDS[name]).values()) == {
        plain.name
    }
    source.detach()


PRINTED = {
    "inet": "'10.0.0.1'",
    "bool": "true",
    "char(4)": "'ab'",
    "varchar(9)": "''",
    "bytea": "'\\x00ff'",
    "float8": "0.1::float8 + 0.2",
    "interval": "'1 mon -2 days 3.5'",
    "timestamptz": "'infinity'",
    "int[][]": "'{{1,NULL},{3,4}}'",
    "json": "'null'",
    "numeric": "'NaN'",
    "app.pair": "ROW(NULL, NULL)::app.pair",
    "app.small": "7",
    "app.small[]": "'{7}'",
    "int4range": "'[1,5)'",
    "name": "'n'",
    '"char"': "'c'",
    "money": "1.5",
    "regtype": "'int'::regtype",
}


def test_values_are_printed_alike_either_way(ground: Ground, owner: Role) -> None:
    mine = ground.connect(owner.url)
    ground.run(
        "CREATE DOMAIN app.small AS int CHECK (VALUE < 9)", "CREATE TYPE app.pair AS (a int, b text)", connection=mine
    )
    columns = [f"c{place}" for place in range(len(PRINTED))]
    typed = ", ".join(f"{column} {name}" for column, name in zip(columns, PRINTED, strict=True))
    ground.run(
        f"CREATE TABLE app.t (a int, {typed})",
        f"INSERT INTO app.t VALUES (1, {', '.join(PRINTED.values())})",
        "INSERT INTO app.t VALUES (2)",
        connection=mine,
    )
    relation = watch(ground.source)

    def read() -> list[Counter[Any]]:
        with ground.source.open([relation.name]) as snapshot:
            (part,) = snapshot.scan(relation, columns)
            values = pa.table({"a": pa.array(["1", "2"])})
            looked_up = bag(snapshot.lookup(relation, columns, ["a"], values).table)
            rows = zip(*(column.to_pylist() for column in read_partition(part).columns), strict=True)
            by_text = snapshot.lookup(relation, columns, ["c0"], pa.table({"c0": pa.array(["10.0.0.1"])})).table
            assert by_text.num_rows == 1
            return [looked_up, Counter(rows), Counter({"dyda.read" in part.query: 1})]

    *through_reader, way = read()
    assert way == {True: 1}
    ground.run("ALTER TABLE app.t OWNER TO CURRENT_USER", "ALTER TYPE app.pair OWNER TO CURRENT_USER")
    ground.run("ALTER DOMAIN app.small OWNER TO CURRENT_USER")
    relation = watch(ground.source)
    *directly, way = read()
    assert way == {False: 1}
    assert through_reader == directly
