"""Every write to the warehouse, by the one process that may: installations, and what else moves in the catalog."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import pyarrow as pa
from psycopg2 import sql
from psycopg2.extras import Json

from dyda import faults
from dyda.cursor import Connection, Cursor
from dyda.errors import DydaError, UnknownView
from dyda.model.bag import Bag
from dyda.model.cause import Cause
from dyda.model.event import (
    DaemonBlocked,
    DaemonUnblocked,
    Event,
    MessageApproved,
    MessageRejected,
    SourceBack,
    SourceDetached,
    SourceLost,
    UnitAborted,
    ViewBuilding,
    ViewDropped,
    ViewFresh,
    ViewResync,
    ViewStale,
    message_moved,
    view_moved,
)
from dyda.model.message import MessageState, UpdateMessage
from dyda.model.operator_state import State
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.warehouse.catalog.cause_codec import cause_from_json, reason_of, stored_cause
from dyda.warehouse.catalog.codec import layout_from_json, name_to_text, view_columns_from_json
from dyda.warehouse.catalog.events import forget_old_events, save_events
from dyda.warehouse.catalog.records import EventRecord, RelationState, RequestRecord, SourceState
from dyda.warehouse.catalog.stored_views import known_state
from dyda.warehouse.connection import load, translated
from dyda.warehouse.extents.extent import extent_table
from dyda.warehouse.extents.forms import is_outdated
from dyda.warehouse.extents.published_view import Reader, check_names
from dyda.warehouse.extents.staging import Staging, create_staging, drop_staging
from dyda.warehouse.fenced_session import FencedSession
from dyda.warehouse.hidden_names import is_hidden
from dyda.warehouse.hidden_views import drop_all_hidden, drop_hidden, show
from dyda.warehouse.install import carry_out, save_relation, save_source
from dyda.warehouse.installation import Installation, ViewChange
from dyda.warehouse.message_queue import MessageQueue
from dyda.warehouse.states import combine
from dyda.warehouse.states.combine import Combined
from dyda.warehouse.states.lookup import state_rows
from dyda.warehouse.states.regroup import regroup
from dyda.warehouse.states.tables import StoredState
from dyda.warehouse.transitions import drifted
from dyda.warehouse.view_installer import STOPPED

__all__ = ["Writer"]

PATIENCE = 5.0
"""Seconds for which an installation tries to lock a view that is being read; then other units get their turn."""

NOTE_AGAIN = 1.0
"""Seconds after which an unchanged poll is saved again; `fresh` needs one within ten."""


class Writer(FencedSession):
    """Made by `Warehouse.lock()`; a context manager that gives the lock back. Threads take turns."""

    def __init__(self, connection: Connection, url: str, schema: str, fence: int) -> None:
        super().__init__(connection, url, fence)
        self._schema = schema
        self._queue = MessageQueue(self)
        self._stagings: dict[int, Staging] = {}
        self._noted: dict[str, tuple[tuple[bool, str | None], float]] = {}
        self._obstacle: str | None = None
        self._phases: dict[int, dict[str, float]] = {}
        self.last_unit: int | None = None
        """The number of the unit that was installed last."""
        self.patience = PATIENCE
        self.outlet: Callable[[EventRecord], None] = lambda event: None
        """Gets each event, after the transaction in which it happened."""

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    # --- events

    @contextlib.contextmanager
    def _telling(self) -> Iterator[tuple[Cursor, list[Event]]]:
        """A transaction, and what happens in it: that is saved with it, and told once it is committed."""
        events: list[Event] = []
        with self.turn:
            with self.writing() as cursor:
                yield cursor, events
                saved = save_events(cursor, events)
            self._pass_on(saved)

    def _pass_on(self, events: Sequence[EventRecord]) -> None:
        for event in events:
            self.outlet(event)

    def tell(self, *events: Event) -> None:
        """Something has happened that is no change of the catalog."""
        with self._telling() as (_, told):
            told.extend(events)

    def note_notified(self, target: str, event: int) -> None:
        """The target was told of all events up to this one."""
        with self.writing() as cursor:
            cursor.execute(
                "INSERT INTO dyda.notified (target, event) VALUES (%s, %s)"
                " ON CONFLICT (target) DO UPDATE SET event = excluded.event, at = now()",
                (target, event),
            )

    def forget_old_events(self) -> None:
        """Deletes what is older than events are kept, or more than are kept."""
        with self.writing() as cursor:
            forget_old_events(cursor)

    def note_overdue(self, events: Sequence[ViewStale | ViewFresh]) -> None:
        """These views have become, or are no longer, older than they may be."""
        with self._telling() as (cursor, told):
            for event in events:
                overdue = isinstance(event, ViewStale)
                cursor.execute(
                    "UPDATE dyda.view SET overdue_since = CASE WHEN %s THEN now() END WHERE name = %s"
                    " AND (overdue_since IS NULL) = %s",
                    (overdue, event.view, overdue),
                )
                if cursor.rowcount:
                    told.append(event)

    # --- the queue

    def receive(self, source: str, messages: Sequence[UpdateMessage]) -> dict[int, int]:
        """Puts messages into the queue in this order, except those that are there already or in every extent.

        Returns the queue's number of each transaction in it.
        """
        return self._queue.receive(source, messages)

    def era(self, source: str) -> int:
        """As long as this stays, no message of the source gets another number."""
        return self._queue.era(source)

    def has_received(self, source: str, xids: AbstractSet[int]) -> bool:
        """Whether all of these transactions are in the queue."""
        return self._queue.has(source, xids)

    def mark_messages(
        self, ids: Sequence[int], state: MessageState, cause: Cause | None = None, unit: int | None = None
    ) -> None:
        """A new state of messages: running (in `unit`), quarantined with its cause, waiting again, …"""
        with self._telling() as (cursor, told):
            cursor.execute(
                "UPDATE dyda.message m SET state = %s, cause = %s, reason = %s, unit = %s FROM dyda.message o"
                " WHERE m.id = ANY(%s) AND o.id = m.id RETURNING m.id, m.source, o.state, o.cause",
                (state, stored_cause(cause), reason_of(cause), unit, list(ids)),
            )
            for number, source, before, why in sorted(cursor.fetchall(), key=lambda row: row[0]):
                if (before, cause_from_json(why)) != (state, cause):
                    told += message_moved(number, source, MessageState(before), state, cause)

    def approve_message(self, number: int, rejected: Sequence[str] = ()) -> None:
        """An operator has decided about the message: it waits for its turn and is not stopped again. `rejected`: the
        views that break because of it."""
        with self._telling() as (cursor, told):
            cursor.execute(
                "UPDATE dyda.message SET approved = true, state = 'waiting', cause = NULL, reason = NULL WHERE id = %s"
                " RETURNING source",
                (number,),
            )
            for (source,) in cursor.fetchall():
                approved = MessageApproved(number, source)
                told.append(MessageRejected(number, source, tuple(rejected)) if rejected else approved)

    # --- views

    def create_view(self, name: str) -> None:
        """Announces a view that is being built; its first installation adds version, extent and positions."""
        check_names(name, [])
        with self._telling() as (cursor, told):
            cursor.execute(
                "INSERT INTO dyda.view (name, state) VALUES (%s, 'building') ON CONFLICT (name) DO NOTHING", (name,)
            )
            if cursor.rowcount:
                told.append(ViewBuilding(name))

    def drop_view(self, name: str) -> None:
        """Drops the view with its rows, history and positions, in one transaction."""
        with self._telling() as (cursor, told):
            drop_hidden(cursor, name)
            cursor.execute("SELECT id FROM dyda.extent WHERE view = %s", (name,))
            for (number,) in cursor.fetchall():
                Reader(self._schema, name).retire(cursor, number, self.patience)
                cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(extent_table(number)))
            cursor.execute("DELETE FROM dyda.view WHERE name = %s", (name,))
            if cursor.rowcount == 0:
                raise UnknownView(f"there is no view {name}")
            told.append(ViewDropped(name))

    def outdated_extents(self) -> list[str]:
        """Views whose table has not the form that it would get now: made by an older version, or before a key of the
        view's rows was known or something was declared to find them by."""
        with self.computing() as cursor:
            cursor.execute(load("view_forms.sql"))
            return [
                view
                for view, form, key, columns, layout in cursor.fetchall()
                if is_outdated(form, key, view_columns_from_json(columns), layout_from_json(layout))
            ]

    def renew_extent(self, view: str) -> None:
        """Moves the view's rows to a new table. Readers wait only while they are switched over to it."""
        self.install(Installation((ViewChange(view, renewed=True),)), patience=0)

    def show_hidden(self, view: str, patience: float) -> None:
        """What a lane has built and that has caught up is the view from now on; `patience` is for its readers."""
        with self._telling() as (cursor, told):
            told += show(cursor, self._schema, view, patience)

    def drop_hidden(self, view: str | None = None) -> None:
        """What lanes have built for the view, or for all of them."""
        with self.writing() as cursor:
            if view is None:
                drop_all_hidden(cursor)
            else:
                drop_hidden(cursor, view)

    def set_state(self, view: str, state: ViewState, cause: Cause | None = None) -> None:
        """A new state of a view, and its cause."""
        with self._telling() as (cursor, told):
            if state in STOPPED:
                cursor.execute(load("stop_view.sql"), {"view": view})
            cursor.execute(
                "UPDATE dyda.view v SET state = %(state)s, cause = %(cause)s, reason = %(reason)s,"
                " earlier = CASE WHEN %(state)s = 'broken' THEN NULL ELSE v.earlier END FROM dyda.view o"
                " WHERE v.name = %(view)s AND o.name = v.name RETURNING o.state, o.cause",
                {"state": state, "cause": stored_cause(cause), "reason": reason_of(cause), "view": view},
            )
            row = cursor.fetchone()
            if row is None:
                raise UnknownView(f"there is no view {view}")
            moved = view_moved(view, ViewState(row[0]), cause_from_json(row[1]), state, cause)
            if moved is not None and not is_hidden(view):
                told.append(moved)

    def keep_program(self, view: str, program: str) -> None:
        """Saves the fingerprint of a version that was built before fingerprints were recorded."""
        with self.writing() as cursor:
            cursor.execute(
                "UPDATE dyda.view_version SET program = %s WHERE view = %s AND program IS NULL"
                " AND version = (SELECT version FROM dyda.view WHERE name = %s)",
                (program, view, view),
            )

    def dependents(self, view: str) -> list[str]:
        """Relations that users have built on the view."""
        with self.reading() as cursor:
            return Reader(self._schema, view).dependents(cursor)

    # --- sources

    def note_source(self, name: str, *, reachable: bool, error: str | None = None) -> None:
        """The result of a poll. Most find nothing new: that is saved only once in a while."""
        noted = (reachable, error)
        now = time.monotonic()
        before = self._noted.get(name)
        if before is not None and before[0] == noted and now - before[1] < NOTE_AGAIN:
            return
        state = SourceState(name, reachable=reachable, error=error or "", polled=reachable)
        if before is not None and before[0][0] == reachable:
            self.save_sources([state])
        else:
            self._note_reach(state, error)
        self._noted[name] = (noted, now)

    def reaches(self, name: str) -> bool | None:
        """Whether the source answered the last poll; None: it was not asked yet."""
        noted = self._noted.get(name)
        return None if noted is None else noted[0][0]

    def _note_reach(self, state: SourceState, error: str | None) -> None:
        """The source is lost, or back, unless the catalog knows that already."""
        with self._telling() as (cursor, told):
            cursor.execute("SELECT reachable FROM dyda.source WHERE name = %s", (state.name,))
            row = cursor.fetchone()
            reached = None if row is None else row[0]
            save_source(cursor, state)
            if state.reachable and reached is False:
                told.append(SourceBack(state.name))
            elif not state.reachable and reached is not False:
                told.append(SourceLost(state.name, error or "it does not answer"))

    def save_sources(self, states: Sequence[SourceState]) -> None:
        with self.writing() as cursor:
            for state in states:
                save_source(cursor, state)

    def account_for(
        self,
        owing: Mapping[str, Cause],
        held: Iterable[str],
        sources: Sequence[SourceState],
        void: Iterable[str],
        drifts: Iterable[Cause] = (),
    ) -> None:
        """Records drift, once: the views `owing` are to be rebuilt, each for its cause, and so are the `held` ones when
        they are released; the sources count as seen. Sources that lost transactions (`void`) lose their queue."""
        with self._telling() as (cursor, told):
            told += drifted([*drifts, *owing.values()])
            for view, cause in owing.items():
                cursor.execute(
                    "UPDATE dyda.view SET state = 'resync', cause = %s, reason = %s WHERE name = %s",
                    (stored_cause(cause), reason_of(cause), view),
                )
                if not is_hidden(view):
                    told.append(ViewResync(view, cause))
            cursor.execute(
                "UPDATE dyda.view_version w SET details = w.details || '{\"behind\": true}' FROM dyda.view v"
                " WHERE v.name = ANY(%s) AND w.view = v.name AND w.version = v.version",
                (list(held),),
            )
            for state in sources:
                save_source(cursor, state)
            lost = list(void)
            for source in lost:
                self._queue.forget_source(source)
            cursor.execute("DELETE FROM dyda.message WHERE source = ANY(%s)", (lost,))
            cursor.execute("UPDATE dyda.relation SET position = NULL WHERE source = ANY(%s)", (lost,))

    def save_relations(self, states: Sequence[RelationState]) -> None:
        with self.writing() as cursor:
            for state in states:
                save_relation(cursor, state)

    def save_knowledge(self, document: Mapping[str, Any], file_text: str | None) -> None:
        """The knowledge of a file that is being applied; nothing of it is retired yet."""
        with self.writing() as cursor:
            cursor.execute(
                "UPDATE dyda.project SET knowledge = %s, knowledge_file = %s, knowledge_evolved = false,"
                " knowledge_retired = '[]'",
                (Json(dict(document)), file_text),
            )

    def forget_source(self, name: str) -> None:
        """Removes a source, its relations and its queue from the catalog; positions stay as long as their views."""
        self._queue.forget_source(name)
        with self._telling() as (cursor, told):
            for statement in (
                "DELETE FROM dyda.message WHERE source = %s",
                "DELETE FROM dyda.relation WHERE source = %s",
                "DELETE FROM dyda.source WHERE name = %s",
            ):
                cursor.execute(statement, (name,))
            told.append(SourceDetached(name))

    def note_obstacle(self, what: str | None) -> None:
        """What keeps the holder of the lock from working, for `status`; None: nothing does."""
        if what != self._obstacle:
            with self._telling() as (cursor, told):
                cursor.execute("UPDATE dyda.daemon SET obstacle = %s WHERE fence = %s", (what, self.fence))
                told.append(DaemonUnblocked() if what is None else DaemonBlocked(what))
            self._obstacle = what

    # --- units

    def record_abort(
        self, messages: Sequence[int], reason: str, seconds: float, relations: Iterable[RelationName] = ()
    ) -> None:
        """A unit of these messages was abandoned after so many seconds: it met a schema change of `relations`."""
        with self._telling() as (cursor, told):
            told.append(UnitAborted(tuple(messages), reason, round(seconds, 3)))
            cursor.execute(
                "INSERT INTO dyda.abort (messages, reason, seconds, relations) VALUES (%s, %s, %s, %s)",
                (list(messages), reason, seconds, sorted(map(name_to_text, relations))),
            )

    def staging(self, columns: int) -> Staging:
        """A new staging table with so many columns."""
        with self.writing() as cursor:
            staging = create_staging(cursor, self._url, columns)
        self._stagings[staging.number] = staging
        return staging

    def drop_staging(self, staging: Staging) -> None:
        """For a staging table that no installation uses."""
        with self.turn, translated(self._url):
            if drop_staging(self._connection, staging.number):
                self._stagings.pop(staging.number, None)

    def discard_stagings(self) -> None:
        """Drops the tables that abandoned units have left; not to be called during a unit."""
        for staging in list(self._stagings.values()):
            self.drop_staging(staging)

    # --- states

    def combine(self, view: str, number: int, state: State, entries: pa.Table) -> Combined:
        """What entries (c1 …, n, optionally side and t) make of state `number` of the view, as committed.

        Nothing is written. Several tags with an extreme or a recomputed aggregate are a ValueError.
        """
        with self.computing() as cursor:
            return combine.combine(cursor, self._stored(cursor, view, number, state), entries)

    def recombine(self, view: str, number: int, state: State, entries: pa.Table, groups: pa.Table) -> Combined:
        """The change of `groups` (k1 …), of which `entries` are all rows that are there now. Nothing is written."""
        with self.computing() as cursor:
            return combine.recombine(cursor, self._stored(cursor, view, number, state), entries, groups)

    def combine_alone(self, view: str, state: State, entries: pa.Table) -> Combined:
        """What entries make of a state that holds nothing: all of its rows. Nothing is written."""
        with self.computing() as cursor:
            return combine.combine_alone(cursor, view, state, entries)

    def combine_staging(self, state: State, entries: Staging, *, view: str) -> Staging:
        """A new staging table with the state rows (c1 … as in `state.columns`, n) of all entries of a step.

        `entries` has the columns of an entry; where a set operation has two sides, one more: c<n+1> is 0 for the left
        and 1 for the right. It stays, for the caller to drop.
        """
        with self._filling(state) as (cursor, target):
            combine.combine_staging(cursor, view, state, entries, target)
        return target

    def regroup_staging(self, view: str, number: int, known: State, state: State, places: Sequence[int]) -> Staging:
        """A new staging table with the rows of `state`, made from those of state `number` of the view, as committed.

        `known` is that state; `places` says for each column of `state` but the digest which of its columns it is made
        from, from 0. The caller drops the table, or an installation takes it.
        """
        with self._filling(state) as (cursor, target):
            regroup(cursor, self._stored(cursor, view, number, known), state, places, target)
        return target

    @contextlib.contextmanager
    def _filling(self, state: State) -> Iterator[tuple[Cursor, Staging]]:
        """A new staging table for the rows of `state`, dropped again if they cannot be computed."""
        target = self.staging(len(state.columns))
        try:
            with self.writing() as cursor:
                yield cursor, target
        except BaseException:
            with contextlib.suppress(DydaError):
                self.drop_staging(target)
            raise

    def state_rows(
        self, view: str, number: int, state: State, columns: Sequence[str], key: Sequence[str], values: pa.Table
    ) -> Bag:
        """What state `number` delivers, as committed: the rows whose `key` columns equal a tuple of `values`."""
        with self.computing() as cursor:
            return state_rows(cursor, self._stored(cursor, view, number, state), columns, key, values)

    def _stored(self, cursor: Cursor, view: str, number: int, state: State) -> StoredState:
        stored = known_state(cursor, view, number)
        if stored.state != state:
            raise ValueError(f"state {number} of view {view} is {stored.state}, not {state}")
        return stored

    def install(self, installation: Installation, patience: float | None = None) -> None:
        """Everything or nothing, in one transaction. `patience`: seconds to wait for readers, if not the usual ones."""
        with self.turn:
            with self.writing() as cursor:
                self._write_phases(cursor)
                patience = self.patience if patience is None else patience
                number, happened = carry_out(cursor, installation, self._schema, patience)
            self._phases.clear()
            self.last_unit = number
            self._queue.forget(installation.done)
            faults.point("install.committed")
            for change in installation.changes:
                for staging in (change.staging, *(state.staging for state in change.states)):
                    if staging is not None:
                        self.drop_staging(staging)
            self._pass_on(happened)

    def note_phases(self, unit: int | None, phases: Mapping[str, float]) -> None:
        """What a unit took beyond its own installation, in seconds; saved with a later write."""
        if unit is not None:
            self._phases[unit] = dict(phases)

    def write_phases(self) -> None:
        """Saves what was noted, when there is time."""
        if self._phases:
            with self.writing() as cursor:
                self._write_phases(cursor)
            self._phases.clear()

    def _write_phases(self, cursor: Cursor) -> None:
        for unit, phases in self._phases.items():
            cursor.execute("UPDATE dyda.unit SET phases = phases || %s WHERE id = %s", (Json(phases), unit))

    # --- requests of other commands

    def take_request(self) -> RequestRecord | None:
        """The oldest waiting request; it is running now."""
        with self.reading() as cursor:
            cursor.execute("SELECT EXISTS (SELECT FROM dyda.request WHERE state = 'waiting')")
            (waiting,) = cursor.fetchone()
        if not waiting:
            return None
        with self.writing() as cursor:
            cursor.execute(load("take_request.sql"))
            row = cursor.fetchone()
            return None if row is None else RequestRecord(*row)

    def note_lane(self, view: str, reason: str) -> int:
        """Something is built beside the units: `status` shows it until it is finished. It is a request of our own, so
        a process that takes over ends it with the others."""
        with self.writing() as cursor:
            cursor.execute(
                "INSERT INTO dyda.request (verb, arguments, state) VALUES ('lane', %s, 'running') RETURNING id",
                (Json({"view": view, "reason": reason}),),
            )
            return int(cursor.fetchone()[0])

    def progress(self, request: int, progress: Any) -> None:
        """Progress for the waiting command: anything JSON can hold."""
        with self.writing() as cursor:
            cursor.execute("UPDATE dyda.request SET progress = %s WHERE id = %s", (Json(progress), request))

    def finish(self, request: int, result: Any = None, error: Mapping[str, Any] | BaseException | None = None) -> None:
        """The request's result, or its error."""
        if isinstance(error, BaseException):
            error = {"what": getattr(error, "what", str(error)), "remedy": getattr(error, "remedy", "")}
        with self.writing() as cursor:
            cursor.execute(
                "UPDATE dyda.request SET state = %s, result = %s, error = %s, finished_at = now() WHERE id = %s",
                ("failed" if error else "done", Json(result), Json(error) if error else None, request),
            )
