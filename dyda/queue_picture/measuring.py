"""The width of a text, and how much of it fits."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

__all__ = ["FAMILY", "any_script", "fitted", "font", "width_of"]

FAMILY = "DejaVu Sans"
"""matplotlib brings it, so texts measure the same everywhere."""


@lru_cache(maxsize=16)
def font(size: float, bold: bool) -> FontProperties:
    return FontProperties(family=FAMILY, size=size, weight="bold" if bold else "normal")


@contextmanager
def any_script() -> Iterator[None]:
    """Characters that the font lacks are drawn as empty squares, without a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


@lru_cache(maxsize=4096)
def width_of(text: str, size: float, bold: bool = False) -> float:
    """In points."""
    if not text:
        return 0.0
    with any_script():
        width, _, _ = text_to_path.get_text_width_height_descent(text, font(size, bold), False)
    return float(width)


def fitted(text: str, size: float, room: float, bold: bool = False) -> str:
    """The text, cut with an ellipsis if it is wider than `room`, rounding aside."""
    room += 0.01
    if width_of(text, size, bold) <= room:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if width_of(text[:middle] + "…", size, bold) <= room else (low, middle - 1)
    return text[:low].rstrip(" ,") + "…"
