"""Whether a source can be reached, read and captured, and the exact statements that would allow what is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dyda.cursor import Cursor
from dyda.errors import DydaError, RelationRefused, UnknownRelation
from dyda.model.relation import Relation
from dyda.sources import catalog
from dyda.sources.adapter import Finding
from dyda.sources.capture.role import ADD_AS_SUPERUSER, CaptureRole, installed_by_another, revocations, who_can_replace
from dyda.sources.capture.state import LogState, read_state
from dyda.sources.connection import FRESH, Sessions, value
from dyda.sources.reading.rights import Access, ReaderRole, find_access, quoted
from dyda.sources.settings import Consumer, SourceSettings

__all__ = ["check", "grants", "obstacles"]

READING = (
    *("state()", "entries(pg_snapshot)", "schema_entries(pg_snapshot)", "changed_relations()"),
    *("schema_changed(pg_snapshot)", "watched_relations()", "acknowledge(text, pg_snapshot)", "shrink(bigint)"),
    *("standing()", "leave_mark(text, text)"),
)
READ = "read(text)"
WAL_READING = (
    *("layout()", "unlogged()", "catch_up()", "flushed_to()", "keep_flushed(bigint, boolean)"),
    "are_sealed(text[], text[])",
)
"""What is needed besides, to read the write-ahead log."""


def grants(role: str, relations: Iterable[tuple[str, str]] = (), *, reader: bool = True) -> str:
    """What a role that reads and acknowledges needs after another role has attached. `reader`: dyda.read exists."""
    functions = ", ".join(f"dyda.{function}" for function in ((*READING, READ) if reader else READING))
    statements = [
        f"GRANT USAGE ON SCHEMA dyda TO {quoted(role)};",
        f"GRANT EXECUTE ON FUNCTION {functions} TO {quoted(role)};",
    ]
    for schema, table in relations:
        statements.append(f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(role)};")
        statements.append(f"GRANT SELECT ON TABLE {quoted(schema)}.{quoted(table)} TO {quoted(role)};")
    return "\n".join(dict.fromkeys(statements))


def check(
    sessions: Sessions, consumer: Consumer, tables: Sequence[tuple[str, str]], *, owner_known: bool = True
) -> list[Finding]:
    """Everything that could be in the way, in the order in which one would fix it."""
    findings: list[Finding] = []
    try:
        with sessions.transaction(FRESH) as cursor:
            cursor.execute(
                "SELECT current_user, current_database(), current_setting('server_version'), pg_is_in_recovery()"
            )
            role, database, version, standby = cursor.fetchone()
            findings.append(Finding("ok", f"reached database {database} as {role} (PostgreSQL {version})"))
            if standby:
                findings.append(Finding("error", "the server is a standby", "Connect to the primary."))
            if cursor.connection.server_version < 140000:
                findings.append(Finding("error", f"PostgreSQL {version} is too old", "Use PostgreSQL 14 or later."))
            state, rights = _dyda_rights(cursor, role, database, consumer, owner_known)
            findings += rights
            if sessions.settings.capture == "wal":
                findings += _write_ahead_log(cursor, sessions.settings, role, state)
            findings += _Tables(cursor, sessions.settings, state, role).check(tables)
    except DydaError as error:
        findings.append(Finding("error", error.what, error.remedy))
    return findings


def obstacles(sessions: Sessions, consumer: Consumer, schema: str, table: str) -> list[Finding]:
    """What keeps one table from being read or captured now."""
    with sessions.transaction(FRESH) as cursor:
        role, state = value(cursor, "SELECT current_user"), read_state(cursor, consumer)
        findings = _Tables(cursor, sessions.settings, state, role, planned=False).check([(schema, table)])
    return [finding for finding in findings if finding.level == "error"]


def _dyda_rights(
    cursor: Cursor, role: str, database: str, consumer: Consumer, owner_known: bool
) -> tuple[LogState | None, list[Finding]]:
    """Rights on DyDa's own objects: to install them, or to use them if they exist."""
    cursor.execute(
        "SELECT has_schema_privilege(to_regnamespace('dyda')::oid, 'USAGE'),"
        " has_database_privilege(current_database(), 'CREATE'), rolsuper FROM pg_roles WHERE rolname = current_user"
    )
    may_use, may_create, superuser = cursor.fetchone()
    if may_use is None:  # there is none
        if not may_create:
            grant = f"GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(role)};"
            return None, [Finding("error", "the role may not create schema dyda", grant)]
        found = [Finding("ok", "capture is not attached yet; the role may attach it")]
        if not superuser:
            found += _no_events(cursor)
        return None, found + _owner(cursor, role, database)
    reader = ReaderRole.find(cursor).there
    if not may_use:
        return None, [Finding("error", "the role may not use schema dyda", grants(role, reader=reader))]
    cursor.execute(
        "SELECT count(*), count(*) FILTER (WHERE has_function_privilege(p.oid, 'EXECUTE')) FROM pg_proc p"
        " WHERE p.pronamespace = 'dyda'::regnamespace AND p.proname = ANY (%s)",
        ([function.partition("(")[0] for function in (*READING, READ)],),
    )
    functions, allowed = cursor.fetchone()
    if allowed < functions:
        return None, [Finding("error", "the role may not execute DyDa's functions", grants(role, reader=reader))]
    state = read_state(cursor, consumer)
    if not state.attached:
        return state, [Finding("warning", "capture is not attached", "Run: dyda apply")]
    if owner_known:
        consumer.refuse_rival(state.project)
    if owner_known and not consumer.is_meant(state.project):
        return state, [
            Finding("error", f"the source belongs to another project ({state.project})", "Detach it there first.")
        ]
    found = [Finding("ok", f"capture is attached, {len(state.watched)} relations watched")]
    if not state.inline_schema_changes:
        found += _no_events(cursor)
    return state, found + _owner(cursor, role, database)


