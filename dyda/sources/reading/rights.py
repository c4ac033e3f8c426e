"""As whom tables are read. PostgreSQL evaluates what a table's owner wrote when we read it, with our rights.

Predicates and expressions of indexes, statistics, partition keys, constraints, casts and operators are functions that
somebody may replace at any time. If he has less rights than the session that plans or runs a query over his table, he
gains the difference. So a table is read

    directly            if everybody whose functions may be evaluated is a superuser, the session's own role or named in
                        `trusted_owners`; and by a role that can do nothing but read
    through dyda.read   otherwise: with the rights of the reader role, which may read what is watched and nothing else

and by nobody if there is no such role. Each database has its own, `dyda_reader_` and the database's oid; whoever is a
member of it can replace dyda.read, and so it is not used by a session that has more rights than its members.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql

from dyda.cursor import Cursor, Row
from dyda.errors import DydaError, MissingRights, SourceBusy
from dyda.model.relation import Relation, RelationName
from dyda.sources import catalog
from dyda.sources.capture.role import MADE, create_role, refuse_traps, revocations
from dyda.sources.connection import FRESH, WRITING, Sessions, load_sql
from dyda.sources.settings import Consumer, SourceSettings

__all__ = [
    "Access",
    "Accesses",
    "ReaderRole",
    "find_access",
    "give_up_reader_role",
    "grant_reading",
    "install_reader",
    "quoted",
]

PREFIX = "dyda_reader_"
BODY = load_sql("reader").partition("$body$")[2].partition("$body$")[0]


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True)
class ReaderRole:
    """This database's, as the session's role `me` finds it.

    `mine`: the session may give it things. `faults`: what it can do beyond reading. `members`: all who can act as it,
    or make themselves able to, and not as the session's role. `there`: dyda.read is its own, and as we wrote it.
    `ready`: the session may call it. `harmless`: the session's own role can do nothing but read.
    """

    name: str
    oid: int | None
    me: str
    mine: bool
    may_create: bool
    superuser: bool
    faults: tuple[str, ...]
    members: tuple[str, ...]
    there: bool
    ready: bool
    harmless: bool

    @classmethod
    def find(cls, cursor: Cursor) -> ReaderRole:
        give = "SET" if cursor.connection.server_version >= 160000 else "MEMBER"
        cursor.execute(load_sql("reader_role"), {"prefix": PREFIX, "give": give, "body": BODY})
        name, oid, me, mine, may_create, superuser, faults, members, there, may_call, harmless = cursor.fetchone()
        ready = there and may_call
        can = (tuple(faults), tuple(members))
        return cls(name, oid, me, mine, may_create, superuser, *can, there, ready, harmless)

    @property
    def sound(self) -> bool:
        """Whether what runs with its rights can do nothing but read, and nobody lesser can change what that is."""
        return self.oid is not None and not self.faults and not self.members

    @property
    def usable(self) -> bool:
        return self.sound and self.ready

    @property
    def obtainable(self) -> bool:
        """Whether it is usable once this session has attached, or may use what another has (`check` says so)."""
        if self.oid is None:
            return self.may_create
        return not self.faults and (self.there or self.mine) and (self.superuser or not self.members)

    def statements(self, cursor: Cursor) -> str:
        """What makes it usable, as an administrator would run it."""
        if self.oid is None:
            return f"CREATE ROLE {self.name} NOLOGIN;\nGRANT {self.name} TO {quoted(self.me)};"
        if self.faults:
            return (
                f"ALTER ROLE {self.name} NOLOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION;\n"
                f"-- it {' and '.join(self.faults)}, and must not"
            )
        if self.members:
            return revocations(cursor, self.name, self.oid, keep=self.me)
        if self.there:
            return (
                f"GRANT USAGE ON SCHEMA dyda TO {quoted(self.me)};\n"
                f"GRANT EXECUTE ON FUNCTION dyda.read(text) TO {quoted(self.me)};"
            )
        if self.mine:
            return "Run: dyda apply"
        return f"GRANT {self.name} TO {quoted(self.me)};"


@dataclass(frozen=True)
class Access:
    """How one relation is read, or why it cannot be: `missing` are the statements that would allow it.

    `strangers` own something that is evaluated when it is read.
    """

    through_reader: bool
    strangers: tuple[str, ...] = ()
    why: str = ""
    missing: tuple[str, ...] = ()

    def require(self, name: RelationName) -> Access:
        if self.why:
            what, remedy = f"{name} is not read: {self.why}", "\n".join(self.missing)
            raise MissingRights(what, remedy, name.source, frozenset({str(name)}))
        return self


def find_access(
    cursor: Cursor,
    settings: SourceSettings,
    tables: Sequence[int],
    *,
    planned: bool = False,
    new: bool = False,
) -> Access:
    """As whom to read the relation that consists of these tables. `planned`: once this session has attached it.

    `new`: it has never been; who attaches it has its owner's rights, and lets the reader role read it.
    """
    rows = catalog.answer(cursor, "access", tables)
    strangers = sorted({owner for row in rows for owner in row[2]} - set(settings.trusted_owners))
    by_itself = all(usage and select and not restricted for *_, usage, select, restricted in (row[:6] for row in rows))
    if not strangers and by_itself:
        return Access(False)
    role = ReaderRole.find(cursor)
    if role.usable or (planned and role.obtainable):
        missing = _reader_lacks(role, rows, planned, new)
        if not missing:
            return Access(True, tuple(strangers))
        if strangers and not role.harmless:
            return Access(True, tuple(strangers), f"role {role.name} lacks rights on it", tuple(missing))
    if not strangers or role.harmless:
        return Access(False, tuple(strangers))  # if a right is missing, PostgreSQL says which
    who = ", ".join(strangers)
    # Escaped: in a comment of statements that somebody will paste, a name must not begin a line.
    names = ", ".join(json.dumps(stranger, ensure_ascii=False) for stranger in strangers)
    return Access(
        True,
        tuple(strangers),
        f"functions of {who} would be evaluated with the rights of {role.me}",
        (
            role.statements(cursor),
            f"-- or, if they may do whatever this role may: trusted_owners = [{names}] under [sources.{settings.name}]",
        ),
    )


class Accesses:
    """As whom the relations of one unit are read, each asked once. Raises MissingRights.

    What is missing is prepared, if the session may: a table may have come to its place since it was attached.
    """

    def __init__(self, sessions: Sessions, consumer: Consumer) -> None:
        self._sessions = sessions
        self._consumer = consumer
        self._found: dict[int, Access] = {}

    def to(self, relation: Relation, tables: Sequence[int]) -> Access:
        if relation.oid not in self._found:
            found = self._ask(relation.name, tables)
            if found.why:
                with contextlib.suppress(DydaError), self._sessions.transaction(WRITING) as cursor:
                    refuse_traps(cursor, self._consumer)
                    if not _attached_by_this_version(cursor):
                        cursor.execute(load_sql("readable"))
                    install_reader(cursor, relation.name.source)
                    grant_reading(cursor, tables)
                found = self._ask(relation.name, tables)
            self._found[relation.oid] = found.require(relation.name)
        return self._found[relation.oid]

    def _ask(self, name: RelationName, tables: Sequence[int]) -> Access:
        with self._sessions.transaction(FRESH, [name]) as cursor:
            return find_access(cursor, self._sessions.settings, tables)


def _attached_by_this_version(cursor: Cursor) -> bool:
    cursor.execute("SELECT to_regprocedure('dyda.let_read(oid, boolean)') IS NOT NULL")
    return bool(cursor.fetchone()[0])


def _reader_lacks(role: ReaderRole, rows: Iterable[Row], planned: bool, new: bool) -> list[str]:
    """The statements that let the reader role read these tables. `planned`: without those that attach runs itself."""
    statements = []
    for schema, table, *_, usage, select, restricted, may_grant, owns in rows:
        if not usage and not (planned and may_grant):
            statements.append(f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {role.name};")
        if not select and not (planned and (owns or new)):
            statements.append(f"GRANT SELECT ON TABLE {quoted(schema)}.{quoted(table)} TO {role.name};")
        if restricted and not (planned and role.superuser):
            statements.append(f"ALTER ROLE {role.name} BYPASSRLS;")
    return list(dict.fromkeys(statements))


def install_reader(cursor: Cursor, source: str) -> None:
    """The role and dyda.read, where this session can have both; in one transaction, for the function must be its own.

    A superuser ends memberships: they are of use only to make the function, and let others replace it. Who loses one
    may still call it, and so may everybody who can read the log.
    """
    role = ReaderRole.find(cursor)
    try:
        if role.oid is None and role.may_create:
            create_role(cursor, role.name, superuser=role.superuser)
            role = ReaderRole.find(cursor)
        if role.superuser and role.members and not role.faults:
            cursor.execute("SELECT pg_get_userbyid(a.member) FROM pg_auth_members a WHERE a.roleid = %s", (role.oid,))
            former = [name for (name,) in cursor.fetchall()]
            cursor.execute(revocations(cursor, role.name, role.oid))
            role = ReaderRole.find(cursor)
        else:
            former = []
        if not role.sound or not (role.mine or role.superuser):
            return
        if not role.there:
            _create_function(cursor, role)
        elif not role.mine:
            return
        cursor.execute(
            "SELECT DISTINCT pg_get_userbyid(a.grantee) FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a"
            " WHERE p.oid = to_regprocedure('dyda.entries(pg_snapshot)') AND a.grantee NOT IN (0, p.proowner)"
            " AND NOT has_function_privilege(a.grantee, 'dyda.read(text)', 'EXECUTE')"
        )
        for name in {*former, *(name for (name,) in cursor.fetchall())}:
            cursor.execute(sql.SQL("GRANT EXECUTE ON FUNCTION dyda.read(text) TO {}").format(sql.Identifier(name)))
    except (psycopg2.errors.UndefinedObject, psycopg2.errors.DuplicateObject, psycopg2.errors.UniqueViolation):
        raise SourceBusy(source, f"role {role.name} came or went this very moment") from None


def _create_function(cursor: Cursor, role: ReaderRole) -> None:
    """Whoever is given a function must be allowed to create it: for that moment only."""
    name = sql.Identifier(role.name)
    cursor.execute("DROP FUNCTION IF EXISTS dyda.read(text)")
    cursor.execute(load_sql("reader"))
    cursor.execute(sql.SQL("GRANT USAGE, CREATE ON SCHEMA dyda TO {}").format(name))
    cursor.execute(sql.SQL("ALTER FUNCTION dyda.read(text) OWNER TO {}").format(name))
    cursor.execute(sql.SQL("REVOKE ALL ON SCHEMA dyda FROM {}").format(name))


def grant_reading(cursor: Cursor, tables: Collection[int]) -> None:
    """Let the reader role read these tables, as far as this session may."""
    cursor.execute("SELECT dyda.let_read(relid, true) FROM unnest(%s::oid[]) AS relid", (sorted(tables),))
    role = ReaderRole.find(cursor)
    if role.superuser and role.sound and any(row[8] for row in catalog.answer(cursor, "access", tables)):
        cursor.execute(sql.SQL("ALTER ROLE {} BYPASSRLS").format(sql.Identifier(role.name)))


def give_up_reader_role(cursor: Cursor) -> None:
    """What it may do here, and itself if we created it."""
    role = ReaderRole.find(cursor)
    if role.oid is None or not (role.superuser or role.mine):
        return
    cursor.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role.name)))
    cursor.execute("SELECT shobj_description(%s, 'pg_authid') = %s", (role.oid, MADE))
    if role.may_create and cursor.fetchone()[0]:
        cursor.execute("SAVEPOINT dropping")
        try:
            cursor.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role.name)))
        except (
            psycopg2.errors.DependentObjectsStillExist,
            psycopg2.errors.UndefinedObject,
            psycopg2.errors.InsufficientPrivilege,
        ):
            cursor.execute("ROLLBACK TO SAVEPOINT dropping")
