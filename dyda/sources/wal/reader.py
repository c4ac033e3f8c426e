"""What was streamed and is not acknowledged: the messages and row images of a state (rules P1, P2, P6).

    stream  ────o──o────o─────o──M        o a transaction, in the order of the commits; M the marker
    state       ▓  ▓    ░     ▓           ▓ its snapshot shows it; ░ it does not: held back

The marker is committed after the snapshot was taken, so everything that the snapshot shows was written before it. It is
not needed if nothing was written to the WAL since the last one.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from dyda.errors import BrokenUnit, SourceUnreachable
from dyda.model.position import WRAP, Position
from dyda.sources.connection import FRESH, WRITING, Sessions, load_sql
from dyda.sources.log.inbox import KeptMessages
from dyda.sources.log.reader import FIELDS, HeldState
from dyda.sources.log.transactions import Reading, Transaction
from dyda.sources.wal.layout import Columns, Layout, Told, read_told
from dyda.sources.wal.pgoutput import UNCHANGED, RowChange, Values
from dyda.sources.wal.slot import find_slot
from dyda.sources.wal.stream import MARKER, Row, Stream, Streamed

__all__ = ["WalReader", "row_text", "widened"]

_NUMBERS = itertools.count(1)
SEAL = 32
"""Characters before what capture says: see dyda.tell."""


def widened(xid: int, near: int) -> int:
    """The transaction number of 64 bits that ends in these 32 and is nearest to `near`."""
    found = near - near % WRAP + xid
    if found - near > WRAP // 2:
        return found - WRAP
    return found + WRAP if near - found > WRAP // 2 else found


def row_text(values: Sequence[str | None]) -> str:
    """The row as record_out prints it."""
    return "(" + ",".join("" if value is None else _quoted(value) for value in values) + ")"


def _quoted(value: str) -> str:
    if value and not any(character in '"\\(),' or character.isspace() for character in value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '""') + '"'


class WalReader:
    """The transactions of one source's stream that were read and are not acknowledged yet."""

    clock = False
    """The stream's own order is that of the commits."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._stream = Stream(sessions.settings, self._require_slot)
        self._slot = ""
        self._layout: Layout | None = None
        self._kept: dict[int, Transaction] = {}
        self._images: dict[int, pa.Table] = {}
        self._lsn: dict[int, int] = {}
        """Where each one's commit begins, as long as it is not acknowledged."""
        self._shown: dict[int, Transaction] = {}
        """What the last reading had."""
        self._log: object = None
        self._reading: int | None = None
        self._rows = itertools.count(1)
        self._lost: set[int] = set()
        """Acknowledged, and forgotten while a snapshot may be open that asks for it."""
        self._accounted: set[int] = set()
        """Transactions that were a gap already: read again, they are none."""
        self.messages = KeptMessages()
        self.rows = 0
        """How many rows were read so far: what polls cost."""

    def read(self, now: HeldState, after: Position | None) -> Reading:
        if now.log != self._log:
            self.forget()
        self._log, position = now.log, now.look.position
        self._go_on(now)
        waiting = {
            xid: one
            for xid, one in self._kept.items()
            if xid in self._lsn and position.includes(xid) and not (after is not None and after.includes(xid))
        }
        gone = frozenset(self._shown.keys() - waiting.keys())
        new = {xid: one for xid, one in waiting.items() if xid not in self._shown}
        before, self._reading, self._shown = self._reading, next(_NUMBERS), waiting
        return Reading(waiting, new, gone, before, self._reading)

    def images(
        self, now: HeldState, roots: Collection[int], after: Position | None, xids: Collection[int] | None
    ) -> pa.Table:
        self._go_on(now)
        if any(
            now.look.position.includes(xid)
            and not (after is not None and after.includes(xid))
            and (xids is None or xid in xids)
            for xid in self._lost
        ):
            raise self._broken("what was read and acknowledged is asked for again")
        asked = self._kept if xids is None else [xid for xid in xids if xid in self._kept]
        found = [
            self._images[xid]
            for xid in sorted(asked)
            if now.look.position.includes(xid) and not (after is not None and after.includes(xid))
        ]
        empty = pa.table({field: pa.array([], pa.string()) for field in FIELDS})
        return pa.concat_tables([empty, *found])

    def writers(self, table: int) -> Collection[int]:
        return [xid for xid, one in self._shown.items() if any(root == table for root, *_ in one.entries)]

    def acknowledged(self, position: Position) -> None:
        """The server may forget these. What older snapshots may still ask for stays here until `tidy`."""
        for xid in [xid for xid in self._lsn if position.includes(xid)]:
            del self._lsn[xid]
        self._accounted = {xid for xid in self._accounted if not position.includes(xid)}
        lsn = min(self._lsn.values(), default=self._stream.read_to)
        if self._stream.connected and lsn > self._stream.flushed:
            if not self._stream.copied:  # first: the slot must never be beyond it
                with self._sessions.transaction(WRITING) as cursor:
                    cursor.execute("SET LOCAL synchronous_commit = local")
                    cursor.execute("SELECT dyda.keep_flushed(%s, false)", (lsn,))
            self._stream.flush(lsn)

    def tidy(self) -> None:
        """No snapshot is open: what was acknowledged can go."""
        self._lost = set()
        for xid in self._kept.keys() - self._lsn.keys():
            del self._kept[xid], self._images[xid]

    def forget(self) -> None:
        """Read everything again next time."""
        self._stream.restart()
        self._lost |= self._kept.keys() - self._lsn.keys()
        self._layout, self._reading = None, None
        self._kept, self._images, self._lsn, self._shown = {}, {}, {}, {}

    def close(self) -> None:
        self.forget()

    # ---------------------------------------------------------------- reading on

    def _go_on(self, now: HeldState) -> None:
        """Read everything that the state has."""
        assert now.look.lsn is not None, "a state of a server that writes no WAL"
        if now.look.lsn <= self._stream.read_to:
            return
        marker = uuid.uuid4().hex
        with self._sessions.transaction(WRITING) as cursor:
            slot = find_slot(cursor)
            # `local`: waiting for a standby proves nothing more.
            cursor.execute("SET LOCAL synchronous_commit = local")
            cursor.execute("SELECT pg_logical_emit_message(true, %s, %s)", (MARKER, marker))
        if slot is None or not slot.works:
            raise self._broken("its replication slot is gone")
        try:
            streamed = self._streamed(marker, slot.name)
            self._take(streamed, now)
        except BaseException:
            self.forget()  # what was read is not complete: all of it again next time
            raise

    def _take(self, streamed: Sequence[Streamed], now: HeldState) -> None:
        near = now.look.position.xmax
        told = self._told(streamed, near)
        if self._layout is None:
            every = [one for events in told for one in events if isinstance(one, Told)]
            self._layout = Layout.before(every, lambda: self._kept_layout(now.begin))
        holes: set[int] = set()
        strangers: set[int] = set()
        for each, events in zip(streamed, told, strict=True):
            strangers |= self._add(each, events, self._layout, near, holes)
        self._require_right(strangers)
        if holes - self._accounted:
            self._accounted |= holes
            self._catch_up()
            raise self._broken("old values of changed rows, or a schema change, were not logged")

    def _told(self, streamed: Sequence[Streamed], near: int) -> list[list[Row | Told]]:
        """The events of each, without what somebody else says in capture's name."""
        said = [
            (str(widened(each.xid, near)), one) for each in streamed for one in each.events if isinstance(one, bytes)
        ]
        sealed: set[tuple[str, bytes]] = set()
        if said:
            with self._sessions.transaction(FRESH) as cursor:
                texts = [one.decode(errors="replace").replace("\0", "") for _, one in said]
                cursor.execute("SELECT dyda.are_sealed(%s, %s)", ([xid for xid, _ in said], texts))
                sealed = {one for one, (right,) in zip(said, cursor.fetchall(), strict=True) if right}
        found: list[list[Row | Told]] = []
        for each in streamed:
            xid = str(widened(each.xid, near))
            events = [one for one in each.events if isinstance(one, Row) or (xid, one) in sealed]
            found.append([one if isinstance(one, Row) else read_told(one[SEAL:]) for one in events])
        return found

    def _require_right(self, strangers: Collection[int]) -> None:
        """After reading: whether the rows are what they were taken for, and all of them were streamed.

        DDL that no event trigger has seen is found by what capture kept of each table. All that was streamed was
        committed before this question, and so was the DDL that it was written after.
        """
        with self._sessions.transaction(FRESH) as cursor:
            cursor.execute("SELECT dyda.unlogged()")
            unlogged = [root for (root,) in cursor.fetchall()]
            members: set[int] = set()
            if strangers:
                cursor.execute(load_sql("layout"))
                members = {relid for relid, *_ in cursor.fetchall()}
        if unlogged or members.intersection(strangers):
            self._catch_up()
            raise self._broken("a schema change was not logged")

    def _catch_up(self) -> None:
        """Twice: the second gap is open until all have ended that began before the first was committed."""
        for _ in range(2):
            with self._sessions.transaction(WRITING) as cursor:
                cursor.execute("SELECT dyda.catch_up(), pg_current_xact_id()::text::bigint")
                self._accounted.add(cursor.fetchone()[1])

    def _broken(self, why: str) -> BrokenUnit:
        return BrokenUnit(self._sessions.settings.name, frozenset(), why)

    def _streamed(self, marker: str, slot: str) -> list[Streamed]:
        """All up to the marker. A connection that was open before may have died with its server: then on a new one."""
        begin, reused = self._stream.read_to, self._stream.connected
        try:
            return list(self._stream.read_until(marker, slot, self._end_of_wal))
        except BaseException as error:
            self._stream.read_to = begin
            if not (reused and isinstance(error, SourceUnreachable)):
                raise
        return self._streamed(marker, slot)

    def _require_slot(self) -> None:
        """Of a new connection, before anything is read: nobody can replace the slot from now on without ending it."""
        with self._sessions.transaction(FRESH) as cursor:
            slot = find_slot(cursor)
        if slot is None or not slot.works:
            raise self._broken("its replication slot was replaced")

    def _end_of_wal(self) -> int:
        with self._sessions.transaction(FRESH) as cursor:
            cursor.execute("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
            return int(cursor.fetchone()[0])

    def _add(self, one: Streamed, events: Sequence[Row | Told], layout: Layout, near: int, holes: set[int]) -> set[int]:
        """The tables that it knows nothing of; `holes` gets the transaction if an old row or a change was not told."""
        xid, strangers = widened(one.xid, near), set()
        entries = _Entries()
        ops, roots, shapes, texts = [], [], [], []
        for event in events:
            if isinstance(event, Told):
                layout.follow(event)
                if event.op in "ST":
                    entries.add(event)
                if event.unseen:
                    holes.add(xid)
                continue
            root = layout.root_of.get(event.change.relid)
            if not root:
                strangers.add(event.change.relid)  # published by somebody else
                continue
            shape = layout.shape(root, event.columns)
            old, new = _rows(event.change)
            if old is None and not (event.change.old is None and event.change.whole):
                holes.add(xid)
            for op, values in (("D", old), ("I", new)):
                if values is not None:
                    entries.count(root, op)
                    ops.append(op)
                    roots.append(str(root))
                    shapes.append(shape)
                    texts.append(row_text(values))
        if not ops and not entries.changes:
            return strangers
        self._kept[xid] = Transaction(
            xid, one.lsn, one.committed, *entries.done(), any(op == "S" for _, op, *_ in entries.changes)
        )
        numbers = [str(next(self._rows)) for _ in ops]
        columns = [numbers, [str(xid)] * len(ops), ops, roots, shapes, texts]
        arrays = [pa.array(column, pa.string()) for column in columns]
        self._images[xid] = pa.Table.from_arrays(arrays, names=list(FIELDS))
        self._lsn[xid] = one.lsn
        self.rows += len(ops)
        return strangers

    def _kept_layout(self, begin: str) -> Mapping[int, tuple[int, Columns]]:
        """What the source knows of each table in the state that `begin` opens."""
        with self._sessions.transaction(begin) as cursor:
            cursor.execute(load_sql("layout"))
            return {
                relid: (root, {name: int(number) for number, name, *_ in columns or ()})
                for relid, root, columns in cursor.fetchall()
            }


def _rows(change: RowChange) -> tuple[Sequence[str | None] | None, Sequence[str | None] | None]:
    """The whole old row and the whole new one. What an update left alone out of line is in the old row."""
    old = _known(change.old, None) if change.whole else None
    return old, _known(change.new, old)


def _known(values: Values | None, other: Sequence[str | None] | None) -> Sequence[str | None] | None:
    if values is None:
        return None
    found: list[str | None] = []
    for place, value in enumerate(values):
        if isinstance(value, str) or value is None:
            found.append(value)
        else:
            assert value is UNCHANGED
            found.append(None if other is None else other[place])
    return found


class _Entries:
    """What a transaction did to each relation: row images between two entries of another kind are counted together."""

    def __init__(self) -> None:
        self.changes: list[tuple[int, str, int, int]] = []
        self._images: list[str | None] = []
        self._run: dict[int, list[int]] = {}

    def count(self, root: int, op: str) -> None:
        self._run.setdefault(root, [0, 0])[op == "D"] += 1

    def add(self, told: Told) -> None:
        self._end()
        self.changes.append((told.root, told.op, 0, 0))
        self._images.append(told.image)

    def done(self) -> tuple[tuple[tuple[int, str, int, int], ...], tuple[str | None, ...]]:
        self._end()
        return tuple(self.changes), tuple(self._images)

    def _end(self) -> None:
        for root, (inserted, deleted) in self._run.items():
            self.changes.append((root, "I", inserted, deleted))
            self._images.append(None)
        self._run = {}
