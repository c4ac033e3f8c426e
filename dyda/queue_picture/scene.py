"""What a drawing consists of: rectangles, lines and texts with places, in points (1/72 inch), y growing downwards.

A scene knows nothing of messages and nothing of matplotlib. Both formats are printed from it, and tests measure it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Line", "Rectangle", "Scene", "Text"]

Point = tuple[float, float]


@dataclass(frozen=True)
class Rectangle:
    """`role` says what it stands for: message, group, band, lane, legend."""

    role: str
    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    edge: str = "none"
    thickness: float = 1.0
    dashed: bool = False
    radius: float = 0.0

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    def overlaps(self, other: Rectangle) -> bool:
        """Whether they share more than a border."""
        return self.x < other.right and other.x < self.right and self.y < other.bottom and other.y < self.bottom

    def contains(self, other: Rectangle) -> bool:
        return self.x <= other.x and self.y <= other.y and other.right <= self.right and other.bottom <= self.bottom


@dataclass(frozen=True)
class Line:
    """A path of straight pieces with rounded corners; an arrow at its end unless `arrow` is False."""

    role: str
    points: tuple[Point, ...]
    colour: str
    thickness: float = 1.2
    dashed: bool = False
    arrow: bool = True


@dataclass(frozen=True)
class Text:
    """One line of text. `anchor` is start, middle or end; (x, y) is its baseline's point there."""

    text: str
    x: float
    y: float
    size: float
    colour: str
    bold: bool = False
    anchor: str = "start"


@dataclass(frozen=True)
class Scene:
    """Painted in this order: rectangles below lines below texts, except that messages lie above lines."""

    width: float
    height: float
    rectangles: tuple[Rectangle, ...]
    lines: tuple[Line, ...]
    texts: tuple[Text, ...]

    def of(self, role: str) -> list[Rectangle]:
        return [rectangle for rectangle in self.rectangles if rectangle.role == role]
