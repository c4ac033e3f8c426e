"""The queue as a picture: sources are lanes, the order of processing runs from top to bottom.

    scheduler.Drawing + units ─▶ placing.py  rows and lanes
                                 routing.py  the way of every edge between the boxes
                                 layout.py   ─▶ Scene: rectangles, lines, texts in points
                                 render.py   ─▶ svg, png, from the same scene

Always true here: no two message boxes overlap, no box of merged messages meets another or a message that is not in it,
no text is smaller than 9 pt. matplotlib is imported by measuring and painting alone, and without its global state.
"""

from dyda.drawing.layout import lay_out
from dyda.drawing.picture import Caption, Picture, picture_of
from dyda.drawing.render import render
from dyda.drawing.scene import Line, Rectangle, Scene, Text

__all__ = ["Caption", "Line", "Picture", "Rectangle", "Scene", "Text", "lay_out", "picture_of", "render"]
