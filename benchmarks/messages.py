"""How many queries a change costs, by the number n of occurrences: `python -m benchmarks.messages`.

Paper 003, Table 1: SWEEP is linear in n where C-strobe is factorial. Counted here for joins of four shapes, by sweeping
relations in which every row meets every other one, so that no sweep ends early: one changed occurrence costs n − 1
queries, and a batch that changes all of them 2(n − 1), whatever it holds. No database and no Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dyda.model.bag import Bag
from dyda.model.parse import parse_view
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from vm import JoinBlock, flatten, plan_sweep, sweep

__all__ = ["SHAPES", "SIZES", "Cost", "costs", "main"]

SIZES = range(2, 9)
SHAPES = ("chain", "star", "tree", "cycle")


@dataclass(frozen=True)
class Cost:
    """Queries of one join: for a change of each single occurrence, and for changes of all of them at once."""

    shape: str
    n: int
    one_update: tuple[int, ...]
    batch: int


def costs(sizes: Collection[int] = SIZES, shapes: Collection[str] = SHAPES) -> list[Cost]:
    """The table, counted."""
    found = []
    for shape in shapes:
        for n in sizes:
            block = _block(shape, n)
            aliases = list(block.by_alias)
            one_update = tuple(_queries(block, [alias]) for alias in aliases)
            found.append(Cost(shape, n, one_update, _queries(block, aliases)))
    return found


def main() -> None:
    print(f"{'join':<8}{'n':>3}{'one update':>12}{'n - 1':>7}{'batch':>7}{'2(n - 1)':>10}")
    for cost in costs():
        worst = max(cost.one_update)
        print(f"{cost.shape:<8}{cost.n:>3}{worst:>12}{cost.n - 1:>7}{cost.batch:>7}{2 * (cost.n - 1):>10}")


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


def _queries(block: JoinBlock, changed: Collection[str]) -> int:
    asked = []

    def ask(alias: str, columns: Sequence[str], key: Sequence[str], values: pa.Table) -> Bag:
        asked.append(alias)
        return _row(columns)

    deltas = {alias: _row(block.by_alias[alias].columns) for alias in changed}
    sweep(plan_sweep(block), deltas, {}, ask)
    return len(asked)


def _row(columns: Sequence[str]) -> Bag:
    return Bag.of(columns, {("1",) * len(columns): 1})


if __name__ == "__main__":
    main()
