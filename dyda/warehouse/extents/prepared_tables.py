"""Tables that are filled before they belong to a view, so that the transaction that installs them has little to do.

dyda.prepared_<number> becomes dyda.extent_<number> with its installation. Until then it is garbage that the session
which made it guards, like a staging table: the next process drops what a dead one left behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from psycopg2 import sql

from dyda.cursor import Connection, Cursor
from dyda.model.cause import LostIndex
from dyda.warehouse.catalog.records import ViewVersion
from dyda.warehouse.catalog.schema import SCHEMA
from dyda.warehouse.catalog.stored_views import known_extent
from dyda.warehouse.connection import PREPARED_CLASS
from dyda.warehouse.extents.entries import all_entries
from dyda.warehouse.extents.extent import check_types
from dyda.warehouse.extents.forms import filled_extent
from dyda.warehouse.extents.indexes import declare
from dyda.warehouse.extents.plain_extent import PlainExtent
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.tables import StoredState

__all__ = ["PreparedTables", "collect_prepared", "prepare", "rewrite", "take"]


@dataclass(frozen=True)
class PreparedTables:
    """An extent and its number of rows, the numbers of its states, and declared indexes that cannot be made."""

    extent: PlainExtent
    rows: int
    refused: tuple[int, ...] | None = None
    """A proven key by which the rows cannot be found."""
    states: tuple[int, ...] = ()
    lost: tuple[LostIndex, ...] = ()
    of: int | None = None
    """The narrowed extent whose rows these are; the states stay."""


def prepare(
    connection: Connection,
    view: str,
    version: ViewVersion,
    delta: pa.Table | None,
    rows: Staging | None,
    places: Sequence[int] | None,
    states: Sequence[Staging],
) -> PreparedTables:
    """An extent and its states for this version, with keys, indexes and statistics; committed. Its rows are the sum of
    `delta`, `rows` and the columns at `places` of the extent that the view has."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL max_parallel_maintenance_workers = 0")  # units need the other processors
        check_types(cursor, view, [column.type for column in version.columns])
        number, width = _number(cursor), len(version.columns)
        projected = None if places is None else known_extent(cursor, view)[1].projected(places)
        entries = all_entries(cursor, f"view {view}", width, str(number), delta, rows, projected)
        made = filled_extent(cursor, number, view, version.columns, version.layout, entries)
        lost = declare(cursor, made.extent, version.layout, strict=version.file_text is not None)
        numbers = []
        for table, staged in zip(version.states or (), states, strict=True):
            check_types(cursor, view, [type_ for _, type_ in table.state.columns])
            stored = StoredState.new(_number(cursor), view, table)
            stored.create(cursor, staged.identifier)
            numbers.append(stored.number)
        for number in (made.extent.number, *numbers):
            _rename(cursor, f"extent_{number}", f"prepared_{number}")
    connection.commit()
    return PreparedTables(made.extent, made.rows, made.refused, tuple(numbers), tuple(lost))


def rewrite(connection: Connection, view: str) -> PreparedTables | None:
    """A narrowed extent of the view in a table of its own; None if it has one. The view must not move meanwhile."""
    with connection.cursor() as cursor:
        known, narrowed = known_extent(cursor, view)
        if narrowed.settled:
            return None
        rows = narrowed.projected(range(len(narrowed.types)))
        made = filled_extent(cursor, _number(cursor), view, known.columns, known.layout, rows)
        lost = declare(cursor, made.extent, known.layout, strict=False)
        _rename(cursor, f"extent_{made.extent.number}", f"prepared_{made.extent.number}")
    connection.commit()
    return PreparedTables(made.extent, made.rows, made.refused, lost=tuple(lost), of=narrowed.number)


def take(cursor: Cursor, number: int, view: str, version: int | None) -> None:
    """The table is an extent of the view from now on."""
    _rename(cursor, f"prepared_{number}", f"extent_{number}")
    cursor.execute("INSERT INTO dyda.extent (id, view, version) VALUES (%s, %s, %s)", (number, view, version))


def collect_prepared(connection: Connection) -> None:
    """Drops the tables that no live session guards."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT substr(relname, 10)::integer FROM pg_class"
            " WHERE relnamespace = 'dyda'::regnamespace AND relkind = 'r' AND relname ~ '^prepared_[0-9]+$'"
        )
        for (number,) in cursor.fetchall():
            cursor.execute("SELECT pg_try_advisory_lock(%s, %s)", (PREPARED_CLASS, number))
            (free,) = cursor.fetchone()
            if free:
                cursor.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(SCHEMA, f"prepared_{number}")))
                cursor.execute("SELECT pg_advisory_unlock(%s, %s)", (PREPARED_CLASS, number))
    connection.commit()


def _number(cursor: Cursor) -> int:
    """A number that no extent has or will get; guarded by this session."""
    cursor.execute("SELECT nextval(pg_get_serial_sequence('dyda.extent', 'id'))")
    (number,) = cursor.fetchone()
    cursor.execute("SELECT pg_advisory_lock(%s, %s)", (PREPARED_CLASS, number))
    return int(number)


def _rename(cursor: Cursor, before: str, after: str) -> None:
    cursor.execute(sql.SQL("ALTER TABLE {} RENAME TO {}").format(sql.Identifier(SCHEMA, before), sql.Identifier(after)))
