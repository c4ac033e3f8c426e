"""How many queries a change costs, by the number n of relations: paper 003, Table 1, counted.

SWEEP is linear in n where C-strobe is factorial. Counted here for joins of four shapes, by sweeping relations in which
every row meets every other one, so that no sweep ends early. Each relation changes once, all at the same time:

    SWEEP           one update after the other, those that wait taken out of the answers       n − 1 queries per update
    Nested SWEEP    what arrives while keys travel is absorbed; no key is asked for twice      2(n − 1) for all at most
    a batch         all of it in one unit, under a snapshot                                    2(n − 1) for all

No database and no Spark. Each relation holds one row twice and gets it once more: the view must grow by 3ⁿ − 2ⁿ.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.report.report import Bar, Plot, Report
from benchmarks.scenarios.arrival_order import ArrivalOrder, nested_sweep
from dyda.model.bag import Bag
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from vm import JoinBlock, flatten, plan_sweep, sweep
from vm.worlds import NEW, OLD, Whole, Worlds

__all__ = ["SHAPES", "SIZES", "Cost", "costs", "run"]

SIZES = range(2, 13)
SHAPES = ("chain", "star", "tree", "cycle")
HELD = 2
"""How often a relation holds its row before it changes."""


@dataclass(frozen=True)
class Cost:
    """Queries of one join: SWEEP for each relation's update, Nested SWEEP and a batch for the updates of all."""

    shape: str
    n: int
    sweep: tuple[int, ...]
    nested: int
    batch: int


def costs(sizes: Collection[int] = SIZES, shapes: Collection[str] = SHAPES) -> list[Cost]:
    """The table, counted."""
    found = []
    for shape in shapes:
        for n in sizes:
            block = _block(shape, n)
            found.append(Cost(shape, n, _swept(block), _nested(block), _batch(block)))
    return found


def run(profile: str) -> Report:
    """Nothing is timed, and counting takes seconds; a tiny run counts less."""
    table = costs(SIZES[:2]) if profile == "tiny" else costs()
    report = Report(
        "messages",
        "maintenance queries for updates of all n relations at once",
        ["join", "n", "SWEEP", "per update", "Nested SWEEP", "per update", "batch", "per update"],
        data={"costs": [asdict(cost) for cost in table]},
    )
    report.rows = [
        [cost.shape, str(cost.n)]
        + [text for asked in (sum(cost.sweep), cost.nested, cost.batch) for text in (str(asked), f"{asked / cost.n:g}")]
        for cost in table
    ]
    report.bars = [
        Bar(
            "SWEEP, queries per update: furthest from n − 1",
            max(abs(one - (cost.n - 1)) for cost in table for one in cost.sweep),
            most=0,
        ),
        Bar(
            "Nested SWEEP, queries for all ÷ 2(n − 1), worst",
            max(cost.nested / (2 * (cost.n - 1)) for cost in table),
            most=1,
        ),
        Bar(
            "batch, queries for all: furthest from 2(n − 1)",
            max(abs(cost.batch - 2 * (cost.n - 1)) for cost in table),
            most=0,
        ),
    ]
    report.plots = [_plot([cost for cost in table if cost.shape == SHAPES[0]])]
    report.notes.append(
        "The cost per update is linear, as Table 1 says of SWEEP and Nested SWEEP, for chains, stars, trees and cycles "
        "alike. If updates are concurrent, Nested SWEEP and batches need as many queries for all of them as SWEEP "
        "needs for two. Nested SWEEP needs fewer if several relations join one over the same column, because it "
        f"remembers answers. C-strobe's n! would be {math.factorial(SIZES[-1]):,} for n = {SIZES[-1]}."
    )
    return report


def _plot(table: Sequence[Cost]) -> Plot:
    lines: dict[str, list[tuple[float, ...]]] = {
        "SWEEP": [(cost.n, sum(cost.sweep)) for cost in table],
        "Nested SWEEP": [(cost.n, cost.nested) for cost in table],
        "batch": [(cost.n, cost.batch) for cost in table],
    }
    return Plot("all relations of a chain change at once", "relations", "maintenance queries", lines)


