"""Putting capture into a source and taking it out again (rules C2, C5, C6, C7).

Locks on the application's tables are asked for with a short time limit and again later: CREATE TRIGGER waits behind
open writers, and meanwhile every later writer would queue behind it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg2
from psycopg2 import sql

from dyda.errors import MissingRights, SourceBusy, SourceInUse
from dyda.model.relation import Relation
from dyda.sources.catalog import UNCAPTURED, fingerprint, stand_under
from dyda.sources.connection import FRESH, WRITING, Sessions, load_sql
from dyda.sources.ownership import drop_capture_role, give_to_capture_role, refuse_strangers
from dyda.sources.settings import Consumer
from dyda.sources.state import is_complete, read_state

__all__ = ["attach", "detach", "release", "stand_back"]

LOCK_TIMEOUT = "80ms"
"""How long a writer may have to queue behind us."""

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
"""Queries that we ask from outside and event triggers ask inside a source's transaction: one text for both."""

Result = TypeVar("Result")


def attach(sessions: Sessions, consumer: Consumer, relations: Iterable[Relation]) -> None:
    """Capture the relations and everything below them. Does nothing where all is in place already.

    First the log and the event triggers, committed; then the tables, one transaction each, parents before children:
    whatever is created below an attached parent from then on is attached by the event trigger.
    """
    wanted = list(relations)
    with contextlib.suppress(MissingRights), sessions.transaction(FRESH) as cursor:
        consumer.refuse_rival(read_state(cursor).project)  # also at a standby, where nothing can be installed
    try:
        _strip_a_copy(sessions, consumer)
        _install(sessions, consumer)
    except MissingRights:
        if _is_in_place(sessions, consumer, wanted):
            return  # another role attached, and this one may read
        raise
    for relation in wanted:
        _patiently(sessions, partial(_watch, relation=relation))
        for _ in range(10):  # without event triggers children may appear meanwhile
            with sessions.transaction(FRESH, [relation.name]) as cursor:
                cursor.execute(load_sql("uncaptured"), {"root": relation.oid})
                missing, stale, blocked = cursor.fetchone()
            if not missing and not stale and not blocked:
                break
            for relid in missing:
                _patiently(sessions, partial(_capture, relid=relid, root=relation.oid))
            for relid in stale:
                _patiently(sessions, partial(_release, relid=relid))
            for relid in blocked:
                _patiently(sessions, partial(_suspend, relid=relid))
        _patiently(sessions, partial(_remember, relation=relation))
    _release_the_forgotten(sessions)


def release(sessions: Sessions, relations: Iterable[Relation]) -> None:
    """Stop capturing these relations; their entries in the log are of no use any more."""
    for relation in relations:
        with sessions.transaction(FRESH) as cursor:
            cursor.execute("SELECT relid FROM dyda.member WHERE root = %s", (relation.oid,))
            members = [relid for (relid,) in cursor.fetchall()]
        for relid in members:
            _patiently(sessions, partial(_release, relid=relid))
        with sessions.transaction(WRITING) as cursor:
            cursor.execute("SELECT dyda.be_quiet()")
            for table in ("watched", "holder", "described", "log"):
                cursor.execute(f"DELETE FROM dyda.{table} WHERE root = %s", (relation.oid,))


def stand_back(sessions: Sessions, schema: str, table: str) -> None:
    """Let go of the tables above a foreign one, whose statements fail if their rows are to be captured.

    Event triggers do that in the transaction that brings the foreign table; where there are none, it is done here.
    """
    with sessions.transaction(FRESH) as cursor:
        (root,) = stand_under(cursor, [(schema, table)])
        if root is None or root not in read_state(cursor).watched:
            return
        cursor.execute(load_sql("uncaptured"), {"root": root})
        *_, blocked = cursor.fetchone()
    for relid in blocked:
        _patiently(sessions, partial(_suspend, relid=relid))


