"""Executing a unit: the rows of every view that it moves, under the snapshots of one poll.

Always true here: a row's multiplicity is that of the unit's positions, whatever the snapshots show beyond them; nothing
is visible to a reader before it is installed.

    unit             a plan carried out: the changes of every view
    execution        what carrying out a plan needs
    deltas           what a unit changes in each view: sweep, two worlds, Spark
    images           row images in the sources' logs: those that are asked for
    possible_rows    rows whose keys need not travel, because a condition excludes them
    levels           its changes through the steps of the views, one Spark job per level
    recompute        views that are computed whole
    from_extent      adaptation from the old extent
    emptied          views that become empty with a relation
    reaggregate      adaptation of views of several blocks, from their states
    warehouse_scans  rows in the warehouse, in pieces that Spark's tasks read
    task_failures    what cannot be read whole
    poisoned_row     which row of a message a view cannot be computed over
"""
