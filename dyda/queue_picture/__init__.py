"""The queue as a picture: sources are lanes, the order of processing runs from top to bottom.

    scheduler.Drawing + units ─▶ picture ─▶ placing ─▶ routing ─▶ layout ─▶ Scene ─▶ render ─▶ svg, png

Always true here: no two message boxes overlap, no box of merged messages meets another or a message that is not in it,
no text is smaller than 9 pt. matplotlib is imported by measuring and painting alone, and without its global state.

    picture    what is shown: the dependency graph, cut into the units in which it is processed
    placing    rows and lanes: a lane per source, a row per step of processing
    routing    the way of each edge between the boxes
    grid       from rows and lanes to points
    layout     the scene: bands, boxes, lines and what is written in them
    legend     title, and what boxes and lines mean
    scene      what a drawing consists of: rectangles, lines and texts in points
    measuring  how wide a text is
    style      colours, sizes and distances
    render     a scene as svg or png
"""

from dyda.queue_picture.layout import lay_out
from dyda.queue_picture.picture import Caption, Picture, picture_of
from dyda.queue_picture.render import render
from dyda.queue_picture.scene import Line, Rectangle, Scene, Text

__all__ = ["Caption", "Line", "Picture", "Rectangle", "Scene", "Text", "lay_out", "picture_of", "render"]
