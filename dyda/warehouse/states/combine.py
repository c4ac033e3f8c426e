"""Adding a step's entries to its state: the new rows of the state, and the change that the steps above read.

    entries (c1 …, n, side, t)  ──┐                                             ┌─▶ state      -before +after
                                  ├──▶ per touched key and tag: before, after ──┼─▶ delivered  the difference
    state, looked up by key  ─────┘                                             └─▶ stale      groups to read again

Nothing is written: the outcome is installed later, with the view's rows. The numbers are exact (numeric). A change per
tag is the difference between successive states (rule W6): before a tag are the stored state and all smaller tags.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import assert_never

import psycopg2
import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.errors import EvaluationFailed, InvariantViolated
from dyda.model.operator_state import Counted, Grouped, Kept, State
from dyda.rows import copy_out
from dyda.warehouse.connection import load, short
from dyda.warehouse.extents.entries import selectable_entries
from dyda.warehouse.extents.extent import check_types, lookups_only
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.grouping_sql import Grouping, key_of, listed, needs_single_tag, texts
from dyda.warehouse.states.tables import MULTIPLICITIES, StoredState, multiplicity, two_sided

__all__ = ["Combined", "combine", "combine_alone", "combine_staging", "recombine"]


NO_KEYS = pa.array([], pa.string())


@dataclass(frozen=True)
class Combined:
    """What entries do to a state; all columns but n (int64) and t (int32) are canonical texts.

    state      c1 … cn, n, t: state rows, -1 as they were and 1 as they will be; an installation takes them
    delivered  the columns that `state.delivered` names, n, t: the change that the steps above read; each row once per
               tag, no count is zero
    stale      key, k1 … km: groups that entries alone cannot update. They are left out of the two others
    """

    state: pa.Table
    delivered: pa.Table
    stale: pa.Table


def combine(cursor: Cursor, stored: StoredState, entries: pa.Table) -> Combined:
    """The change that entries make to a stored state; the caller's transaction ends afterwards."""
    state = stored.state
    table = _bring(cursor, len(state.entries), entries)
    with _owned(stored.view), lookups_only(cursor):
        match state:
            case Counted():
                return _combine_counted(cursor, stored, state, table)
            case Grouped():
                if needs_single_tag(state) and "t" in entries.column_names and len(pc.unique(entries["t"])) > 1:
                    raise ValueError(f"view {stored.view}: extremes and recomputed aggregates take one tag at a time")
                return _combine_grouped(cursor, stored, state, table)
            case Kept():
                return _combine_kept(cursor, stored, state, table)
            case _:
                assert_never(state)


def recombine(cursor: Cursor, stored: StoredState, entries: pa.Table, groups: pa.Table) -> Combined:
    """The change, with tag 1, of `groups` (k1 … km) that were read again: `entries` has all of their entries now.

    Entries of other groups are ignored.
    """
    state = stored.state
    if not isinstance(state, Grouped):
        raise TypeError(f"view {stored.view}: only groups are read again")
    grouping = Grouping(state)
    width = len(state.entries)
    table = _bring(cursor, width, entries)
    # The groups as entries that count for no row.
    asked_keys = {f"c{place}": groups[f"k{place}"] for place in range(1, len(state.keys) + 1)}
    no_rows = pa.repeat(pa.scalar(0, pa.int64()), groups.num_rows)
    marks = _bring(cursor, len(state.keys), pa.table({**asked_keys, "n": no_rows}), "groups")
    columns = _places(width)
    marked = [name if place < len(state.keys) else f"NULL AS {name}" for place, name in enumerate(columns)]
    asked = sql.SQL("(SELECT {}n, false AS asked FROM {} UNION ALL SELECT {}0, true FROM {}) AS asked_entries").format(
        listed(columns), table, listed(marked), marks
    )
    with _owned(stored.view), lookups_only(cursor):
        names = ["key", *grouping.keys, "negative", "existed", "remains", *grouping.befores, *grouping.afters]
        query = grouping.again(asked, stored.extent.identifier)
        found = copy_out(cursor, query.as_string(cursor), names)
    _refuse_negative(stored.view, found, found["negative"], grouping.keys)
    found = found.append_column("t", pa.repeat(pa.scalar(1, pa.int32()), found.num_rows))
    return _grouped_result(state, grouping, found, pa.table(dict.fromkeys(_stale_names(state), NO_KEYS)))


