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
    """Borders: `gutters[g]` and `lanes[l]` are left ones, `channels[c]` and `rows[r]` upper ones."""

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
    across = _borders(left, gutters, box_width)
    down = _borders(top, channels, style.BOX_HEIGHT)
    return Grid(
        routing,
        box_width,
        tuple(across[0:-1:2]),
        tuple(across[1:-1:2]),
        tuple(down[0:-1:2]),
        tuple(down[1:-1:2]),
        tuple(bases),
        across[-1],
        down[-1],
    )


def _extra(assigned: Assigned, index: int) -> float:
    """Room for all tracks but the first, which the base width holds."""
    return style.TRACK * max(assigned.get(index, {}).values(), default=0)


def _borders(start: float, gaps: list[float], size: float) -> list[float]:
    """Where each of gap, cell, gap, …, gap begins, and where the last one ends."""
    sizes = chain.from_iterable((gap, size) for gap in gaps)
    return list(accumulate(sizes, initial=start))[:-1]
