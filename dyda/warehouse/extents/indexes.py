"""The indexes of extents: those that a view's file declares, and those that users made by hand.

    dyda_key_<n>, dyda_row_<n>           how changes find their rows: see plain_extent
    dyda_declared_key_<n>                `key = (…)` of the view's file: unique, checked when a statement is done
    dyda_index_<n>_<i>                   `index = (…)`
    any other name                       made by hand

A new table gets them all before readers see it. What is lost, because a column is gone or rows do not allow it, is said
and never in the way of the rows: a view is a bag first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg2
from psycopg2 import sql
from psycopg2.extras import Json

from dyda.cursor import Cursor
from dyda.errors import DeclaredKeyBroken, NotInstallable
from dyda.model.cause import DeclaredIndexLost, DeclaredKeyRepeated, HandmadeIndexLost, LostIndex
from dyda.model.layout import Layout, LayoutEvent
from dyda.warehouse.catalog.cause_codec import cause_to_json
from dyda.warehouse.catalog.records import ViewVersion
from dyda.warehouse.connection import load, short
from dyda.warehouse.extents.counted_extent import CountedExtent
from dyda.warehouse.extents.extent import Extent
from dyda.warehouse.extents.keyed_extent import IndexedExtent
from dyda.warehouse.extents.plain_extent import DECLARED_KEY, PlainExtent
from dyda.warehouse.hidden_names import visible_name

__all__ = [
    "carry_over",
    "declare",
    "drop",
    "give_up_key",
    "keep_found",
    "lost_with",
    "obsolete",
    "save_lost",
    "undeclared",
]

OWN = "dyda_"
DECLARED = "dyda_index_"
GONE = "its columns are gone"
SAMPLES = 3
SCRATCH = sql.Identifier("pg_temp", "dyda_scratch")
REFUSALS = frozenset({"0A", "22", "23", "2B", "42", "54"})
"""Classes of errors that rows or columns cause."""


@dataclass(frozen=True)
class _Index:
    """An index that is there; `columns` is None if it has more than columns: an expression, a condition, an order."""

    oid: int
    name: str
    columns: tuple[str, ...] | None
    unique: bool
    definition: str


def declare(
    cursor: Cursor, extent: PlainExtent, layout: Layout, *, strict: bool, alone: Callable[[], None] = lambda: None
) -> list[LostIndex]:
    """The declared indexes that are not there yet; returns those that cannot be made.

    `strict`: an error instead, because the view's file has just been written. `alone` is called before readers would be
    in the way.
    """
    lost: list[LostIndex] = []
    key, view = layout.declared_key, visible_name(extent.view)
    if (
        key is not None
        and not _has(cursor, extent, key, unique=True)
        and (refused := _add_key(cursor, extent, key, alone))
    ):
        if strict:
            raise DeclaredKeyBroken(extent.view, key, refused.detail)
        lost.append(refused)
        layout = Layout(indexes=(key, *layout.indexes))
    for number, columns in enumerate(layout.indexes, start=1):
        if not _has(cursor, extent, columns) and (why := _add_index(cursor, extent, columns, number)):
            if strict:
                raise NotInstallable(extent.view, f"there can be no index on ({', '.join(columns)}): {why}")
            lost.append(DeclaredIndexLost(view, columns, why))
    if isinstance(extent, IndexedExtent) and extent.key_names == key and _has_declared_key(cursor, extent):
        # Its unique index finds the rows as well.
        alone()
        cursor.execute(sql.SQL("DROP INDEX IF EXISTS {}").format(sql.Identifier("dyda", extent.index_name)))
    return lost


def keep_found(cursor: Cursor, extent: PlainExtent) -> None:
    """Rows that were found by an index which is declared no more are found by one of ours."""
    if isinstance(extent, IndexedExtent) and not _has(cursor, extent, extent.key_names):
        extent.add_index(cursor)


def obsolete(cursor: Cursor, extent: PlainExtent, layout: Layout) -> list[str]:
    """The declared indexes that are there and not declared any more."""
    wanted = {_stored(extent, columns) for columns in layout.indexes}
    key = None if layout.declared_key is None else _stored(extent, layout.declared_key)
    there = _indexes(cursor, extent.identifier)
    if not any(index.columns == key and index.unique for index in there):
        wanted.add(key)  # rows break it, and an index is all that is left of it
    return [
        index.name
        for index in there
        if (index.name.startswith(DECLARED_KEY) and index.columns != key)
        or (index.name.startswith(DECLARED) and index.columns not in wanted)
    ]


def drop(cursor: Cursor, extent: PlainExtent, names: Sequence[str]) -> None:
    """Under an exclusive lock on the table."""
    for name in names:
        if name.startswith(DECLARED_KEY):
            statement = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}")
            cursor.execute(statement.format(extent.identifier, sql.Identifier(name)))
        else:
            cursor.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier("dyda", name)))


def give_up_key(cursor: Cursor, extent: PlainExtent, layout: Layout) -> LostIndex:
    """Rows have come that the declared key does not allow: it becomes an index like any other. What is lost."""
    assert layout.declared_key is not None
    names = [index.name for index in _indexes(cursor, extent.identifier) if index.name.startswith(DECLARED_KEY)]
    drop(cursor, extent, names)
    _add_index(cursor, extent, layout.declared_key, 0)
    return DeclaredKeyRepeated(visible_name(extent.view), layout.declared_key, "two rows have come that agree in it")


def lost_with(cursor: Cursor, extent: PlainExtent, columns: Sequence[str]) -> list[LostIndex]:
    """The indexes that go when these columns of the table are dropped, but for those that find rows."""
    cursor.execute(load("indexes_on.sql"), (extent.identifier.as_string(cursor), list(columns)))
    gone = {name for (name,) in cursor.fetchall()}
    view, shown = visible_name(extent.view), dict(zip(extent.stored_names, extent.names, strict=True))
    lost: list[LostIndex] = []
    for index in _indexes(cursor, extent.identifier):
        if index.name not in gone:
            continue
        if not index.name.startswith(OWN) or index.columns is None:
            lost.append(HandmadeIndexLost(view, index.name, index.definition, GONE))
            continue
        names = tuple(shown[column] for column in index.columns)
        lost.append(DeclaredIndexLost(view, names, GONE, index.name.startswith(DECLARED_KEY)))
    return lost


def undeclared(version: ViewVersion, view: str) -> list[LostIndex]:
    """What the view's file declares and a version that a schema change brings has not: its columns are gone. Under
    other names it is not lost."""
    if version.file_text is not None:
        return []
    events = [(LayoutEvent(entry["event"]), tuple(entry["columns"])) for entry in version.details.get("layout", ())]
    kept = {event for event, _ in events}
    return [
        DeclaredIndexLost(visible_name(view), columns, GONE, unique=event is LayoutEvent.KEY_LOST)
        for event, columns in events
        if (event is LayoutEvent.KEY_LOST and LayoutEvent.KEY_DECLARED not in kept)
        or (event is LayoutEvent.INDEX_LOST and LayoutEvent.INDEX_DECLARED not in kept)
    ]


def save_lost(cursor: Cursor, view: str, lost: Sequence[LostIndex]) -> None:
    """Writes down what the view has lost with its current version."""
    if lost:
        entries = Json([cause_to_json(one) for one in lost])
        cursor.execute(load("save_lost_indexes.sql"), {"view": view, "lost": entries})


def carry_over(
    cursor: Cursor, before: Extent, names: Sequence[str], after: PlainExtent
) -> tuple[list[LostIndex], list[str]]:
    """Makes the indexes that users made on `before`, whose view's columns have these names, on the table `after`.

    Returns those that cannot be made, and statements that give the others their names when the old table is gone.
    """
    by_hand = [index for index in _indexes(cursor, before.identifier) if _by_hand(before, index)]
    if not by_hand:
        return [], []
    kept = _translated(cursor, before, names, after, by_hand)
    lost: list[LostIndex] = []
    renames = []
    for number, index in enumerate(by_hand):
        definition = kept.get(index.oid)
        if definition is None:
            lost.append(HandmadeIndexLost(visible_name(after.view), index.name, index.definition, GONE))
            continue
        name = f"dyda_moving_{after.number}_{number}"
        unique = "UNIQUE " if index.unique else ""
        head = sql.SQL("CREATE {}INDEX {} ON {} USING ").format(sql.SQL(unique), sql.Identifier(name), after.identifier)
        if why := _attempt(cursor, head.as_string(cursor) + definition):
            lost.append(HandmadeIndexLost(visible_name(after.view), index.name, index.definition, why))
        else:
            rename = sql.SQL("ALTER INDEX {} RENAME TO {}")
            renames.append(rename.format(sql.Identifier("dyda", name), sql.Identifier(index.name)).as_string(cursor))
    return lost, renames


def _by_hand(extent: Extent, index: _Index) -> bool:
    if isinstance(extent, CountedExtent):
        return index.columns != ("hash",)
    return not index.name.startswith(OWN)


def _translated(
    cursor: Cursor, before: Extent, names: Sequence[str], after: PlainExtent, by_hand: Sequence[_Index]
) -> dict[int, str]:
    """What follows USING in the definitions of those indexes that the columns of `after` allow.

    PostgreSQL itself says so: an empty copy of the table loses the columns that are gone, with their indexes, and gets
    the names and types of the others.
    """
    cursor.execute("SAVEPOINT translating")
    like = sql.SQL("CREATE TEMPORARY TABLE dyda_scratch (LIKE {} INCLUDING INDEXES)")
    cursor.execute(like.format(before.identifier))
    # Copies are made in the order of the originals.
    originals, copies = _indexes(cursor, before.identifier), _indexes(cursor, SCRATCH)
    if len(originals) != len(copies):
        cursor.execute("ROLLBACK TO SAVEPOINT translating; RELEASE SAVEPOINT translating")
        return {}
    copy_of = {original.oid: copy.name for original, copy in zip(originals, copies, strict=True)}
    place_of = {
        before.column(place).string: after.names.index(name) for place, name in enumerate(names) if name in after.names
    }
    alter = sql.SQL("ALTER TABLE {} ").format(SCRATCH)
    aside = {}
    for number, column in enumerate(_columns(cursor, SCRATCH)):
        name, place = sql.Identifier(column), place_of.get(column)
        typed = sql.SQL("ALTER {0} TYPE {1} USING NULL::{1}")
        if place is None or _attempt(cursor, alter + typed.format(name, sql.SQL(after.types[place]))):
            cursor.execute(alter + sql.SQL("DROP COLUMN {} CASCADE").format(name))
        else:
            aside[f"dyda scratch {number}"] = after.column(place)
            cursor.execute(alter + sql.SQL("RENAME {} TO {}").format(name, sql.Identifier(f"dyda scratch {number}")))
    for column, name in aside.items():
        cursor.execute(alter + sql.SQL("RENAME {} TO {}").format(sql.Identifier(column), name))
    left = {index.name: index.definition for index in _indexes(cursor, SCRATCH)}
    cursor.execute("ROLLBACK TO SAVEPOINT translating; RELEASE SAVEPOINT translating")
    return {
        index.oid: left[copy_of[index.oid]].partition(" ON pg_temp")[2].partition(" USING ")[2]
        for index in by_hand
        if copy_of[index.oid] in left
    }


def _indexes(cursor: Cursor, table: sql.Composable) -> list[_Index]:
    """In the order in which they were made."""
    cursor.execute(load("indexes_of.sql"), (table.as_string(cursor),))
    return [
        _Index(oid, name, None if columns is None else tuple(columns), unique, definition)
        for oid, name, columns, unique, definition in cursor.fetchall()
    ]


def _columns(cursor: Cursor, table: sql.Composable) -> list[str]:
    cursor.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped",
        (table.as_string(cursor),),
    )
    return [name for (name,) in cursor.fetchall()]


def _stored(extent: PlainExtent, columns: Sequence[str]) -> tuple[str, ...] | None:
    """The table's names of these columns of the view; None if one of them is gone."""
    stored = dict(zip(extent.names, extent.stored_names, strict=True))
    return tuple(stored[column] for column in columns) if set(columns) <= set(stored) else None


