"""Rows and lanes: a lane per source, a row per step of processing.

A block (a unit, or messages that wait) has its own rows, so a box around merged messages can hold nothing else. Within
it the messages of each source are listed in arrival order, sources side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

from dyda.queue_picture.picture import Picture
from scheduler import EdgeKind

__all__ = ["Cell", "Placing", "place"]

FEW = 7
"""Up to so many sources, all orders are tried: 5,040."""


@dataclass(frozen=True, order=True)
class Cell:
    row: int
    lane: int


@dataclass(frozen=True)
class Placing:
    """The cell of every message. `bands`: the first row of each block and the row after its last."""

    lanes: tuple[str, ...]
    cells: dict[int, Cell]
    bands: tuple[tuple[int, int], ...]

    @property
    def rows(self) -> int:
        return self.bands[-1][1] if self.bands else 0


def place(picture: Picture) -> Placing:
    """Every message in a cell of its own."""
    lanes = _lanes(picture)
    lane_of = {source: index for index, source in enumerate(lanes)}
    source_of = {node.number: node.source for node in picture.drawing.nodes}
    cells: dict[int, Cell] = {}
    bands = []
    row = 0
    for block in picture.blocks:
        height = [0] * len(lanes)
        for number in block.numbers:
            lane = lane_of[source_of[number]]
            cells[number] = Cell(row + height[lane], lane)
            height[lane] += 1
        bands.append((row, row + max(height)))
        row += max(height)
    return Placing(lanes, cells, tuple(bands))


def _lanes(picture: Picture) -> tuple[str, ...]:
    """The order of the sources that makes concurrency edges shortest."""
    source_of = {node.number: node.source for node in picture.drawing.nodes}
    sources = list(dict.fromkeys(source_of.values()))
    between: dict[tuple[str, str], int] = {}
    for edge in picture.drawing.edges:
        if edge.kind is EdgeKind.CONCURRENCY:
            first, second = sorted((source_of[edge.before], source_of[edge.after]))
            if first != second:
                between[first, second] = between.get((first, second), 0) + 1
    if not between or len(sources) > FEW:
        return tuple(sources)

    def length(order: tuple[str, ...]) -> int:
        at = {source: index for index, source in enumerate(order)}
        return sum(weight * abs(at[first] - at[second]) for (first, second), weight in between.items())

    return min(permutations(sources), key=length)
