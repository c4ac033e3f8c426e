"""The parts of a drawing: rectangles, lines and texts with positions in points (1/72 inch), y growing downwards.

A scene knows neither messages nor matplotlib. Both formats are rendered from it, and tests measure it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Line", "Rectangle", "Scene", "Text"]

Point = tuple[float, float]


@dataclass(frozen=True)
class Rectangle:
    """`role`: message, group, band or legend."""

    role: str
    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    edge: str = "none"
    thickness: float = 1.0
    radius: float = 0.0

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height


@dataclass(frozen=True)
class Line:
    """An arrow of straight pieces with rounded corners."""

    role: str
    points: tuple[Point, ...]
    colour: str
    thickness: float = 1.2
    dashed: bool = False


@dataclass(frozen=True)
class Text:
    """One line of text. (x, y) is the start, middle or end of its baseline, as `anchor` says."""

    text: str
    x: float
    y: float
    size: float
    colour: str
    bold: bool = False
    anchor: str = "start"


@dataclass(frozen=True)
class Scene:
    """Drawn in this order: rectangles, lines, texts; but messages are drawn over lines."""

    width: float
    height: float
    rectangles: tuple[Rectangle, ...]
    lines: tuple[Line, ...]
    texts: tuple[Text, ...]