def _has(cursor: Cursor, extent: PlainExtent, columns: Sequence[str], *, unique: bool = False) -> bool:
    wanted = _stored(extent, columns)
    found = _indexes(cursor, extent.identifier)
    return any(index.columns == wanted and index.unique >= unique for index in found if wanted is not None)


def _has_declared_key(cursor: Cursor, extent: IndexedExtent) -> bool:
    """Whether the rows can be found by the index of the declared key, beside one that is ours alone. One that a user
    has made may go at any time."""
    wanted = _stored(extent, extent.key_names)
    found = _indexes(cursor, extent.identifier)
    ours = any(index.name == extent.index_name for index in found)
    return ours and any(index.name.startswith(DECLARED_KEY) and index.columns == wanted for index in found)


def _add_key(
    cursor: Cursor, extent: PlainExtent, key: tuple[str, ...], alone: Callable[[], None]
) -> DeclaredKeyRepeated | DeclaredIndexLost | None:
    """Why there is none; None if there is."""
    view, stored = visible_name(extent.view), _stored(extent, key)
    if stored is None:
        return DeclaredIndexLost(view, key, GONE, unique=True)
    name = _free_name(cursor, extent, f"{DECLARED_KEY}{extent.number}")
    index = sql.SQL("CREATE UNIQUE INDEX {} ON {} ({})").format(name, extent.identifier, _list(stored))
    if why := _attempt(cursor, index):
        repeated = _repeated(cursor, extent, stored)
        return DeclaredKeyRepeated(view, key, repeated) if repeated else DeclaredIndexLost(view, key, why, unique=True)
    alone()
    # Deferrable: a row that replaces another one with its key may be inserted before the other one is deleted.
    constraint = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} UNIQUE USING INDEX {} DEFERRABLE")
    cursor.execute(constraint.format(extent.identifier, name, name))
    return None


