"""Installing: everything that a unit changes, in one warehouse transaction; then the sources are told.

Always true here: a position moves by compare-and-set, and a source is told only what is installed at every view.

    installation  from a unit's changes to one installation; the acknowledgement after it
"""