def detach(sessions: Sessions, consumer: Consumer) -> None:
    """Remove everything: triggers first, so that no writer meets a log that is being dropped."""
    with sessions.transaction(FRESH) as cursor:
        state = read_state(cursor)
        cursor.execute(load_sql("leftovers"))
        events, tables = cursor.fetchone()
    consumer.refuse_rival(state.project)
    if state.project is not None and not consumer.is_of_project(state.project):
        raise _in_use(sessions, state.project)
    if events:
        with sessions.transaction(WRITING) as cursor:
            cursor.execute("; ".join(f"DROP EVENT TRIGGER IF EXISTS {name}" for name in events))
    for relid in tables:
        _patiently(sessions, partial(_strip, relid=relid))
    _patiently(sessions, lambda cursor: cursor.execute(load_sql("remove")))
    _patiently(sessions, drop_capture_role)


def _is_in_place(sessions: Sessions, consumer: Consumer, relations: Sequence[Relation]) -> bool:
    """Whether all of them are captured for this project, as far as a role can tell that may only read."""
    with sessions.transaction(FRESH) as cursor:
        state = read_state(cursor)
        consumer.refuse_rival(state.project)
        if not state.attached or not consumer.is_meant(state.project):
            return False
        found = fingerprint(cursor, [relation.name for relation in relations])
    captured = {printed.root for printed in found.values() if not printed.lasting.startswith(UNCAPTURED)}
    return all(relation.oid in captured and relation.oid in state.watched for relation in relations)