def _write_ahead_log(cursor: Cursor, settings: SourceSettings, role: str, state: LogState | None) -> list[Finding]:
    """What capture = "wal" needs, and what bounds the WAL that the server keeps for it."""
    cursor.execute(
        "SELECT current_setting('wal_level'), r.rolreplication OR r.rolsuper, r.rolsuper,"
        " current_setting('max_slot_wal_keep_size') = '-1' FROM pg_roles r WHERE r.rolname = current_user"
    )
    level, replication, superuser, unbounded = cursor.fetchone()
    found = []
    if level != "logical":
        remedy = "ALTER SYSTEM SET wal_level = logical; then restart the server."
        found.append(Finding("error", f"wal_level is {level}: its write-ahead log has no rows to read", remedy))
    if not replication:
        remedy = f"ALTER ROLE {quoted(role)} REPLICATION;"
        found.append(Finding("error", "the role may not read the write-ahead log", remedy))
    cursor.execute(
        "SELECT p.oid::regprocedure::text FROM unnest(%s::text[]) AS f (name)"
        " JOIN pg_proc p ON p.oid = to_regprocedure('dyda.' || f.name)"
        " WHERE NOT has_function_privilege(p.oid, 'EXECUTE')",
        (list(WAL_READING),),
    )
    missing = [name for (name,) in cursor.fetchall()]
    if missing:
        grant = f"GRANT EXECUTE ON FUNCTION {', '.join(missing)} TO {quoted(role)};"
        found.append(Finding("error", "the role may not execute what reading the write-ahead log needs", grant))
    if state is not None and state.slot is not None:
        found.append(Finding("ok", f"replication slot {state.slot.name} keeps {state.slot.retained} bytes of WAL"))
    elif not superuser:
        what = 'capture = "wal" needs event triggers, which only a superuser can create'
        found.append(Finding("warning", what, "Run `dyda apply` once with a superuser's url."))
    if unbounded:
        found.append(
            Finding(
                "warning",
                "max_slot_wal_keep_size is -1: while no daemon runs, nothing bounds the WAL that the server keeps"
                " for DyDa (wal_limit counts only while one does)",
                f"ALTER SYSTEM SET max_slot_wal_keep_size = '{settings.wal_limit >> 20}MB'; SELECT pg_reload_conf();",
            )
        )
    return found


