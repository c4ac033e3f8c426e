"""A stored state with fewer keys or fewer numbers. Its rows hold every group, so no source is read.

    (name, dest) rows sum      ─▶ (name) rows sum        counts and sums are added, the smallest of the smallest is kept

What cannot be added (an aggregate of PostgreSQL's own) is copied where no groups are merged.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.model.operator_state import Accumulator, Counted, Grouped, State
from dyda.warehouse.connection import load
from dyda.warehouse.extents.extent import check_types
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.canonical_values import canonical, extreme, printed
from dyda.warehouse.states.grouping_sql import key_of
from dyda.warehouse.states.tables import StoredState

__all__ = ["regroup"]


def regroup(cursor: Cursor, stored: StoredState, state: State, places: Sequence[int], target: Staging) -> None:
    """The rows of `state` into `target`. `places`: for each of its columns but the digest, the place (from 0) of the
    stored state's column that it is made from."""
    keys, numbers = _parts(state)
    old = [type_ for _, type_ in stored.state.columns]
    if len(places) != len(keys) + len(numbers) or target.width != len(state.columns):
        raise ValueError(f"view {stored.view}: {len(state.columns)} columns were expected")
    check_types(cursor, stored.view, [type_ for _, type_ in state.columns])
    items, texts = [], []
    for place, (type_, at) in enumerate(zip(keys, places, strict=False), start=1):
        if old[at] != type_:
            raise ValueError(f"view {stored.view}: {old[at]} is not {type_}")
        items.append(f"{printed(type_, canonical(type_, f'e.c{at + 1}'))} AS p{place}")
        texts.append(f"p{place}")
    for place, (number, at) in enumerate(zip(numbers, places[len(keys) :], strict=True), start=1):
        total = canonical(number.type, f"({_total(number, f'e.c{at + 1}')})::{number.type}")
        items.append(f"{printed(number.type, total)} AS a{place}")
        texts.append(f"a{place}")
    names = [f"p{place}" for place in range(1, len(keys) + 1)]
    columns = sql.SQL(", ").join(sql.Identifier(f"c{place}") for place in range(1, target.width + 1))
    statement = load("regroup.sql").format(
        target=target.identifier,
        columns=columns,
        key=sql.SQL(key_of(names)),
        texts=sql.SQL("".join(f", {text}" for text in texts)),
        items=sql.SQL(", ".join(items)),
        extent=stored.extent.identifier,
        keys=sql.SQL(", ".join(names) or "()"),
    )
    cursor.execute(statement)


def _parts(state: State) -> tuple[tuple[str, ...], tuple[Accumulator, ...]]:
    """The types of a row's keys, and the numbers that are kept for each."""
    count = Accumulator("count", None, "bigint")
    match state:
        case Counted(types=types):
            return types, (count, count)
        case Grouped(keys=keys, accumulators=accumulators):
            return keys, (count, *accumulators)
        case _:
            raise ValueError("an intermediate result has no groups")


def _total(number: Accumulator, value: str) -> str:
    if number.recomputed:
        return f"min({value})"  # one row a group: nothing to choose from
    if number.function in ("min", "max"):
        return extreme(number.function, number.type, printed(number.type, value), "true")
    return f"sum({value})"
