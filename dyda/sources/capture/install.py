"""Putting capture into a source and taking it out again (rules C2, C5, C6, C7).

CREATE TRIGGER waits for open writers, and every later writer would queue behind it. So locks on the application's
tables are requested with a short time limit, again and again.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import psycopg2
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import Blocker, CaptureBlocked, MissingRights, SourceBusy, SourceInUse
from dyda.model.relation import Relation
from dyda.sources.adapter import Waiting
from dyda.sources.capture.role import (
    ADD_AS_SUPERUSER,
    ATTACHING,
    FUNCTIONS,
    drop_capture_role,
    give_to_capture_role,
    give_what_is_new,
    installed_by_another,
    refuse_strangers,
)
from dyda.sources.capture.state import is_complete, read_state
from dyda.sources.catalog import fingerprint, hierarchies, oids_of
from dyda.sources.connection import FRESH, WRITING, Sessions, load_sql, value
from dyda.sources.reading.rights import ReaderRole, find_access, give_up_reader_role, grant_reading, install_reader
from dyda.sources.settings import Consumer
from dyda.sources.wal.slot import create_slot, drop_slot, require_logical

__all__ = ["attach", "detach", "release", "stand_back"]

LOCK_TIMEOUT = "80ms"
"""How long a writer may have to queue behind us."""

CAPTURE = "SELECT dyda.capture_table(oid, %s) FROM pg_class WHERE oid = %s"
RELEASE = "SELECT dyda.release_table(%s)"
SUSPEND = "SELECT dyda.suspend_table(%s); SELECT dyda.mark_gap()"

SHARED = {
    "columns": (
        "dyda.columns(oid[]) RETURNS TABLE (relid oid, name text, number integer, not_null boolean, generated text,"
        " bare text, declared text, builtin boolean)"
    ),
    "fingerprint": (
        "dyda.fingerprints(oid[]) RETURNS TABLE (relid oid, lasting text, passing text, captured boolean,"
        " writers bigint[])"
    ),
}
"""Queries that both we and the event triggers run, the latter as functions: one text for both."""


def attach(
    sessions: Sessions,
    consumer: Consumer,
    relations: Iterable[Relation],
    waiting: Waiting | None = None,
    attached: Callable[[Relation], None] = lambda relation: None,
) -> None:
    """Capture the relations and everything below them; calls `attached` for each. Changes nothing that is in place.

    First the log and the event triggers, committed; then the tables, one transaction each, parents before children:
    the event trigger attaches whatever is created below an attached parent from then on.
    """
    wanted = list(relations)
    with contextlib.suppress(MissingRights), sessions.transaction(FRESH) as cursor:
        consumer.refuse_rival(read_state(cursor, consumer).project)  # also on a standby, where nothing can be installed
    try:
        _strip_a_copy(sessions, consumer)
        _install(sessions, consumer)
        _keep_wal(sessions, waiting)
    except MissingRights:
        missing = _not_in_place(sessions, consumer, wanted)
        if missing == []:
            for relation in wanted:
                attached(relation)
            return  # another role attached, and this one may read
        with sessions.transaction(FRESH) as cursor:
            owner = installed_by_another(cursor)
            role = ReaderRole.find(cursor).me
        if missing is None or owner is None:
            raise
        names = ", ".join(str(relation.name) for relation in missing)
        raise MissingRights(
            f"{names}: {role} may not add tables to capture, which belongs to {owner}",
            ADD_AS_SUPERUSER.format(role=role),
            sessions.settings.name,
            frozenset(str(relation.name) for relation in missing),
        ) from None
    _require_reading(sessions, wanted)
    for relation in wanted:
        try:
            _attach(sessions, relation, waiting)
        except MissingRights as error:
            raise MissingRights(error.what, error.remedy, error.source, frozenset({str(relation.name)})) from None
        attached(relation)
    _release_the_forgotten(sessions)


def _attach(sessions: Sessions, relation: Relation, waiting: Waiting | None) -> None:
    root = relation.oid
    if sessions.settings.capture == "wal":
        _require_publishable(sessions, relation)
    patiently = partial(_patiently, sessions, waiting=waiting)
    patiently(partial(_watch, relation=relation), root)
    for _ in range(10):  # without event triggers children may appear meanwhile
        with sessions.transaction(FRESH, [relation.name]) as cursor:
            cursor.execute(load_sql("uncaptured"), {"root": root})
            missing, stale, blocked = cursor.fetchone()
        if not missing and not stale and not blocked:
            break
        for relid in missing:
            patiently(_call(CAPTURE, root, relid), relid)
        for relid in stale:
            patiently(_call(RELEASE, relid), relid, any_use=True)
        for relid in blocked:
            patiently(_call(SUSPEND, relid), relid, any_use=True)
    patiently(_call("SELECT dyda.remember(%s)", root), root)
    patiently(partial(_let_read, relation=relation), root)


def _require_publishable(sessions: Sessions, relation: Relation) -> None:
    """A table with such columns, published whole, would make its writers' UPDATE fail."""
    with sessions.transaction(FRESH) as cursor:
        cursor.execute(
            "SELECT string_agg(dyda.unpublishable(t), ', ') FROM dyda.tree(%s) t",
            (relation.oid,),
        )
        (found,) = cursor.fetchone()
    if found is not None:
        raise MissingRights(
            f"{relation.name}: the write-ahead log does not have its generated columns ({found})",
            f'Set capture = "triggers" for source {relation.name.source}.',
            relation.name.source,
        )