def _repeated(cursor: Cursor, extent: PlainExtent, key: Sequence[str]) -> str:
    """Some values of the key that several rows have."""
    query = sql.SQL(
        "SELECT ROW({0})::text, count(*) FROM {1} GROUP BY {0} HAVING count(*) > 1 ORDER BY 2 DESC, 1 LIMIT {2}"
    )
    cursor.execute(query.format(_list(key), extent.identifier, sql.Literal(SAMPLES)))
    return ", ".join(f"{count} rows have {row}" for row, count in cursor.fetchall())


def _add_index(cursor: Cursor, extent: PlainExtent, columns: Sequence[str], number: int) -> str | None:
    """Why there is none; None if there is."""
    stored = _stored(extent, columns)
    if stored is None:
        return GONE
    name = _free_name(cursor, extent, f"{DECLARED}{extent.number}_{number}")
    statement = sql.SQL("CREATE INDEX {} ON {} ({})")
    return _attempt(cursor, statement.format(name, extent.identifier, _list(stored)))


def _free_name(cursor: Cursor, extent: PlainExtent, name: str) -> sql.Identifier:
    """One that is declared no more goes after the new ones are there."""
    names = {index.name for index in _indexes(cursor, extent.identifier)}
    while name in names:
        name += "_"
    return sql.Identifier(name)


def _attempt(cursor: Cursor, statement: sql.Composable | str) -> str | None:
    """What PostgreSQL says against the statement, which then has no effect."""
    cursor.execute("SAVEPOINT attempt")
    why = None
    try:
        cursor.execute(statement)
    except psycopg2.Error as error:
        if error.pgcode is None or error.pgcode[:2] not in REFUSALS:
            raise
        cursor.execute("ROLLBACK TO SAVEPOINT attempt")
        why = short(error)
    cursor.execute("RELEASE SAVEPOINT attempt")
    return why


def _list(names: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, names))
