"""One state of a source, held still: position, messages, row images, lookups and scans that all agree (P1, R1–R5).

    holder ─── BEGIN; pg_export_snapshot() ─────────────────────────── (idle, touches no table) ────── ROLLBACK
    reader ───────── lookup ── lookup ── log ──   each a transaction of its own under the exported snapshot

A source's ALTER TABLE therefore waits for one lookup at the most. The price is that tables may change between two
lookups; fingerprints, taken before the snapshot and after the last read, show it. A unit that was broken too often may
lock the tables it reads for a while (paper 001, Section 5: a schedule that terminates).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property

import pyarrow as pa

from dyda import faults
from dyda.cursor import Cursor
from dyda.errors import BrokenUnit, RelationRefused, SourceBusy
from dyda.model.bag import COUNT, Bag
from dyda.model.message import UpdateMessage
from dyda.model.position import Position
from dyda.model.relation import Relation, RelationName
from dyda.rows import copy_out
from dyda.sources import catalog
from dyda.sources.adapter import Inbox, SourceIdentity
from dyda.sources.capture import unlogged_changes
from dyda.sources.capture.state import LogState, read_state, schema_changed
from dyda.sources.connection import FRESH, WRITING, Sessions, load_sql, translate, value
from dyda.sources.fingerprints import ABSENT, look, uncaptured
from dyda.sources.log.commit_order import Look
from dyda.sources.log.messages import Names, concerned
from dyda.sources.log.reader import FIELDS, HeldState, LogReader
from dyda.sources.log.row_images import delivered_names, read_images
from dyda.sources.reading.copy import ScanPartition
from dyda.sources.reading.queries import distinct_keys, lookup_query, page_queries, pieces, query_text
from dyda.sources.reading.rights import Accesses
from dyda.sources.reading.scans import Scanned, few_or_partitions
from dyda.sources.reading.table_locks import TableLocks
from dyda.sources.settings import Consumer
from dyda.sources.stalled_server import PatientConnection

__all__ = ["SourceSnapshot"]

ATTEMPTS = 20
PATIENCE = 4


class SourceSnapshot:
    """A context manager; everything it returns belongs to the one state that `position` names.

    `relations` may map each name to the oid of the relation that the caller knows by it: what is logged for that oid is
    then reported under that name, whatever the table is called now. `state` is capture's, as the snapshot shows it.
    """

    def __init__(
        self,
        sessions: Sessions,
        consumer: Consumer,
        readers: Callable[[LogState], LogReader],
        relations: Collection[RelationName] | Mapping[RelationName, int],
        lock: Collection[RelationName] = (),
        lock_limit: float = 30.0,
    ) -> None:
        self.source = sessions.settings.name
        self.queries = 0
        self._counting = threading.Lock()
        self.unchecked: set[RelationName] = set()
        """Tables read since the schemas were last compared (`fingerprint_again`)."""
        self.scanned: set[RelationName] = set()
        """Tables that Spark's tasks may be reading at any time until the unit is over."""
        self.mark: str | None = None
        self.durable = False
        """Whether everything that the snapshot shows is on the source's disk (`make_durable`)."""
        self.log_read = False
        """Whether the log was read since it was last found complete (`fingerprint_again`)."""
        self._sessions = sessions
        self._consumer = consumer
        self._relations = tuple(sorted(relations))
        self._oids = dict(relations) if isinstance(relations, Mapping) else {}
        self._by_oid = isinstance(relations, Mapping)
        self._access = Accesses(sessions, consumer)
        self._holder: PatientConnection | None = None
        self._readers = readers
        self._locks = TableLocks(sessions, {name: self._oids.get(name) for name in lock}, lock_limit) if lock else None
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        """Counter of gaps, fingerprints, snapshot, counter again, in this order.

        Read before the snapshot, the counter includes no gap whose rows the snapshot might lack. If it differs at the
        second reading, a writer whose rows were not captured may be visible: try again. A schema change in between
        makes fingerprints and log disagree: a few more attempts avoid a false alarm. The advisory lock keeps away
        dyda.shrink (P6); it is granted after the snapshot is taken, so the log's file is compared too. We do not wait
        for it, since anybody may hold it: without it, a log that shrinks breaks the unit.
        """
        for attempt in range(ATTEMPTS):
            with self._sessions.transaction(FRESH) as cursor:
                fingerprinted = value(cursor, "SELECT pg_current_snapshot()::text")
                before = read_state(cursor, self._consumer)
                self._trace = None if before.inline_schema_changes else unlogged_changes.read_trace(cursor)
                watched = {RelationName(self.source, *name) for name in before.watched.values()}
                names = sorted(watched.union(self._relations))
                self._before = catalog.fingerprint(cursor, names, self._oids)
                seen = {found.root for name, found in self._before.items() if found.name == name}
                meant = {*before.watched, *self._oids.values()} if self._by_oid else set()
                others = catalog.fingerprint_tables(cursor, self.source, meant - seen)
                self._before = others | self._before
            holder = self._sessions.begin(FRESH)
            try:
                with translate(self.source), holder.cursor() as cursor:
                    cursor.execute(
                        "SELECT pg_current_snapshot()::text, pg_export_snapshot(), statement_timestamp(),"
                        " clock_timestamp(), pg_try_advisory_xact_lock_shared(1685677153, 3),"
                        " CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_insert_lsn() - '0/0'::pg_lsn END"
                    )
                    position, self._exported, before_it, after_it, _, lsn = cursor.fetchone()
                with self._sessions.transaction(FRESH) as cursor:
                    after = read_state(cursor, self._consumer)
                    changed = after.attached and attempt < PATIENCE and schema_changed(cursor, fingerprinted)
            except BaseException:
                self._sessions.give_back(holder)
                raise
            same = (after.gap, after.identity, after.log_file) == (before.gap, before.identity, before.log_file)
            if same and not changed:
                self._holder = holder
                self.state: LogState = before
                self.position = Position.parse(position)
                look = Look(self.position, before_it, after_it, None if lsn is None else int(lsn))
                self.identity: SourceIdentity = before.identity
                self.gap = before.gap
                self._received = self._readers(before)
                log = (before.identity, before.gap, before.log_file)
                self._now = HeldState(look, self._under_snapshot, log)
                if self._locks is not None:
                    self._locks.show(self._exported)
                return
            self._sessions.give_back(holder)
        raise SourceBusy(self.source, "capture keeps failing there while the snapshot is taken")

    @property
    def fingerprints(self) -> dict[RelationName, str]:
        """The relations' fingerprints from before the snapshot.

        A name's is that of the table that has it, or if none has, of the relation that the caller knows by it. Every
        watched table is listed under its present name too.
        """
        return {name: self._lasting(self._before[name]) for name in self._before}

    @cached_property
    def logged_fingerprints(self) -> dict[RelationName, str]:
        """The fingerprint after the logged schema changes, of each relation that has any in the log (C5). If it differs
        from `fingerprints`, something happened that was not logged, and rows may have changed uncaptured."""
        if not self.state.attached:
            return {}
        with self._read_log() as cursor:
            cursor.execute("SELECT root, schema_name, table_name, lasting, there FROM dyda.changed_relations()")
            rows = cursor.fetchall()
        by_root = {root: lasting for root, _, _, lasting, _ in rows if lasting is not None}
        left = {(schema, table) for _, schema, table, lasting, there in rows if lasting is not None and not there}
        found = {}
        for name in self._before:
            root = self._before[name].root or self._oids.get(name)
            if root in by_root:
                found[name] = by_root[root]
            elif root is None and (name.schema, name.table) in left:
                found[name] = ABSENT  # no such table, and the caller knows only the name
        return found

    def kept(self, name: RelationName) -> str | None:
        """What to remember of a relation, for `agrees`."""
        found = self._before.get(name)
        return None if found is None else unlogged_changes.kept(self._lasting(found), self._trace)

    def agrees(self, name: RelationName, recorded: str | None) -> bool:
        """Whether the relation is as it was when `recorded` was kept, as far as fingerprint and trace show."""
        found = self._before.get(name)
        if found is None:
            return recorded is None
        return unlogged_changes.agrees(recorded, self._lasting(found), self._trace)

    @property
    def held(self) -> bool:
        """Whether the snapshot is still open."""
        return self._holder is not None

    def _lasting(self, found: catalog.Fingerprint) -> str:
        """A relation that is not watched is uncaptured, whatever triggers it has."""
        if not found.captured or (found.root is not None and found.root not in self.state.watched):
            return uncaptured(found.lasting)
        return found.lasting

    # ---------------------------------------------------------------- the log

    def messages(self, after: Position | None) -> list[UpdateMessage]:
        """The transactions visible here and not in `after`, in commit order where the source knows it, else P4's."""
        return list(self.inbox(after).messages.values())

    def inbox(self, after: Position | None) -> Inbox:
        """The same, with what is new since the last poll."""
        if not self.state.attached:
            return Inbox({}, (), frozenset(), None)
        self.log_read = True
        found = self._received.read(self._now, after)
        return self._received.messages.inbox(self.source, found, self._names(), clock=self._received.clock)

    def writers(self, relation: Relation) -> Collection[int]:
        """The transactions that the last poll found in the log and that wrote to this table."""
        return self._received.writers(relation.oid) if relation.oid is not None else ()

    def _names(self) -> Names:
        watched = {root: RelationName(self.source, *name) for root, name in self.state.watched.items()}
        if self._by_oid:
            return Names(self.source, {oid: name for name, oid in self._oids.items()}, watched)
        known = {
            found.root: name
            for name, found in self._before.items()
            if found.root is not None and found.root in self.state.watched
        }
        return Names(self.source, known, watched, by_oid=False)

    def arrivals(self) -> frozenset[RelationName]:
        """Relations with a schema change or truncation committed after this snapshot: reading on is pointless."""
        if not self.state.attached:
            return frozenset()
        with self._sessions.transaction(FRESH) as cursor:
            cursor.execute(
                "SELECT xid, root, op::text, image FROM dyda.schema_entries(%s::pg_snapshot) ORDER BY xid, seq",
                (str(self.position),),
            )
            return concerned(cursor.fetchall(), self._names())

    def changes(
        self,
        wanted: Mapping[RelationName, Sequence[str]],
        after: Position | None,
        known: Mapping[RelationName, Relation] | None = None,
        xids: Collection[int] | None = None,
        *,
        partial: bool = False,
    ) -> dict[RelationName, pa.Table]:
        """The row images visible here and not in `after`: the wanted columns, then #xid and #count, in log order.

        Columns are found by number. `known` are the relations as the caller knows them: that table is meant even if
        another has its name now, and columns have the names they have there. `xids` leaves out all other transactions.
        An image without a wanted column breaks the unit; with `partial`, column ##lacks names what is missing.
        """
        roots = {}
        for name, columns in wanted.items():
            root: int | None = known[name].oid if known is not None and name in known else self._oids.get(name)
            if root is None and name not in self._before:
                raise RelationRefused(f"{name} is not captured", "Run: dyda apply")
            root = self._before[name].root if root is None else root
            if root is None:
                raise BrokenUnit(self.source, frozenset({str(name)}), "a table was dropped")
            roots[name] = (root, columns)
        described = {relation.oid: relation for name, relation in (known or {}).items() if name in roots}
        unknown = {root for root, _ in roots.values()} - described.keys()
        if unknown:  # as they are now; right for this snapshot as long as the fingerprints stay
            with self._sessions.transaction(FRESH) as cursor:
                found = catalog.find(cursor, self.source, unknown)
            described |= {oid: relation for oid, relation in found.items() if relation is not None}
        # virtual columns are null in images (C1)
        numbers = {o: {c.name: c.number for c in r.columns if c.generated != "v"} for o, r in described.items()}
        asked = {root: (str(name), columns, numbers.get(root, {})) for name, (root, columns) in roots.items()}
        if self.state.attached:
            self.log_read = True
            entries = self._received.images(self._now, [root for root, _ in roots.values()], after, xids)
        else:
            entries = pa.table({field: pa.array([], pa.string()) for field in FIELDS})
        images = read_images(self.source, entries, asked, partial=partial)
        return {name: images[root] for name, (root, _) in roots.items()}

    # ---------------------------------------------------------------- the tables

    def lookup(self, relation: Relation, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        """The relation's rows whose `key` columns equal one of the key tuples in `values`.

        Tuples with a NULL equal nothing (R5) and are left out, as are those with a character that the source's encoding
        lacks; without any tuple the source is not asked. Many or long ones make several lookups.
        """
        self._require_name(relation)
        names = delivered_names(columns)
        keys = self._sessions.possible(distinct_keys(values, key))
        if keys.num_rows == 0:
            return Bag.empty(names)
        found = []
        for piece in pieces(keys):
            faults.point("sweep.before-hop")
            with self._counting:
                self.queries += 1
                self.unchecked.add(relation.name)
            few_rights = self._needs_reader(relation)
            query = lookup_query(relation, columns, key, piece)
            with self._read([relation.name]) as cursor:
                table = copy_out(cursor, query_text(cursor, query, columns, few_rights=few_rights), names)
            found.append(table.append_column(COUNT, pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)))
            faults.point("sweep.after-hop")
        return Bag(pa.concat_tables(found))

    def stands(self, relation: Relation) -> bool:
        """Whether the table that is meant has this name now."""
        found = self._before.get(relation.name)
        return found is not None and (found.root, found.name) == (relation.oid, relation.name)

    def _require_name(self, relation: Relation) -> None:
        """Queries find a table by its name; if another table has it now, that one must not be read."""
        if not self.stands(relation):
            raise BrokenUnit(self.source, frozenset({str(relation.name)}), "the table was renamed or dropped")

    def scan(self, relation: Relation, columns: Sequence[str], *, beside: bool = False) -> list[ScanPartition]:
        """The relation in pieces that any machine can read, by page ranges of every table it consists of; in small ones
        if they are read `beside` something that must not wait.

        A row of this snapshot is on a page that exists by now, and stays there: VACUUM FULL and CLUSTER are noticed.
        """
        self._require_name(relation)
        self.queries += 1
        self.scanned.add(relation.name)
        names = tuple(delivered_names(columns))
        settings = self._sessions.settings
        locks = self._locks if self._locks is not None and self._locks.on([relation.name]) else None
        fresh = self._sessions.transaction(FRESH, [relation.name]) if locks is None else locks.reading([relation.name])
        with fresh as cursor:
            cursor.execute(load_sql("pages"), {"relids": list(self._before[relation.name].members)})
            queries = [
                (query_text(cursor, query, columns, few_rights=self._needs_reader(relation)), int(size * share))
                for schema, table, method, pages, size, _ in cursor.fetchall()
                for query, share in page_queries(columns, schema, table, method, pages, size, few=beside)
            ]
        return [
            ScanPartition(
                source=self.source,
                relation=str(relation.name),
                url=settings.url,
                snapshot=self._exported,
                query=query,
                columns=names,
                lock_timeout=settings.lock_timeout,
                statement_timeout=settings.statement_timeout,
                file=None if locks is None else locks.keep(relation.name, query, names),
                size=size,
            )
            for query, size in queries
        ]

    def oid(self, name: RelationName) -> int | None:
        """Of the table that has the name, or if none has, of the relation that the caller knows by it."""
        found = self._before.get(name)
        return None if found is None else found.root

    def rows_or_partitions(
        self, relation: Relation, columns: Sequence[str], most: int, *, beside: bool = False
    ) -> Scanned:
        """All rows of the relation if they take at most so many bytes, or else the pieces of a scan."""
        return few_or_partitions(self.scan(relation, columns, beside=beside), columns, most)

    # ---------------------------------------------------------------- before installing

    def compare(self, read: Collection[RelationName], looked_at: Collection[RelationName] = ()) -> None:
        """Break the unit unless the schemas are what they were before the snapshot (R2), also of what was only
        `looked_at`, which need not be captured. DDL that commits after this is harmless, so call it as soon as the last
        table has been read."""
        names = {name for name in (*read, *looked_at) if name in self._before}
        after = self.fingerprint_again(names) if names or self.log_read else {}
        before = self.fingerprints
        moved = {name for name in read if after.get(name) != before.get(name)}
        moved |= {name for name in looked_at if look(after.get(name)) != look(before.get(name))}
        if moved:
            raise BrokenUnit(self.source, frozenset(map(str, moved)), "the schema changed while tables were being read")
        self.unchecked -= names
        self.log_read = False

    def fingerprint_again(self, only: Collection[RelationName] | None = None) -> dict[RelationName, str]:
        """The fingerprints now, after the last read, of all tables or of some. See `compare` (R2).

        What may differ between units but not within one (filenodes, a name given away and back) breaks the unit here,
        and so does a log that somebody emptied: our snapshot would see it empty from then on (R1).
        """
        names = tuple(self._before if only is None else sorted(only))
        with self._sessions.transaction(FRESH) as cursor:
            state = read_state(cursor, self._consumer)
            now = catalog.fingerprint(cursor, names, self._oids)
        self._require_held()
        if (state.gap, state.log_file) != (self.gap, self.state.log_file):
            raise BrokenUnit(
                self.source, frozenset(map(str, self._relations)), "capture missed changes while tables were being read"
            )
        moved = {str(name) for name in names if now[name].passing != self._before[name].passing}
        same = {str(name) for name in names if now[name].lasting == self._before[name].lasting}
        if moved & same:
            raise BrokenUnit(self.source, frozenset(moved & same), "tables changed while they were being read")
        return {name: self._lasting(now[name]) for name in names}

    def make_durable(self, known: str | None = None) -> None:
        """Force everything that this snapshot shows to the source's disk (P2): a commit that waits for its WAL.

        The transaction leaves a mark, `self.mark`, which the installation records in place of `known`. If the source is
        ever restored to an earlier state, the mark is gone, even if the lost transaction ids have been used again.
        """
        with self._sessions.transaction(WRITING) as cursor:
            # `local`: a promoted standby has another timeline, so waiting for one proves nothing more.
            cursor.execute("SET LOCAL synchronous_commit = local")
            mark = uuid.uuid4().hex if self.state.attached else None
            if mark is not None:
                cursor.execute("SELECT dyda.leave_mark(%s, %s)", (known, mark))
            else:
                cursor.execute("SELECT pg_logical_emit_message(true, 'dyda', '')")
        self._require_held()
        self.mark = mark
        self.durable = True

    def _require_held(self) -> None:
        """Fail if the source crashed since the snapshot was taken: every session ends with its server. What the
        snapshot showed may be lost then, and names of exported snapshots are used again (P2, R1)."""
        assert self._holder is not None, "the snapshot is closed"
        with translate(self.source), self._holder.cursor() as cursor:
            cursor.execute("SELECT 1")

    def close(self) -> None:
        if self._holder is not None:
            holder, self._holder = self._holder, None
            self._sessions.give_back(holder)
        if self._locks is not None:
            self._locks.release()

    def __enter__(self) -> SourceSnapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, relations: Collection[RelationName] = ()) -> AbstractContextManager[Cursor]:
        """A short transaction under the shared snapshot; a part of one where the tables are locked."""
        if self._locks is not None and self._locks.on(relations):
            return self._locks.reading(relations)
        return self._sessions.tables.transaction(f"{FRESH}; SET TRANSACTION SNAPSHOT '{self._exported}'", relations)

    def _needs_reader(self, relation: Relation) -> bool:
        """Whether to read with fewer rights than ours, as its owner might have set a trap. Raises MissingRights."""
        return self._access.to(relation, self._before[relation.name].members).through_reader

    def _read_log(self, relations: Collection[RelationName] = ()) -> AbstractContextManager[Cursor]:
        """The same for the log, without a time limit: nobody waits for this read, and it must be read whole."""
        return self._sessions.transaction(self._under_snapshot, relations)

    @property
    def _under_snapshot(self) -> str:
        return f"{FRESH}; SET TRANSACTION SNAPSHOT '{self._exported}'; SET LOCAL statement_timeout = 0"
