"""Views as the catalog has them at one moment of a transaction: version, extent, columns, states."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dyda.cursor import Cursor
from dyda.errors import UnknownView
from dyda.model.cause import Cause
from dyda.model.layout import Layout
from dyda.model.view_state import ViewState
from dyda.warehouse.catalog.cause_codec import cause_from_json
from dyda.warehouse.catalog.codec import layout_from_json, view_columns_from_json
from dyda.warehouse.catalog.records import ViewColumn
from dyda.warehouse.connection import load
from dyda.warehouse.extents.extent import Extent
from dyda.warehouse.extents.forms import stored_extent
from dyda.warehouse.states.tables import StoredState, stored_states

__all__ = ["KnownView", "known_extent", "known_state", "known_views"]


@dataclass(frozen=True)
class KnownView:
    """`version` and `extent` are None while it has no rows."""

    state: ViewState = ViewState.BUILDING
    cause: Cause | None = None
    version: int | None = None
    extent: Extent | None = None
    columns: tuple[ViewColumn, ...] = ()
    states: tuple[StoredState, ...] = ()
    layout: Layout = field(default_factory=Layout)


def known_views(cursor: Cursor, views: Iterable[str]) -> dict[str, KnownView]:
    """Those of the views that there are."""
    cursor.execute(load("known_views.sql"), (list(views),))
    found = {}
    for view, state, why, version, number, form, key, stored, states, places, layout, forms in cursor.fetchall():
        now = ViewState(state), cause_from_json(why)
        if number is None:
            found[view] = KnownView(*now)
            continue
        columns = view_columns_from_json(stored)
        extent = stored_extent(number, view, columns, form, key, places)
        kept = stored_states(view, states, forms)
        found[view] = KnownView(*now, version, extent, columns, kept, layout_from_json(layout))
    return found


def known_extent(cursor: Cursor, view: str) -> tuple[KnownView, Extent]:
    """A view that has rows, and where they are."""
    known = known_views(cursor, [view]).get(view)
    if known is None or known.extent is None:
        raise UnknownView(f"there is no view {view!r} with rows")
    return known, known.extent


def known_state(cursor: Cursor, view: str, number: int) -> StoredState:
    """State `number` (from 0) of the view's current version."""
    states = known_extent(cursor, view)[0].states
    if not 0 <= number < len(states):
        raise ValueError(f"view {view} has {len(states)} states, none with number {number}")
    return states[number]
