"""Whose capture is: a role without login, where there may be one, and nobody's who could have prepared a trap.

Capture runs inside everybody's transactions with its owner's rights. So it belongs to `dyda_capture`, a role that
cannot log in and has no right but on schema dyda. Only the two functions that put triggers on tables stay with the role
that attached: they need what the tables' owners may. Where that role may neither create dyda_capture nor is a member of
it, it owns all of it itself, and `sources check` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psycopg2
from psycopg2 import sql

from dyda.errors import SourceBusy, SourceInUse
from dyda.sources.connection import load_sql

__all__ = ["CAPTURE_ROLE", "CaptureRole", "drop_capture_role", "give_to_capture_role", "refuse_strangers"]

CAPTURE_ROLE = "dyda_capture"
MADE = "made by DyDa"
"""The comment on a role that we created, and may drop again."""

RELATIONS = (
    *("log", "consumer", "watched", "holder", "member", "described", "mark"),
    *("log_sequence", "gap", "gap_until", "key"),
)
ATTACHING = ("capture_table", "release_table")
FUNCTIONS = (
    *(
        "capture",
        "mark_gap",
        "shape",
        "names_now",
        "seal",
        "noted",
        "note",
        "columns",
        "fingerprints",
        "users_of_types",
    ),
    *("tree", "shown", "describe", "follow", "look_at", "lasting", "remember", "observe", "replaced"),
    *("command_ended", "object_dropped", "table_rewritten", "state", "entries", "schema_entries", "changed_relations"),
    *("schema_changed", "watched_relations", "acknowledge", "shrink"),
    *("home", "standing", "leave_mark", "log_changed", "forward_gap"),
)


@dataclass(frozen=True)
class CaptureRole:
    """dyda_capture as the session's role finds it. `usable`: it has no login and may be given things."""

    oid: int | None
    login: bool
    usable: bool
    may_create: bool
    superuser: bool

    @classmethod
    def find(cls, cursor: Any) -> CaptureRole:
        give = "SET" if cursor.connection.server_version >= 160000 else "MEMBER"
        cursor.execute(
            "SELECT c.oid, coalesce(c.rolcanlogin OR c.rolsuper, false),"
            " coalesce(NOT c.rolcanlogin AND NOT c.rolsuper AND pg_has_role(c.oid, 'USAGE') AND pg_has_role(c.oid, %s),"
            " false), me.rolsuper OR me.rolcreaterole, me.rolsuper"
            " FROM pg_roles me LEFT JOIN pg_roles c ON c.rolname = %s WHERE me.rolname = current_user",
            (give, CAPTURE_ROLE),
        )
        return cls(*cursor.fetchone())


def give_to_capture_role(cursor: Any, source: str) -> None:
    """Everything of capture's to the role without login. Locks nothing where it has all of it already."""
    role = CaptureRole.find(cursor)
    try:
        if role.oid is None and role.may_create:
            _create(cursor, role)
            role = CaptureRole.find(cursor)
        if not role.usable:
            return
        # The schema first: who is given something in it must be allowed to create there.
        for what, _ in sorted(_elsewhere(cursor, role.oid, FUNCTIONS), key=lambda found: found[0] != "SCHEMA dyda"):
            cursor.execute(sql.SQL("ALTER {} OWNER TO {}").format(sql.SQL(what), sql.Identifier(CAPTURE_ROLE)))
        if role.superuser:
            _take_attaching(cursor)
        cursor.execute(
            "SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = to_regnamespace('dyda')"
            " AND p.proname = ANY (%s) AND NOT has_function_privilege(%s, p.oid, 'EXECUTE')",
            (list(ATTACHING), role.oid),
        )
        for (function,) in cursor.fetchall():  # for the event triggers, which follow new partitions
            cursor.execute(
                sql.SQL("GRANT EXECUTE ON FUNCTION {} TO {}").format(sql.SQL(function), sql.Identifier(CAPTURE_ROLE))
            )
    except (psycopg2.errors.UndefinedObject, psycopg2.errors.DuplicateObject, psycopg2.errors.UniqueViolation):
        raise SourceBusy(source, f"role {CAPTURE_ROLE} came or went this very moment") from None


