"""Six relations of four attributes on three servers, a view that joins them all, and batches of changes to them.

    one: r1 r2     two: r3 r4     three: r5 r6         r1.a = r2.id, r2.a = r3.id, …, r5.a = r6.id

A batch is the same SQL wherever it is run, so that a copy of everything in one database can follow.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["SOURCES", "TABLES", "VIEW", "Changes", "created", "view_over"]

SOURCES = {"one": ("r1", "r2"), "two": ("r3", "r4"), "three": ("r5", "r6")}
TABLES = tuple(table for tables in SOURCES.values() for table in tables)

_ITEMS = "r1.id AS i1, r1.b AS b1, r2.c AS c2, r3.c AS c3, r4.b AS b4, r5.b AS b5, r6.c AS c6"


def view_over(names: dict[str, str]) -> str:
    """The view's text; `names` says what each relation is called where it is read."""
    joined = f"{names['r1']} AS r1"
    for left, right in itertools.pairwise(TABLES):
        joined += f" JOIN {names[right]} AS {right} ON {left}.a = {right}.id"
    return f"SELECT {_ITEMS} FROM {joined}"


VIEW = view_over({table: f"{source}.{table}" for source, tables in SOURCES.items() for table in tables})


def created(table: str, rows: int) -> list[str]:
    """The table with its rows; every row meets one of the next relation."""
    return [
        f"CREATE TABLE {table} (id int PRIMARY KEY, a int, b int, c text)",
        f"INSERT INTO {table} SELECT i, (i * 7919::bigint) % {rows}, i % 1000, 'v' || i"
        f" FROM generate_series(0, {rows} - 1) AS i",
        f"CREATE INDEX ON {table} (a)",
        f"ANALYZE {table}",
    ]


@dataclass
class Changes:
    """Batches of `k` row changes spread over all relations: half of them change values, a quarter makes a row meet
    another one, a quarter deletes rows or brings back what an earlier batch deleted."""

    rows: int
    seed: int = 1
    sources: Mapping[str, Sequence[str]] = field(default_factory=lambda: SOURCES)
    order: Sequence[str] = ("r3", "r1", "r5", "r2", "r4", "r6")
    """The relations that change; a batch of fewer changes than there are relations begins with the first of them."""
    _random: random.Random = field(init=False)
    _away: dict[str, list[int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def batch(self, k: int) -> dict[str, list[str]]:
        """By source, the statements of one transaction."""
        each, rest = divmod(k, len(self.order))
        shares = {table: each + (place < rest) for place, table in enumerate(self.order)}
        return {
            source: statements
            for source, tables in self.sources.items()
            if (statements := [text for table in tables for text in self._of(table, shares.get(table, 0))])
        }

    def _of(self, table: str, k: int) -> list[str]:
        if k == 0:
            return []
        away = self._away.get(table, [])
        picked = self._random.sample(range(self.rows), k + len(away))
        picked = [number for number in picked if number not in set(away)][:k]
        values, pointers, presence = _split(picked)
        number = self._random.randrange(1_000_000)
        statements = [_where(f"UPDATE {table} SET b = b + 1, c = 'w{number}'", values)]
        if pointers:
            statements.append(_where(f"UPDATE {table} SET a = (a + {number}) % {self.rows}", pointers))
        if presence and len(away) >= len(presence):
            # No more than its share, or a small batch after a large one would be a large one.
            returning, self._away[table] = away[: len(presence)], away[len(presence) :]
            back = ", ".join(f"({one}, {(one * 7919) % self.rows}, {one % 1000}, 'back{number}')" for one in returning)
            statements.append(f"INSERT INTO {table} VALUES {back}")
        elif presence:
            statements.append(_where(f"DELETE FROM {table}", presence))
            self._away[table] = [*away, *presence]
        return statements


def _split(picked: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    quarter = len(picked) // 4
    half = len(picked) - 2 * quarter
    return list(picked[:half]), list(picked[half : half + quarter]), list(picked[half + quarter :])


def _where(statement: str, ids: Sequence[int]) -> str:
    return f"{statement} WHERE id = ANY ('{{{','.join(map(str, ids))}}}')"
