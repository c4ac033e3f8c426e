"""Installing a unit: extents, versions, DDL, positions and the fate of the messages, in one transaction.

`Installation` says what; `carry_out` does it in a transaction that the writer has opened and fenced. It only raises or
succeeds: the writer rolls back or commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg2
import pyarrow as pa
from psycopg2 import sql
from psycopg2.extras import Json

from dyda import faults
from dyda.cursor import Cursor
from dyda.errors import (
    ConfigurationError,
    DydaError,
    InstallBlocked,
    InvariantViolated,
    NotInstallable,
    PositionMoved,
    UnknownView,
)
from dyda.model.cause import Cause
from dyda.model.position import Position
from dyda.model.relation import RelationName
from dyda.model.view_state import ViewState
from dyda.warehouse.catalog.cause_codec import cause_to_json, stored_cause
from dyda.warehouse.catalog.codec import (
    earlier_to_json,
    name_to_text,
    relation_to_json,
    states_to_json,
    view_columns_to_json,
)
from dyda.warehouse.catalog.records import EarlierCatalog, RelationState, SourceState, UnitRecord, ViewVersion
from dyda.warehouse.catalog.stored_views import KnownView, known_views
from dyda.warehouse.connection import load, short
from dyda.warehouse.extents.entries import all_entries
from dyda.warehouse.extents.extent import Extent, check_types
from dyda.warehouse.extents.published_view import Publication, Reader, check_names, publish
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.install import StateChange, StateInstaller
from dyda.warehouse.states.tables import StoredState
from dyda.wording import sentence

__all__ = ["STOPPED", "Installation", "ViewChange", "carry_out", "save_relation", "save_source"]

OWN = {"0A", "22", "23", "2B", "42", "54"}
"""Classes of errors that a view's rows or columns cause: features that this server lacks (xml without libxml), data,
constraints, dependent objects, limits."""

STOPPED = (ViewState.RESYNC, ViewState.BROKEN)
"""States in which a view does not follow its sources."""


@dataclass(frozen=True)
class ViewChange:
    """What happens to one view.

    Its rows are the sum of a small `delta` (c1 … cn string, n int64), the `staging` table, and the old extent's rows
    with these of its columns in this order (`projection`, from 0); any may be missing. `mode` 'delta' adds them to the
    extent, 'replace' makes them all its rows. A projection alone leaves the table as it is: only what readers see of it
    changes. `version` is a new definition; a view that does not exist yet is created by it. `state` None leaves the
    state alone, except that a new version, or rows in `replace` mode, make the view `live`. `positions` by source: (the
    expected one or None, the new one or None to forget the source). `states` change in the same mode; a version with
    other states than before needs all rows of each.
    """

    view: str
    delta: pa.Table | None = None
    staging: Staging | None = None
    projection: tuple[int, ...] | None = None
    mode: str = "delta"
    version: ViewVersion | None = None
    state: ViewState | None = None
    cause: Cause | None = None
    positions: Mapping[str, tuple[Position | None, Position | None]] = field(default_factory=dict)
    states: tuple[StateChange, ...] = ()

    def __post_init__(self) -> None:
        if self.mode not in ("delta", "replace"):
            raise ValueError(f"mode is delta or replace, not {self.mode!r}")

    @property
    def moves_rows_alone(self) -> bool:
        """Whether only the view's rows and positions change."""
        stays = self.mode == "delta" and self.version is None and self.state is None
        return stays and all(new is not None for _, new in self.positions.values())

    @property
    def has_rows(self) -> bool:
        delta = self.delta is not None and (self.mode == "replace" or self.delta.num_rows > 0)
        return delta or self.staging is not None or self.projection is not None


@dataclass(frozen=True)
class Installation:
    """One unit's outcome. `done` are the numbers of the messages that every view now includes."""

    changes: tuple[ViewChange, ...] = ()
    done: tuple[int, ...] = ()
    sources: tuple[SourceState, ...] = ()
    relations: tuple[RelationState, ...] = ()
    forgotten: tuple[RelationName, ...] = ()
    """Names of relations that no view uses any more: renamed, or dropped."""
    unit: UnitRecord | None = None
    knowledge: Mapping[str, Any] | None = None
    """The whole knowledge after the unit (`render_knowledge`); None leaves it alone."""
    earlier: Mapping[str, EarlierCatalog | None] = field(default_factory=dict)
    """By view, what it knows of its sources from now on that is older than the catalog; None: no longer anything."""
    retired: tuple[Mapping[str, Any], ...] = ()
    """Constraints that ended now: each a document of one entry, with its `reason`."""

    @property
    def moves_rows_alone(self) -> bool:
        """Whether nothing changes in the catalog but the views' positions and the sources' marks."""
        news = self.relations or self.forgotten or self.knowledge is not None or self.retired or self.earlier
        same_sources = all(state.identity is None and state.gap is None for state in self.sources)
        return not news and same_sources and all(change.moves_rows_alone for change in self.changes)


