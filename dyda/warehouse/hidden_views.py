"""Hidden views: what a lane has built, until it has caught up with the others.

    v        what readers see: the rows from before, or none
    v/next   the same view, built at an older position; maintained like any other view, seen by nobody

A hidden view has a row of its own in the catalog, with its version, extent, states and positions, so every rule about
positions (P3, P5, I1) holds for it as it is. `show` makes it the view: nothing is computed, no row moves, the names
change. The extent gets a new number then, so that a reader with an older snapshot notices (I2).
"""

from __future__ import annotations

from dataclasses import replace

from psycopg2 import sql
from psycopg2.extras import Json

from dyda.cursor import Cursor
from dyda.errors import UnknownView
from dyda.model.cause import LostIndex
from dyda.model.event import Event, ViewBuilt, ViewRecovered
from dyda.warehouse.catalog.stored_views import KnownView, known_views
from dyda.warehouse.connection import load
from dyda.warehouse.extents.extent import Extent, extent_table
from dyda.warehouse.extents.indexes import carry_over, save_lost
from dyda.warehouse.extents.plain_extent import PlainExtent
from dyda.warehouse.extents.published_view import Publication, Reader, publish
from dyda.warehouse.hidden_names import NEXT, hidden_name, visible_name
from dyda.warehouse.transitions import STOPPED, lost_indexes

__all__ = ["drop_all_hidden", "drop_hidden", "show"]


def show(cursor: Cursor, schema: str, view: str, patience: float) -> list[Event]:
    """Makes the hidden view the view, in the caller's transaction: rows, states, positions and versions are its own.
    Returns what has happened: also which indexes are lost with its old table."""
    hidden = hidden_name(view)
    known = known_views(cursor, [view, hidden])
    before, after = known.get(view), known.get(hidden)
    if before is None or after is None or after.extent is None or after.version is None:
        raise UnknownView(f"view {view} has no rows to show")
    cursor.execute("SELECT id FROM dyda.extent WHERE view = %s", (view,))
    old = [number for (number,) in cursor.fetchall()]
    cursor.execute(
        "SELECT details -> 'lost_indexes' FROM dyda.view_version WHERE view = %s AND version = %s",
        (hidden, after.version),
    )
    (built_without,) = cursor.fetchone()
    version = _versions(cursor, view, before)
    cursor.execute("UPDATE dyda.extent SET view = %s, version = %s WHERE view = %s", (view, version, hidden))
    cursor.execute("INSERT INTO dyda.extent (view, version) VALUES (%s, %s) RETURNING id", (view, version))
    (number,) = cursor.fetchone()
    cursor.execute("UPDATE dyda.form SET extent = %s WHERE extent = %s", (number, after.extent.number))
    after.extent.rename(cursor, number)
    cursor.execute("DELETE FROM dyda.extent WHERE id = %s", (after.extent.number,))
    cursor.execute(load("show_hidden.sql"), {"view": view, "hidden": hidden, "version": version, "extent": number})
    extent = replace(after.extent, number=number, view=view)
    lost, renames = _indexed_by_hand(cursor, before, extent)
    names = tuple(column.name for column in after.columns)
    publish(cursor, [Publication(Reader(schema, view), extent, names, before.extent)], patience)
    for gone in old:
        _drop_table(cursor, gone)
    cursor.execute("DELETE FROM dyda.extent WHERE id = ANY(%s)", (old,))
    for rename in renames:
        cursor.execute(rename)
    if built_without:  # said of a version that may be the view's already
        cursor.execute(load("save_lost_indexes.sql"), {"view": view, "lost": Json(built_without)})
    save_lost(cursor, view, lost)
    cursor.execute("SELECT rows FROM dyda.view WHERE name = %s", (view,))
    (rows,) = cursor.fetchone()
    recovered = [ViewRecovered(view, before.state)] if before.state in STOPPED else []
    return [ViewBuilt(view, rows, before.cause), *recovered, *lost_indexes(lost)]


def _indexed_by_hand(cursor: Cursor, before: KnownView, extent: Extent) -> tuple[list[LostIndex], list[str]]:
    """What users have indexed on the old table, made on the new one before readers see it."""
    if before.extent is None or not isinstance(extent, PlainExtent):
        return [], []
    return carry_over(cursor, before.extent, [column.name for column in before.columns], extent)


def _drop_table(cursor: Cursor, number: int) -> None:
    cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(extent_table(number)))


def _versions(cursor: Cursor, view: str, before: KnownView) -> int:
    """The versions of the hidden view become the view's; returns the last. A view that was only read again keeps its
    version."""
    names = {"view": view, "hidden": hidden_name(view), "offset": before.version or 0}
    cursor.execute(load("same_version.sql"), names)
    (same,) = cursor.fetchone()
    if same and before.version is not None:
        return before.version
    cursor.execute(load("take_versions.sql"), names)
    cursor.execute("SELECT max(version) FROM dyda.view_version WHERE view = %s", (view,))
    return int(cursor.fetchone()[0])


def drop_hidden(cursor: Cursor, view: str) -> None:
    """What a lane has built for the view, if anything."""
    hidden = hidden_name(view)
    cursor.execute("SELECT id FROM dyda.extent WHERE view = %s", (hidden,))
    for (number,) in cursor.fetchall():
        _drop_table(cursor, number)
    cursor.execute("DELETE FROM dyda.view WHERE name = %s", (hidden,))


def drop_all_hidden(cursor: Cursor) -> None:
    """What the lanes of another process have built: their work is lost, and nothing else."""
    cursor.execute("SELECT name FROM dyda.view WHERE right(name, length(%(next)s)) = %(next)s", {"next": NEXT})
    for (name,) in cursor.fetchall():
        drop_hidden(cursor, visible_name(name))
