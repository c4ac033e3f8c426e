"""The scene: bands for units, boxes for messages and merged groups, lines for edges, and their texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dyda.queue_picture import style
from dyda.queue_picture.grid import Grid, grid
from dyda.queue_picture.legend import legend
from dyda.queue_picture.measuring import fitted, width_of
from dyda.queue_picture.picture import Block, Picture
from dyda.queue_picture.placing import Placing, place
from dyda.queue_picture.routing import Route, route_edges
from dyda.queue_picture.scene import Line, Point, Rectangle, Scene, Text
from scheduler import MessageState
from scheduler.graph import DrawnNode

__all__ = ["lay_out"]

ENTERS, LEAVES = (0.24, 0.42), (0.80, 0.62)
"""How far down a box's side lines enter and leave it: on the left, on the right. Otherwise lines that meet in a gutter
would look like one."""


def lay_out(picture: Picture) -> Scene:
    """Where everything is drawn, in points."""
    placing = place(picture)
    routing = route_edges(placing, picture.drawing.edges)
    left = style.MARGIN + style.LABELS
    box_width = _box_width(picture)
    width = max(grid(placing, routing, box_width, left, 0).right + style.MARGIN, style.NARROWEST)
    above = legend(picture, width)
    places = grid(placing, routing, box_width, left, above.bottom + style.HEADERS)
    boxes = {node.number: _box(places.box(placing.cells[node.number]), node) for node in picture.drawing.nodes}
    texts = list(_headers(placing, places, above.bottom))
    rectangles = list(above.rectangles)
    for block, (first, after) in zip(picture.blocks, placing.bands, strict=True):
        band = _band(places, block, first, after)
        rectangles.append(band)
        texts += _label(block, band)
    rectangles += [_around([boxes[number] for number in block.numbers]) for block in picture.blocks if block.merged]
    for node in picture.drawing.nodes:
        texts += _caption(picture, node, boxes[node.number])
    return Scene(
        width,
        places.bottom + style.MARGIN,
        (*rectangles, *boxes.values()),
        (*above.lines, *(_line(places, boxes, route) for route in routing.routes)),
        (*above.texts, *texts),
    )


def _box_width(picture: Picture) -> float:
    """As wide as the longest caption, within limits; longer ones are cut with an ellipsis."""
    wanted = style.BOX_NARROWEST
    for node in picture.drawing.nodes:
        caption = picture.captions[node.number]
        first = _title_starts(node) + width_of(caption.title, style.SMALL) + style.INSIDE + _state_width(node)
        wanted = max(wanted, first, 2 * style.INSIDE + width_of(caption.detail, style.SMALL))
    return min(wanted, style.BOX_WIDEST)


def _title_starts(node: DrawnNode) -> float:
    return style.INSIDE + width_of(str(node.number), style.NORMAL, bold=True) + 6


def _state_width(node: DrawnNode) -> float:
    return 0.0 if node.state is MessageState.WAITING else 8 + width_of(node.state.value, style.SMALL, bold=True)


def _box(place: Rectangle, node: DrawnNode) -> Rectangle:
    look = style.BOXES[node.kind] if node.concerned else style.UNCONCERNED
    stopped = node.state is not MessageState.WAITING
    edge, thickness = (style.STOPPED.edge, 2.0) if stopped else (look.edge, 1.0)
    return replace(place, fill=look.fill, edge=edge, thickness=thickness, radius=style.RADIUS)


def _caption(picture: Picture, node: DrawnNode, box: Rectangle) -> Iterator[Text]:
    caption = picture.captions[node.number]
    first, second = box.y + 14.5, box.y + 27.5
    yield Text(str(node.number), box.x + style.INSIDE, first, style.NORMAL, style.INK, bold=True)
    room = box.width - _title_starts(node) - style.INSIDE - _state_width(node)
    yield Text(fitted(caption.title, style.SMALL, room), box.x + _title_starts(node), first, style.SMALL, style.INK)
    if node.state is not MessageState.WAITING:
        yield Text(node.state.value, box.right - style.INSIDE, first, style.SMALL, style.ALARM, bold=True, anchor="end")
    detail = fitted(caption.detail, style.SMALL, box.width - 2 * style.INSIDE)
    yield Text(detail, box.x + style.INSIDE, second, style.SMALL, style.SOFT)


def _headers(placing: Placing, places: Grid, y: float) -> Iterator[Text]:
    for source, x in zip(placing.lanes, places.lanes, strict=True):
        shown = fitted(source, style.HEADING, places.box_width + style.GUTTER / 2, bold=True)
        baseline = y + style.HEADERS / 2 + style.HEADING / 2
        yield Text(shown, x + places.box_width / 2, baseline, style.HEADING, style.INK, bold=True, anchor="middle")


def _band(places: Grid, block: Block, first: int, after: int) -> Rectangle:
    fill, edge = (style.WAITS, style.WAITS_EDGE) if block.waits else (style.BAND, style.BAND_EDGE)
    top = places.rows[first] - style.BAND_PAD
    bottom = places.rows[after - 1] + style.BOX_HEIGHT + style.BAND_PAD
    return Rectangle(
        "band", style.MARGIN, top, places.right - style.MARGIN, bottom - top, fill, edge, 0.8, radius=style.RADIUS
    )


def _label(block: Block, band: Rectangle) -> Iterator[Text]:
    top = band.y + style.BAND_PAD
    colour = style.ALARM if block.waits else style.INK
    yield Text(block.label, band.x + style.INSIDE, top + 14.5, style.NORMAL, colour, bold=True)
    yield Text(block.detail, band.x + style.INSIDE, top + 27.5, style.SMALL, style.SOFT)


def _around(boxes: list[Rectangle]) -> Rectangle:
    """The box of a merged group. Its rows hold nothing else, so it overlaps no other message."""
    x, y = min(box.x for box in boxes) - style.GROUP_PAD, min(box.y for box in boxes) - style.GROUP_PAD
    right, bottom = max(box.right for box in boxes), max(box.bottom for box in boxes)
    look = style.GROUP
    width, height = right + style.GROUP_PAD - x, bottom + style.GROUP_PAD - y
    return Rectangle("group", x, y, width, height, look.fill, look.edge, 1.6, radius=style.RADIUS + 2)


def _line(places: Grid, boxes: dict[int, Rectangle], route: Route) -> Line:
    look = style.LINES[route.edge.kind]
    start, end = boxes[route.edge.before], boxes[route.edge.after]
    points: list[Point]
    if not route.gutters:
        x = start.x + start.width / 2
        points = [(x, start.bottom), (x, end.y)]
    else:
        first, last = (places.track_x(gutter, route.key) for gutter in (route.gutters[0], route.gutters[-1]))
        leaves, enters = _port(start, first, LEAVES), _port(end, last, ENTERS)
        points = [leaves, (first, leaves[1])]
        if route.channel is not None:
            level = places.track_y(route.channel, route.key)
            points += [(first, level), (last, level)]
        points += [(last, enters[1]), enters]
    return Line(route.edge.kind.value, tuple(points), look.colour, look.thickness, look.dashed)


def _port(box: Rectangle, x: float, shares: tuple[float, float]) -> Point:
    """Where a line that runs along x leaves or enters the box."""
    left, right = shares
    return (box.right, box.y + right * box.height) if x > box.right else (box.x, box.y + left * box.height)