def combine_alone(cursor: Cursor, view: str, state: State, entries: pa.Table) -> Combined:
    """What entries make of a state that holds nothing, with tag 1: all of its rows."""
    width = len(state.entries)
    table = _bring(cursor, width, entries)
    placed = sql.SQL("(SELECT {}side AS {}, n FROM {}) AS placed").format(
        listed(_places(width)), sql.Identifier(f"c{width + 1}"), table
    )
    columns = _places(len(state.columns))
    query = sql.SQL("SELECT {}n, negative, {} AS delivered FROM ({}) AS whole WHERE n <> 0 OR negative").format(
        listed(columns), multiplicity(state, "whole", "n"), _whole(state, placed)
    )
    with _owned(view):
        found = copy_out(cursor, query.as_string(cursor), [*columns, "n", "negative", "delivered"])
    _refuse_negative(view, found, found["negative"], columns[1:] or columns)
    found = _with_numbers(found, ["n", "delivered"])
    found = found.append_column("t", pa.repeat(pa.scalar(1, pa.int32()), found.num_rows))
    shown = found.filter(pc.not_equal(found["delivered"], 0))
    rows = shown.select([*columns[: len(state.delivered)], "delivered", "t"])
    stale = pa.table(dict.fromkeys(_stale_names(state) if isinstance(state, Grouped) else ["key"], NO_KEYS))
    return Combined(found.select([*columns, "n", "t"]), _delivered(state, rows), stale)


def combine_staging(cursor: Cursor, view: str, state: State, entries: Staging, target: Staging) -> None:
    """All entries of a step as its state rows, into `target`. See Writer.combine_staging for the layout."""
    width = len(state.entries) + two_sided(state)
    if (entries.width, target.width) != (width, len(state.columns)):
        raise ValueError(f"view {view}: {width} columns in and {len(state.columns)} out were expected")
    check_types(cursor, view, [type_ for _, type_ in state.columns])
    columns = sql.SQL(", ".join(_places(target.width)))
    statement = load("combine_staging.sql").format(
        whole=_whole(state, entries.identifier), target=target.identifier, columns=columns
    )
    with _owned(view):
        cursor.execute(statement)
        negative, sample = cursor.fetchone()
    if negative:
        raise InvariantViolated(view, _below(negative, sample))


def _bring(cursor: Cursor, width: int, entries: pa.Table, name: str = "entries") -> sql.Composable:
    """Entries (c1 …, n, side, t) to select from."""
    for column, default in (("side", 0), ("t", 1)):
        if column not in entries.column_names:
            entries = entries.append_column(column, pa.repeat(pa.scalar(default, pa.int32()), entries.num_rows))
    return selectable_entries(cursor, name, width, entries.select([*_places(width), "n", "side", "t"]), ("side", "t"))


@contextmanager
def _owned(view: str) -> Iterator[None]:
    try:
        yield
    except psycopg2.DataError as error:
        failure = EvaluationFailed(f"view {view}: the warehouse cannot hold a value: {short(error)}")
        failure.view = view
        raise failure from None


def _refuse_negative(view: str, found: pa.Table, negative: pa.ChunkedArray, shown: Sequence[str]) -> None:
    bad = found.filter(pc.equal(negative, "t") if pa.types.is_string(negative.type) else negative)
    if bad.num_rows:
        row = bad.slice(0, 1).to_pylist()[0]
        raise InvariantViolated(view, _below(bad.num_rows, "(" + ",".join(str(row[name]) for name in shown) + ")"))


def _below(number: int, sample: str) -> str:
    shown = sample if len(sample) <= 200 else sample[:200] + "…"
    return f"this change would give {number} row(s) of the operator state a negative count, e.g. {shown}"


# --- set operations


def _combine_counted(cursor: Cursor, stored: StoredState, state: Counted, entries: sql.Composable) -> Combined:
    names = [f"p{place}" for place in range(1, len(state.types) + 1)]
    rule = MULTIPLICITIES[state.rule]
    query = load("combine_counted.sql").format(
        prints=listed(texts("p", state.types, 1)),
        texts=listed(names),
        key=sql.SQL(key_of(names)),
        partition=sql.SQL(", ".join(names) or "true"),
        left_column=sql.SQL(f"c{len(names) + 2}"),
        right_column=sql.SQL(f"c{len(names) + 3}"),
        delivered_before=sql.SQL(rule.format(l="l_before", r="r_before")),
        delivered_after=sql.SQL(rule.format(l="l_after", r="r_after")),
        entries=entries,
        extent=stored.extent.identifier,
    )
    numbers = ["t", "l_before", "r_before", "l_after", "r_after", "before", "after"]
    found = _with_numbers(copy_out(cursor, query.as_string(cursor), ["key", *names, *numbers]), numbers)
    row = ["key", *names]
    negative = pc.or_(pc.less(found["l_after"], 0), pc.less(found["r_after"], 0))
    _refuse_negative(stored.view, found, negative, names)
    parts = []
    for n, left, right in ((-1, "l_before", "r_before"), (1, "l_after", "r_after")):
        there = found.filter(pc.or_(pc.not_equal(found[left], 0), pc.not_equal(found[right], 0)))
        counts = [pc.cast(there[left], pa.string()), pc.cast(there[right], pa.string())]
        parts.append(_signed([*(there[name] for name in row), *counts], n, there["t"]))
    found = found.append_column("n", pc.subtract(found["after"], found["before"]))
    moved = found.filter(pc.not_equal(found["n"], 0))
    return Combined(
        pa.concat_tables(parts), _delivered(state, moved.select([*row, "n", "t"])), pa.table({"key": NO_KEYS})
    )


