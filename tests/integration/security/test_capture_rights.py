"""Capture runs in everybody's transactions: whose it is, and that those who write can do nothing with it but write."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pytest

from dyda.errors import SchemaTaken, SourceInUse
from dyda.sources import PostgresSource, SourceSettings, connection
from dyda.sources.capture.check import grants
from dyda.sources.capture.role import ATTACHING, FUNCTIONS, RELATIONS
from dyda.sources.reading.session import connect
from tests.integration.security.conftest import Role, quoted
from tests.integration.sources.conftest import PROJECT, Ground, as_role

OWNERS = (
    "SELECT proname::text, pg_get_userbyid(proowner)::text FROM pg_proc WHERE pronamespace = 'dyda'::regnamespace"
    " AND proname <> 'read'"  # no part of capture: see test_traps.py
    " UNION ALL SELECT relname::text, pg_get_userbyid(relowner)::text FROM pg_class"
    " WHERE relnamespace = 'dyda'::regnamespace AND relkind IN ('r', 'S', 'v')"
    " UNION ALL SELECT nspname::text, pg_get_userbyid(nspowner)::text FROM pg_namespace WHERE nspname = 'dyda'"
)


TRAP = (
    "CREATE OR REPLACE FUNCTION dyda.command_ended() RETURNS event_trigger LANGUAGE plpgsql SECURITY INVOKER"
    " AS $$ BEGIN EXECUTE 'ALTER ROLE {} SUPERUSER'; END $$"
)


def owners(ground: Ground) -> dict[str, str]:
    return dict(ground.run(OWNERS))


def capture_role(ground: Ground) -> str:
    """The one of this database."""
    ((name,),) = ground.run("SELECT 'dyda_capture_' || d.oid FROM pg_database d WHERE d.datname = current_database()")
    return str(name)


def is_superuser(ground: Ground, role: Role) -> bool:
    ((found,),) = ground.run(f"SELECT rolsuper FROM pg_roles WHERE rolname = '{role.name}'")
    return bool(found)


def remedies(source: PostgresSource, level: str = "warning") -> list[str]:
    return [finding.remedy for finding in source.check([("public", "t")]) if finding.level == level]


@pytest.fixture
def watched(ground: Ground) -> Ground:
    ground.run("CREATE TABLE t (a int, b text)", "GRANT ALL ON t TO PUBLIC")
    ground.watch("t")
    return ground


def test_capture_belongs_to_a_role_that_cannot_log_in(watched: Ground) -> None:
    found = owners(watched)
    assert set(found) == {*FUNCTIONS, *ATTACHING, *RELATIONS, "dyda"}, "none is forgotten"
    ((superuser,),) = watched.run("SELECT current_user::text")
    name = capture_role(watched)
    assert {what for what, owner in found.items() if owner != name} == set(ATTACHING)
    assert {found[what] for what in ATTACHING} == {superuser}
    assert watched.run(f"SELECT rolcanlogin, rolsuper, rolcreaterole FROM pg_roles WHERE rolname = '{name}'") == [
        (False, False, False)
    ]
    callable_by_all = "p.pronamespace = 'dyda'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE')"
    assert watched.run(f"SELECT p.proname FROM pg_proc p WHERE {callable_by_all}") == []
    # What it may do outside of schema dyda: nothing.
    assert watched.run(f"SELECT has_table_privilege('{name}', 'pg_authid', 'SELECT')") == [(False,)]
    assert watched.run(f"SELECT FROM pg_auth_members WHERE '{name}'::regrole IN (member, roleid)") == []
    watched.source.attach(watched.relations.values())
    assert owners(watched) == found


def test_every_function_of_capture_pins_its_search_path(watched: Ground) -> None:
    loose = watched.run(
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'dyda'::regnamespace"
        " AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (proconfig), false)"
    )
    assert loose == []
    invoker = watched.run(
        "SELECT proname::text FROM pg_proc WHERE pronamespace = 'dyda'::regnamespace AND NOT prosecdef ORDER BY 1"
    )
    assert [name for (name,) in invoker] == [
        *("asked", "drop_triggers", "former_root", "here", "is_copy", "is_quiet", "is_resting", "keep_description"),
        *(
            "keep_member",
            "let_read",
            "measure",
            "members",
            "names_now",
            "note",
            "noted",
            "places",
            "places",
            "root_of",
            "roots_of",
        ),
        *("seal", "shown_query", "tables_with_types"),
    ], "called by the others only"
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
        f"SET ROLE {capture_role(watched)}",
        f"GRANT {capture_role(watched)} TO {user.quoted}",
        "SET session_replication_role = replica",
        "SELECT dyda.mark_gap()",
        "SELECT dyda.be_quiet()",
        "SELECT dyda.suspend_table('t'::regclass)",
        "SELECT dyda.seal('failed')",
        "SELECT dyda.capture_table('own'::regclass, 't'::regclass)",
        "SELECT dyda.release_table('t'::regclass)",
        "SELECT dyda.remember('t'::regclass)",
        "SELECT dyda.observe('t'::regclass, 'ALTER TABLE', NULL, NULL)",
        "SELECT dyda.replaced('public', 't', 't'::regclass, 'own'::regclass, 'x')",
        "SELECT * FROM dyda.state()",
        "SELECT * FROM dyda.entries(NULL)",
        "SELECT * FROM dyda.images_of(NULL)",
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
    "CREATE FUNCTION public.pg_sequence_last_value(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT 99999999999999'",
    "CREATE FUNCTION public.places() RETURNS text LANGUAGE sql AS 'SELECT ''forged'''",
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


def test_an_owner_cannot_keep_capture_quiet(ground: Ground, role: Callable[[str], Role]) -> None:
    """dyda.quiet keeps our own DDL out of the log, with a seal that only capture can make."""
    owner = role("owner")
    ground.run(f"GRANT CREATE ON SCHEMA public TO {owner.quoted}")
    connection = owner.connect()
    ground.run("CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", connection=connection)
    (relation,) = ground.watch("t")
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        ground.run("SELECT dyda.be_quiet()", connection=connection)
    told = 0
    for quiet in ("on", "x" * 32):
        ground.run(
            f"SET dyda.quiet = '{quiet}'",
            "ALTER TABLE t ALTER a TYPE bigint USING a + 100",
            "ALTER TABLE t ALTER a TYPE int",
            connection=connection,
        )
        told += 2
        with ground.open() as snapshot:
            assert len(snapshot.messages(None)) == told
            assert snapshot.logged_fingerprints[relation.name] == snapshot.fingerprints[relation.name]
    # A child that comes with rows, is written through the parent and goes: seen, although nothing is left of it.
    ground.run(
        "SET dyda.quiet = 'on'; CREATE TABLE c (a int); INSERT INTO c VALUES (2); ALTER TABLE c INHERIT t;"
        " UPDATE t SET a = 3; DROP TABLE c",
        connection=connection,
    )
    with ground.open() as snapshot:
        (message,) = snapshot.messages(None)[told:]
        assert any(change for change in message.changes)
    # What was sealed for one transaction opens no other.
    ((seal,),) = ground.run("BEGIN; SELECT dyda.be_quiet(); SELECT current_setting('dyda.quiet')")
    ground.run("COMMIT", f"SET dyda.quiet = '{seal}'", "ALTER TABLE t ADD COLUMN b int", "RESET dyda.quiet")
    with ground.open() as snapshot:
        assert len(snapshot.messages(None)) == told + 2
    gap = ground.gap()
    ground.run("SET dyda.quiet = 'on'; DELETE FROM dyda.log")
    assert ground.gap() > gap, "nor can anybody else empty the log in silence"


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


SPRUNG = "IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN PERFORM pg_advisory_lock(4711); END IF;"
"""Leaves a trace, also in a transaction that only reads, if a superuser runs it."""


@pytest.mark.parametrize("way", ["attach", "check", "detach", "open", "obstacles"])
@pytest.mark.parametrize(
    "traps",
    [
        [
            "CREATE OR REPLACE FUNCTION dyda.standing(OUT at_home boolean, OUT marks text[]) LANGUAGE plpgsql"
            f" SECURITY INVOKER AS $$ BEGIN {SPRUNG} at_home := true; marks := '{{}}'; END $$"
        ],
        [
            "CREATE FUNCTION dyda.trap(int) RETURNS int LANGUAGE plpgsql IMMUTABLE"
            f" AS $$ BEGIN {SPRUNG} RETURN 1; END $$",
            "CREATE INDEX trap ON dyda.consumer ((dyda.trap(1)))",
        ],
    ],
    ids=["function", "index"],
)
def test_a_superuser_runs_nothing_of_a_schema_that_somebody_else_has_completed(
    ground: Ground, role: Callable[[str], Role], traps: list[str], way: str
) -> None:
    """It looks attached. Whoever asks its functions whose it is, asks with a superuser's rights."""
    stranger = role("stranger")
    ((database,),) = ground.run("SELECT quote_ident(current_database())")
    ground.run(f"GRANT CREATE ON DATABASE {database} TO {stranger.quoted}", "CREATE TABLE t (a int)")
    theirs = PostgresSource(SourceSettings("crm", stranger.url), "22222222-2222-2222-2222-222222222222")
    theirs.attach([])
    theirs.close()
    ground.run(*traps, connection=stranger.connect())
    (relation,) = ground.source.describe([("public", "t")]).values()
    ways: dict[str, Callable[[], object]] = {
        "attach": lambda: ground.source.attach([relation]),
        "detach": ground.source.detach,
        "open": lambda: ground.source.open([relation.name]),
        "obstacles": lambda: ground.source.obstacles(relation.name),
    }
    if way == "check":
        assert any("belongs to stranger" in finding.what for finding in ground.source.check([("public", "t")]))
    else:
        with pytest.raises(SchemaTaken, match="belongs to stranger"):
            ways[way]()
    assert ground.run("SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711") == []


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
    name = capture_role(ground)
    assert warning.remedy == f"CREATE ROLE {name} NOLOGIN;\nGRANT {name} TO {plain.quoted};"
    gap = ground.gap()
    ground.watch("t")
    found = owners(ground)
    assert {what for what, owner in found.items() if owner != name} == set(ATTACHING)
    assert plain.name not in found.values()
    assert ground.gap() == gap
    ground.run("INSERT INTO t VALUES (1)", connection=plain.connect())
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})
    # And the plain role goes on as a reader, with what `check` prints.
    (error,) = [f for f in source.check([("public", "t")]) if f.level == "error"]
    ground.run(error.remedy)
    assert [f.level for f in source.check([("public", "t")])] == ["ok", "ok", "ok"]
    source.attach(source.describe([("public", "t")]).values())
    # Were it a member of that role, it could act in superusers' transactions: `check` says so, with the remedy.
    ground.run(f"GRANT {name} TO {plain.quoted}")
    (warning,) = [f for f in source.check([("public", "t")]) if f.level == "warning"]
    assert "may replace" in warning.what
    ground.run(warning.remedy)
    assert [f.level for f in source.check([("public", "t")])] == ["ok", "ok", "ok"]
    source.close()