def release(sessions: Sessions, relations: Iterable[Relation]) -> None:
    """Stop capturing these relations, and delete their entries from the log."""
    for relation in relations:
        with sessions.transaction(FRESH) as cursor:
            cursor.execute("SELECT relid FROM dyda.member WHERE root = %s", (relation.oid,))
            members = [relid for (relid,) in cursor.fetchall()]
        for relid in members:
            _patiently(sessions, _call(RELEASE, relid), relid, any_use=True)
        with sessions.transaction(WRITING) as cursor:
            cursor.execute("SELECT dyda.be_quiet()")
            for table in ("watched", "holder", "described", "log"):
                cursor.execute(f"DELETE FROM dyda.{table} WHERE root = %s", (relation.oid,))


def stand_back(sessions: Sessions, consumer: Consumer, schema: str, table: str) -> None:
    """Stop capturing the tables above a foreign one: PostgreSQL would refuse statements that write through them.

    Event triggers do that in the transaction that adds the foreign table; without them it is done here.
    """
    with sessions.transaction(FRESH) as cursor:
        (root,) = oids_of(cursor, [(schema, table)])
        if root is None or root not in read_state(cursor, consumer).watched:
            return
        cursor.execute(load_sql("uncaptured"), {"root": root})
        *_, blocked = cursor.fetchone()
    for relid in blocked:
        _patiently(sessions, _call(SUSPEND, relid))


def detach(sessions: Sessions, consumer: Consumer) -> None:
    """Remove everything: triggers first, so that no writer finds the log gone."""
    with sessions.transaction(FRESH) as cursor:
        state = read_state(cursor, consumer)
        cursor.execute(load_sql("leftovers"))
        events, tables = cursor.fetchone()
    consumer.refuse_rival(state.project)
    if state.project is not None and not consumer.is_of_project(state.project):
        raise _in_use(sessions, state.project)
    if events:
        with sessions.transaction(WRITING) as cursor:
            cursor.execute("; ".join(f"DROP EVENT TRIGGER IF EXISTS {name}" for name in events))
    drop_slot(sessions)
    with sessions.transaction(WRITING) as cursor:
        cursor.execute("DROP PUBLICATION IF EXISTS dyda_capture")
    _restore_identities(sessions)
    for relid in tables:
        _patiently(sessions, partial(_strip, relid=relid), relid, any_use=True)
    _patiently(sessions, lambda cursor: cursor.execute(load_sql("remove"), {"functions": [*FUNCTIONS, *ATTACHING]}))
    _patiently(sessions, give_up_reader_role)
    _patiently(sessions, drop_capture_role)


