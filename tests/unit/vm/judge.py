"""The judge: joins by brute force in plain Python, sharing no code with what it judges."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tests.unit.vm.builders import Row, Rows, entries
from vm.worlds import Worlds

OPERATORS = {"=": operator.eq, "<": operator.lt, "<>": operator.ne}
Combination = Mapping[str, Mapping[str, str | None]]


class Test(Protocol):
    def holds(self, combination: Combination) -> bool: ...


@dataclass(frozen=True)
class Among:
    """Whether a column has one of the values; NULL is a value as any other."""

    column: str
    values: frozenset[str | None]

    def holds(self, combination: Combination) -> bool:
        alias, _, column = self.column.partition(".")
        return combination[alias][column] in self.values


@dataclass(frozen=True)
class Condition:
    """`left OP right` over integers; right may be a number. NULL makes it false, as in WHERE."""

    left: str
    comparison: str
    right: str

    def __str__(self) -> str:
        return f"{self.left} {self.comparison} {self.right}"

    def holds(self, combination: Combination) -> bool:
        left, right = (self._value(side, combination) for side in (self.left, self.right))
        return left is not None and right is not None and bool(OPERATORS[self.comparison](left, right))

    @staticmethod
    def _value(side: str, combination: Combination) -> int | None:
        alias, dot, column = side.partition(".")
        text = combination[alias][column] if dot else side
        return None if text is None else int(text)


def answer(
    columns: Mapping[str, Sequence[str]],
    relations: Mapping[str, Rows],
    conditions: Iterable[Test],
    items: Sequence[str],
) -> Counter[Row]:
    """The view over full rows {row: count} per alias, as rows of canonical texts with counts."""
    pairs = {alias: {row: (0, n) for row, n in rows.items()} for alias, rows in relations.items()}
    return _difference(columns, pairs, conditions, items)


def difference(
    columns: Mapping[str, Sequence[str]],
    worlds: Mapping[str, Worlds],
    conditions: Iterable[Test],
    items: Sequence[str],
) -> Counter[Row]:
    """ΔV from swept worlds: new − old, with the columns that the sweep carried."""
    return _difference(columns, {alias: entries(world.table) for alias, world in worlds.items()}, conditions, items)


def present(
    columns: Mapping[str, Sequence[str]],
    worlds: Mapping[str, Worlds],
    conditions: Iterable[Test],
    items: Sequence[str],
) -> Counter[Row]:
    """The new world alone."""
    pairs = {
        alias: {row: (0, new) for row, (_, new) in entries(world.table).items()} for alias, world in worlds.items()
    }
    return _difference(columns, pairs, conditions, items)


def tagged(
    columns: Mapping[str, Sequence[str]],
    worlds: Mapping[str, Worlds],
    conditions: Iterable[Test],
    items: Sequence[str],
) -> dict[int, Counter[Row]]:
    """ΔV of each transaction: counts multiply, the latest of a combination's transactions has it."""
    conditions = list(conditions)
    aliases = list(worlds)
    total: dict[int, Counter[Row]] = {}
    lists = [
        list(zip(*(column.to_pylist() for column in worlds[alias].table.columns), strict=True)) for alias in aliases
    ]
    for combination in itertools.product(*lists):
        named = {
            alias: dict(zip(columns[alias], entry, strict=False))
            for alias, entry in zip(aliases, combination, strict=True)
        }
        if not all(condition.holds(named) for condition in conditions):
            continue
        count, tag = 1, 0
        for entry in combination:
            count, tag = count * entry[-2], max(tag, entry[-1])
        output = tuple(named[alias][column] for alias, column in (item.split(".") for item in items))
        total.setdefault(tag, Counter())[output] += count
    found = {tag: Counter({row: n for row, n in rows.items() if n}) for tag, rows in total.items() if tag}
    return {tag: rows for tag, rows in found.items() if rows}


def _difference(
    columns: Mapping[str, Sequence[str]],
    pairs: Mapping[str, Mapping[Row, tuple[int, int]]],
    conditions: Iterable[Test],
    items: Sequence[str],
) -> Counter[Row]:
    conditions = list(conditions)
    aliases = list(pairs)
    total: Counter[Row] = Counter()
    for rows in itertools.product(*(pairs[alias].items() for alias in aliases)):
        named = {
            alias: dict(zip(columns[alias], row, strict=True)) for alias, (row, _) in zip(aliases, rows, strict=True)
        }
        if not all(condition.holds(named) for condition in conditions):
            continue
        old = new = 1
        for _, pair in rows:
            old, new = old * pair[0], new * pair[1]
        output = tuple(named[alias][column] for alias, column in (item.split(".") for item in items))
        total[output] += new - old
    return Counter({row: n for row, n in total.items() if n})


def minus(one: Mapping[Row, int], other: Mapping[Row, int]) -> Rows:
    """Signed difference of two bags, without zeros."""
    keys = [*one, *other]
    return {row: one.get(row, 0) - other.get(row, 0) for row in keys if one.get(row, 0) != other.get(row, 0)}


def rows_of(table: pa.Table) -> dict[Row, int]:
    """An engine's answer (c1 … cn, n) as {row: count}."""
    columns = [column.to_pylist() for column in table.columns]
    return {tuple(row[:-1]): row[-1] for row in zip(*columns, strict=True)}