# --- groups


def _combine_grouped(cursor: Cursor, stored: StoredState, state: Grouped, entries: sql.Composable) -> Combined:
    grouping = Grouping(state)
    group = ["key", *grouping.keys]
    names = [*group, "t", "stale", "negative", "existed", "remains", *grouping.befores, *grouping.afters]
    query = grouping.change(entries, stored.extent.identifier)
    found = _with_numbers(copy_out(cursor, query.as_string(cursor), names), ["t"])
    _refuse_negative(stored.view, found, found["negative"], grouping.keys)
    stale = found.filter(pc.equal(found["stale"], "t")).select(group).rename_columns(_stale_names(state))
    return _grouped_result(state, grouping, found.filter(pc.equal(found["stale"], "f")), stale)


def _grouped_result(state: Grouped, grouping: Grouping, found: pa.Table, stale: pa.Table) -> Combined:
    parts = []
    for n, flag, numbers in ((-1, "existed", grouping.befores), (1, "remains", grouping.afters)):
        there = found.filter(pc.equal(found[flag], "t"))
        parts.append(_signed([there[name] for name in ("key", *grouping.keys, *numbers)], n, there["t"]))
    changed = pa.concat_tables(parts)
    return Combined(changed, _delivered(state, changed), stale)


def _stale_names(state: Grouped) -> list[str]:
    return ["key", *(f"k{place}" for place in range(1, len(state.keys) + 1))]


# --- kept bags


def _combine_kept(cursor: Cursor, stored: StoredState, state: Kept, entries: sql.Composable) -> Combined:
    names = [f"p{place}" for place in range(1, len(state.types) + 1)]
    query = load("combine_kept.sql").format(
        prints=listed(texts("p", state.types, 1, by_value=False)),
        texts=listed(names),
        partition=sql.SQL(", ".join(names)),
        entries=entries,
        extent=stored.extent.identifier,
    )
    found = copy_out(cursor, query.as_string(cursor), [*names, "t", "n", "negative"])
    _refuse_negative(stored.view, found, found["negative"], names)
    found = _with_numbers(found, ["t", "n"])
    changed = _rows(found.select(names).columns, found["n"], found["t"], _places(len(names)))
    return Combined(changed, _delivered(state, changed), pa.table({"key": NO_KEYS}))


# --- whole states


def _whole(state: State, entries: sql.Composable) -> sql.Composable:
    """State rows (c1 …, n, negative) from all entries."""
    match state:
        case Counted():
            names = [f"p{place}" for place in range(1, len(state.types) + 1)]
            side = sql.SQL(f"c{len(names) + 1}::smallint" if two_sided(state) else "0")
            return load("whole_counted.sql").format(
                key=sql.SQL(key_of(names)),
                state_texts=sql.SQL("".join(f", {name} AS c{place}" for place, name in enumerate(names, start=2))),
                left_column=sql.SQL(f"c{len(names) + 2}"),
                right_column=sql.SQL(f"c{len(names) + 3}"),
                texts=listed(names),
                prints=listed(texts("p", state.types, 1)),
                side=side,
                group_by=sql.SQL("GROUP BY " + (", ".join(names) or "()")),
                entries=entries,
            )
        case Grouped():
            asked = sql.SQL("(SELECT *, true AS asked FROM {}) AS all_entries").format(entries)
            return Grouping(state).whole(asked, asked=False)
        case Kept():
            names = [f"p{place}" for place in range(1, len(state.types) + 1)]
            return load("whole_kept.sql").format(
                state_texts=sql.SQL(", ".join(f"{name} AS c{place}" for place, name in enumerate(names, start=1))),
                texts=listed(names),
                prints=listed(texts("p", state.types, 1, by_value=False)),
                partition=sql.SQL(", ".join(names)),
                entries=entries,
            )
        case _:
            assert_never(state)


# --- Arrow


def _places(width: int) -> list[str]:
    return [f"c{place}" for place in range(1, width + 1)]


def _delivered(state: State, rows: pa.Table) -> pa.Table:
    return rows.rename_columns([*(name for name, _ in state.delivered), "n", "t"])


def _with_numbers(table: pa.Table, names: Sequence[str]) -> pa.Table:
    for name in names:
        type_ = pa.int32() if name == "t" else pa.int64()
        table = table.set_column(table.column_names.index(name), name, pc.cast(table[name], type_))
    return table


def _signed(columns: Sequence[pa.ChunkedArray], n: int, tags: pa.ChunkedArray) -> pa.Table:
    counts = pa.chunked_array([pa.repeat(pa.scalar(n, pa.int64()), len(tags))])
    return _rows(columns, counts, tags, _places(len(columns)))


def _rows(
    columns: Sequence[pa.ChunkedArray], counts: pa.ChunkedArray, tags: pa.ChunkedArray, names: Sequence[str]
) -> pa.Table:
    return pa.Table.from_arrays([*columns, counts, tags], names=[*names, "n", "t"])
