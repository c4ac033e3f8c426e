"""The path of each edge: along gutters between lanes and channels between rows, never through a box.

lane 0 │ gutter 1 │ lane 1 │ gutter 2 │ lane 2        A change that several messages wait for leaves its box once.
┌────┐ │          │ ┌────┐ │          │               From its gutter it follows one line in the channel below its
│ 7 ─┼─┼─┐        │ │    │ │          │               row, and branches off into the gutters beside those who wait.
└────┘ │ │        │ └────┘ │          │
channel  └────────────────────┐
┌────┐ │          │ ┌────┐ │  │       │ ┌────┐        Lines of different changes have tracks of their own, so none
│    │ │          │ │    │ │  └───────┼─▶ 9  │        lies on another.
└────┘ │          │ └────┘ │          │ └────┘
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from dyda.queue_picture.placing import Cell, Placing
from scheduler import EdgeKind
from scheduler.graph import DrawnEdge

__all__ = ["Route", "Routing", "Tracks", "route_edges"]

Key = tuple[int, EdgeKind]
"""What may share a track: edges of one kind from one message."""


@dataclass(frozen=True)
class Route:
    """`gutters` are those passed: none for a straight line down the lane, one, or two with a `channel` in between.

    Gutter g lies left of lane g, channel r above row r.
    """

    edge: DrawnEdge
    gutters: tuple[int, ...] = ()
    channel: int | None = None

    @property
    def key(self) -> Key:
        return self.edge.before, self.edge.kind


@dataclass
class Tracks:
    """Parallel lines in a gutter or channel; two whose stretches meet are never the same."""

    stretches: dict[Key, tuple[float, float]] = field(default_factory=dict)
    pulls: Counter[Key] = field(default_factory=Counter)
    """How many more of the line's ends lie right of the gutter than left of it."""

    def use(self, key: Key, *places: float, pull: int = 0) -> None:
        known = self.stretches.get(key, (places[0], places[0]))
        self.stretches[key] = (min(*known, *places), max(*known, *places))
        self.pulls[key] += pull

    def assign(self) -> dict[Key, int]:
        """A track for every key, as few as there are stretches at one place; lines near the side where they end."""
        taken: list[list[Key]] = []
        for key in sorted(self.stretches, key=lambda key: self.stretches[key]):
            track = next((keys for keys in taken if not any(self._meet(key, other) for other in keys)), None)
            if track is None:
                taken.append([key])
            else:
                track.append(key)
        taken.sort(key=lambda keys: sum(self.pulls[key] for key in keys))
        return {key: index for index, keys in enumerate(taken) for key in keys}

    def _meet(self, one: Key, other: Key) -> bool:
        (low, high), (start, end) = self.stretches[one], self.stretches[other]
        return low <= end and start <= high


@dataclass(frozen=True)
class Routing:
    """All routes, and the track of each key in each gutter and channel."""

    routes: tuple[Route, ...]
    gutters: dict[int, dict[Key, int]]
    channels: dict[int, dict[Key, int]]


def route_edges(placing: Placing, edges: Iterable[DrawnEdge]) -> Routing:
    """A route for every edge."""
    occupied = set(placing.cells.values())
    routes = [_route(edge, placing.cells[edge.before], placing.cells[edge.after], occupied) for edge in edges]
    gutters: dict[int, Tracks] = {}
    channels: dict[int, Tracks] = {}
    for found in routes:
        start, end = placing.cells[found.edge.before], placing.cells[found.edge.after]
        match found.gutters:
            case ():
                continue
            case (gutter,):
                gutters.setdefault(gutter, Tracks()).use(found.key, start.row, end.row, pull=_pull(gutter, end))
            case (first, last):
                assert found.channel is not None
                # A channel lies half a row above its row.
                level = found.channel - 0.5
                gutters.setdefault(first, Tracks()).use(found.key, start.row, level)
                gutters.setdefault(last, Tracks()).use(found.key, level, end.row, pull=_pull(last, end))
                channels.setdefault(found.channel, Tracks()).use(found.key, first, last)
    return Routing(
        tuple(routes),
        {gutter: tracks.assign() for gutter, tracks in gutters.items()},
        {channel: tracks.assign() for channel, tracks in channels.items()},
    )


def _pull(gutter: int, cell: Cell) -> int:
    """Whether the cell lies right (1) or left (-1) of the gutter."""
    return 1 if cell.lane >= gutter else -1


def _route(edge: DrawnEdge, start: Cell, end: Cell, occupied: set[Cell]) -> Route:
    if start.lane == end.lane:
        between = range(min(start.row, end.row) + 1, max(start.row, end.row))
        free = not any(Cell(row, start.lane) in occupied for row in between)
        if edge.kind is EdgeKind.SEMANTIC and free and start.row < end.row:
            return Route(edge)
        # Semantic edges pass on the left, concurrency edges on the right.
        return Route(edge, (start.lane if edge.kind is EdgeKind.SEMANTIC else start.lane + 1,))
    right = end.lane > start.lane
    leaving, entering = (start.lane + 1, end.lane) if right else (start.lane, end.lane + 1)
    if leaving == entering:
        return Route(edge, (leaving,))
    return Route(edge, (leaving, entering), start.row + 1 if end.row > start.row else start.row)
