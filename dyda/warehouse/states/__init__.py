"""States: what keyed operators keep beside a view's extent, so that they need no source for it (rules K1 to K4).

Always true here: a state covers every group, also those that HAVING hides, and moves in the transaction that moves the
extent.

    tables            the tables of a view's states
    combine           adding a step's entries into its state, and what the steps above must be told
    grouping_sql      how entries move the numbers of a group, as SQL
    lookup            what a state delivers, as committed
    regroup           a state whose groups fall together
    install           what becomes of states, in the transaction that installs the rows
    canonical_values  the one text that stands for all texts of equal value
"""
