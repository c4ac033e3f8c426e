"""Colours, sizes and distances, in points. Nothing is smaller than 9 pt, and no meaning is carried by colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler import EdgeKind

__all__ = ["BOXES", "GROUP", "LINES", "STOPPED", "UNCONCERNED", "BoxStyle", "LineStyle"]

SMALL, NORMAL, HEADING, TITLE = 9.0, 10.5, 11.5, 14.0
INK, SOFT, ALARM, PAPER = "#0f172a", "#475569", "#b42318", "#ffffff"
BAND, BAND_EDGE, WAITS, WAITS_EDGE = "#f8fafc", "#dbe3ec", "#fff5f4", "#f3cfcb"

MARGIN = 24.0
LABELS = 56.0
HEADERS = 26.0
NARROWEST = 620.0
BOX_HEIGHT = 34.0
BOX_NARROWEST, BOX_WIDEST = 112.0, 216.0
INSIDE = 8.0
GUTTER, CHANNEL, BETWEEN_BANDS, TRACK = 34.0, 15.0, 28.0, 6.5
GROUP_PAD, BAND_PAD = 6.0, 10.0
RADIUS = 4.0


@dataclass(frozen=True)
class BoxStyle:
    fill: str
    edge: str
    meaning: str


@dataclass(frozen=True)
class LineStyle:
    colour: str
    thickness: float
    dashed: bool
    meaning: str


BOXES = {
    "data": BoxStyle("#e8f1fc", "#3f76ad", "data update"),
    "schema": BoxStyle("#ffefd2", "#b86e00", "schema change"),
    "mixed": BoxStyle("#efe7fc", "#7650b0", "both"),
}
UNCONCERNED = BoxStyle("#f4f4f5", "#a1a1aa", "concerns no view")
STOPPED = BoxStyle("#ffffff", ALARM, "held or quarantined")
GROUP = BoxStyle("#dff5f0", "#0f766e", "merged: processed as one")
LINES = {
    EdgeKind.SEMANTIC: LineStyle("#64748b", 1.2, False, "semantic: same source, came later"),
    EdgeKind.CONCURRENCY: LineStyle("#d4420c", 1.4, True, "concurrency: would query what the first one changes"),
}