def _require_reading(sessions: Sessions, relations: Sequence[Relation]) -> None:
    """Refuse to capture what this session could not read afterwards."""
    with sessions.transaction(FRESH) as cursor:
        trees = hierarchies(cursor, [relation.oid for relation in relations])
        for relation in [relation for relation in relations if relation.oid in trees]:
            members = trees[relation.oid].members
            find_access(cursor, sessions.settings, members, planned=True, new=True).require(relation.name)


def _let_read(cursor: Cursor, relation: Relation) -> None:
    """Also tables that were captured before there was a reader role, and those whose schema it may not use yet."""
    for tree in hierarchies(cursor, [relation.oid]).values():
        grant_reading(cursor, tree.members)


def _not_in_place(sessions: Sessions, consumer: Consumer, relations: Sequence[Relation]) -> list[Relation] | None:
    """Those not captured for this project, as far as a role that may only read can see; None: nothing is."""
    with sessions.transaction(FRESH) as cursor:
        state = read_state(cursor, consumer)
        consumer.refuse_rival(state.project)
        if not state.attached or not consumer.is_meant(state.project):
            return None
        found = fingerprint(cursor, [relation.name for relation in relations])
    captured = {printed.root for printed in found.values() if printed.captured}
    return [relation for relation in relations if relation.oid not in captured & state.watched.keys()]


def _strip_a_copy(sessions: Sessions, consumer: Consumer) -> None:
    """Triggers in a copy of another source's database are inactive.

    Creating them again waits for the writers whose rows they did not capture (rule C6).
    """
    with sessions.transaction(WRITING) as cursor:
        refuse_strangers(cursor, consumer)
        tables = []
        if is_complete(cursor):
            cursor.execute("SELECT at_home, (SELECT project FROM dyda.consumer) FROM dyda.standing()")
            at_home, owner = cursor.fetchone()
            if not at_home and consumer.is_of_project(owner):
                cursor.execute(load_sql("leftovers"))
                _, tables = cursor.fetchone()
    for relid in tables:
        _patiently(sessions, partial(_strip, relid=relid))


def _install(sessions: Sessions, consumer: Consumer) -> None:
    """The schema, the log, the functions, the consumer, and the event triggers if the role may create them."""
    with sessions.transaction(WRITING) as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(1685677153, 2)")
        if value(cursor, "SELECT to_regclass('dyda.view_version') IS NOT NULL"):
            raise SourceInUse(
                f"source {consumer.source}: its database is a DyDa warehouse",
                "Use separate databases for the source and the warehouse.",
            )
        refuse_strangers(cursor, consumer)
        if value(cursor, "SELECT to_regnamespace('dyda') IS NULL"):
            try:
                cursor.execute("CREATE SCHEMA dyda")
            except psycopg2.errors.InsufficientPrivilege:
                raise MissingRights(
                    f"source {sessions.settings.name}: the role may not create schema dyda",
                    "`dyda sources check` prints the GRANT to run.",
                    sessions.settings.name,
                ) from None
        complete = is_complete(cursor)
        cursor.execute(load_sql("tables"))
        cursor.execute("SELECT project FROM dyda.consumer")
        found = cursor.fetchone()
        if found is not None and not consumer.is_of_project(found[0]):
            raise _in_use(sessions, found[0])
        values = {"consumer": consumer.text, "limit": sessions.settings.log_limit}
        if found is None:
            cursor.execute("INSERT INTO dyda.consumer (project, log_limit) VALUES (%(consumer)s, %(limit)s)", values)
        else:
            consumer.refuse_rival(found[0])
            cursor.execute(
                "UPDATE dyda.consumer SET project = %(consumer)s, log_limit = %(limit)s"
                " WHERE (project, log_limit) <> (%(consumer)s, %(limit)s)",
                values,
            )
        for part in ("readable", "capture"):
            cursor.execute(load_sql(part))
        # Where parts were missing, or the source had another name, rows may have been lost without being counted.
        if not complete or (found is not None and not consumer.is_meant(found[0])):
            cursor.execute("SELECT dyda.forward_gap()")
        for name, signature in SHARED.items():
            cursor.execute(_shared(name, signature))
        for part in ("observing", "events", "guarding", "reading"):
            cursor.execute(load_sql(part))
        if sessions.settings.capture == "wal":
            require_logical(cursor, sessions.settings.name)
        cursor.execute(load_sql("wal" if sessions.settings.capture == "wal" else "no_wal"))
        cursor.execute(load_sql("private"), {"functions": [*FUNCTIONS, *ATTACHING]})
        give_what_is_new(cursor, sessions.settings.name)
    with contextlib.suppress(MissingRights, SourceBusy):
        _patiently(sessions, partial(_install_reader, source=sessions.settings.name))
    # At a source that an older DyDa attached, busy writers may prevent the change of owner: next time, then.
    with contextlib.suppress(MissingRights, SourceBusy):
        _patiently(sessions, partial(_give_away, source=sessions.settings.name))
    with contextlib.suppress(MissingRights), sessions.transaction(WRITING) as cursor:
        cursor.execute(load_sql("event_triggers"))


