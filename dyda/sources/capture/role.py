"""Who owns capture: a role without login if possible, and never somebody who could have set a trap.

Capture runs inside everybody's transactions with its owner's rights. So it belongs to a role that cannot log in and has
rights on schema dyda only. The functions that put triggers on tables stay with the role that attached: they need the
rights of the tables' owners. If that role may neither create the capture role nor is a member of it, it owns everything
itself, and `sources check` says so.

A member of the capture role can replace what runs in other people's transactions, a superuser's included. Roles belong
to the server, so each database has its own capture role, `dyda_capture_` and the database's oid: membership in one
means nothing in another. A superuser does not use it while anybody with fewer rights can act as it, and owns everything
himself instead. Keeping only the event triggers' functions would not do: whoever owns the schema, or the tables that
they write, can set a trap there too.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import SchemaTaken, SourceBusy
from dyda.sources.connection import load_sql
from dyda.sources.settings import Consumer

__all__ = [
    "ADD_AS_SUPERUSER",
    "ATTACHING",
    "FUNCTIONS",
    "CaptureRole",
    "create_role",
    "drop_capture_role",
    "drop_role",
    "give_to_capture_role",
    "give_what_is_new",
    "installed_by_another",
    "refuse_strangers",
    "refuse_traps",
    "revocations",
    "stable_roles",
    "who_can_replace",
]

PREFIX = "dyda_capture_"
SHARED_ROLE = "dyda_capture"
"""An older DyDa's, for all databases of a server. Attaching again moves what belongs to it."""

ADD_AS_SUPERUSER = "Run `dyda apply` once with a superuser's url; after that, {role} can do the rest."
"""The remedy where a role may read and acknowledge, but not change capture."""

MADE = "made by DyDa"
"""The comment on roles that we created: these we may drop again."""

RELATIONS = (
    *("log", "consumer", "watched", "holder", "member", "described", "mark", "identity"),
    *("log_sequence", "gap", "gap_until", "key", "measure_at", "home_number", "flushed"),
)
ATTACHING = ("capture_table", "release_table", "suspend_table", "let_read", "publish", "withdraw")
INSTALLED = "".join(load_sql(part) for part in ("capture", "observing", "events", "guarding", "reading"))
FUNCTIONS = tuple(
    {"columns", "fingerprints", *re.findall(r"CREATE OR REPLACE FUNCTION dyda\.(\w+)", INSTALLED)} - set(ATTACHING)
)
"""The functions that belong to the capture role; `columns` and `fingerprints` are made of queries (install.SHARED)."""


@dataclass(frozen=True)
class CaptureRole:
    """This database's. `mine`: the session's role may transfer objects to it.

    `members`: everybody but superusers who can log in and act as it, or make themselves able to.
    """

    name: str
    oid: int | None
    login: bool
    mine: bool
    may_create: bool
    superuser: bool
    members: tuple[str, ...]

    @classmethod
    def find(cls, cursor: Cursor) -> CaptureRole:
        give = "SET" if cursor.connection.server_version >= 160000 else "MEMBER"
        cursor.execute(
            "SELECT %s || d.oid, c.oid, coalesce(c.rolcanlogin OR c.rolsuper, false),"
            " coalesce(pg_has_role(c.oid, 'USAGE') AND pg_has_role(c.oid, %s), false),"
            " me.rolsuper OR me.rolcreaterole, me.rolsuper"
            " FROM pg_database d JOIN pg_roles me ON me.rolname = current_user"
            " LEFT JOIN pg_roles c ON c.rolname = %s || d.oid WHERE d.datname = current_database()",
            (PREFIX, give, PREFIX),
        )
        name, oid, login, mine, may_create, superuser = cursor.fetchone()
        return cls(name, oid, login, mine, may_create, superuser, _who_can_act_as(cursor, [oid or 0]))

    @property
    def usable(self) -> bool:
        return self.oid is not None and self.mine and not self.login and not (self.superuser and self.members)


def give_what_is_new(cursor: Cursor, source: str) -> None:
    """The capture role, if it owns capture already, must also own what a newer DyDa just added."""
    role = CaptureRole.find(cursor)
    if role.usable and not any(what.startswith("TABLE ") for what, _ in _elsewhere(cursor, role.oid, ())):
        give_to_capture_role(cursor, source)


def give_to_capture_role(cursor: Cursor, source: str, *, last: bool = False) -> None:
    """Transfer all of capture to the role without login. Locks nothing if it owns everything already.

    `last`: also commit. Writers wait for what is locked, and their statements fail if even the counter of gaps is: so
    all transfers are sent in one message with the COMMIT, the counter last.
    """
    role = CaptureRole.find(cursor)
    with stable_roles(source, role.name):
        if role.oid is None and role.may_create:
            create_role(cursor, role.name, superuser=role.superuser)
            role = CaptureRole.find(cursor)
        given: list[str] = []
        if role.superuser:
            attaching = [found for found in _elsewhere(cursor, 0, ATTACHING) if found[0].startswith("FUNCTION ")]
            _give(cursor, _lesser(cursor, attaching), sql.SQL("CURRENT_USER"))
            given = _lesser(cursor, _elsewhere(cursor, 0, FUNCTIONS))
        if role.usable or role.superuser:
            _let_it_attach(cursor, role)
        if role.usable:
            given = [what for what, _ in _elsewhere(cursor, role.oid, FUNCTIONS)]
        # The schema first: who is given something in it must be allowed to create there.
        given.sort(key=lambda what: (what != "SCHEMA dyda", what == "SEQUENCE dyda.gap"))
        _give(cursor, given, sql.Identifier(role.name) if role.usable else sql.SQL("CURRENT_USER"), last)