def test_capture_changes_hands_over_a_slow_line_and_no_writer_waits_for_it(
    ground: Ground, role: Callable[[str], Role], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is locked meanwhile is locked for one message, whatever a round trip takes; see dyda.mark_gap."""
    plain = role("plain")
    ((database,),) = ground.run("SELECT quote_ident(current_database())")
    ground.run(f"GRANT CREATE ON DATABASE {database} TO {plain.quoted}", "CREATE TABLE t (a int)")
    ground.run(f"ALTER TABLE t OWNER TO {plain.quoted}")
    source = PostgresSource(SourceSettings("crm", plain.url), PROJECT)
    source.attach(source.describe([("public", "t")]).values())
    source.close()

    class SlowCursor(psycopg2.extensions.cursor):  # type: ignore[misc]
        def execute(self, *arguments: Any) -> None:
            time.sleep(0.03)
            super().execute(*arguments)

    def connect_slowly(*arguments: Any) -> Any:
        opened = connect(*arguments)
        opened.cursor_factory = SlowCursor
        return opened

    monkeypatch.setattr(connection, "connect", connect_slowly)
    over = threading.Event()
    failed: list[str] = []

    def write(writer: Any) -> None:
        while not over.is_set():
            try:
                ground.run("INSERT INTO t VALUES (1)", connection=writer)
            except psycopg2.Error as error:
                failed.append(str(error))
            time.sleep(0.005)

    writers = [threading.Thread(target=write, args=(ground.connect(),)) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        ground.watch("t")
    finally:
        over.set()
        for writer in writers:
            writer.join()
    assert owners(ground)["log"] == capture_role(ground)
    # One that was inside capture at that very moment may have lost its rights; nobody has waited.
    assert [why for why in failed if "lock timeout" in why] == []


def test_who_captures_one_database_has_no_rights_at_another(
    ground: Ground, grounds: Callable[..., Ground], database: Callable[[str], str], role: Callable[[str], Role]
) -> None:
    """Roles are the server's, capture is a database's: what one database needs says nothing about the next."""
    here = grounds(database("other"))
    other = role("other_project")
    url = as_role(here.url, other.name, "x")
    here.run(f"CREATE TABLE t (a int); ALTER TABLE t OWNER TO {other.quoted}")
    ((name,),) = here.run("SELECT quote_ident(current_database())")
    here.run(f"GRANT CREATE ON DATABASE {name} TO {other.quoted}")
    source = PostgresSource(SourceSettings("other", url), PROJECT)
    here.run(*[remedy for remedy in remedies(source) if "superuser" not in remedy])
    source.attach(source.describe([("public", "t")]).values())
    assert set(owners(here).values()) == {capture_role(here), other.name}
    source.close()

    ground.run("CREATE TABLE salary (who text, amount int)")
    ground.watch("salary")  # as a superuser: with event triggers
    ground.run("INSERT INTO salary VALUES ('Ann', 9999)")
    connection = other.connect()
    for become in (capture_role(here), other.quoted):
        ground.run(f"SET ROLE {become}", connection=connection)
        for attempt in ("SELECT * FROM dyda.log", TRAP.format(other.quoted), f"SET ROLE {capture_role(ground)}"):
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                ground.run(attempt, connection=connection)
    ground.run("CREATE TABLE innocent (a int)")
    assert not is_superuser(ground, other)
    assert [finding.level for finding in ground.source.check([("public", "salary")])] == ["ok"] * 3
    here.run(f"REASSIGN OWNED BY {other.quoted} TO CURRENT_USER", f"DROP OWNED BY {other.quoted}")


@pytest.mark.parametrize("way", ["himself", "a group", "who made it", "who made it for himself"])
def test_a_superuser_keeps_capture_from_a_role_that_has_members(
    ground: Ground, role: Callable[[str], Role], way: str
) -> None:
    """They could replace what runs in his transactions. `check` names them, whoever asks, and how to be rid of them."""
    ((superuser, version),) = ground.run("SELECT current_user::text, current_setting('server_version_num')::int")
    if way.startswith("who made it") and version < 160000:
        pytest.skip("whoever may create roles is as good as a superuser there")
    member, group, name = role("member"), role("group"), capture_role(ground)
    if way == "himself":
        ground.run(f"CREATE ROLE {name}", f"GRANT {name} TO {member.quoted}")
    elif way == "a group":
        ground.run(f"ALTER ROLE {group.quoted} NOLOGIN", f"GRANT {group.quoted} TO {member.quoted}")
        ground.run(f"CREATE ROLE {name}", f"GRANT {name} TO {group.quoted}")
    else:
        ground.run(f"ALTER ROLE {member.quoted} CREATEROLE")
        ground.run(f"CREATE ROLE {name}", connection=member.connect())
        if way == "who made it for himself":
            ground.run(f"GRANT {name} TO {member.quoted}", connection=member.connect())
    ground.run("CREATE TABLE t (a int)")
    (remedy,) = remedies(ground.source)
    assert remedy.startswith(f"REVOKE {name} FROM "), "before anything is attached"
    ground.watch("t")
    assert set(owners(ground).values()) == {superuser}
    connection = member.connect()
    ground.run(f"GRANT USAGE ON SCHEMA dyda TO {member.quoted}")
    for attempt in (TRAP.format(member.quoted), "SELECT * FROM dyda.log", "SELECT dyda.capture_table(1, 1)"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            ground.run(f"SET ROLE {member.quoted}", attempt, connection=connection)
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            ground.run(f"SET ROLE {name}", attempt, connection=connection)
    reader = role("reader")
    ground.run(grants(reader.name, [("public", "t")]))
    asking = PostgresSource(SourceSettings("crm", reader.url), PROJECT)
    for source in (ground.source, asking):
        (warning,) = [finding for finding in source.check([("public", "t")]) if finding.level == "warning"]
        assert f"{name} has members ({member.name})" in warning.what
    ground.run(warning.remedy)
    assert remedies(ground.source) == ["Run: dyda apply"]
    ground.watch("t")
    assert {what for what, owner in owners(ground).items() if owner != name} == set(ATTACHING)
    assert remedies(ground.source) == remedies(asking) == []

    # Who is made a member later is named just so, and loses what he got at the next attach.
    ground.run(f"GRANT {name} TO {member.quoted}")
    for source in (ground.source, asking):
        (warning,) = [finding for finding in source.check([("public", "t")]) if finding.level == "warning"]
        assert f"functions that {member.name} may replace" in warning.what
    gap = ground.gap()
    ground.watch("t")
    assert set(owners(ground).values()) == {superuser}
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        ground.run(f"SET ROLE {name}", "SELECT dyda.capture_table(1, 1)", connection=connection)
    ground.run("INSERT INTO t VALUES (1)")
    assert ground.gap() == gap
    assert ground.logged("t", ["a"]) == Counter({("1",): 1})
    asking.close()


def test_a_schema_that_a_member_has_prepared_is_not_used(ground: Ground, role: Callable[[str], Role]) -> None:
    """Given to the capture role, a trap is still the trap of whoever has made that role his."""
    stranger, name = role("stranger"), capture_role(ground)
    ((database,),) = ground.run("SELECT quote_ident(current_database())")
    ground.run(f"CREATE ROLE {name}", f"GRANT {name} TO {stranger.quoted}", "CREATE TABLE t (a int)")
    ground.run(f"GRANT CREATE ON DATABASE {database} TO {name}")
    ground.run(f"SET ROLE {name}", "CREATE SCHEMA dyda", connection=stranger.connect())
    with pytest.raises(SourceInUse, match=f"belongs to {name}"):
        ground.watch("t")
    assert owners(ground) == {"dyda": name}
    ground.run(f"REVOKE {name} FROM {stranger.quoted}", f"REVOKE CREATE ON DATABASE {database} FROM {name}")


@pytest.fixture
def shared(watched: Ground) -> Iterator[str]:
    """A source that an older DyDa has attached: capture belongs to one role for all databases of the server."""
    name, own = "dyda_capture", capture_role(watched)
    watched.run(f"CREATE ROLE {name}", f"COMMENT ON ROLE {name} IS 'made by DyDa'")
    watched.run("GRANT EXECUTE ON FUNCTION dyda.capture_table(oid, oid), dyda.release_table(oid) TO dyda_capture")
    watched.run("GRANT EXECUTE ON FUNCTION dyda.suspend_table(oid) TO dyda_capture")
    watched.run(f"REASSIGN OWNED BY {own} TO {name}", f"DROP OWNED BY {own}", f"DROP ROLE {own}")
    watched.run("DROP FUNCTION dyda.read(text)")
    yield name
    watched.source.detach()
    watched.run(f"DROP ROLE IF EXISTS {name}")


def test_what_belongs_to_the_role_of_all_databases_moves(
    watched: Ground, shared: str, role: Callable[[str], Role]
) -> None:
    elsewhere = role("other_project")
    watched.run(f"GRANT {shared} TO {elsewhere.quoted}")
    (warning,) = [finding for finding in watched.source.check([("public", "t")]) if finding.level == "warning"]
    assert (f"functions that {elsewhere.name} may replace" in warning.what, warning.remedy) == (True, "Run: dyda apply")
    watched.run(f"REVOKE {shared} FROM {elsewhere.quoted}")
    (warning,) = [finding for finding in watched.source.check([("public", "t")]) if finding.level == "warning"]
    assert ("a role that is not this database's own" in warning.what, warning.remedy) == (True, "Run: dyda apply")
    watched.run(f"GRANT {shared} TO {elsewhere.quoted}")
    gap = watched.gap()
    watched.watch("t")
    name = capture_role(watched)
    assert {what for what, owner in owners(watched).items() if owner != name} == set(ATTACHING)
    assert remedies(watched.source) == []
    assert watched.gap() == gap
    watched.run(f"GRANT USAGE ON SCHEMA dyda TO {elsewhere.quoted}")
    for attempt in (TRAP.format(elsewhere.quoted), "SELECT * FROM dyda.log", "SELECT dyda.capture_table(1, 1)"):
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            watched.run(attempt, connection=elsewhere.connect())
    watched.source.detach()
    assert watched.run(f"SELECT FROM pg_roles WHERE rolname IN ('{name}', '{shared}')") == []


def test_a_plain_role_moves_it_once_it_is_a_member_of_the_databases_own(
    watched: Ground, shared: str, role: Callable[[str], Role]
) -> None:
    plain, name = role("plain"), capture_role(watched)
    watched.run("DROP EVENT TRIGGER dyda_command_ended", "DROP EVENT TRIGGER dyda_object_dropped")
    watched.run("DROP EVENT TRIGGER dyda_table_rewritten", f"GRANT {shared} TO {plain.quoted}")
    watched.run(f"ALTER TABLE t OWNER TO {plain.quoted}")
    for function in ("capture_table(oid, oid)", "release_table(oid)", "suspend_table(oid)", "let_read(oid, boolean)"):
        watched.run(f"ALTER FUNCTION dyda.{function} OWNER TO {plain.quoted}")
    source = PostgresSource(SourceSettings("crm", plain.url), PROJECT)
    relations = source.describe([("public", "t")]).values()
    source.attach(relations)
    assert set(owners(watched).values()) == {shared, plain.name}, "it goes on as it did"
    remedy = f"CREATE ROLE {name} NOLOGIN;\nGRANT {name} TO {plain.quoted};"
    assert remedy in remedies(source)
    watched.run(remedy)
    ((database,),) = watched.run("SELECT current_database()::text")
    remedy = f"GRANT CREATE ON DATABASE {quoted(database)} TO {plain.quoted};"
    assert remedy in remedies(source)
    watched.run(remedy)
    assert "Run: dyda apply" in remedies(source)
    source.attach(relations)
    assert set(owners(watched).values()) == {name, plain.name}
    watched.run(f"REVOKE {shared} FROM {plain.quoted}", "INSERT INTO t VALUES (1, 'x')")
    assert [finding.what for finding in source.check([("public", "t")]) if finding.level != "ok"] == [
        "no event triggers: schema changes are found by comparing the catalog on every poll"
    ]
    assert watched.logged("t", ["a", "b"]) == Counter({("1", "x"): 1})
    source.close()


def test_detaching_takes_the_role_along_unless_somebody_needs_it(ground: Ground) -> None:
    ground.run("CREATE TABLE t (a int)")
    ground.watch("t")
    ground.source.detach()
    name = capture_role(ground)
    assert ground.run(f"SELECT FROM pg_roles WHERE rolname = '{name}'") == []
    ground.watch("t")
    ground.run(f"COMMENT ON ROLE {name} IS 'an administrator''s'")
    ground.source.detach()
    assert ground.run(f"SELECT rolname::text FROM pg_roles WHERE rolname = '{name}'") == [(name,)]