def carry_out(cursor: Cursor, installation: Installation, schema: str, patience: float) -> int | None:
    """Carries out an installation; the caller's transaction holds the fence's row. Returns the unit's number."""
    faults.point("install.begun")
    known = known_views(cursor, [change.view for change in installation.changes])
    installers = [
        _Installer(cursor, change, schema, n, known.get(change.view)) for n, change in enumerate(installation.changes)
    ]
    for installer in installers:
        with _owned(installer.change.view):
            installer.run()
    publish(cursor, [p for installer in installers if (p := installer.publication) is not None], patience)
    for installer in installers:
        installer.clear()
    faults.point("install.merged")
    for change in installation.changes:
        if change.version is not None:
            # A new definition may read other sources: the positions that come with it are all there are.
            cursor.execute(
                "DELETE FROM dyda.position WHERE view = %s AND source <> ALL(%s)", (change.view, list(change.positions))
            )
    _move(cursor, installation.changes)
    for state in installation.sources:
        save_source(cursor, state)
    for name in installation.forgotten:
        cursor.execute(
            'DELETE FROM dyda.relation WHERE source = %s AND schema = %s AND "table" = %s',
            (name.source, name.schema, name.table),
        )
    for relation in installation.relations:
        save_relation(cursor, relation)
    for view, earlier in installation.earlier.items():
        entry = None if earlier is None else Json(earlier_to_json(earlier))
        cursor.execute("UPDATE dyda.view SET earlier = %s WHERE name = %s", (entry, view))
    if installation.done:
        cursor.execute("DELETE FROM dyda.message WHERE id = ANY(%s)", (list(installation.done),))
    if installation.knowledge is not None:
        cursor.execute(
            "UPDATE dyda.project SET knowledge = %(document)s, knowledge_retired = knowledge_retired || %(retired)s,"
            " knowledge_evolved = knowledge_evolved OR knowledge <> %(document)s",
            {
                "document": Json(dict(installation.knowledge)),
                "retired": Json([dict(entry) for entry in installation.retired]),
            },
        )
    number = None if installation.unit is None else _save_unit(cursor, installation.unit)
    faults.point("install.before-commit")
    return number


@contextmanager
def _owned(view: str) -> Iterator[None]:
    """Blames this view for a failure inside: say, a value that the warehouse cannot hold."""
    try:
        yield
    except (ConfigurationError, InvariantViolated, InstallBlocked, UnknownView):
        raise
    except DydaError as error:
        raise NotInstallable(view, error.what.removeprefix(f"view {view}: ")) from None
    except psycopg2.Error as error:
        if error.pgcode is None or str(error.pgcode)[:2] not in OWN:
            raise
        raise NotInstallable(view, short(error)) from None


