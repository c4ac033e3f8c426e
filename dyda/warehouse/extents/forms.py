"""Which form an extent's table has, as the catalog says (dyda.form), and which one a new table gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyda.cursor import Cursor
from dyda.model.layout import Layout
from dyda.warehouse.catalog.records import ViewColumn
from dyda.warehouse.extents.counted_extent import CountedExtent
from dyda.warehouse.extents.extent import Extent
from dyda.warehouse.extents.plain_extent import BagExtent, KeyedExtent, LooseExtent, PlainExtent

__all__ = [
    "COUNTED",
    "KEYED",
    "MOST_KEY_COLUMNS",
    "key_places",
    "narrowed_extent",
    "new_extent",
    "renamed_extent",
    "save_form",
    "stored_extent",
]

COUNTED, KEYED, BAG, LOOSE = "counted", "keyed", "bag", "loose"

MOST_KEY_COLUMNS = 4
"""A unique index on more columns takes more room than digests do: the key of a DISTINCT view is all that it selects."""


def stored_extent(
    number: int,
    view: str,
    columns: Sequence[ViewColumn],
    form: str,
    key: Sequence[int] | None = None,
    places: Sequence[int] | None = None,
) -> Extent:
    """An extent that is there: `form` and `key` are its table's, `places` the version's."""
    names, types = tuple(column.name for column in columns), tuple(column.type for column in columns)
    match form:
        case "counted":
            return CountedExtent(number, view, types, None if places is None else tuple(places))
        case "keyed":
            return KeyedExtent(number, view, types, names, tuple(key or ()))
        case "bag":
            return BagExtent(number, view, types, names)
        case "loose":
            return LooseExtent(number, view, types, names)
        case _:
            raise ValueError(f"extent {number} of view {view} has the unknown form {form!r}")


def new_extent(number: int, view: str, columns: Sequence[ViewColumn], key: tuple[int, ...] | None) -> PlainExtent:
    """A new table: every row is found by the proven key at these places, or by a digest."""
    names, types = tuple(column.name for column in columns), tuple(column.type for column in columns)
    if key is None:
        return BagExtent(number, view, types, names)
    return KeyedExtent(number, view, types, names, key)


def narrowed_extent(
    extent: Extent, number: int, columns: Sequence[ViewColumn], places: Sequence[int], layout: Layout
) -> Extent:
    """The extent's table under another number, of which the view has only the columns at `places` from now on."""
    if isinstance(extent, CountedExtent):
        return extent.narrowed(number, places)
    assert isinstance(extent, PlainExtent)
    names = tuple(column.name for column in columns)
    types = tuple(column.type for column in columns)
    if isinstance(extent, KeyedExtent) and set(extent.key) <= set(places):
        key = tuple(places.index(place) for place in extent.key)
        if key_places(columns, layout) == key:
            return KeyedExtent(number, extent.view, types, names, key)
    return LooseExtent(number, extent.view, types, names)


def renamed_extent(extent: Extent, columns: Sequence[ViewColumn]) -> Extent:
    """The same table, whose columns have these names from now on."""
    if isinstance(extent, PlainExtent):
        return replace(extent, names=tuple(column.name for column in columns))
    return extent


def key_places(columns: Sequence[ViewColumn], layout: Layout) -> tuple[int, ...] | None:
    """The places of the proven key's columns, from 0, if rows are to be found by it."""
    if layout.key is None or len(layout.key) > MOST_KEY_COLUMNS:
        return None
    names = [column.name for column in columns]
    return tuple(names.index(name) for name in layout.key)


def save_form(cursor: Cursor, extent: Extent, refused: Sequence[int] | None = None) -> None:
    """Writes down which form the table has. `refused` is a proven key by which the rows of a bag cannot be found."""
    key = None if refused is None else list(refused)
    match extent:
        case KeyedExtent():
            form, key = KEYED, list(extent.key)
        case BagExtent():
            form = BAG
        case LooseExtent():
            form = LOOSE
        case _:
            form = COUNTED
    cursor.execute(
        "INSERT INTO dyda.form (extent, form, key) VALUES (%s, %s, %s)"
        " ON CONFLICT (extent) DO UPDATE SET form = excluded.form, key = excluded.key",
        (extent.number, form, key),
    )