def _keep_wal(sessions: Sessions, waiting: Waiting | None) -> None:
    """The slot, before any table is published (C6); or none, and the tables as they were."""
    if sessions.settings.capture == "wal":
        if create_slot(sessions, waiting):
            with sessions.transaction(WRITING) as cursor:
                cursor.execute("SELECT dyda.forward_gap()")
        return
    drop_slot(sessions)
    _restore_identities(sessions)


def _restore_identities(sessions: Sessions) -> None:
    with sessions.transaction(FRESH) as cursor:
        if value(cursor, "SELECT to_regclass('dyda.identity') IS NULL"):
            return
        cursor.execute("SELECT i.relid FROM dyda.identity i")
        tables = [relid for (relid,) in cursor.fetchall()]
    for relid in tables:
        _patiently(sessions, partial(_restore_identity, relid=relid), relid, any_use=True)


def _restore_identity(cursor: Cursor, relid: int) -> None:
    cursor.execute("SELECT dyda.be_quiet(); SELECT dyda.withdraw(%s)", (relid,))


def _give_away(cursor: Cursor, source: str) -> None:
    """With a very short limit: a writer that has to wait for the log leaves a gap."""
    cursor.execute("SET LOCAL lock_timeout = '5ms'")
    give_to_capture_role(cursor, source, last=True)


def _install_reader(cursor: Cursor, source: str) -> None:
    cursor.execute("SELECT pg_advisory_xact_lock(1685677153, 2)")
    install_reader(cursor, source)


def _shared(name: str, signature: str) -> sql.Composable:
    """A function whose body is the query sql/NAME.sql. Its parameter, the only one, is an array of oids.

    plpgsql keeps its plan for the session: planning takes several times as long as the query. The settings make it use
    the catalogs' indexes, which is right for a few tables, however many PostgreSQL expects.
    """
    query = re.sub(r"%\(relids\)s", "$1", load_sql(name)).replace("%%", "%")
    return sql.SQL(
        "CREATE OR REPLACE FUNCTION " + signature + " LANGUAGE plpgsql STABLE SECURITY DEFINER"
        " SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET jit = off"
        " SET plan_cache_mode = force_generic_plan"
        " SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS {}"
    ).format(sql.Literal(f"#variable_conflict use_column\nBEGIN RETURN QUERY\n{query};\nEND"))


