"""Installing: everything that a unit changes, in one warehouse transaction; then the sources are told.

Always true here: a position moves by compare-and-set, and a source is told only what is installed at every view.

    installation  from a plan and its changes to one installation
    acknowledge   which messages nobody waits for any more, and telling the sources so
    phases        where a unit's time went
"""
