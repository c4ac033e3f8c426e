"""Every kind of DDL as an exact message: what happened, in steps, and explained by the fingerprint it left (C5)."""

from __future__ import annotations

import os
import urllib.parse
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg2
import pytest

from dyda.model.message import Change, DataUpdate, SchemaChange, Truncation
from dyda.model.relation import Column, RelationName
from dyda.model.schema_change import (
    AddColumn,
    ChangeType,
    DropColumn,
    DropRelation,
    Harmless,
    RenameColumn,
    RenameRelation,
    ReplaceRelation,
    Rewrite,
    Step,
)
from dyda.model.types import PgType
from tests.integration.sources.conftest import Ground

INTEGER = PgType("integer", "integer")
BIGINT = PgType("bigint", "bigint")
TEXT = PgType("text", "text")


def named(table: str, schema: str = "shop") -> RelationName:
    return RelationName("crm", schema, table)


@dataclass(frozen=True)
class Replaced:
    """ReplaceRelation, with the tables as they were called before the case (`!name`: as they are called after it)."""

    old: str
    new: str


SETUP = (
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "CREATE TYPE pair AS (x int, y text)",
    "CREATE DOMAIN positive AS int CHECK (VALUE > 0)",
    "CREATE TABLE t (a int, b text DEFAULT 'x', m mood, q pair, n positive)",
    "INSERT INTO t VALUES (1, 'one', 'sad', '(1,2)', 1)",
    "CREATE TABLE u (a int, b int)",
    "CREATE TABLE p (a int, b text) PARTITION BY RANGE (a)",
    "CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE parent (a int)",
    "CREATE TABLE child (c int) INHERITS (parent)",
    "CREATE TABLE spare (a int, b text)",
    "CREATE TABLE lonely (a int)",
    "CREATE TABLE t_new (a int, z int)",
    "CREATE SCHEMA other",
    "CREATE SCHEMA twin",
    "CREATE TABLE twin.t (a int)",
)
WATCHED = ("t", "u", "p", "parent")

Expected = Sequence[tuple[str, Sequence[Step | Replaced]] | Change]


def step(*steps: Step | Replaced, table: str = "t") -> Expected:
    return [(table, steps)]


def integer(name: str, number: int) -> Column:
    return Column(name, INTEGER, number)