@contextlib.contextmanager
def stable_roles(source: str, role: str) -> Iterator[None]:
    try:
        yield
    except (psycopg2.errors.UndefinedObject, psycopg2.errors.DuplicateObject, psycopg2.errors.UniqueViolation):
        raise SourceBusy(source, f"role {role} is being created or dropped by another session") from None


def refuse_strangers(cursor: Cursor, consumer: Consumer, *, superusers_only: bool = False) -> None:
    """A schema dyda that somebody else created may hold traps: he would own our functions.

    Trusted are superusers, the capture role (by a superuser only while it has no members) and ourselves. A schema that
    names this very project as its consumer was made by another role of ours: nobody else knows the project's number.
    """
    unusable = "NOT pg_has_role(r.oid, 'USAGE')"
    cursor.execute(
        f"SELECT DISTINCT r.rolname FROM ({load_sql('ownership')}) AS found (what, owner)"
        " JOIN pg_roles r ON r.oid = found.owner JOIN pg_roles me ON me.rolname = current_user"
        " JOIN pg_database d ON d.datname = current_database()"
        f" WHERE NOT r.rolsuper AND r.oid <> me.oid AND (me.rolsuper OR {'false' if superusers_only else unusable})"
        " AND (r.rolname <> %(prefix)s || d.oid OR r.rolcanlogin OR (me.rolsuper AND EXISTS ("
        " SELECT FROM pg_roles m WHERE m.rolcanlogin AND NOT m.rolsuper AND pg_has_role(m.oid, r.oid, 'MEMBER'))))",
        {"owner": 0, "relations": list(RELATIONS), "functions": [*FUNCTIONS, *ATTACHING], "prefix": PREFIX},
    )
    strangers = [name for (name,) in cursor.fetchall()]
    if strangers and not _is_ours(cursor, consumer):
        raise SchemaTaken(consumer.source, strangers)


def refuse_traps(cursor: Cursor, consumer: Consumer) -> None:
    """The same before a superuser calls a function of schema dyda. Others have few rights to lose, and may not be able
    to see whose project it is."""
    if cursor.connection.get_parameter_status("is_superuser") != "off":
        refuse_strangers(cursor, consumer, superusers_only=True)  # a pooler may not tell who we are


def who_can_replace(cursor: Cursor) -> tuple[str, ...]:
    """Everybody but superusers who can change what event triggers run, or what that depends on."""
    return _who_can_act_as(cursor, {owner for _, owner in _elsewhere(cursor, 0, FUNCTIONS)})


def installed_by_another(cursor: Cursor) -> str | None:
    """The owner of capture, if it is installed and the session's role may not change it."""
    cursor.execute(
        "SELECT pg_get_userbyid(p.proowner)::text FROM pg_proc p"
        " WHERE p.pronamespace = to_regnamespace('dyda') AND p.proname = 'capture'"
        " AND NOT (pg_has_role(p.proowner, 'USAGE') AND has_schema_privilege(p.pronamespace, 'CREATE'))"
    )
    found = cursor.fetchone()
    return None if found is None else str(found[0])


def drop_capture_role(cursor: Cursor) -> None:
    """If we created it. An older DyDa's, shared by all databases, is dropped with the last of them."""
    role = CaptureRole.find(cursor)
    cursor.execute(
        "SELECT r.rolname FROM pg_roles r WHERE r.rolname = ANY (%s) AND shobj_description(r.oid, 'pg_authid') = %s",
        ([role.name, SHARED_ROLE], MADE),
    )
    for (name,) in cursor.fetchall() if role.superuser else []:
        drop_role(cursor, name)


def drop_role(cursor: Cursor, name: str) -> None:
    """Unless another source needs it, it is gone already, or we may not."""
    cursor.execute("SAVEPOINT dropping")
    try:
        cursor.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))
    except (
        psycopg2.errors.DependentObjectsStillExist,
        psycopg2.errors.UndefinedObject,
        psycopg2.errors.InsufficientPrivilege,
    ):
        cursor.execute("ROLLBACK TO SAVEPOINT dropping")


