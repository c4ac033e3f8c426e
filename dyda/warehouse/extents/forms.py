"""Which form an extent's table has, as the catalog says (dyda.form), and which one a new table gets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.model.layout import Layout
from dyda.warehouse.catalog.records import ViewColumn
from dyda.warehouse.extents.counted_extent import CountedExtent
from dyda.warehouse.extents.extent import Extent
from dyda.warehouse.extents.keyed_extent import FoundByColumns, IndexedExtent, KeyedExtent, KeyUnusable
from dyda.warehouse.extents.plain_extent import BagExtent, LooseExtent, PlainExtent
from dyda.warehouse.extents.selectivity import MOST_KEY_COLUMNS, declared_choices, selective_columns

__all__ = [
    "COUNTED",
    "KEYED",
    "Filled",
    "filled_extent",
    "is_outdated",
    "key_places",
    "narrowed_extent",
    "renamed_extent",
    "save_form",
    "stored_extent",
]

COUNTED, KEYED, INDEXED, BAG, LOOSE = "counted", "keyed", "indexed", "bag", "loose"


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
        case "indexed":
            return IndexedExtent(number, view, types, names, tuple(key or ()))
        case "bag":
            return BagExtent(number, view, types, names)
        case "loose":
            return LooseExtent(number, view, types, names)
        case _:
            raise ValueError(f"extent {number} of view {view} has the unknown form {form!r}")


@dataclass(frozen=True)
class Filled:
    """A new table with its rows in; `refused` are columns, proven to be a key or declared, that cannot find them."""

    extent: PlainExtent
    rows: int
    refused: tuple[int, ...] | None = None


def filled_extent(
    cursor: Cursor,
    number: int,
    view: str,
    columns: Sequence[ViewColumn],
    layout: Layout,
    entries: sql.Composable,
    *,
    by_key: bool = True,
) -> Filled:
    """A new table with the entries in: by its proven key if there is one and an index takes it, by columns that few
    rows share, or else by digests. `by_key` False: by digests."""
    order = next(declared_choices(columns, layout), ())
    found = _found_by_columns(cursor, number, view, columns, layout, entries) if by_key else None
    if found is not None:
        cursor.execute(f"SAVEPOINT {KeyUnusable.SAVEPOINT}")
        try:
            found.create(cursor)
            return Filled(found, found.fill(cursor, entries, found.key if isinstance(found, KeyedExtent) else order))
        except KeyUnusable:
            cursor.execute(f"ROLLBACK TO SAVEPOINT {KeyUnusable.SAVEPOINT}")
    names, types = tuple(column.name for column in columns), tuple(column.type for column in columns)
    extent = BagExtent(number, view, types, names)
    extent.create(cursor)
    return Filled(extent, extent.fill(cursor, entries, order), _first_choice(columns, layout))


def _found_by_columns(
    cursor: Cursor, number: int, view: str, columns: Sequence[ViewColumn], layout: Layout, entries: sql.Composable
) -> FoundByColumns | None:
    names, types = tuple(column.name for column in columns), tuple(column.type for column in columns)
    if (proven := key_places(columns, layout)) is not None:
        return KeyedExtent(number, view, types, names, proven)
    if (chosen := selective_columns(cursor, columns, layout, entries)) is not None:
        return IndexedExtent(number, view, types, names, chosen)
    return None


def is_outdated(form: str, key: Sequence[int] | None, columns: Sequence[ViewColumn], layout: Layout) -> bool:
    """Whether a new table would get another form. The key of a bag is what could not find its rows."""
    match form:
        case "keyed":
            return False
        case "indexed":
            return key_places(columns, layout) is not None
        case "bag":
            choice = _first_choice(columns, layout)
            return choice is not None and (key is None or tuple(key) != choice)
        case _:
            return True


def _first_choice(columns: Sequence[ViewColumn], layout: Layout) -> tuple[int, ...] | None:
    """The columns that come first when a table's rows are to be found by some."""
    proven = key_places(columns, layout)
    return proven if proven is not None else next(declared_choices(columns, layout), None)


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
    if isinstance(extent, IndexedExtent) and set(extent.key) <= set(places):
        return IndexedExtent(number, extent.view, types, names, tuple(places.index(place) for place in extent.key))
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
    """Writes down which form the table has. `refused` are columns by which the rows of a bag cannot be found."""
    key = None if refused is None else list(refused)
    match extent:
        case KeyedExtent():
            form, key = KEYED, list(extent.key)
        case IndexedExtent():
            form, key = INDEXED, list(extent.key)
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
