"""Relations in a chain over four sources, of which everything but one thing stays the same while that one grows.

    north: r1 r5 r9   east: r2 r6 r10   south: r3 r7 r11   west: r4 r8 r12        r1.a = r2.id, r2.a = r3.id, …

Rows meet within their thousand, and batches change the first thousand only: a batch is the same, and does the same to a
view that shows the first thousand, whatever lies behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.scenarios.relations import Changes

__all__ = ["BLOCK", "Chain", "created", "view", "views"]

NAMES = ("north", "east", "south", "west")
BLOCK = 1_000


def created(table: str, rows: int) -> list[str]:
    return [
        f"CREATE TABLE {table} (id int PRIMARY KEY, a int, b int, c text)",
        f"INSERT INTO {table} SELECT i, i / {BLOCK} * {BLOCK} + (i * 7919::bigint) % {BLOCK}, i % 1000, 'v' || i"
        f" FROM generate_series(0, {rows} - 1) AS i",
        f"CREATE INDEX ON {table} (a)",
        f"ANALYZE {table}",
    ]


@dataclass(frozen=True)
class Chain:
    """So many relations of so many rows, of which the first few change."""

    relations: int
    rows: int
    changed: int
    sources: dict[str, list[str]] = field(init=False)

    def __post_init__(self) -> None:
        found: dict[str, list[str]] = {}
        for place in range(self.relations):
            found.setdefault(NAMES[place % len(NAMES)], []).append(f"r{place + 1}")
        object.__setattr__(self, "sources", found)

    def changes(self) -> Changes:
        """The same batches each time."""
        return Changes(BLOCK, sources=self.sources, order=[f"r{place + 1}" for place in range(self.changed)])


def view(relations: int, items: Sequence[str], condition: str) -> str:
    joined = f"{NAMES[0]}.r1 AS r1"
    for place in range(1, relations):
        here = place + 1
        joined += f" JOIN {NAMES[place % len(NAMES)]}.r{here} AS r{here} ON r{place}.a = r{here}.id"
    return f"SELECT {', '.join(items)} FROM {joined} WHERE {condition}"


def views(number: int) -> dict[str, str]:
    """Joins of four relations, no two of them alike: each has columns and a condition of its own."""
    found = {}
    for one in range(number):
        items = ["r1.id AS i1", *(f"r{r}.{'bc'[(one >> r) % 2]} AS v{r}" for r in range(1, 5)), f"r2.b + {one} AS more"]
        found[f"view{one}"] = view(4, items, f"r{1 + one % 4}.b <> {one}")
    return found
