"""A scene as svg or png, by matplotlib: no pyplot, no display, no change of its global state."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Literal

import matplotlib
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch, Polygon
from matplotlib.path import Path
from matplotlib.text import Text as Written

from dyda.queue_picture import style
from dyda.queue_picture.measuring import any_script, font
from dyda.queue_picture.scene import Line, Point, Rectangle, Scene, Text

__all__ = ["render"]

RESOLUTION = 144.0
LARGEST = 30_000
"""Pixels of a png's longer side; larger scenes get a lower resolution."""

HEAD, HALF = 7.0, 3.2
"""Length and half the width of an arrow's head."""

CORNER = 5.0
ANCHORS: dict[str, Literal["left", "center", "right"]] = {"start": "left", "middle": "center", "end": "right"}
BELOW, LINES, ABOVE, TEXTS = 1, 2, 3, 4


def render(scene: Scene, format: str) -> bytes:
    """The picture in `format`: svg (texts stay texts) or png."""
    figure = Figure(figsize=(scene.width / 72, scene.height / 72), facecolor=style.PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    axes.set_axis_off()
    for rectangle in scene.rectangles:
        axes.add_patch(_rectangle(rectangle))
    for line in scene.lines:
        for patch in _line(line):
            axes.add_patch(patch)
    for text in scene.texts:
        axes.add_artist(_text(text))
    resolution = min(RESOLUTION, LARGEST * 72 / max(scene.width, scene.height))
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "dyda", "path.simplify": False}), any_script():
        metadata = {"Date": None} if format == "svg" else {"Software": None}
        figure.savefig(buffer, format=format, dpi=resolution, metadata=metadata)
    return buffer.getvalue()


def _rectangle(rectangle: Rectangle) -> FancyBboxPatch:
    radius = rectangle.radius
    return FancyBboxPatch(
        (rectangle.x + radius, rectangle.y + radius),
        rectangle.width - 2 * radius,
        rectangle.height - 2 * radius,
        boxstyle=f"round,pad={radius},rounding_size={radius}",
        facecolor=rectangle.fill,
        edgecolor=rectangle.edge,
        linewidth=rectangle.thickness,
        zorder=ABOVE if rectangle.role == "message" else BELOW,
    )


def _line(line: Line) -> tuple[PathPatch | Polygon, ...]:
    """The line and its arrow head. The line ends where the head begins."""
    (x, y), (before_x, before_y) = line.points[-1], line.points[-2]
    distance = math.dist(line.points[-1], line.points[-2]) or 1.0
    along = ((x - before_x) / distance, (y - before_y) / distance)
    base = (x - HEAD * along[0], y - HEAD * along[1])
    path = PathPatch(
        _rounded([*line.points[:-1], base]),
        fill=False,
        edgecolor=line.colour,
        linewidth=line.thickness,
        linestyle=(0, (4, 2.4)) if line.dashed else "solid",
        capstyle="butt",
        zorder=LINES,
    )
    wide = (-HALF * along[1], HALF * along[0])
    corners = [(x, y), (base[0] + wide[0], base[1] + wide[1]), (base[0] - wide[0], base[1] - wide[1])]
    return path, Polygon(corners, closed=True, facecolor=line.colour, edgecolor="none", zorder=ABOVE + 0.5)


def _rounded(points: Sequence[Point]) -> Path:
    """The points joined by straight pieces; corners are curves."""
    vertices, codes = [points[0]], [Path.MOVETO]
    for index in range(1, len(points) - 1):
        before, corner, after = points[index - 1], points[index], points[index + 1]
        radius = min(CORNER, math.dist(before, corner) / 2, math.dist(corner, after) / 2)
        vertices += [_towards(corner, before, radius), corner, _towards(corner, after, radius)]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3]
    return Path([*vertices, points[-1]], [*codes, Path.LINETO])


def _towards(start: Point, end: Point, distance: float) -> Point:
    whole = math.dist(start, end) or 1.0
    share = distance / whole
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _text(text: Text) -> Written:
    # parse_math: a name with two dollar signs is a name, not a formula.
    return Written(
        text.x,
        text.y,
        text.text,
        color=text.colour,
        fontproperties=font(text.size, text.bold),
        horizontalalignment=ANCHORS[text.anchor],
        verticalalignment="baseline",
        parse_math=False,
        zorder=TEXTS,
    )
