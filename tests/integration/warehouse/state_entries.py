"""Short ways to say what entries a test combines, and to see what became of a state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from dyda.model.operator_state import Accumulator, Counted, Grouped, State
from dyda.warehouse import Installation, StateTable, ViewChange
from dyda.warehouse.extents.lockless_staging import Stagings
from dyda.warehouse.extents.staging import Staging
from dyda.warehouse.states.combine import Combined
from dyda.warehouse.states.install import StateChange
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import START, entries, version

Query = Callable[..., list[tuple[Any, ...]]]

VIEW = "people"

SUMS = Grouped(
    ("text", "integer"),
    ("integer", "numeric(10,2)"),
    (
        Accumulator("count", None, "bigint"),
        Accumulator("count", 0, "bigint"),
        Accumulator("sum", 0, "numeric"),
        Accumulator("sum", 1, "numeric(38,2)"),
        Accumulator("squares", 1, "numeric"),
    ),
)
EXTREMES = Grouped(("text",), ("integer", "text"), (Accumulator("min", 0, "integer"), Accumulator("max", 1, "text")))
FLOATS = Grouped(
    ("text",),
    ("double precision",),
    (Accumulator("sum", 0, "double precision", True), Accumulator("count", 0, "bigint")),
)


def tagged(*rows: tuple[Any, ...], side: Sequence[int] | None = None, t: Sequence[int] | None = None) -> pa.Table:
    """Entries: each row is its texts and, last, its count; beside them sides and tags."""
    table = entries(*rows)
    for name, numbers in (("side", side), ("t", t)):
        if numbers is not None:
            table = table.append_column(name, pa.array(numbers, pa.int32()))
    return table


def nothing(width: int) -> pa.Table:
    return pa.table({**{f"c{i + 1}": pa.array([], pa.string()) for i in range(width)}, "n": pa.array([], pa.int64())})


def entry_width(state: State) -> int:
    return len(state.keys) + len(state.arguments) if isinstance(state, Grouped) else len(state.types)


def staged(writer: Writer | Stagings, state: State, rows: pa.Table | None) -> Staging:
    """All entries of a step, as a build stages them."""
    width = entry_width(state)
    rows = nothing(width) if rows is None else rows
    columns = [rows[f"c{i + 1}"] for i in range(width)]
    if isinstance(state, Counted) and state.rule != "distinct":
        side = rows["side"] if "side" in rows.column_names else pa.array([0] * rows.num_rows)
        columns.append(side.cast(pa.string()))
    staging = writer.staging(len(columns))
    names = [*(f"c{i + 1}" for i in range(len(columns))), "n"]
    staging.sink()(pa.Table.from_arrays([*columns, rows["n"]], names=names).to_batches())
    return staging


def build(writer: Writer, state: State, rows: pa.Table | None = None, indexed: tuple[str, ...] = ()) -> None:
    """A view with this one state, built from entries."""
    first = writer.staging(1)
    made = writer.combine_staging(state, staged(writer, state, rows), view=VIEW)
    defined = version(("x", "text"), states=(StateTable(state, indexed),))
    change = ViewChange(
        VIEW,
        staging=first,
        mode="replace",
        version=defined,
        positions={"crm": (None, START)},
        states=(StateChange(0, staging=made),),
    )
    writer.install(Installation((change,)))


def install(writer: Writer, combined: Combined) -> None:
    writer.install(Installation((ViewChange(VIEW, states=(StateChange(0, combined.state),)),)))


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """Entries as a bag: everything but n -> n."""
    names = [name for name in table.column_names if name != "n"]
    found: Counter[tuple[Any, ...]] = Counter()
    for row in table.to_pylist():
        key = tuple(row[name] for name in names)
        assert key not in found, "each row once"
        assert row["n"] != 0
        found[key] = row["n"]
    return found


def stored(query: Query, number: int = 0) -> list[tuple[Any, ...]]:
    """The rows of the state's table without hash and key, as text, and how often each is there."""
    states = query("SELECT w.states FROM dyda.view_version w ORDER BY version DESC LIMIT 1")[0][0]
    table = f"dyda.extent_{states[number]['extent']}"
    columns = [
        name
        for (name,) in query(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
            " AND attname NOT IN ('hash', 'count') ORDER BY attnum",
            (table,),
        )
    ]
    count = "'1'"
    if states[number]["state"]["kind"] == "kept":
        count = "format('%s', count)"
    else:
        columns = columns[1:]
    printed = "".join(f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END, " for name in columns)
    return sorted(query(f"SELECT {printed}{count} FROM {table}"), key=str)


def delivered(combined: Combined) -> Counter[tuple[Any, ...]]:
    """Without the digest, which is no part of the expectation: (row …, t) -> n."""
    table = combined.delivered
    return rows(table.drop_columns(["key"]) if "key" in table.column_names else table)