def _watch(cursor: Cursor, relation: Relation) -> None:
    """Known to the event trigger and captured in one transaction."""
    cursor.execute(
        "INSERT INTO dyda.watched (root, schema_name, table_name) VALUES (%s, %s, %s) ON CONFLICT (root) DO UPDATE"
        " SET schema_name = excluded.schema_name, table_name = excluded.table_name"
        " WHERE (watched.schema_name, watched.table_name) <> (excluded.schema_name, excluded.table_name)",
        (relation.oid, relation.name.schema, relation.name.table),
    )
    # A relation that the log still mentions may be one that a reader has yet to hear of.
    cursor.execute(
        "DELETE FROM dyda.watched w WHERE (w.schema_name, w.table_name) = (%s, %s) AND w.root <> %s"
        " AND NOT EXISTS (SELECT FROM dyda.log l WHERE l.root = w.root AND l.op IN ('S', 'T') AND l.op = 'S')",
        (relation.name.schema, relation.name.table, relation.oid),
    )
    holder = (relation.name.schema, relation.name.table, relation.oid)
    if not value(cursor, "SELECT (%s::text, %s::text, %s::oid) IN (SELECT h.* FROM dyda.holder h)", holder):
        cursor.execute(
            "INSERT INTO dyda.holder (schema_name, table_name, root) VALUES (%s, %s, %s)"
            " ON CONFLICT (schema_name, table_name) DO UPDATE SET root = excluded.root",
            holder,
        )
    cursor.execute(CAPTURE, (relation.oid, relation.oid))


def _release_the_forgotten(sessions: Sessions) -> None:
    """Stop capturing tables that lost a watched name to another one. Those in use now wait for the next attach."""
    with sessions.transaction(WRITING) as cursor:
        cursor.execute("DELETE FROM dyda.described d WHERE d.root NOT IN (SELECT w.root FROM dyda.watched w)")
        cursor.execute("DELETE FROM dyda.member m WHERE m.root = 0")
        cursor.execute(
            "DELETE FROM dyda.holder h WHERE (h.schema_name, h.table_name) NOT IN"
            " (SELECT w.schema_name, w.table_name FROM dyda.watched w)"
        )
        cursor.execute("SELECT m.relid FROM dyda.member m WHERE m.root NOT IN (SELECT w.root FROM dyda.watched w)")
        forgotten = [relid for (relid,) in cursor.fetchall()]
    for relid in forgotten:
        with contextlib.suppress(SourceBusy), sessions.transaction(WRITING) as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
            cursor.execute(RELEASE, (relid,))


def _call(statement: str, *values: object) -> Callable[[Cursor], None]:
    return lambda cursor: cursor.execute(statement, values)


def _strip(cursor: Cursor, relid: int) -> None:
    """Like dyda.release_table, for a source where that function may already be gone."""
    cursor.execute(load_sql("strip"), {"relid": relid})
    for (statement,) in cursor.fetchall():
        cursor.execute(statement)


def _patiently(
    sessions: Sessions,
    step: Callable[[Cursor], object],
    relid: int | None = None,
    *,
    any_use: bool = False,
    waiting: Waiting | None = None,
) -> None:
    """Run `step` in a transaction with a short lock_timeout, again and again: until `waiting` raises, or without that
    until attach_timeout. It locks table `relid`; with `any_use` even readers keep it from doing so."""
    deadline = time.monotonic() + sessions.settings.attach_timeout
    pause = 0.02
    while True:
        try:
            with sessions.transaction(WRITING) as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                step(cursor)
            return
        except SourceBusy as busy:
            over = time.monotonic() + pause > deadline
            blocked = _blocked(sessions, relid, any_use, busy) if relid is not None and (over or waiting) else None
            if waiting is not None and blocked is not None:
                waiting(blocked)
            elif over:
                raise blocked or busy from None
            time.sleep(pause)
            pause = min(pause * 2, 1.0)


def _blocked(sessions: Sessions, relid: int, any_use: bool, busy: SourceBusy) -> CaptureBlocked | None:
    """Who is in the way, as far as the role may see it; None: the table is gone."""
    with sessions.transaction(FRESH) as cursor:
        cursor.execute(load_sql("blockers"), {"relid": relid, "any_use": any_use})
        rows = cursor.fetchall()
    if not rows:
        return None
    schema, name = rows[0][:2]
    blockers = [Blocker(*row[2:]) for row in rows if row[2] is not None or row[6] is not None]
    return CaptureBlocked(sessions.settings.name, f"{sessions.settings.name}.{schema}.{name}", blockers, busy.why)


def _in_use(sessions: Sessions, other: str) -> SourceInUse:
    return SourceInUse(
        f"source {sessions.settings.name} already belongs to another project ({other})",
        "Run `dyda sources detach` in that project, or use another database: a log has only one reader.",
    )