class _Installer:
    """One view's part of the transaction."""

    def __init__(self, cursor: Cursor, change: ViewChange, schema: str, number: int, known: KnownView | None) -> None:
        self.cursor = cursor
        self.change = change
        self.reader = Reader(schema, change.view)
        self.number = number
        self.exists = known is not None
        self.known = known or KnownView()
        self.previous = self.known.extent
        self.states = self.known.states
        self.publication: Publication | None = None

    def run(self) -> None:
        change = self.change
        if not self.exists and change.version is None:
            raise UnknownView(f"there is no view {change.view} to install rows into")
        if change.version is not None:
            check_names(change.view, [column.name for column in change.version.columns])
            check_types(self.cursor, change.view, [column.type for column in change.version.columns])
        if not self.exists:
            self.cursor.execute("INSERT INTO dyda.view (name, state) VALUES (%s, 'building')", (change.view,))
        self.states = self._new_states()
        if change.version is not None and not self._same_types(change.version):
            if (narrowed := self._narrowed(change.version)) is not None:
                self._save_version(change.version, narrowed)
                self._save_view(0, absolute=False)
            else:
                self._save_view(self._new_extent(change.version), absolute=True)
            return
        settled = self._settled()
        if change.version is not None:
            assert self.known.extent is not None  # its types are the version's
            self._save_version(change.version, self.known.extent)
        absolute = change.mode == "replace" and change.has_rows
        self._save_view(self._new_rows() if settled is None else settled, absolute=absolute)
        if absolute and self.publication is None:
            self._show_again()

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
        if extent is None or change.projection is None or change.staging is not None:
            return None
        if change.mode != "replace" or (change.delta is not None and change.delta.num_rows):
            return None
        if tuple(extent.types[place] for place in change.projection) != tuple(c.type for c in version.columns):
            return None
        return extent.narrowed(self._number(self._next()), change.projection)

    def _settled(self) -> int | None:
        """Gives a view with a narrowed table a new one, now that rows arrive; its number of rows if they are all in."""
        change, known = self.change, self.known
        if not change.has_rows or known.extent is None or known.extent.places is None:
            return None
        whole = change.mode == "replace"
        types = known.extent.types
        entries = self._entries(types) if whole else known.extent.projected(range(len(types)))
        extent, rows = self._table(types, known.version, entries)
        self.cursor.execute(
            "UPDATE dyda.view_version SET extent = %s, places = NULL WHERE view = %s AND version = %s",
            (extent.number, change.view, known.version),
        )
        self.known = replace(known, extent=extent)
        names = tuple(column.name for column in known.columns)
        self.publication = Publication(self.reader, extent, names, self.previous)
        return rows if whole else None

    def _new_extent(self, version: ViewVersion) -> int:
        """A table of its own for the new columns. Readers with an older snapshot get a serialization error (I2)."""
        if self.change.mode != "replace" or not self.change.has_rows:
            raise DydaError(f"view {self.change.view}: new columns need all rows, in mode 'replace'")
        types = tuple(column.type for column in version.columns)
        extent, rows = self._table(types, self._next(), self._entries(types))
        self._save_version(version, extent)
        return rows

    def _table(self, types: tuple[str, ...], version: int | None, entries: sql.Composable) -> tuple[Extent, int]:
        """An extent of these types, with the entries in, and how many rows these are."""
        extent = Extent(self._number(version), self.change.view, types)
        extent.create(self.cursor)
        return extent, extent.fill(self.cursor, entries)

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
            return installer.keep(known, [stored.table for stored in known])
        wanted = change.version.states
        if wanted is None:
            wanted = tuple(stored.table for stored in known)
        if [stored.state for stored in known] == [table.state for table in wanted]:
            return installer.keep(known, wanted)
        return installer.make(wanted, self._next())

    def _new_rows(self) -> int:
        """Rows into the existing extent; returns the change in their number, or in `replace` mode the number."""
        extent = self.known.extent
        if not self.change.has_rows:
            return 0
        if extent is None:
            raise DydaError(f"view {self.change.view} has no extent yet; its first version creates it")
        merge = extent.replace if self.change.mode == "replace" else extent.merge
        return merge(self.cursor, self._entries(extent.types))

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

    def _save_version(self, version: ViewVersion, extent: Extent) -> None:
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
                "places": None if extent.places is None else list(extent.places),
                "cause": sentence(version.cause),
                "states": Json(states_to_json((stored.number, stored.table) for stored in self.states)),
            },
        )
        previous = self.previous
        shown = [column.name for column in self.known.columns]
        same = previous is not None and previous.number == extent.number and shown == names
        if not same or not self.reader.exists(self.cursor):
            self.publication = Publication(self.reader, extent, tuple(names), previous)

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

    def _save_view(self, rows: int, *, absolute: bool) -> None:
        change = self.change
        renewed = change.version is not None or (change.mode == "replace" and change.has_rows)
        state = change.state or (ViewState.LIVE if renewed else None)
        moved = change.has_rows or any(expected != new for expected, new in change.positions.values())
        if state in STOPPED:
            self.cursor.execute(load("stop_view.sql"), {"view": change.view})
        self.cursor.execute(
            load("save_view.sql"),
            {
                "view": change.view,
                "state": state,
                "cause": stored_cause(change.cause),
                "rows": rows,
                "absolute": absolute,
                "moved": moved,
            },
        )


def _move(cursor: Cursor, changes: Sequence[ViewChange]) -> None:
    """The positions move by compare-and-set (I1), all of them in one statement."""
    wanted = {
        (change.view, source): (None if expected is None else str(expected), None if new is None else str(new))
        for change in changes
        for source, (expected, new) in change.positions.items()
        if expected is not None or new is not None
    }
    if not wanted:
        return
    moves = [(*place, *move) for place, move in wanted.items()]
    cursor.execute(
        load("move_positions.sql"),
        dict(zip(("views", "sources", "expected", "new"), map(list, zip(*moves, strict=True)), strict=True)),
    )
    moved = set(cursor.fetchall())
    for (view, source), (expected, _) in wanted.items():
        if (view, source) not in moved:
            cursor.execute("SELECT position FROM dyda.position WHERE view = %s AND source = %s", (view, source))
            found = cursor.fetchone()
            raise PositionMoved(view, source, expected, found[0] if found else None)


def save_source(cursor: Cursor, state: SourceState) -> None:
    identity = state.identity
    cursor.execute(
        load("save_source.sql"),
        {
            **vars(state),
            "system_identifier": None if identity is None else str(identity.system_identifier),
            "timeline": None if identity is None else str(identity.timeline),
        },
    )


def save_relation(cursor: Cursor, state: RelationState) -> None:
    row = relation_to_json(state.relation)
    cursor.execute(
        load("save_relation.sql"),
        {
            **row,
            **vars(state),
            "columns": Json(row["columns"]),
            "keys": Json(row["keys"]),
            "position": None if state.position is None else str(state.position),
        },
    )


def _save_unit(cursor: Cursor, unit: UnitRecord) -> int:
    cursor.execute(load("save_unit.sql"), {**vars(unit), "phases": Json(dict(unit.phases))})
    return int(cursor.fetchone()[0])
