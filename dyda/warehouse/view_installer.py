"""One view's part of the transaction that installs a unit: rows, version, states, and what readers see of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import psycopg2
from psycopg2 import sql
from psycopg2.extras import Json

from dyda.cursor import Cursor
from dyda.errors import (
    ConfigurationError,
    DeclaredKeyBroken,
    DydaError,
    InstallBlocked,
    InvariantViolated,
    NotInstallable,
    PositionMoved,
    UnknownView,
)
from dyda.model.cause import LostIndex
from dyda.model.event import Event
from dyda.model.layout import Layout
from dyda.model.view_state import ViewState
from dyda.warehouse.catalog.cause_codec import cause_to_json, reason_of, stored_cause
from dyda.warehouse.catalog.codec import layout_to_json, name_to_text, states_to_json, view_columns_to_json
from dyda.warehouse.catalog.records import ViewColumn, ViewVersion
from dyda.warehouse.catalog.stored_views import KnownView
from dyda.warehouse.connection import load, short
from dyda.warehouse.extents.counted_extent import CountedExtent
from dyda.warehouse.extents.entries import all_entries, sum_of_entries
from dyda.warehouse.extents.extent import Extent, check_types
from dyda.warehouse.extents.forms import filled_extent, key_places, narrowed_extent, renamed_extent, save_form
from dyda.warehouse.extents.indexes import (
    carry_over,
    declare,
    drop,
    give_up_key,
    keep_found,
    lost_with,
    obsolete,
    save_lost,
    undeclared,
)
from dyda.warehouse.extents.keyed_extent import KeyedExtent, KeyUnusable
from dyda.warehouse.extents.plain_extent import PlainExtent
from dyda.warehouse.extents.prepared_tables import PreparedTables, take
from dyda.warehouse.extents.published_view import Publication, Reader, check_names, lock
from dyda.warehouse.hidden_names import is_hidden, visible_name
from dyda.warehouse.installation import ViewChange
from dyda.warehouse.states.install import StateInstaller
from dyda.warehouse.states.tables import StoredState
from dyda.warehouse.transitions import view_events
from dyda.wording import sentence

__all__ = ["STOPPED", "ViewInstaller", "owned"]

OWN = {"0A", "22", "23", "2B", "42", "54"}
"""Classes of errors that a view's rows or columns cause: features that this server lacks (xml without libxml), data,
constraints, dependent objects, limits."""

STOPPED = (ViewState.RESYNC, ViewState.BROKEN)
"""States in which a view does not follow its sources."""


@contextmanager
def owned(view: str) -> Iterator[None]:
    """Blames this view for a failure inside: say, a value that the warehouse cannot hold."""
    try:
        yield
    except (ConfigurationError, InvariantViolated, InstallBlocked, NotInstallable, UnknownView):
        raise
    except DydaError as error:
        raise NotInstallable(view, error.what.removeprefix(f"view {view}: ")) from None
    except psycopg2.Error as error:
        if error.pgcode is None or str(error.pgcode)[:2] not in OWN:
            raise
        raise NotInstallable(view, short(error)) from None


class ViewInstaller:
    """One view's part of the transaction."""

    def __init__(
        self,
        cursor: Cursor,
        change: ViewChange,
        schema: str,
        number: int,
        known: KnownView | None,
        patience: float,
    ) -> None:
        self.cursor = cursor
        self.patience = patience
        self.change = change
        self.reader = Reader(schema, change.view)
        self.number = number
        self.exists = known is not None
        self.before = known
        self.known = known or KnownView()
        self.previous = self.known.extent
        self.states = self.known.states
        self.publication: Publication | None = None
        self.lost: list[LostIndex] = []
        self.renames: list[str] = []
        self.rows: int | None = None
        """How many rows the view has, if all of them were written."""

    def run(self) -> None:
        change = self.change
        if not self.exists and change.version is None:
            raise UnknownView(f"there is no view {change.view} to install rows into")
        rewritten = change.prepared.of if change.prepared is not None else None
        if rewritten is not None and (self.previous is None or self.previous.number != rewritten):
            raise PositionMoved(change.view, "its extent", str(rewritten), None)
        if change.version is not None:
            check_names(visible_name(change.view), [column.name for column in change.version.columns])
            check_types(self.cursor, change.view, [column.type for column in change.version.columns])
        if not self.exists:
            self.cursor.execute("INSERT INTO dyda.view (name, state) VALUES (%s, 'building')", (change.view,))
        self.states = self._new_states()
        if change.version is not None and (change.new_table or not self._same_types(change.version)):
            if (narrowed := self._narrowed(change.version)) is not None:
                self._save_version(change.version, narrowed, narrowed=True)
                self._save_view(0, absolute=False)
            else:
                self._save_view(self._new_extent(change.version), absolute=True)
            return
        rows, absolute = self._placed()
        if change.version is not None:
            assert self.known.extent is not None  # its types are the version's
            self._save_version(change.version, renamed_extent(self.known.extent, change.version.columns))
        self._save_view(rows, absolute=absolute)
        if self._whole and self.publication is None:
            self._show_again()

    def _placed(self) -> tuple[int, bool]:
        """Rows into the view's table, or all of them into a new one; the change in their number, or the number."""
        columns, layout = self._wanted
        entries = None
        if self.change.prepared is not None:
            return self._rewritten(self.change.prepared), False
        if self.change.has_rows and self.known.extent is not None:
            entries = self._entries(self.known.extent.types)
        if self._must_move(layout):
            return self._moved(columns, layout, entries), True
        if declared := self.known.layout.declared_key is not None and self.change.has_rows:
            self.cursor.execute("SAVEPOINT merging")
        try:
            try:
                return self._new_rows(entries), self._whole
            except DeclaredKeyBroken:
                assert declared
                self.cursor.execute("ROLLBACK TO SAVEPOINT merging")
                self._give_up_key()
                return self._new_rows(entries), self._whole
        except KeyUnusable:
            self.cursor.execute(f"ROLLBACK TO SAVEPOINT {KeyUnusable.SAVEPOINT}")
            return self._moved(columns, layout, entries, by_key=False), True

    def _give_up_key(self) -> None:
        """A view is a bag first: rows that the declared key does not allow are shown, and the key is not one."""
        assert isinstance(self.known.extent, PlainExtent)
        self._lock_readers()
        self.lost.append(give_up_key(self.cursor, self.known.extent, self.known.layout))

    def _lock_readers(self) -> None:
        """Nobody reads the view from now on until the transaction ends."""
        if self.reader.exists(self.cursor):
            lock(self.cursor, [self.reader], self.patience)

    @property
    def _wanted(self) -> tuple[tuple[ViewColumn, ...], Layout]:
        """The view's columns and layout after the change."""
        described = self.change.version or self.known
        return described.columns, described.layout

    @property
    def _whole(self) -> bool:
        """Whether the change has all rows of the view."""
        return self.change.mode == "replace" and self.change.has_rows

    def _show_again(self) -> None:
        """Readers see a rebuilt view, whatever happened to their view in the meantime."""
        assert self.known.extent is not None
        columns = self.change.version.columns if self.change.version is not None else self.known.columns
        names = tuple(column.name for column in columns)
        if not self.reader.shows(self.cursor, self.known.extent, names):
            self.publication = Publication(self.reader, self.known.extent, names, self.known.extent)

    def _same_types(self, version: ViewVersion) -> bool:
        extent = self.known.extent
        return extent is not None and extent.types == tuple(column.type for column in version.columns)

    def _narrowed(self, version: ViewVersion) -> Extent | None:
        """The existing extent, if the view only loses some of its columns."""
        change, extent = self.change, self.known.extent
        if extent is None or change.projection is None or change.staging is not None or is_hidden(change.view):
            return None
        if change.mode != "replace" or (change.delta is not None and change.delta.num_rows):
            return None
        if tuple(extent.types[place] for place in change.projection) != tuple(c.type for c in version.columns):
            return None
        number = self._number(self._next())
        narrowed = narrowed_extent(extent, number, version.columns, change.projection, version.layout)
        if isinstance(extent, PlainExtent):
            gone = [name for place, name in enumerate(extent.stored_names) if place not in change.projection]
            self.lost += lost_with(self.cursor, extent, gone)
        save_form(self.cursor, narrowed)
        return narrowed

    def _must_move(self, layout: Layout) -> bool:
        """Whether the view needs a new table because the one it has cannot take the rows.

        A narrowed table has nothing to find rows by; and where the key is not proven any more, there must be room for a
        duplicate before one is shown.
        """
        extent, version = self.known.extent, self.change.version
        if extent is None:
            return False
        if self.change.renewed or (self.change.has_rows and not extent.settled):
            return True
        if version is None or not isinstance(extent, KeyedExtent):
            return False
        return key_places(version.columns, layout) != extent.key

    def _moved(
        self,
        columns: Sequence[ViewColumn],
        layout: Layout,
        entries: sql.Composable | None,
        *,
        by_key: bool = True,
    ) -> int:
        """The view's rows, and `entries`, in a new table; returns their number. In `replace` mode entries are all."""
        known = self.known
        assert known.extent is not None
        if entries is None or not self._whole:
            width = len(known.extent.types)
            held = known.extent.projected(range(width))
            entries = held if entries is None else sum_of_entries(width, [held, entries])
        extent, rows = self._table(columns, layout, known.version, entries, by_key=by_key)
        self._switch(extent)
        return rows

    def _rewritten(self, prepared: PreparedTables) -> int:
        """A narrowed table, rewritten beside the units, takes the place of the old one; the rows are the same."""
        if self.known.extent is not None and self.known.extent.number == prepared.of:
            self._take(prepared, self.known.version)
            self._carry_over(prepared.extent)
            self._switch(prepared.extent)
        return 0

    def _switch(self, extent: PlainExtent) -> None:
        """The view's rows are in another table from now on."""
        self.cursor.execute(
            "UPDATE dyda.view_version SET extent = %s, places = NULL WHERE view = %s AND version = %s",
            (extent.number, self.change.view, self.known.version),
        )
        self.known = replace(self.known, extent=extent)
        self.publication = Publication(self.reader, extent, extent.names, self.previous)

    def _take(self, prepared: PreparedTables, version: int | None) -> None:
        take(self.cursor, prepared.extent.number, self.change.view, version)
        save_form(self.cursor, prepared.extent, prepared.refused)
        self.lost += prepared.lost

    def _new_extent(self, version: ViewVersion) -> int:
        """A table of its own for the new columns. Readers with an older snapshot get a serialization error (I2)."""
        if self.change.mode != "replace" or not self.change.has_rows:
            raise DydaError(f"view {self.change.view}: new columns need all rows, in mode 'replace'")
        if (prepared := self.change.prepared) is not None:
            extent, rows = prepared.extent, prepared.rows
            self._take(prepared, self._next())
        else:
            entries = self._entries([column.type for column in version.columns])
            extent, rows = self._table(version.columns, version.layout, self._next(), entries)
        self._save_version(version, extent)
        return rows

    def _table(
        self,
        columns: Sequence[ViewColumn],
        layout: Layout,
        version: int | None,
        entries: sql.Composable,
        *,
        by_key: bool = True,
    ) -> tuple[PlainExtent, int]:
        """An extent with these columns, with the entries in, and how many rows these are."""
        number = self._number(version)
        made = filled_extent(self.cursor, number, self.change.view, columns, layout, entries, by_key=by_key)
        save_form(self.cursor, made.extent, made.refused)
        self._index_new(made.extent, layout)
        return made.extent, made.rows

    def _index_new(self, extent: PlainExtent, layout: Layout) -> None:
        """The indexes of a new table, before it is shown."""
        self.lost += declare(self.cursor, extent, layout, strict=self._strict)
        self._carry_over(extent)

    def _carry_over(self, extent: PlainExtent) -> None:
        """What users have indexed by hand on the table before."""
        if self.previous is not None:
            names = [column.name for column in self.known.columns]
            lost, self.renames = carry_over(self.cursor, self.previous, names, extent)
            self.lost += lost

    @property
    def _strict(self) -> bool:
        """Whether what the view's file declares must hold: its author waits for the answer."""
        return self.change.version is not None and self.change.version.file_text is not None

    def index(self) -> None:
        """The declared indexes of a table that stays, and what the view's history says of those that are lost. When all
        rows are read again, a declared key that they had broken may hold again."""
        version, extent = self.change.version, self.known.extent
        kept = self.publication is None or self.publication.places is not None
        if (version is not None or self._whole) and kept and isinstance(extent, PlainExtent):
            layout = self._wanted[1]
            extent = self.publication.extent if self.publication is not None else extent
            assert isinstance(extent, PlainExtent)
            self.lost += declare(self.cursor, extent, layout, strict=self._strict, alone=self._lock_readers)
            if names := obsolete(self.cursor, extent, layout):
                self._lock_readers()
                drop(self.cursor, extent, names)
                keep_found(self.cursor, extent)
        if version is not None:
            self.lost += [one for one in undeclared(version, self.change.view) if one not in self.lost]
        save_lost(self.cursor, self.change.view, self.lost)

    def _number(self, version: int | None) -> int:
        """The number of a new extent, which readers with an older snapshot do not see (I2)."""
        self.cursor.execute(
            "INSERT INTO dyda.extent (view, version) VALUES (%s, %s) RETURNING id", (self.change.view, version)
        )
        return int(self.cursor.fetchone()[0])

    def _new_states(self) -> tuple[StoredState, ...]:
        """The states' tables after the change, with their rows in."""
        change, known = self.change, self.states
        installer = StateInstaller(self.cursor, change.view, change.mode, change.states, self.number)
        if change.version is None:
            if change.mode == "replace" and change.has_rows and len(change.states) != len(known):
                raise DydaError(f"view {change.view}: a replacement needs the rows of all its states")
            return installer.keep(known, [stored.table for stored in known], self.known.version or 0)
        wanted = change.version.states
        if wanted is None:
            wanted = tuple(stored.table for stored in known)
        if [stored.state for stored in known] == [table.state for table in wanted]:
            return installer.keep(known, wanted, self._next())
        if change.prepared is not None:
            return installer.take(wanted, self._next(), change.prepared.states)
        return installer.make(wanted, self._next())

    def _new_rows(self, entries: sql.Composable | None) -> int:
        """Rows into the existing extent; returns the change in their number, or in `replace` mode the number."""
        extent = self.known.extent
        if not self.change.has_rows:
            return 0
        if extent is None or entries is None:
            raise DydaError(f"view {self.change.view} has no extent yet; its first version creates it")
        merge = extent.replace if self.change.mode == "replace" else extent.merge
        return merge(self.cursor, entries)

    def _entries(self, types: Sequence[str]) -> sql.Composable:
        """A table or a subquery with all entries of the change."""
        change, width = self.change, len(types)
        projected = None
        if change.projection is not None:
            if self.known.extent is None or len(change.projection) != width:
                raise ValueError(f"view {change.view} has no extent to take {width} columns from")
            projected = self.known.extent.projected(change.projection)
        what = f"view {change.view}"
        return all_entries(self.cursor, what, width, str(self.number), change.delta, change.staging, projected)

    def _next(self) -> int:
        return (self.known.version or 0) + 1

    def _save_version(self, version: ViewVersion, extent: Extent, *, narrowed: bool = False) -> None:
        """The version's row, and the readers' view if that changes."""
        names = [column.name for column in version.columns]
        self.cursor.execute(
            load("save_version.sql"),
            {
                **vars(version),
                "view": self.change.view,
                "version": self._next(),
                "columns": Json(view_columns_to_json(version.columns)),
                "relations": [name_to_text(name) for name in version.relations],
                "details": Json({**version.details, "cause": cause_to_json(version.cause)}),
                "extent": extent.number,
                "places": list(extent.places) if isinstance(extent, CountedExtent) and extent.places else None,
                "cause": sentence(version.cause),
                "states": Json(states_to_json((stored.number, stored.table) for stored in self.states)),
                "layout": Json(layout_to_json(version.layout)),
            },
        )
        previous = self.previous
        shown = [column.name for column in self.known.columns]
        same = previous is not None and previous.number == extent.number and shown == names
        if not same or not self.reader.exists(self.cursor):
            places = None
            if previous is not None and previous.number == extent.number:
                places = tuple(range(len(names)))
            elif narrowed:
                places = self.change.projection
            self.publication = Publication(self.reader, extent, tuple(names), previous, places)

    def events(self, *, built: bool) -> Iterator[Event]:
        """What happened to the view; `built`: the unit builds views whole."""
        return view_events(self.change, self.before, self.rows, self.lost, built=built)

    def clear(self) -> None:
        """Drops the extent and the states that are no longer used."""
        kept = {stored.number for stored in self.states}
        for stored in self.known.states:
            if stored.number not in kept:
                stored.drop(self.cursor)
        published = self.publication
        if published is None or published.previous is None or published.previous.number == published.extent.number:
            return
        published.previous.drop(self.cursor)
        self.cursor.execute("DELETE FROM dyda.extent WHERE id = %s", (published.previous.number,))
        for rename in self.renames:
            self.cursor.execute(rename)

    def _save_view(self, rows: int, *, absolute: bool) -> None:
        change = self.change
        renewed = change.version is not None or (change.mode == "replace" and change.has_rows)
        state = change.state or (ViewState.LIVE if renewed else None)
        rows_move = change.has_rows and (change.prepared is None or change.prepared.of is None)
        moved = rows_move or any(expected != new for expected, new in change.positions.values())
        self.rows = rows if absolute else None
        if state in STOPPED:
            self.cursor.execute(load("stop_view.sql"), {"view": change.view})
        self.cursor.execute(
            load("save_view.sql"),
            {
                "view": change.view,
                "state": state,
                "cause": stored_cause(change.cause),
                "reason": reason_of(change.cause),
                "rows": rows,
                "absolute": absolute,
                "moved": moved,
            },
        )
