"""The queue as a picture: sources are lanes, the order of processing runs from top to bottom.

    scheduler.Drawing + units ─▶ picture ─▶ placing ─▶ routing ─▶ layout ─▶ Scene ─▶ render ─▶ svg, png

Always true here: no two message boxes overlap, a box of merged messages overlaps no other box or message, no text is
smaller than 9 pt. Only measuring and rendering import matplotlib, without its global state.

    picture    what is shown: the dependency graph, cut into the units in which it is processed
    placing    rows and lanes: a lane per source, a row per step of processing
    routing    the path of each edge between the boxes
    grid       from rows and lanes to points
    layout     the scene: bands, boxes, lines and their texts
    legend     title, and what boxes and lines mean
    scene      the parts of a drawing: rectangles, lines and texts, in points
    measuring  the width of texts
    style      colours, sizes and distances
    render     a scene as svg or png
"""

from dyda.queue_picture.layout import lay_out
from dyda.queue_picture.picture import Caption, Picture, picture_of
from dyda.queue_picture.render import render
from dyda.queue_picture.scene import Line, Rectangle, Scene, Text

__all__ = ["Caption", "Line", "Picture", "Rectangle", "Scene", "Text", "lay_out", "picture_of", "render"]