def _owner(cursor: Cursor, role: str, database: str) -> list[Finding]:
    """Whether a role that cannot log in owns capture, and whether superusers are safe from it."""
    capture_role = CaptureRole.find(cursor)
    cursor.execute(
        "SELECT pg_get_userbyid(p.proowner), r.rolcanlogin, r.rolsuper, pg_has_role(p.proowner, 'USAGE'),"
        " has_database_privilege(current_database(), 'CREATE'),"
        " EXISTS (SELECT FROM pg_event_trigger e WHERE e.evtfoid = to_regprocedure('dyda.command_ended()'))"
        " FROM pg_proc p JOIN pg_roles r ON r.oid = p.proowner WHERE p.oid = to_regprocedure('dyda.capture()')"
    )
    found = cursor.fetchone()
    owner, login, superuser, mine, may_move, events = found or (role, True, capture_role.superuser, True, True, False)
    given = owner == capture_role.name and not capture_role.login
    replacing = who_can_replace(cursor) if events else ()
    if replacing:
        names = ", ".join(replacing)
        what = f"event triggers run functions that {names} may replace, even in a superuser's transactions"
        remedy = "Run: dyda apply" if capture_role.superuser else "Run `dyda apply` once as a superuser."
        if given and replacing == capture_role.members:
            remedy = revocations(cursor, capture_role.name, capture_role.oid)
            if role in replacing:
                remedy += f"\n{grants(role, reader=ReaderRole.find(cursor).there)}"
        return [Finding("warning", what, remedy)]
    will_be_given = capture_role.usable or (capture_role.oid is None and capture_role.may_create)
    if given or (found is None and will_be_given):
        return []
    kind = "can log in" if login or superuser else "is not this database's own"
    what = f"capture belongs to {owner}, a role that {kind}"
    if superuser and capture_role.members and not capture_role.login:
        what += f": {capture_role.name} has members ({', '.join(capture_role.members)})"
        remedy = revocations(cursor, capture_role.name, capture_role.oid)
    elif will_be_given and mine and not may_move:  # what ALTER SCHEMA … OWNER TO asks for
        remedy = f"GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(role)};"
    elif will_be_given or not mine:
        remedy = "Run: dyda apply" if mine else "Run `dyda apply` as a role that may install capture."
    elif capture_role.login:
        remedy = f"ALTER ROLE {capture_role.name} NOLOGIN NOSUPERUSER;"
    else:
        create = f"CREATE ROLE {capture_role.name} NOLOGIN;\n" if capture_role.oid is None else ""
        remedy = f"{create}GRANT {capture_role.name} TO {quoted(role)};"
    return [Finding("warning", what, remedy)]


def _no_events(cursor: Cursor) -> list[Finding]:
    found = [
        Finding(
            "warning",
            "no event triggers: schema changes are found by comparing the catalog on every poll",
            "Run `dyda apply` once as a superuser to have schema changes logged as they happen. Until then, what is"
            " undone between two polls (a partition, a parent, a subscription, a crash of the server) only shows in"
            " PostgreSQL's statistics some seconds later, and every view of this source is then rebuilt.",
        )
    ]
    if not value(cursor, "SELECT current_setting('track_counts')::boolean"):
        what = "track_counts is off: what is undone between two polls leaves no trace, so views may become wrong"
        found.append(Finding("error", what, "ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf();"))
    return found


