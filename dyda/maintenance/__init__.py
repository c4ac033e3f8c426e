"""One update through the house: poll the sources, choose a unit, compute it, check, install, acknowledge.

    poll.py        a snapshot of every source, and the queue between the extents and it
    movement.py    which views must be read again because something moved that no row image shows
    refresh.py     what a unit changes in each view: sweep, two worlds, Spark; or a whole build
    building.py    views that are built, new or again
    maintainer.py  one cycle of all this, ending in one warehouse transaction

Always true here: nothing is installed unless the schemas were the same before the snapshot and after the last read (R2)
and the sources' WAL is on disk (P2); positions and extents move together or not at all.
"""

from dyda.maintenance.live import LiveView, Target
from dyda.maintenance.maintainer import Maintainer, Outcome

__all__ = ["LiveView", "Maintainer", "Outcome", "Target"]
