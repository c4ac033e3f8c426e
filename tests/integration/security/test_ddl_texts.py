"""The text of a query that changed a schema is kept and shown; what else stood in it, or in its literals, is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda.model.message import SchemaChange
from tests.integration.security.conftest import Role
from tests.integration.sources.conftest import Ground

QUERIES = {
    "ALTER TABLE t ADD c int; ALTER ROLE {role} PASSWORD 'hunter2'": "ALTER TABLE t ADD c int",
    "ALTER TABLE t ADD d int; ALTER ROLE {role} SET my.secret = hunter2; DROP TABLE IF EXISTS x": (
        "ALTER TABLE t ADD d int; DROP TABLE IF EXISTS x"
    ),
    "ALTER TABLE t ALTER a TYPE text USING md5(a::text || 'hunter2;')": (
        "ALTER TABLE t ALTER a TYPE text USING md5(a::text || '...')"
    ),
    "ALTER TABLE t -- hunter2 isn't kept\n  ADD e text /* hunter2's */ DEFAULT 'it''s hunter2'": (
        "ALTER TABLE t ADD e text DEFAULT '...'"
    ),
    "ALTER TABLE t ADD \"o'f\" text; ALTER TABLE t ALTER \"o'f\" SET DEFAULT 'hunter2;'": (
        "ALTER TABLE t ADD \"o'f\" text; ALTER TABLE t ALTER \"o'f\" SET DEFAULT '...'"
    ),
    "DO $$ BEGIN PERFORM 'hunter2'; ALTER TABLE t ADD g int; END $$": "",
    "SELECT change_t('hunter2')": "",
    "ALTER TABLE t ADD h text DEFAULT E'it\\'s hunter2'": "",
    "ALTER TABLE t ADD i text DEFAULT $x$hunter2$x$": "",
    "ALTER TABLE t ADD j int /* nested /* */ it's hunter2 */": "",
    "ALTER TABLE t ADD k text DEFAULT '" + "x" * 9_980 + "hunter2'": "",
    "DROP TYPE IF EXISTS x; ALTER TABLE t ADD l int; SET standard_conforming_strings = off": (
        "DROP TYPE IF EXISTS x; ALTER TABLE t ADD l int"
    ),
    "ALTER TABLE t ADD m text DEFAULT 'it\\'s hunter2', ADD n text DEFAULT ''": "",
}


@pytest.fixture
def watched(ground: Ground) -> Ground:
    ground.run(
        "CREATE TABLE t (a int)",
        "CREATE FUNCTION change_t(secret text) RETURNS void LANGUAGE plpgsql AS 'BEGIN ALTER TABLE t ADD b int; END'",
    )
    ground.watch("t")
    return ground


def test_nothing_but_the_ddl_is_kept(watched: Ground, role: Callable[[str], Role]) -> None:
    app, gap = role("app"), watched.gap()
    for query in QUERIES:
        watched.run(query.format(role=app.quoted))
    ((logged,),) = watched.run("SELECT string_agg(image::jsonb ->> 'ddl', E'\n') FROM dyda.log WHERE op = 'S'")
    assert "hunter2" not in logged
    with watched.open() as snapshot:
        changes = [change for message in snapshot.messages(None) for change in message.changes]
    texts = [change.ddl for change in changes if isinstance(change, SchemaChange)]
    assert list(dict.fromkeys(filter(None, texts))) == list(filter(None, QUERIES.values()))
    assert watched.gap() == gap


KEPT = {
    "": "",
    ";;": "",
    "alter table t add c int;": "alter table t add c int",
    "\n CREATE  UNLOGGED\tTABLE x (a int)": "CREATE UNLOGGED TABLE x (a int)",
    "CREATE OR REPLACE VIEW v AS SELECT 1": "CREATE OR REPLACE VIEW v AS SELECT 1",
    "DROP TRIGGER g ON t": "DROP TRIGGER g ON t",
    'ALTER TABLE "a;b  ""c" ADD "d e" int': 'ALTER TABLE "a;b  ""c" ADD "d e" int',
    "ALTER TYPE mood ADD VALUE 'x' AFTER '$y'; COMMIT": "ALTER TYPE mood ADD VALUE '...' AFTER '...'",
    "ALTER TABLE t ALTER a TYPE int USING a-1/2": "ALTER TABLE t ALTER a TYPE int USING a-1/2",
    "/* a */ ALTER TABLE t /* b **/-- 'c\rADD c int /**/": "ALTER TABLE t ADD c int",
    "ALTER TABLE t ADD c int; INSERT INTO t VALUES (4111)": "ALTER TABLE t ADD c int",
    "ALTER USER MAPPING FOR u SERVER s OPTIONS (SET password 'x')": "",
    "CREATE SUBSCRIPTION s CONNECTION 'password=x' PUBLICATION p": "",
    "ALTER DATABASE d SET my.secret = x": "",
    "ALTER FUNCTION f SET my.secret = x": "",
    "ALTER TABLES": "",
    # Nothing from there on where quotes cannot be told from what they enclose.
    "ALTER TABLE t ADD c int; SELECT 'cut; DROP TABLE x": "ALTER TABLE t ADD c int",
    'ALTER TABLE t ADD c int; SELECT "cut; DROP TABLE x': "ALTER TABLE t ADD c int",
    "DROP TABLE x /* a /* b */; DROP TABLE secret */; DROP TABLE y": "",
    "ALTER TABLE t ADD c int /* cut": "",
    "ALTER TABLE t ADD c int; DO $a$ DROP TABLE x; $a$; DROP TABLE y": "ALTER TABLE t ADD c int",
    r"DROP TABLE x; SELECT E'\'; DROP TABLE secret; '; DROP TABLE y": "DROP TABLE x",
}


def test_what_is_kept_of_a_query(watched: Ground) -> None:
    with watched.connect().cursor() as cursor:
        for setting in ("on", "off"):
            cursor.execute(f"SET standard_conforming_strings = {setting}")
            for query, kept in KEPT.items():
                cursor.execute("SELECT dyda.shown(%s::text)", (query,))
                assert cursor.fetchone() == (kept,), query
