"""The top of the picture: its title, and what boxes and lines mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dyda.queue_picture import style
from dyda.queue_picture.measuring import width_of
from dyda.queue_picture.picture import Picture
from dyda.queue_picture.scene import Line, Rectangle, Text
from scheduler import EdgeKind, MessageState

__all__ = ["Legend", "legend"]

SAMPLE, AFTER_SAMPLE, AFTER_ENTRY, LINE = 28.0, 7.0, 22.0, 20.0


@dataclass
class Legend:
    """Rectangles, lines and texts, and where they end."""

    bottom: float
    rectangles: list[Rectangle] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def legend(picture: Picture, width: float) -> Legend:
    """Title and legend, wrapped to `width`. Only what the picture shows is explained."""
    made = Legend(style.MARGIN + style.TITLE)
    made.texts.append(Text(_title(picture), style.MARGIN, made.bottom, style.TITLE, style.INK, bold=True))
    made.bottom += 18
    if not picture.drawing.nodes:
        return made
    made.texts.append(Text(_subtitle(picture), style.MARGIN, made.bottom, style.SMALL, style.SOFT))
    made.bottom += 22
    x = style.MARGIN
    for sample in _samples(picture):
        meaning = sample.meaning
        wide = SAMPLE + AFTER_SAMPLE + width_of(meaning, style.SMALL)
        if x > style.MARGIN and x + wide > width - style.MARGIN:
            x, made.bottom = style.MARGIN, made.bottom + LINE
        if isinstance(sample, style.LineStyle):
            points = ((x, made.bottom - 3), (x + SAMPLE, made.bottom - 3))
            made.lines.append(Line("legend", points, sample.colour, sample.thickness, sample.dashed))
        else:
            thick = 1.6 if sample is style.GROUP else 1.0
            made.rectangles.append(
                Rectangle(
                    "legend", x + 4, made.bottom - 9, 20, 12, sample.fill, sample.edge, thick, radius=style.RADIUS / 2
                )
            )
        made.texts.append(Text(meaning, x + SAMPLE + AFTER_SAMPLE, made.bottom, style.SMALL, style.SOFT))
        x += wide + AFTER_ENTRY
    made.bottom += 16
    return made


def _title(picture: Picture) -> str:
    count = len(picture.drawing.nodes)
    if not count:
        return "Nothing is pending"
    messages = "1 pending message" if count == 1 else f"{count:,} pending messages"
    return messages if not picture.left_out else f"The first {count:,} of {count + picture.left_out:,} pending messages"


def _subtitle(picture: Picture) -> str:
    text = "Processed from top to bottom, one unit after the other. Arrows point to the message that waits."
    waits = sum(len(block.numbers) for block in picture.blocks if block.waits)
    return f"{text} {waits} cannot be processed now." if waits else text


def _samples(picture: Picture) -> Iterator[style.BoxStyle | style.LineStyle]:
    nodes, edges = picture.drawing.nodes, picture.drawing.edges
    for kind in style.BOXES:
        if any(node.kind == kind and node.concerned for node in nodes):
            yield style.BOXES[kind]
    if any(not node.concerned for node in nodes):
        yield style.UNCONCERNED
    if any(node.state is not MessageState.WAITING for node in nodes):
        yield style.STOPPED
    if any(block.merged for block in picture.blocks):
        yield style.GROUP
    for line in EdgeKind:
        if any(edge.kind is line for edge in edges):
            yield style.LINES[line]
