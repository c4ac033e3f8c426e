"""From rows and lanes to points: gutters and channels are as wide as the lines in them need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, chain

from dyda.queue_picture import style
from dyda.queue_picture.placing import Cell, Placing
from dyda.queue_picture.routing import Key, Routing
from dyda.queue_picture.scene import Rectangle

__all__ = ["Grid", "grid"]

Assigned = Mapping[int, Mapping[Key, int]]


@dataclass(frozen=True)
class Grid:
    """`gutters[g]` and `lanes[l]` are left borders, `channels[c]` and `rows[r]` upper ones."""

    routing: Routing
    box_width: float
    gutters: tuple[float, ...]
    lanes: tuple[float, ...]
    channels: tuple[float, ...]
    rows: tuple[float, ...]
    bases: tuple[float, ...]
    right: float
    bottom: float

    def box(self, cell: Cell) -> Rectangle:
        return Rectangle("message", self.lanes[cell.lane], self.rows[cell.row], self.box_width, style.BOX_HEIGHT)

    def track_x(self, gutter: int, key: Key) -> float:
        return self.gutters[gutter] + style.GUTTER / 2 + style.TRACK * self.routing.gutters[gutter][key]

    def track_y(self, channel: int, key: Key) -> float:
        return self.channels[channel] + self.bases[channel] / 2 + style.TRACK * self.routing.channels[channel][key]


def grid(placing: Placing, routing: Routing, box_width: float, left: float, top: float) -> Grid:
    """Gutter, lane, gutter, lane, …, gutter from `left`; channel, row, …, channel from `top`."""
    starts = {first for first, _ in placing.bands[1:]}
    bases = [style.BETWEEN_BANDS if row in starts else style.CHANNEL for row in range(placing.rows + 1)]
    gutters = [style.GUTTER + _extra(routing.gutters, index) for index in range(len(placing.lanes) + 1)]
    channels = [base + _extra(routing.channels, index) for index, base in enumerate(bases)]
    across, lanes, right = _borders(left, gutters, box_width)
    down, rows, bottom = _borders(top, channels, style.BOX_HEIGHT)
    return Grid(routing, box_width, across, lanes, down, rows, tuple(bases), right, bottom)


def _extra(assigned: Assigned, index: int) -> float:
    """Room for all tracks but the first, which fits into the base width."""
    return style.TRACK * max(assigned.get(index, {}).values(), default=0)


def _borders(start: float, gaps: list[float], size: float) -> tuple[tuple[float, ...], tuple[float, ...], float]:
    """Where the gaps of gap, cell, gap, …, gap begin, where the cells begin, and where the last gap ends."""
    sizes = chain.from_iterable((gap, size) for gap in gaps)
    *borders, end, _ = accumulate(sizes, initial=start)
    return tuple(borders[0::2]), tuple(borders[1::2]), end
