"""As whom tables are read. When we read a table, PostgreSQL runs what its owner wrote, with our rights.

Indexes, statistics, partition keys, constraints, casts and operators use functions that somebody may replace at any
time. If he has fewer rights than the session that plans or runs a query over his table, he gains the difference. So a
table is read

    directly            if everybody whose functions may run is a superuser, the session's own role or named in
                        `trusted_owners`; and by a role that can do nothing but read
    through dyda.read   otherwise: with the rights of the reader role, which may read what is watched and nothing else

and not at all without such a role. Each database has its own, `dyda_reader_` and the database's oid. Its members can
replace dyda.read, so a session that has more rights than they have does not use it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from psycopg2 import sql

from dyda.cursor import Cursor, Row
from dyda.errors import DydaError, MissingRights
from dyda.model.relation import Relation, RelationName
from dyda.sources import catalog
from dyda.sources.capture.role import MADE, create_role, drop_role, refuse_traps, revocations, stable_roles
from dyda.sources.connection import FRESH, WRITING, Sessions, load_sql, value
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
    """This database's, as sql/reader_role.sql describes it to the session's role `me`.

    `mine`: the session may transfer objects to it. `faults`: what it can do beyond reading. `members`: all who can act
    as it, or make themselves able to, and not as the session's role. `there`: it owns dyda.read, as we wrote it.
    `may_call`: so may the session. `harmless`: the session's own role can do nothing but read.
    """

    name: str
    oid: int | None
    me: str
    mine: bool
    may_create: bool
    superuser: bool
    faults: list[str]
    members: list[str]
    there: bool
    may_call: bool
    harmless: bool

    @classmethod
    def find(cls, cursor: Cursor) -> ReaderRole:
        give = "SET" if cursor.connection.server_version >= 160000 else "MEMBER"
        cursor.execute(load_sql("reader_role"), {"prefix": PREFIX, "give": give, "body": BODY})
        return cls(*cursor.fetchone())

    @property
    def sound(self) -> bool:
        """Whether what runs with its rights can do nothing but read, and nobody with fewer rights can change that."""
        return self.oid is not None and not self.faults and not self.members

    @property
    def usable(self) -> bool:
        return self.sound and self.there and self.may_call

    @property
    def obtainable(self) -> bool:
        """Whether it will be usable once this session has attached, or has the grants that `check` prints."""
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
                f"-- now it {' and '.join(self.faults)}; it may only read"
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

    `strangers` own something that runs when it is read.
    """

    through_reader: bool
    strangers: tuple[str, ...] = ()
    why: str = ""
    missing: tuple[str, ...] = ()

    def require(self, name: RelationName) -> Access:
        if self.why:
            what, remedy = f"{name} cannot be read: {self.why}", "\n".join(self.missing)
            raise MissingRights(what, remedy, name.source, frozenset({str(name)}))
        return self


def find_access(
    cursor: Cursor, settings: SourceSettings, tables: Sequence[int], *, planned: bool = False, new: bool = False
) -> Access:
    """As whom to read the relation that consists of these tables. `planned`: after this session has attached it.

    `new`: it is not attached yet. Whoever attaches it has its owner's rights, and lets the reader role read it.
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
    # Escaped: in a comment of statements that somebody will paste, a name must not begin a line.
    names = ", ".join(json.dumps(stranger, ensure_ascii=False) for stranger in strangers)
    trusting = (
        f"-- or, to let them do whatever this role may: trusted_owners = [{names}] under [sources.{settings.name}]"
    )
    why = f"functions of {', '.join(strangers)} would run with the rights of {role.me}"
    return Access(True, tuple(strangers), why, (role.statements(cursor), trusting))


class Accesses:
    """As whom the relations of one unit are read, each determined once. Raises MissingRights.

    Missing grants are made if the session may: another table may have taken the name since it was attached.
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
                    if value(cursor, "SELECT to_regprocedure('dyda.let_read(oid, boolean)') IS NULL"):
                        cursor.execute(load_sql("readable"))  # an older DyDa attached it
                    install_reader(cursor, relation.name.source)
                    grant_reading(cursor, tables)
                found = self._ask(relation.name, tables)
            self._found[relation.oid] = found.require(relation.name)
        return self._found[relation.oid]

    def _ask(self, name: RelationName, tables: Sequence[int]) -> Access:
        with self._sessions.transaction(FRESH, [name]) as cursor:
            return find_access(cursor, self._sessions.settings, tables)


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
    """The role and dyda.read, if this session can have both; in one transaction, for the role must own the function.

    A superuser ends memberships: they are only needed to create the function, and let others replace it. Those who lose
    one may still call it, as may everybody who can read the log.
    """
    role = ReaderRole.find(cursor)
    with stable_roles(source, role.name):
        if role.oid is None and role.may_create:
            create_role(cursor, role.name, superuser=role.superuser)
            role = ReaderRole.find(cursor)
        former: list[str] = []
        if role.superuser and role.members and not role.faults:
            cursor.execute("SELECT pg_get_userbyid(a.member) FROM pg_auth_members a WHERE a.roleid = %s", (role.oid,))
            former = [name for (name,) in cursor.fetchall()]
            cursor.execute(revocations(cursor, role.name, role.oid))
            role = ReaderRole.find(cursor)
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


def _create_function(cursor: Cursor, role: ReaderRole) -> None:
    """A function's new owner needs the right to create in its schema: granted for that moment only."""
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
    """Revoke its rights here, and drop it if we created it."""
    role = ReaderRole.find(cursor)
    if role.oid is None or not (role.superuser or role.mine):
        return
    cursor.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role.name)))
    if role.may_create and value(cursor, "SELECT shobj_description(%s, 'pg_authid') = %s", (role.oid, MADE)):
        drop_role(cursor, role.name)
