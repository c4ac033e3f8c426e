"""Capture runs in everybody's transactions: whose it is, and that those who write can do nothing with it but write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import psycopg2
import pytest

from dyda.errors import SourceInUse
from dyda.sources import PostgresSource, SourceSettings
from dyda.sources.ownership import ATTACHING, FUNCTIONS, RELATIONS
from tests.integration.security.conftest import Role
from tests.integration.sources.conftest import PROJECT, Ground

OWNERS = (
    "SELECT proname::text, pg_get_userbyid(proowner)::text FROM pg_proc WHERE pronamespace = 'dyda'::regnamespace"
    " UNION ALL SELECT relname::text, pg_get_userbyid(relowner)::text FROM pg_class"
    " WHERE relnamespace = 'dyda'::regnamespace AND relkind IN ('r', 'S', 'v')"
    " UNION ALL SELECT nspname::text, pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = 'dyda'"
)


def owners(ground: Ground) -> dict[str, str]:
    return dict(ground.run(OWNERS))


@pytest.fixture
def watched(ground: Ground) -> Ground:
    ground.run("CREATE TABLE t (a int, b text)", "GRANT ALL ON t TO PUBLIC")
    ground.watch("t")
    return ground


def test_capture_belongs_to_a_role_that_cannot_log_in(watched: Ground) -> None:
    found = owners(watched)
    assert set(found) == {*FUNCTIONS, *ATTACHING, *RELATIONS, "dyda"}, "none is forgotten"
    ((superuser,),) = watched.run("SELECT current_user::text")
    assert {name for name, owner in found.items() if owner != "dyda_capture"} == set(ATTACHING)
    assert {found[name] for name in ATTACHING} == {superuser}
    assert watched.run("SELECT rolcanlogin, rolsuper, rolcreaterole FROM pg_roles WHERE rolname = 'dyda_capture'") == [
        (False, False, False)
    ]
    # What it may do outside of schema dyda: nothing.
    assert watched.run("SELECT has_table_privilege('dyda_capture', 'pg_authid', 'SELECT')") == [(False,)]
    assert watched.run("SELECT FROM pg_auth_members WHERE member = 'dyda_capture'::regrole") == []
    watched.source.attach(watched.relations.values())
    assert owners(watched) == found


def test_every_function_of_capture_pins_its_search_path(watched: Ground) -> None:
    """dyda.shape alone does not, for its speed: it names all it uses in full, and capture alone calls it."""
    loose = watched.run(
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'dyda'::regnamespace"
        " AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"
    )
    assert loose == [("shape",)]
    invoker = watched.run(
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'dyda'::regnamespace AND NOT prosecdef ORDER BY 1"
    )
    assert [name for (name,) in invoker] == ["names_now", "note", "noted", "seal", "shape"], "called by the others only"
    assert (
        watched.run(
            "SELECT proname::text FROM pg_proc WHERE pronamespace = 'dyda'::regnamespace"
            " AND (proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0))"
        )
        == []
    )


def test_the_applications_users_can_write_and_nothing_else(watched: Ground, role: Callable[[str], Role]) -> None:
    user = role("app")
    watched.run(f"GRANT CREATE ON SCHEMA public TO {user.quoted}")
    connection = user.connect()
    watched.run("CREATE TABLE own (a int)", connection=connection)
    attempts = [
        *(f"SELECT * FROM dyda.{name}" for name in RELATIONS),
        *(f"DROP {kind} dyda.{name}" for name, kind in (("log", "TABLE"), ("gap", "SEQUENCE"), ("state", "FUNCTION"))),
        "INSERT INTO dyda.log (op, root, relid, image) VALUES ('D', 't'::regclass, 't'::regclass, '(1,x)')",
        "UPDATE dyda.log SET image = ''",
        "DELETE FROM dyda.log",
        "TRUNCATE dyda.log",
        "DO 'BEGIN LOCK TABLE dyda.log IN ACCESS SHARE MODE; END'",
        "COPY dyda.log TO STDOUT",
        "ALTER TABLE dyda.log DISABLE TRIGGER ALL",
        "ALTER TABLE dyda.log ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON dyda.log USING (true)",
        "CREATE TRIGGER own BEFORE INSERT ON dyda.log EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE RULE own AS ON INSERT TO dyda.log DO INSTEAD NOTHING",
        "CREATE TABLE child () INHERITS (dyda.log)",
        "CREATE FUNCTION dyda.textin(cstring) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'",
        "CREATE OR REPLACE FUNCTION dyda.capture() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "ALTER FUNCTION dyda.capture() RESET search_path",
        "ALTER FUNCTION dyda.capture() SECURITY INVOKER",
        "ALTER SCHEMA dyda RENAME TO other",
        "ALTER SEQUENCE dyda.gap RESTART",
        "SELECT setval('dyda.gap', 1)",
        "SELECT nextval('dyda.log_sequence')",
        "SELECT last_value FROM dyda.key",
        "CREATE TRIGGER own AFTER INSERT ON own EXECUTE FUNCTION dyda.capture()",
        "CREATE EVENT TRIGGER own ON ddl_command_end EXECUTE FUNCTION dyda.command_ended()",
        "ALTER TABLE t DISABLE TRIGGER dyda_insert",
        "DROP TRIGGER dyda_insert ON t",
        "SET ROLE dyda_capture",
        f"GRANT dyda_capture TO {user.quoted}",
        "SET session_replication_role = replica",
        "SELECT dyda.mark_gap()",
        "SELECT dyda.seal('failed')",
        "SELECT dyda.capture_table('own'::regclass, 't'::regclass)",
        "SELECT dyda.release_table('t'::regclass)",
        "SELECT dyda.remember('t'::regclass)",
        "SELECT dyda.observe('t'::regclass, 'ALTER TABLE', NULL, NULL)",
        "SELECT dyda.replaced('public', 't', 't'::regclass, 'own'::regclass, 'x')",
        "SELECT * FROM dyda.state()",
        "SELECT * FROM dyda.entries(NULL)",
        "SELECT * FROM dyda.schema_entries(NULL)",
        "SELECT dyda.acknowledge('x', pg_current_snapshot())",
        "SELECT dyda.shrink(0)",
    ]
    for attempt in attempts:
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            watched.run(attempt, connection=connection)
    watched.run("INSERT INTO t VALUES (1, 'x')", "UPDATE t SET b = 'y'", connection=connection)
    assert watched.logged("t", ["a", "b"]) == Counter({("1", "y"): 1})


SHADOWS = [
    *(f"CREATE TEMPORARY TABLE {name} (a int)" for name in ("log", "member", "consumer", "watched", "pg_class")),
    'CREATE TEMPORARY TABLE "dyda new" (a int, b text)',
    'CREATE TEMPORARY TABLE "dyda row" (a int, b text)',
    "CREATE TEMPORARY VIEW pg_attribute AS SELECT 1 AS attrelid",
    "CREATE FUNCTION public.textin(text) RETURNS text LANGUAGE sql AS 'SELECT ''forged'''",
    "CREATE FUNCTION public.record_out(t) RETURNS text LANGUAGE sql AS 'SELECT ''(9,forged)'''",
    "CREATE FUNCTION public.record_out(int, text) RETURNS text LANGUAGE sql AS 'SELECT ''(9,forged)'''",
    "CREATE FUNCTION public.pg_current_xact_id() RETURNS xid8 LANGUAGE sql AS 'SELECT ''3''::xid8'",
    "CREATE FUNCTION public.pg_table_size(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 99999999999999'",
    "CREATE FUNCTION public.shape(oid, oid) RETURNS text LANGUAGE sql AS 'SELECT ''forged'''",
    "CREATE FUNCTION public.lies(oid, oid) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
    "CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = oid, FUNCTION = public.lies)",
    "CREATE FUNCTION pg_temp.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT ''x'''",
    "SET search_path = pg_temp, public, pg_catalog",
]
PARAMETERS = [
    "SET dyda.failed = 'x'; SET dyda.noted = 'x'; SET dyda.quiet = 'on'",
    "SET lock_timeout = '1ms'; SET row_security = off; SET DateStyle = 'German'; SET extra_float_digits = -15",
    "SET standard_conforming_strings = off; SET quote_all_identifiers = on; SET transform_null_equals = on",
    "SET plan_cache_mode = force_custom_plan; SET array_nulls = off; SET default_transaction_isolation = serializable",
    "SET escape_string_warning = off; SET backslash_quote = on; SET xmloption = document; SET lc_monetary = 'C'",
]


def test_nothing_that_a_writer_can_make_or_set_reaches_into_capture(
    watched: Ground, role: Callable[[str], Role]
) -> None:
    user = role("app")
    watched.run(f"GRANT CREATE ON SCHEMA public TO {user.quoted}")
    connection = user.connect()
    gap = watched.gap()
    watched.run(*SHADOWS, connection=connection)
    watched.run("INSERT INTO public.t VALUES (1, 'x')", connection=connection)
    for parameter in PARAMETERS:
        watched.run(parameter, connection=connection)
    watched.run("INSERT INTO public.t VALUES (2, E'1.5\\ny'), (3, NULL)", connection=connection)
    watched.run(
        "BEGIN ISOLATION LEVEL REPEATABLE READ; DELETE FROM public.t WHERE a = 1; COMMIT", connection=connection
    )
    assert watched.gap() == gap
    assert watched.logged("t", ["a", "b"]) == Counter({("2", "1.5\ny"): 1, ("3", None): 1})


def test_what_an_owner_does_in_silence_is_noticed(ground: Ground, role: Callable[[str], Role]) -> None:
    """dyda.quiet keeps our own DDL out of the log. Whoever else sets it hides no change: the fingerprint tells."""
    owner = role("owner")
    ground.run(f"GRANT CREATE ON SCHEMA public TO {owner.quoted}")
    connection = owner.connect()
    ground.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", connection=connection)
    (relation,) = ground.watch("t")
    with ground.open() as snapshot:
        before = snapshot.fingerprints[relation.name]
    ground.run("SET dyda.quiet = 'on'", "ALTER TABLE t ALTER a TYPE bigint USING a + 100", connection=connection)
    with ground.open() as snapshot:
        assert snapshot.messages(None) == []
        assert snapshot.fingerprints[relation.name] != before
        assert relation.name not in snapshot.logged_fingerprints


@pytest.mark.parametrize(
    "trap",
    [
        'CREATE TABLE dyda.log (seq bigint, xid xid8, op "char", root oid, relid oid, shape text, image text)',
        "CREATE VIEW dyda.consumer AS SELECT pg_sleep(0)::text AS project",
        "CREATE FUNCTION dyda.capture() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
        "CREATE FUNCTION dyda.own() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ],
)
def test_a_schema_that_somebody_else_has_prepared_is_not_used(
    ground: Ground, role: Callable[[str], Role], trap: str
) -> None:
    """A superuser who attached into it would hand his rights to whoever owns what is there."""
    stranger = role("stranger")
    ((database,),) = ground.run("SELECT quote_ident(current_database())")
    ground.run(f"GRANT CREATE ON DATABASE {database} TO {stranger.quoted}", "CREATE TABLE t (a int)")
    ground.run("CREATE SCHEMA dyda", trap, connection=stranger.connect())
    before = owners(ground)
    with pytest.raises(SourceInUse, match="belongs to stranger"):
        ground.watch("t")
    assert owners(ground) == before


def test_a_superuser_takes_over_what_a_plain_role_of_the_project_attached(
    ground: Ground, role: Callable[[str], Role]
) -> None:
    plain = role("plain")
    ((database,),) = ground.run("SELECT quote_ident(current_database())")
    ground.run(f"GRANT CREATE ON DATABASE {database} TO {plain.quoted}", "CREATE TABLE t (a int)")
    ground.run(f"ALTER TABLE t OWNER TO {plain.quoted}")
    source = PostgresSource(SourceSettings("crm", plain.url), PROJECT)
    source.attach(source.describe([("public", "t")]).values())
    assert set(owners(ground).values()) == {plain.name}
    (warning,) = [f for f in source.check([("public", "t")]) if "can log in" in f.what]
    assert warning.remedy.endswith(f"GRANT dyda_capture TO {plain.quoted};")
    gap = ground.gap()
    ground.watch("t")
    found = owners(ground)
    assert {name for name, owner in found.items() if owner != "dyda_capture"} == set(ATTACHING)
    assert plain.name not in found.values()
    assert ground.gap() == gap
    ground.run("INSERT INTO t VALUES (1)", connection=plain.connect())
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})
    # And the plain role goes on as a reader, with what `check` prints.
    (error,) = [f for f in source.check([("public", "t")]) if f.level == "error"]
    ground.run(error.remedy)
    assert [f.level for f in source.check([("public", "t")])] == ["ok", "ok", "ok"]
    source.attach(source.describe([("public", "t")]).values())
    # Were it a member of dyda_capture, it could act in superusers' transactions: `check` says so, with the remedy.
    ground.run(f"GRANT dyda_capture TO {plain.quoted}")
    (warning,) = [f for f in source.check([("public", "t")]) if f.level == "warning"]
    assert "may replace" in warning.what
    ground.run(warning.remedy)
    assert [f.level for f in source.check([("public", "t")])] == ["ok", "ok", "ok"]
    source.close()


def test_detaching_takes_the_role_along_unless_somebody_needs_it(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.source.detach()
    left = ground.run(
        "SELECT FROM pg_roles r WHERE rolname = 'dyda_capture'"
        " AND NOT EXISTS (SELECT FROM pg_shdepend d WHERE d.refobjid = r.oid AND d.deptype = 'o')"
    )
    assert left == []
    ground.watch("t")
    ground.run("COMMENT ON ROLE dyda_capture IS 'an administrator''s'")
    ground.source.detach()
    assert ground.run("SELECT rolname::text FROM pg_roles WHERE rolname = 'dyda_capture'") == [("dyda_capture",)]
    ground.run("COMMENT ON ROLE dyda_capture IS 'made by DyDa'")