CASES: dict[str, tuple[str, Expected]] = {
    # columns
    "add column": ("ALTER TABLE t ADD COLUMN c int", step(AddColumn(integer("c", 6)))),
    "add column with a constant default": (
        "ALTER TABLE t ADD COLUMN c int NOT NULL DEFAULT 7",
        step(AddColumn(Column("c", INTEGER, 6, not_null=True))),
    ),
    "add column with a volatile default": (
        "ALTER TABLE t ADD COLUMN c float8 DEFAULT random()",
        step(
            AddColumn(Column("c", PgType("double precision", "double precision"), 6)),
            Rewrite("rewrites its rows to fill a column"),
        ),
    ),
    "add stored generated column": (
        "ALTER TABLE t ADD COLUMN c int GENERATED ALWAYS AS (a + 1) STORED",
        step(
            AddColumn(Column("c", INTEGER, 6, generated="s")),
            Rewrite("rewrites its rows to fill a column"),
        ),
    ),
    "add column that is there": ("ALTER TABLE t ADD COLUMN IF NOT EXISTS a int", []),
    "drop column": ("ALTER TABLE t DROP COLUMN b", step(DropColumn("b"))),
    "drop column that is not there": ("ALTER TABLE t DROP COLUMN IF EXISTS zz", []),
    "drop and add again": (
        "ALTER TABLE t DROP COLUMN a, ADD COLUMN a int",
        step(DropColumn("a"), AddColumn(integer("a", 6))),
    ),
    "rename column": ("ALTER TABLE t RENAME COLUMN b TO c", step(RenameColumn("b", "c"))),
    "columns swap names": (
        "BEGIN; ALTER TABLE u RENAME a TO tmp; ALTER TABLE u RENAME b TO a; ALTER TABLE u RENAME tmp TO b; COMMIT",
        [
            ("u", [RenameColumn("a", "tmp")]),
            ("u", [RenameColumn("b", "a")]),
            ("u", [RenameColumn("tmp", "b")]),
        ],
    ),
    "change type": ("ALTER TABLE t ALTER COLUMN a TYPE bigint", step(ChangeType("a", INTEGER, BIGINT))),
    "change type without a rewrite": (
        "ALTER TABLE t ALTER COLUMN b TYPE varchar",
        step(ChangeType("b", TEXT, PgType("character varying", "character varying"))),
    ),
    "change type with USING": (
        "ALTER TABLE t ALTER COLUMN a TYPE text USING a || '!'",
        step(ChangeType("a", INTEGER, TEXT)),
    ),
    "the same type with USING": (
        "ALTER TABLE t ALTER COLUMN a TYPE int USING a + 100",
        step(Rewrite("rewrites its rows with other values")),
    ),
    "modifier": (
        "ALTER TABLE t ADD c numeric(4,1); ALTER TABLE t ALTER c TYPE numeric(6,2)",
        [
            ("t", [AddColumn(Column("c", PgType("numeric", "numeric(4,1)"), 6))]),
            ("t", [ChangeType("c", PgType("numeric", "numeric(4,1)"), PgType("numeric", "numeric(6,2)"))]),
        ],
    ),
    "several in one statement": (
        "ALTER TABLE t ADD COLUMN c int, DROP COLUMN b, ALTER COLUMN a TYPE bigint, ALTER COLUMN n SET NOT NULL",
        step(
            DropColumn("b"),
            ChangeType("a", INTEGER, BIGINT),
            Harmless("column n may not be NULL now"),
            AddColumn(integer("c", 6)),
        ),
    ),
    "stored column becomes plain": (
        "ALTER TABLE t ADD g int GENERATED ALWAYS AS (a) STORED; ALTER TABLE t ALTER g DROP EXPRESSION",
        [
            (
                "t",
                [
                    AddColumn(Column("g", INTEGER, 6, generated="s")),
                    Rewrite("rewrites its rows to fill a column"),
                ],
            ),
            ("t", [ChangeType("g", INTEGER, INTEGER)]),
        ],
    ),
    "another expression (17)": (
        "ALTER TABLE u ADD g int GENERATED ALWAYS AS (a) STORED; ALTER TABLE u ALTER g SET EXPRESSION AS (a + 1)",
        [
            (
                "u",
                [
                    AddColumn(Column("g", INTEGER, 3, generated="s")),
                    Rewrite("rewrites its rows to fill a column"),
                ],
            ),
            ("u", [Rewrite("computes column g in another way"), Rewrite("rewrites its rows to fill a column")]),
        ],
    ),
    "another expression of a virtual column (18)": (
        "ALTER TABLE u ADD g int GENERATED ALWAYS AS (a); ALTER TABLE u ALTER g SET EXPRESSION AS (a + 1)",
        [
            ("u", [AddColumn(Column("g", INTEGER, 3, generated="v"))]),
            ("u", [Rewrite("computes column g in another way")]),
        ],
    ),
    # harmless
    "set default": (
        "ALTER TABLE t ALTER COLUMN a SET DEFAULT 5",
        step(Harmless("column a has the default 5 now")),
    ),
    "drop default": ("ALTER TABLE t ALTER COLUMN b DROP DEFAULT", step(Harmless("column b has no default any more"))),
    "set not null": ("ALTER TABLE t ALTER COLUMN a SET NOT NULL", step(Harmless("column a may not be NULL now"))),
    "add check": ("ALTER TABLE t ADD CHECK (a > 0)", step(Harmless("changes its constraints"))),
    "add primary key": (
        "ALTER TABLE t ADD PRIMARY KEY (a)",
        step(Harmless("column a may not be NULL now"), Harmless("changes its constraints")),
    ),
    "set statistics": ("ALTER TABLE t ALTER a SET STATISTICS 500", step(Harmless("changes its statistics"))),
    "storage options": ("ALTER TABLE t SET (fillfactor = 50)", step(Harmless("changes its storage"))),
    "row security": ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", step(Harmless("changes its row security"))),
    "default lost with its function": (
        "CREATE FUNCTION five() RETURNS int LANGUAGE sql AS 'SELECT 5'; ALTER TABLE t ALTER a SET DEFAULT shop.five();"
        " DROP FUNCTION five CASCADE",
        [
            ("t", [Harmless("column a has the default shop.five() now")]),
            ("t", [Harmless("column a has no default any more")]),
        ],
    ),
    "constraint lost with another table": (
        "CREATE TABLE far (a int PRIMARY KEY); ALTER TABLE u ADD FOREIGN KEY (a) REFERENCES far;"
        " DROP TABLE far CASCADE",
        [("u", [Harmless("changes its constraints")]), ("u", [Harmless("changes its constraints")])],
    ),
    "create index": ("CREATE INDEX ON t (a)", []),
    "comment": ("COMMENT ON COLUMN t.a IS 'said'", []),
    "a user's trigger": (
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL;END';"
        " CREATE TRIGGER mine AFTER INSERT ON t EXECUTE FUNCTION nothing(); DROP TRIGGER mine ON t",
        [],
    ),
    "extended statistics": ("CREATE STATISTICS s ON a, b FROM t", []),
    "vacuum full": ("VACUUM FULL t", []),
    "cluster": ("CREATE INDEX i ON t (a); CLUSTER t USING i", []),
    "analyze": ("ANALYZE t", []),
    "grant": ("GRANT SELECT ON t TO PUBLIC", []),
    "another table": ("ALTER TABLE lonely ADD COLUMN b int; DROP TABLE lonely; CREATE TABLE more (a int)", []),
    "rolled back": ("BEGIN; ALTER TABLE t DROP COLUMN a; ALTER TABLE t RENAME TO gone; ROLLBACK", []),
    "rolled back to a savepoint": (
        "BEGIN; SAVEPOINT s; ALTER TABLE t ALTER a TYPE int USING a + 1; ROLLBACK TO s;"
        " ALTER TABLE t ADD c int; COMMIT",
        step(AddColumn(integer("c", 6))),
    ),
    # rewrites
    "set unlogged": (
        "ALTER TABLE t SET UNLOGGED",
        step(Rewrite("rewrites its rows for another persistence"), Harmless("changes its storage")),
    ),
    "truncate": ("TRUNCATE t", [Truncation(named("t"))]),
    # types
    "rename value": (
        "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
        step(Rewrite("renames the value sad of type shop.mood to blue")),
    ),
    "add value": ("ALTER TYPE mood ADD VALUE 'calm'", step(Harmless("type shop.mood gets the value calm"))),
    "rename type": (
        "ALTER TYPE mood RENAME TO feeling",
        step(ChangeType("m", PgType("shop.mood", "shop.mood", False), PgType("shop.feeling", "shop.feeling", False))),
    ),
    "add attribute": ("ALTER TYPE pair ADD ATTRIBUTE z int", step(Rewrite("type shop.pair has other fields"))),
    "rename attribute": (
        "ALTER TYPE pair RENAME ATTRIBUTE x TO w",
        step(Harmless("type shop.pair has other names for its fields")),
    ),
    "domain default": ("ALTER DOMAIN positive SET DEFAULT 3", step(Harmless("changes something that no row shows"))),
    "drop type": ("DROP TYPE mood CASCADE", step(DropColumn("m"))),
    # hierarchies
    "new partition": (
        "CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (10) TO (20)",
        step(Harmless("gets the empty part shop.p2"), table="p"),
    ),
    "attach partition": (
        "ALTER TABLE p ATTACH PARTITION spare FOR VALUES FROM (20) TO (30)",
        step(Rewrite("gets the part shop.spare with its rows"), table="p"),
    ),
    "detach partition": (
        "ALTER TABLE p DETACH PARTITION p1",
        step(Rewrite("loses the part shop.p1 with its rows"), table="p"),
    ),
    "detach partition concurrently": (
        "ALTER TABLE p DETACH PARTITION p1 CONCURRENTLY",
        step(Rewrite("loses the part shop.p1 with its rows"), table="p"),
    ),
    "drop partition": ("DROP TABLE p1", step(Rewrite("loses a part with its rows"), table="p")),
    "rename partition": (
        "ALTER TABLE p1 RENAME TO px",
        step(Harmless("changes something that no row shows"), table="p"),
    ),
    "rewrite of a partition": (
        "ALTER TABLE p1 SET UNLOGGED",
        step(Rewrite("rewrites its rows for another persistence"), table="p"),
    ),
    "column of all partitions": (
        "ALTER TABLE p ADD COLUMN c int",
        step(AddColumn(integer("c", 3)), table="p"),
    ),
    "new child": (
        "CREATE TABLE kid (k int) INHERITS (parent)",
        step(Harmless("gets the empty part shop.kid"), table="parent"),
    ),
    "inherit": (
        "ALTER TABLE lonely INHERIT parent",
        step(Rewrite("gets the part shop.lonely with its rows"), table="parent"),
    ),
    "no inherit": (
        "ALTER TABLE child NO INHERIT parent",
        step(Rewrite("loses the part shop.child with its rows"), table="parent"),
    ),
    "column of a child alone": (
        "ALTER TABLE child ADD COLUMN d int",
        step(Harmless("changes something that no row shows"), table="parent"),
    ),
    "a parent outside": (
        "ALTER TABLE u INHERIT lonely",
        step(Rewrite("makes it a part of shop.lonely"), table="u"),
    ),
    "a part's parent outside": (
        "CREATE TABLE far (c int); ALTER TABLE child INHERIT far",
        step(Rewrite("makes it a part of shop.far"), table="parent"),
    ),
    "values inside arrays and domains": (
        "CREATE DOMAIN moods AS mood[]; ALTER TABLE u ADD ms moods; ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'",
        [
            ("u", [AddColumn(Column("ms", PgType("shop.mood[]", "shop.mood[]", False), 3))]),
            ("t", [Rewrite("renames the value sad of type shop.mood to blue")]),
            ("u", [Rewrite("renames the value sad of type shop.mood to blue")]),
        ],
    ),
    # names
    "rename table": ("ALTER TABLE t RENAME TO moved", step(RenameRelation(named("moved")))),
    "rename table by ALTER INDEX": ("ALTER INDEX t RENAME TO moved", step(RenameRelation(named("moved")))),
    "set schema": ("ALTER TABLE t SET SCHEMA other", step(RenameRelation(named("t", "other")))),
    "rename schema": (
        "ALTER SCHEMA shop RENAME TO store",
        [
            (
                "t",
                [
                    RenameRelation(named("t", "store")),
                    ChangeType("m", PgType("shop.mood", "shop.mood", False), PgType("store.mood", "store.mood", False)),
                    ChangeType("q", PgType("shop.pair", "shop.pair", False), PgType("store.pair", "store.pair", False)),
                ],
            ),
            ("u", [RenameRelation(named("u", "store"))]),
            ("p", [RenameRelation(named("p", "store"))]),
            ("parent", [RenameRelation(named("parent", "store"))]),
        ],
    ),
    "a chain of renames": (
        "ALTER TABLE t RENAME TO t2; ALTER TABLE t2 RENAME TO t3",
        [("t", [RenameRelation(named("t2"))]), ("t", [RenameRelation(named("t3"))])],
    ),
    "there and back": (
        "BEGIN; ALTER TABLE t RENAME TO t2; ALTER TABLE t2 RENAME TO t; COMMIT",
        [("t", [RenameRelation(named("t2"))]), ("t", [RenameRelation(named("t"))])],
    ),
    "drop table": ("DROP TABLE t", step(DropRelation())),
    "drop schema": (
        "DROP SCHEMA shop CASCADE",
        [(table, [DropRelation()]) for table in WATCHED],
    ),
    "drop, and another table takes the name later": (
        "DROP TABLE t; CREATE TABLE t (a int); INSERT INTO t VALUES (1)",
        step(DropRelation()),
    ),
    "rename, and another table takes the name later": (
        "ALTER TABLE t RENAME TO t2; CREATE TABLE t (a int); INSERT INTO t VALUES (1); INSERT INTO t2 (a) VALUES (1)",
        [("t", [RenameRelation(named("t2"))]), DataUpdate(named("t"), 1, 0)],
    ),
    "a swap under a name that only a pending rename gave": (
        "ALTER TABLE t RENAME TO t2;"
        " BEGIN; ALTER TABLE t2 RENAME TO t_old; ALTER TABLE t_new RENAME TO t2; COMMIT; ALTER TABLE t2 RENAME TO t;"
        " INSERT INTO t VALUES (1, 2); INSERT INTO t_old (a) VALUES (1)",
        [
            ("t", [RenameRelation(named("t2"))]),
            ("t", [RenameRelation(named("t_old"))]),
            ("t", [Replaced("t", "!t")]),
            ("t", [RenameRelation(named("t"))]),
            DataUpdate(named("t"), 1, 0),
        ],
    ),
    "the free name is taken while the table moves on": (
        "ALTER TABLE t RENAME TO t2; BEGIN; ALTER TABLE t2 RENAME TO t3; ALTER TABLE t_new RENAME TO t; COMMIT",
        [("t", [RenameRelation(named("t2"))]), ("t", [RenameRelation(named("t3"))])],
    ),
    "swapped and swapped back": (
        "BEGIN; ALTER TABLE t RENAME TO aside; ALTER TABLE t_new RENAME TO t; COMMIT; INSERT INTO aside (a) VALUES (1);"
        " BEGIN; ALTER TABLE t RENAME TO t_new; ALTER TABLE aside RENAME TO t; COMMIT; INSERT INTO t (a) VALUES (1)",
        [
            ("t", [RenameRelation(named("aside"))]),
            ("t", [Replaced("t", "t_new")]),
            ("t", [RenameRelation(named("t_new"))]),
            ("t", [Replaced("t_new", "t")]),
            DataUpdate(named("t"), 1, 0),
        ],
    ),
    "drop and create again in one transaction": (
        "BEGIN; INSERT INTO t (a) VALUES (1); DROP TABLE t; CREATE TABLE t AS SELECT 1 AS a; DELETE FROM t; COMMIT",
        [
            DataUpdate(named("t"), 1, 0),
            ("t", [DropRelation()]),
            ("t", [Replaced("t", "!t")]),
            DataUpdate(named("t"), 0, 1),
        ],
    ),
    "an online schema changer's swap": (
        "BEGIN; ALTER TABLE t RENAME TO t_old; ALTER TABLE t_new RENAME TO t; INSERT INTO t VALUES (1, 2); COMMIT;"
        " ALTER TABLE t DROP COLUMN z",
        [
            ("t", [RenameRelation(named("t_old"))]),
            ("t", [Replaced("t", "!t")]),
            DataUpdate(named("t"), 1, 0),
            ("t", [DropColumn("z")]),
        ],
    ),
    "two watched tables swap names": (
        "BEGIN; ALTER TABLE t RENAME TO tmp; ALTER TABLE u RENAME TO t; ALTER TABLE tmp RENAME TO u; COMMIT",
        [
            ("t", [RenameRelation(named("tmp"))]),
            ("u", [RenameRelation(named("t"))]),
            ("t", [Replaced("t", "u")]),
            ("u", [Replaced("u", "t")]),
        ],
    ),
    "another table and back": (
        "BEGIN; ALTER TABLE t RENAME TO aside; ALTER TABLE t_new RENAME TO t; ALTER TABLE t RENAME TO t_new;"
        " ALTER TABLE aside RENAME TO t; COMMIT",
        [
            ("t", [RenameRelation(named("aside"))]),
            ("t", [Replaced("t", "t_new")]),
            ("t", [RenameRelation(named("t_new"))]),
            ("t", [Replaced("t_new", "t")]),
        ],
    ),
    "replaced twice": (
        "BEGIN; DROP TABLE t; CREATE TABLE t (a int); COMMIT;"
        " BEGIN; DROP TABLE t; ALTER TABLE t_new RENAME TO t; COMMIT",
        [
            ("t", [DropRelation()]),
            ("t", [Replaced("t", "?first")]),
            ("t", [DropRelation()]),
            ("t", [Replaced("?first", "!t")]),
        ],
    ),
    "a view under the name": (
        "BEGIN; ALTER TABLE t RENAME TO t_base; CREATE VIEW t AS SELECT a FROM t_base; COMMIT",
        [("t", [RenameRelation(named("t_base"))]), ("t", [Replaced("t", "!t")])],
    ),
    "a part of another table under the name": (
        "BEGIN; DROP TABLE t; ALTER TABLE p1 RENAME TO t; COMMIT",
        [
            ("t", [DropRelation()]),
            ("p", [Harmless("changes something that no row shows")]),
            ("t", [Replaced("t", "!t")]),
        ],
    ),
    "schemas swap names": (
        "BEGIN; ALTER TABLE u SET SCHEMA other; ALTER TABLE p SET SCHEMA other; ALTER TABLE parent SET SCHEMA other;"
        " ALTER TYPE mood SET SCHEMA other; ALTER TYPE pair SET SCHEMA other; COMMIT;"
        " BEGIN; ALTER SCHEMA shop RENAME TO aside; ALTER SCHEMA twin RENAME TO shop; COMMIT",
        [
            ("u", [RenameRelation(named("u", "other"))]),
            ("p", [RenameRelation(named("p", "other"))]),
            ("parent", [RenameRelation(named("parent", "other"))]),
            (
                "t",
                [ChangeType("m", PgType("shop.mood", "shop.mood", False), PgType("other.mood", "other.mood", False))],
            ),
            (
                "t",
                [ChangeType("q", PgType("shop.pair", "shop.pair", False), PgType("other.pair", "other.pair", False))],
            ),
            ("t", [RenameRelation(named("t", "aside"))]),
            ("t", [Replaced("t", "!t")]),
        ],
    ),
    # mixed
    "data and schema changes in one transaction": (
        "BEGIN; INSERT INTO t (a) VALUES (2); ALTER TABLE t ADD c int; INSERT INTO t (a) VALUES (3);"
        " INSERT INTO u VALUES (1); ALTER TABLE t RENAME b TO bb; INSERT INTO t (a) VALUES (4); TRUNCATE u;"
        " DELETE FROM t; COMMIT",
        [
            DataUpdate(named("t"), 1, 0),
            ("t", [AddColumn(integer("c", 6))]),
            DataUpdate(named("t"), 1, 0),
            DataUpdate(named("u"), 1, 0),
            ("t", [RenameColumn("b", "bb")]),
            DataUpdate(named("t"), 1, 0),
            Truncation(named("u")),
            DataUpdate(named("t"), 0, 4),
        ],
    ),
    "two relations in one transaction": (
        "BEGIN; ALTER TABLE u ADD c int; ALTER TABLE t RENAME TO tt; ALTER TABLE u DROP a; COMMIT",
        [
            ("u", [AddColumn(integer("c", 3))]),
            ("t", [RenameRelation(named("tt"))]),
            ("u", [DropColumn("a")]),
        ],
    ),
    # capture
    "capture disabled": (
        "ALTER TABLE t DISABLE TRIGGER ALL; ALTER TABLE t ENABLE TRIGGER ALL",
        [
            ("t", [Rewrite("disables its capture, so that rows may have changed uncaptured")]),
            ("t", [Rewrite("disables its capture, so that rows may have changed uncaptured")]),
        ],
    ),
    "capture dropped": (
        "DROP TRIGGER dyda_insert ON t",
        step(Rewrite("disables its capture, so that rows may have changed uncaptured")),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """One database for all cases: each makes the schema `shop` anew."""
    administration = os.environ.get("DYDA_TEST_POSTGRES") or request.getfixturevalue("server").url()
    name = f"shop_{uuid.uuid4().hex[:12]}"
    connection = psycopg2.connect(administration)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        ground = Ground(urllib.parse.urlunsplit(urllib.parse.urlsplit(administration)._replace(path="/" + name)))
        yield ground
        ground.close()
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    connection.close()


@pytest.fixture
def shop(place: Ground) -> Iterator[Ground]:
    place.run("CREATE SCHEMA shop", "SET search_path = shop", *SETUP)
    place.relations.clear()
    place.watch(*WATCHED, schema="shop")
    yield place
    place.run("ROLLBACK", "RESET ALL")
    place.run(
        "TRUNCATE dyda.watched, dyda.holder, dyda.described, dyda.member, dyda.log",
        "DROP SCHEMA IF EXISTS shop, store, other, twin, aside CASCADE",
    )


def known(ground: Ground) -> dict[RelationName, int]:
    return {relation.name: relation.oid for relation in ground.relations.values()}


def oids(ground: Ground) -> dict[str, int]:
    rows = ground.run("SELECT relname, oid FROM pg_class WHERE relnamespace = to_regnamespace('shop')")
    return {name: int(oid) for name, oid in rows}


@pytest.mark.parametrize("case", CASES)
def test_a_schema_change_is_told_exactly(shop: Ground, case: str) -> None:
    statements, expected = CASES[case]
    for version in (17, 18):
        if f"({version})" in case and shop.connect().server_version < version * 10000:
            pytest.skip(f"came with PostgreSQL {version}")
    before = oids(shop)
    gap = shop.gap()
    with shop.source.open(known(shop)) as snapshot:
        position, fingerprints = snapshot.position, snapshot.fingerprints
    for statement in statements.split("; ") if "BEGIN" not in statements else split(statements):
        shop.run(statement)
    after = oids(shop)
    with shop.source.open(known(shop)) as snapshot:
        messages = snapshot.messages(position)
        logged, now = snapshot.logged_fingerprints, snapshot.fingerprints
    assert shop.gap() == gap
    found: list[Any] = [change for message in messages for change in message.changes]
    first = next(
        (s.new_oid for c in found if isinstance(c, SchemaChange) for s in c.steps if isinstance(s, ReplaceRelation)), 0
    )

    def oid(name: str) -> int:
        return first if name == "?first" else after[name[1:]] if name.startswith("!") else before[name]

    def exact(step: Step | Replaced) -> Step:
        return ReplaceRelation(oid(step.old), oid(step.new)) if isinstance(step, Replaced) else step

    def bare(step: Step) -> Step:
        return ReplaceRelation(step.old_oid, step.new_oid) if isinstance(step, ReplaceRelation) else step

    told = [(c.relation.table, list(map(bare, c.steps))) if isinstance(c, SchemaChange) else c for c in found]
    wanted = [e if not isinstance(e, tuple) else (e[0], [exact(step) for step in e[1]]) for e in expected]
    if "schema" in case or "inside" in case:  # one command changed several relations, in no order that matters
        assert sorted(map(str, told)) == sorted(map(str, wanted))
    else:
        assert told == wanted
    for name, fingerprint in now.items():
        if fingerprint.startswith("uncaptured"):
            assert "under the name" in case, "what cannot be captured"
        elif fingerprint != fingerprints.get(name):
            assert logged[name] == fingerprint, "C5: explained, the same inside the transaction as after it"
    for change in found:
        if isinstance(change, SchemaChange):
            assert change.command.split()[0] in ("ALTER", "CREATE", "DROP")
            assert change.ddl


def split(statements: str) -> list[str]:
    """Transactions as one query each, the other statements singly."""
    found: list[str] = []
    for statement in statements.split("; "):
        if found and found[-1].startswith("BEGIN") and not found[-1].endswith(("COMMIT", "ROLLBACK")):
            found[-1] += "; " + statement
        else:
            found.append(statement)
    return found
