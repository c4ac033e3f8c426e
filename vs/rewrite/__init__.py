"""From a combination to a definition, and which one is best.

Always true here: a definition's text is read again over the relations as they are now;
the order of rewritings is total.

    tree           everything that must be dropped along with what the regions lose, and the new tree
    current_names  from the names known before to today's names
    assembly       from a tree to a definition: its text and preferences, read again
    ranking        quality first, then cost
"""