def _strip_a_copy(sessions: Sessions, consumer: Consumer) -> None:
    """Triggers that came along with a copy of another source's database rest there.

    Put on anew, they wait for the writers whose rows they have let pass (rule C6).
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
        cursor.execute("SELECT to_regclass('dyda.view_version') IS NOT NULL")
        if cursor.fetchone()[0]:
            raise SourceInUse(
                f"source {consumer.source}: its database is a warehouse of DyDa's",
                "A source and a warehouse need databases of their own.",
            )
        refuse_strangers(cursor, consumer)
        cursor.execute("SELECT to_regnamespace('dyda') IS NULL")
        if cursor.fetchone()[0]:
            try:
                cursor.execute("CREATE SCHEMA dyda")
            except psycopg2.errors.InsufficientPrivilege:
                raise MissingRights(
                    f"source {sessions.settings.name}: the role may not create schema dyda",
                    "Run `dyda sources check`: it prints the GRANT that is missing.",
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
        cursor.execute(load_sql("capture"))
        # What was missing may have cost rows that not even a gap could tell of, and so may a source of another name.
        if not complete or (found is not None and not consumer.is_meant(found[0])):
            cursor.execute("SELECT dyda.forward_gap()")
        for name, signature in SHARED.items():
            cursor.execute(_shared(name, signature))
        for part in ("observing", "events", "guarding", "reading"):
            cursor.execute(load_sql(part))
    # At a source that an older DyDa attached, writers may keep the log from changing hands: next time, then.
    with contextlib.suppress(MissingRights, SourceBusy):
        _patiently(sessions, partial(_give_away, source=sessions.settings.name))
    with contextlib.suppress(MissingRights), sessions.transaction(WRITING) as cursor:
        cursor.execute(load_sql("event_triggers"))


def _give_away(cursor: Any, source: str) -> None:
    """For a moment only: a writer that waits for the log leaves a gap."""
    cursor.execute("SET LOCAL lock_timeout = '5ms'")
    give_to_capture_role(cursor, source)


def _shared(name: str, signature: str) -> sql.Composable:
    """A function whose body is the query sql/NAME.sql. Its parameter, the only one, is an array of oids.

    plpgsql keeps the plan for a session; planning takes several times as long as the query itself. One that asks for a
    few tables goes by the catalogs' indexes, however many tables PostgreSQL expects.
    """
    query = re.sub(r"%\(relids\)s", "$1", load_sql(name)).replace("%%", "%")
    return sql.SQL(
        "CREATE OR REPLACE FUNCTION " + signature + " LANGUAGE plpgsql STABLE SECURITY DEFINER"
        " SET search_path = pg_catalog, pg_temp SET standard_conforming_strings = on SET jit = off"
        " SET plan_cache_mode = force_generic_plan"
        " SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS {}"
    ).format(sql.Literal(f"#variable_conflict use_column\nBEGIN RETURN QUERY\n{query};\nEND"))


def _watch(cursor: Any, relation: Relation) -> None:
    """Known to the event trigger and captured in one transaction."""
    cursor.execute(
        "INSERT INTO dyda.watched (root, schema_name, table_name) VALUES (%s, %s, %s) ON CONFLICT (root) DO UPDATE"
        " SET schema_name = excluded.schema_name, table_name = excluded.table_name"
        " WHERE (watched.schema_name, watched.table_name) <> (excluded.schema_name, excluded.table_name)",
        (relation.oid, relation.name.schema, relation.name.table),
    )
    # What the log still speaks of may be meant by somebody who has yet to read it.
    cursor.execute(
        "DELETE FROM dyda.watched w WHERE (w.schema_name, w.table_name) = (%s, %s) AND w.root <> %s"
        " AND NOT EXISTS (SELECT FROM dyda.log l WHERE l.root = w.root AND l.op IN ('S', 'T') AND l.op = 'S')",
        (relation.name.schema, relation.name.table, relation.oid),
    )
    holder = (relation.name.schema, relation.name.table, relation.oid)
    cursor.execute("SELECT (%s::text, %s::text, %s::oid) IN (SELECT h.* FROM dyda.holder h)", holder)
    if not cursor.fetchone()[0]:
        cursor.execute(
            "INSERT INTO dyda.holder (schema_name, table_name, root) VALUES (%s, %s, %s)"
            " ON CONFLICT (schema_name, table_name) DO UPDATE SET root = excluded.root",
            holder,
        )
    _capture(cursor, relation.oid, relation.oid)


def _remember(cursor: Any, relation: Relation) -> None:
    cursor.execute("SELECT dyda.remember(%s)", (relation.oid,))


def _release_the_forgotten(sessions: Sessions) -> None:
    """Tables that lost a watched name to another one are captured for nobody. If they are in use now: next time."""
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
            _release(cursor, relid)


def _capture(cursor: Any, relid: int, root: int) -> None:
    cursor.execute("SELECT dyda.capture_table(oid, %s) FROM pg_class WHERE oid = %s", (root, relid))


def _release(cursor: Any, relid: int) -> None:
    cursor.execute("SELECT dyda.release_table(%s)", (relid,))


def _suspend(cursor: Any, relid: int) -> None:
    cursor.execute("SELECT dyda.suspend_table(%s)", (relid,))
    cursor.execute("SELECT dyda.mark_gap()")


def _strip(cursor: Any, relid: int) -> None:
    """Like dyda.release_table, for a source where that function may already be gone."""
    cursor.execute(load_sql("strip"), {"relid": relid})
    for (statement,) in cursor.fetchall():
        cursor.execute(statement)


def _patiently(sessions: Sessions, step: Callable[[Any], Result]) -> Result:
    """Run `step` in a transaction with a short lock_timeout, again and again until attach_timeout."""
    deadline = time.monotonic() + sessions.settings.attach_timeout
    pause = 0.02
    while True:
        try:
            with sessions.transaction(WRITING) as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
                return step(cursor)
        except SourceBusy:
            if time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)
            pause = min(pause * 2, 1.0)


def _in_use(sessions: Sessions, other: str) -> SourceInUse:
    return SourceInUse(
        f"source {sessions.settings.name} already belongs to another project ({other})",
        "Detach it there with `dyda sources detach`, or use another database: one log has one consumer.",
    )