def refuse_strangers(cursor: Any, source: str, project: str) -> None:
    """A schema dyda that somebody else has put there may hold traps: our functions in it would be his.

    Trusted are superusers, dyda_capture and ourselves. If it says that it is this very project's, whose number nobody
    else knows, another role of ours has made it.
    """
    role = CaptureRole.find(cursor)
    owners = {owner for _, owner in _elsewhere(cursor, 0, (*FUNCTIONS, *ATTACHING))}
    cursor.execute(
        "SELECT r.rolname FROM pg_roles r WHERE r.oid = ANY (%s::oid[]) AND r.rolname <> current_user"
        " AND NOT r.rolsuper AND r.oid IS DISTINCT FROM %s::oid AND (%s OR NOT pg_has_role(r.oid, 'USAGE'))",
        (list(owners), None if role.login else role.oid, role.superuser),
    )
    strangers = [name for (name,) in cursor.fetchall()]
    if strangers and not _is_ours(cursor, project):
        raise SourceInUse(
            f"source {source}: schema dyda is there already and belongs to {', '.join(strangers)}",
            "Ask whose it is. If nobody needs it: DROP SCHEMA dyda CASCADE",
        )


def drop_capture_role(cursor: Any) -> None:
    """If we created it and no other database has something of its."""
    cursor.execute(
        "SELECT FROM pg_roles r WHERE r.rolname = %s AND shobj_description(r.oid, 'pg_authid') = %s"
        " AND (SELECT me.rolsuper FROM pg_roles me WHERE me.rolname = current_user)",
        (CAPTURE_ROLE, MADE),
    )
    if cursor.fetchone() is None:
        return
    cursor.execute("SAVEPOINT dropping")
    try:
        cursor.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(CAPTURE_ROLE)))
    except (psycopg2.errors.DependentObjectsStillExist, psycopg2.errors.UndefinedObject):
        cursor.execute("ROLLBACK TO SAVEPOINT dropping")  # another source's, or gone with it


def _create(cursor: Any, role: CaptureRole) -> None:
    name = sql.Identifier(CAPTURE_ROLE)
    cursor.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(name))
    cursor.execute(sql.SQL("COMMENT ON ROLE {} IS {}").format(name, sql.Literal(MADE)))
    if not role.superuser:
        options = " WITH INHERIT TRUE, SET TRUE" if cursor.connection.server_version >= 160000 else ""
        cursor.execute(sql.SQL("GRANT {} TO CURRENT_USER" + options).format(name))


def _take_attaching(cursor: Any) -> None:
    """A superuser calls these functions himself: nobody of lesser rights may be able to replace them."""
    cursor.execute(
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner"
        " WHERE p.pronamespace = to_regnamespace('dyda') AND p.proname = ANY (%s) AND NOT r.rolsuper",
        (list(ATTACHING),),
    )
    for (function,) in cursor.fetchall():
        cursor.execute(sql.SQL("ALTER FUNCTION {} OWNER TO CURRENT_USER").format(sql.SQL(function)))


def _elsewhere(cursor: Any, owner: int | None, functions: Iterable[str]) -> list[tuple[str, int]]:
    parameters = {"owner": owner, "relations": list(RELATIONS), "functions": list(functions)}
    cursor.execute(load_sql("ownership"), parameters)
    return [(what, found) for what, found in cursor.fetchall()]


def _is_ours(cursor: Any, project: str) -> bool:
    """Whether the consumer there is this project. Only a table is read: a view would run what its owner wants."""
    cursor.execute("SELECT FROM pg_class WHERE oid = to_regclass('dyda.consumer') AND relkind = 'r'")
    if cursor.fetchone() is None:
        return False
    cursor.execute("LOCK TABLE dyda.consumer IN ACCESS SHARE MODE")
    cursor.execute("SELECT FROM pg_class WHERE oid = to_regclass('dyda.consumer') AND relkind = 'r'")
    if cursor.fetchone() is None:
        return False
    cursor.execute("SELECT project FROM dyda.consumer")
    return [found for (found,) in cursor.fetchall()] == [project]