def revocations(cursor: Cursor, name: str, oid: int | None, keep: str = "") -> str:
    """The statements that end all memberships in a role but that of `keep`.

    PostgreSQL 16 wants to know who granted it, unless a superuser did: such grants all count as those of oid 10.
    """
    cursor.execute(
        "SELECT pg_get_userbyid(a.member), pg_get_userbyid(a.grantor), %s AND a.grantor <> 10 FROM pg_auth_members a"
        " WHERE a.roleid = %s AND pg_get_userbyid(a.member) <> %s ORDER BY a.grantor = 10, 1, 2",
        (cursor.connection.server_version >= 160000, oid, keep),
    )
    statements = []
    for member, grantor, needed in cursor.fetchall():
        by = sql.SQL(" GRANTED BY {}").format(sql.Identifier(grantor)) if needed else sql.SQL("")
        revoke = sql.SQL("REVOKE {} FROM {}{} CASCADE;").format(sql.SQL(name), sql.Identifier(member), by)
        statements.append(revoke.as_string(cursor))
    return "\n".join(statements)


def create_role(cursor: Cursor, role: str, *, superuser: bool) -> None:
    """A role without login, which detach may drop. `superuser`: the session's role needs no membership."""
    name = sql.Identifier(role)
    cursor.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(name))
    cursor.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(name, sql.Literal(MADE)))
    if not superuser:
        options = " WITH INHERIT TRUE, SET TRUE" if cursor.connection.server_version >= 160000 else ""
        cursor.execute(sql.SQL("GRANT {} TO CURRENT_USER" + options).format(name))


def _lesser(cursor: Cursor, found: Iterable[tuple[str, int]]) -> list[str]:
    """What no superuser owns. A superuser runs it, or it runs with his rights: nobody with fewer may replace it."""
    cursor.execute("SELECT r.oid FROM pg_roles r WHERE r.rolsuper")
    superusers = {oid for (oid,) in cursor.fetchall()}
    return [what for what, owner in found if owner not in superusers]


def _give(cursor: Cursor, given: Iterable[str], owner: sql.Composable, last: bool = False) -> None:
    statements = [sql.SQL("ALTER {} OWNER TO {}").format(sql.SQL(what), owner) for what in given]
    if statements:
        cursor.execute(sql.SQL("; ").join([*statements, sql.SQL("COMMIT")] if last else statements))


def _let_it_attach(cursor: Cursor, role: CaptureRole) -> None:
    """The capture role's event triggers attach new partitions. Nobody else may call what does that, no former owner."""
    parameters = {"functions": list(ATTACHING), "role": role.oid or 0, "name": role.name, "usable": role.usable}
    for statements in (
        "SELECT format('REVOKE ALL ON FUNCTION %%s FROM %%I CASCADE', p.oid::regprocedure, r.rolname)"
        " FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a JOIN pg_roles r ON r.oid = a.grantee"
        " WHERE p.pronamespace = to_regnamespace('dyda') AND p.proname = ANY (%(functions)s)"
        " AND a.grantee <> p.proowner AND (a.grantee <> %(role)s OR NOT %(usable)s)",
        # Asked after those: the role may have had the right by a grant that is gone now.
        "SELECT format('GRANT EXECUTE ON FUNCTION %%s TO %%I', p.oid::regprocedure, %(name)s) FROM pg_proc p"
        " WHERE p.pronamespace = to_regnamespace('dyda') AND p.proname = ANY (%(functions)s)"
        " AND %(usable)s AND NOT has_function_privilege(%(role)s::oid, p.oid, 'EXECUTE')",
    ):
        cursor.execute(statements, parameters)
        for (statement,) in cursor.fetchall():
            cursor.execute(statement)


def _who_can_act_as(cursor: Cursor, roles: Iterable[int]) -> tuple[str, ...]:
    """Superusers are left out: they can act as everybody, and nobody else can act as one."""
    cursor.execute(
        "SELECT m.rolname::text FROM pg_roles m WHERE m.rolcanlogin AND NOT m.rolsuper"
        " AND EXISTS (SELECT FROM pg_roles r WHERE r.oid = ANY (%s::oid[]) AND NOT r.rolsuper"
        "             AND pg_has_role(m.oid, r.oid, 'MEMBER')) ORDER BY 1",
        (list(roles),),
    )
    return tuple(name for (name,) in cursor.fetchall())


def _elsewhere(cursor: Cursor, owner: int | None, functions: Iterable[str]) -> list[tuple[str, int]]:
    parameters = {"owner": owner, "relations": list(RELATIONS), "functions": list(functions)}
    cursor.execute(load_sql("ownership"), parameters)
    return [(what, found) for what, found in cursor.fetchall()]


def _is_ours(cursor: Cursor, consumer: Consumer) -> bool:
    """Whether the consumer there is this project.

    Only a table is read: a view would run its owner's code. And by COPY, not by a query: planning one would run what
    the owner put into an index.
    """
    is_table = "SELECT FROM pg_class WHERE oid = to_regclass('dyda.consumer') AND relkind = 'r'"
    cursor.execute(is_table)
    if cursor.fetchone() is None:
        return False
    cursor.execute(f"LOCK TABLE dyda.consumer IN ACCESS SHARE MODE; {is_table}")
    if cursor.fetchone() is None:
        return False
    projects = io.StringIO()
    cursor.copy_expert("COPY dyda.consumer (project) TO STDOUT", projects)
    return [consumer.is_of_project(project) for project in projects.getvalue().splitlines()] == [True]
