"""States: what keyed operators store beside a view's extent, so that they need no source for it (rules K1 to K4).

Always true here: a state covers every group, also those that HAVING hides, and moves in the transaction that moves the
extent.

    tables            the tables of a view's states
    combine           adding a step's entries to its state, and the change that the steps above read
    grouping_sql      how entries move the numbers of a group, as SQL
    lookup            what a state delivers, as committed
    regroup           a state whose groups fall together
    install           changes of states, in the transaction that installs the rows
    canonical_values  one text for all texts of equal value
"""
