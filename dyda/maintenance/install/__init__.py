"""Installing: everything that a unit changes, in one warehouse transaction; then the sources get an acknowledgement.

Always true here: a position moves by compare-and-set, and only what every view has is acknowledged.

    installation  from a plan and its changes to one installation
    acknowledge   which messages no view waits for any more, and acknowledging them
"""