@dataclass(frozen=True)
class _Tables:
    """Checks of single tables. `planned`: as they will be once this role has attached them."""

    cursor: Cursor
    settings: SourceSettings
    state: LogState | None
    role: str
    planned: bool = True
    unreadable: dict[Access, list[str]] = field(default_factory=dict)

    def check(self, tables: Iterable[tuple[str, str]]) -> list[Finding]:
        findings = [finding for schema, table in tables for finding in self._table(schema, table)]
        for access, names in self.unreadable.items():  # once for all: a role can be created only once
            findings.append(Finding("error", f"{', '.join(names)}: {access.why}", "\n".join(access.missing)))
        return findings

    def _table(self, schema: str, table: str) -> list[Finding]:
        cursor, state, role, planned = self.cursor, self.state, self.role, self.planned
        try:
            relation = catalog.describe(cursor, self.settings.name, [(schema, table)])[(schema, table)]
        except (UnknownRelation, RelationRefused) as error:
            return [Finding("error", error.what, error.remedy)]
        fingerprint = catalog.fingerprint(cursor, [relation.name])[relation.name]
        captured = fingerprint.captured
        cursor.execute(
            "SELECT pg_has_role(c.relowner, 'USAGE'), pg_get_userbyid(c.relowner) FROM pg_class c WHERE c.oid = %s",
            (relation.oid,),
        )
        owns, owner = cursor.fetchone()
        installer = installed_by_another(cursor)
        new = not captured or (state is not None and relation.oid not in state.watched)
        access = find_access(cursor, self.settings, fingerprint.members, planned=planned, new=planned and new)
        if access.why:
            self.unreadable.setdefault(access, []).append(str(relation.name))
        as_itself = not access.why and not access.through_reader
        # The reader role has its own rights on the parts, also on those that come later.
        read = fingerprint.members if as_itself else (relation.oid,) if planned else ()
        findings = _reading(cursor, relation, role, read, row_security=as_itself)
        what = remedy = ""
        if new and installer is not None:
            what = f"not captured yet, and {role} may not add tables to capture, which belongs to {installer}"
            remedy = ADD_AS_SUPERUSER.format(role=role)
        elif not captured and not owns:
            what, remedy = "only its owner can attach capture to it", f"GRANT {quoted(owner)} TO {quoted(role)};"
        if what:
            findings.append(Finding("error", f"{relation.name}: {what}", remedy))
        elif not captured and state is not None and relation.oid in state.watched:
            findings.append(Finding("warning", f"{relation.name}: capture is not complete", "Run: dyda apply"))
        if not findings and not access.why:
            what = f"{relation.name}: readable, {'captured' if captured else 'not captured yet'}"
            findings.append(Finding("ok", what))
        return findings


def _reading(
    cursor: Cursor, relation: Relation, role: str, members: Sequence[int], *, row_security: bool
) -> list[Finding]:
    """What keeps the role from reading all rows. The tables that a relation consists of are read one by one."""
    cursor.execute(
        "SELECT c.oid, n.nspname, c.relname,"
        " has_schema_privilege(n.oid, 'USAGE'), has_table_privilege(c.oid, 'SELECT'),"
        " (c.relrowsecurity AND NOT (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)"
        "  AND (c.relforcerowsecurity OR NOT pg_has_role(c.relowner, 'USAGE')))"
        " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY (%s::oid[])"
        " ORDER BY c.oid <> %s, c.oid",
        (list(members), relation.oid),
    )
    found: dict[str, Finding] = {}
    for oid, schema, table, usage, select, restricted in cursor.fetchall():
        shown = "" if oid == relation.oid else f"its part {schema}.{table}"
        wrong = []
        if not usage:
            wrong.append((f"the role may not use schema {schema}", f"GRANT USAGE ON SCHEMA {quoted(schema)}"))
        if not select:
            grant = f"GRANT SELECT ON TABLE {quoted(schema)}.{quoted(table)}"
            wrong.append((f"the role may not read {shown or 'it'}", grant))
        findings = [(what, f"{grant} TO {quoted(role)};") for what, grant in wrong]
        if restricted and row_security:
            what = f"row-level security would hide rows{f' of {shown}' if shown else ''} from the role"
            findings.append((what, f"ALTER ROLE {quoted(role)} BYPASSRLS;"))
        for what, remedy in findings:
            found.setdefault(remedy, Finding("error", f"{relation.name}: {what}", remedy))
    return list(found.values())
