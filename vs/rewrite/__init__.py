"""From a choice to a definition, and the choice of the best.

Always true here: a definition's text is read again over the relations as they are now;
the order of rewritings is total.

    tree           what follows from what is done to the regions: everything that must go along, and the new tree
    current_names  a tree of the names known before, over the relations as they are now
    assembly       from that to a definition: its text and preferences, read again
    ranking        quality first, then cost
"""
