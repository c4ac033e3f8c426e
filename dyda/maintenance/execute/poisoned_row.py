"""Which row of a message a view cannot be computed over: found by halving, so that an operator need not look for it.

rows of the message ─half─▶ computed? ─▶ the other half … ─▶ one row ─▶ fails alone? that is the one
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from dyda.errors import DydaError, EvaluationFailed, ValueDoesNotFit
from dyda.maintenance.execute.deltas import Refresh
from dyda.model.bag import COUNT
from dyda.model.relation import Relation, RelationName
from dyda.sources.adapter import LACKS, XID
from scheduler import Unit

__all__ = ["culprit"]

SHOWN_COLUMNS = 12
SHOWN_CHARACTERS = 60

Place = tuple[int, int]
"""A row: the number of its relation, and its own among the relation's images."""


def culprit(
    refresh: Refresh, unit: Unit, read: frozenset[RelationName], compute: Callable[[Refresh], object]
) -> str | None:
    """The row in words; None if it takes several rows to fail, or if the message moves no rows.

    `compute` is what fails, over the relations `read`; what is not tried is left out of both worlds meanwhile.
    """
    images = refresh.images.tables
    relations = [relation for relation in images if relation.name in read]
    tables = [images[relation] for relation in relations]
    all_rows = _rows_of(unit, relations, tables)

    def fails(rows: Sequence[Place]) -> bool:
        left_out = set(all_rows).difference(rows)
        kept = {}
        for place, (relation, table) in enumerate(zip(relations, tables, strict=True)):
            stays = [(place, row) not in left_out for row in range(table.num_rows)]
            kept[relation] = table.filter(pa.array(stays, pa.bool_()))
        try:
            compute(refresh.over({**images, **kept}))
        except (ValueDoesNotFit, EvaluationFailed):
            return True
        except DydaError:
            return False  # half a transaction may well mean nothing; only what cannot be computed is looked for
        return False

    rows = all_rows
    while len(rows) > 1:
        half = rows[: len(rows) // 2]
        rows = half if fails(half) else rows[len(half) :]
    if not rows or (len(all_rows) > 1 and not fails(rows)):
        return None
    ((place, row),) = rows
    return f"row of {relations[place].name}: {_shown(tables[place], row)}"


def _rows_of(unit: Unit, relations: Sequence[Relation], tables: Sequence[pa.Table]) -> list[Place]:
    """The rows that the unit's messages put in, then those they took away: an old row was computed before."""
    found: list[tuple[bool, Place]] = []
    for place, (relation, table) in enumerate(zip(relations, tables, strict=True)):
        mine = {queued.message.xid for queued in unit.messages if queued.message.source == relation.name.source}
        xids, counts = table.column(XID).to_pylist(), table.column(COUNT).to_pylist()
        found += [(counts[row] < 0, (place, row)) for row, xid in enumerate(xids) if xid in mine]
    return [place for _, place in sorted(found)]


def _shown(table: pa.Table, number: int) -> str:
    names = [name for name in table.column_names if name not in (LACKS, XID, COUNT)]
    values = [f"{name} = {_value(table.column(name)[number].as_py())}" for name in names[:SHOWN_COLUMNS]]
    return ", ".join(values) + (f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else "")


def _value(text: str | None) -> str:
    if text is None:
        return "NULL"
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"