class _Sources:
    """Every relation's row, as often as it is held by now; answers are counted. `interfering` relations change when
    they are asked for the first time, and say so to `arrival` before they answer."""

    def __init__(self, block: JoinBlock, interfering: Collection[str] = ()) -> None:
        self.block = block
        self.asked = 0
        self.interfering = set(interfering)
        self.changed = set(block.by_alias) - self.interfering
        self.arrival = ArrivalOrder(block, self.ask)

    def ask(self, alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        self.asked += 1
        if alias in self.interfering - self.changed:
            self.change(alias)
        return _row(columns, HELD + (alias in self.changed))

    def change(self, alias: str) -> None:
        self.changed.add(alias)
        relation = self.block.by_alias[alias].relation
        self.arrival.receive(relation.name, _row([column.name for column in relation.columns]))


def _swept(block: JoinBlock) -> tuple[int, ...]:
    """SWEEP: the sources show all of the changes, and those after the one that is swept are compensated."""
    found = []
    grown = 0
    deltas = _deltas(block)
    aliases = list(deltas)
    for number, alias in enumerate(aliases):
        sources = _Sources(block)
        later = {other: deltas[other] for other in aliases[number + 1 :]}
        grown += _growth(sweep(plan_sweep(block), {alias: deltas[alias]}, later, sources.ask))
        found.append(sources.asked)
    _require_right(block, grown)
    return tuple(found)


def _nested(block: JoinBlock) -> int:
    """Nested SWEEP: one relation changes, and each of the others while it is asked on account of that."""
    first, *others = block.by_alias
    sources = _Sources(block, others)
    sources.change(first)
    nested = nested_sweep(plan_sweep(block), sources.arrival)
    _require_right(block, _growth(nested.worlds))
    return sources.asked


def _batch(block: JoinBlock) -> int:
    sources = _Sources(block)
    _require_right(block, _growth(sweep(plan_sweep(block), _deltas(block), {}, sources.ask)))
    return sources.asked


def _growth(worlds: Mapping[str, Worlds | Whole]) -> int:
    """How many rows the view gains: every row meets every other one, so numbers of rows multiply."""
    old = new = 1
    for world in worlds.values():
        if isinstance(world, Whole):
            raise AssertionError("a relation of one row is scanned")
        old *= pc.sum(world.table.column(OLD)).as_py()
        new *= pc.sum(world.table.column(NEW)).as_py()
    return new - old


def _require_right(block: JoinBlock, grown: int) -> None:
    n = len(block.occurrences)
    if grown != (HELD + 1) ** n - HELD**n:
        raise AssertionError(f"a view of {n} relations grew by {grown} rows")


def _deltas(block: JoinBlock) -> dict[str, Bag]:
    return {alias: _row(occurrence.columns) for alias, occurrence in block.by_alias.items()}


def _row(columns: Sequence[str], times: int = 1) -> Bag:
    return Bag.of(columns, {("1",) * len(columns): times})


def _edges(shape: str, n: int) -> list[tuple[int, int]]:
    match shape:
        case "chain":
            return [(i, i + 1) for i in range(n - 1)]
        case "star":
            return [(0, i) for i in range(1, n)]
        case "tree":
            return [((i - 1) // 2, i) for i in range(1, n)]
        case "cycle":
            return [(i, (i + 1) % n) for i in range(n)]
    raise ValueError(f"no shape is called {shape!r}")


def _block(shape: str, n: int) -> JoinBlock:
    tables = ", ".join(f"s{i}.r{i} a{i}" for i in range(n))
    conditions = " AND ".join(f"a{i}.y = a{j}.x" for i, j in _edges(shape, n))
    return flatten(parse_view(shape, f"SELECT a0.x FROM {tables} WHERE {conditions}", _relation))


def _relation(source: str, schema: str | None, table: str) -> Relation:
    integer = PgType("integer", "integer")
    columns = (Column("x", integer, 1), Column("y", integer, 2))
    return Relation(RelationName(source, schema or "public", table), 1, columns, estimated_rows=1_000_000)
