"""The search for legal rewritings (the EVE project's CVS).

Always true here: every combination that the preferences and the knowledge allow is looked at, minimal ones first, in
the same order every time.

    choices       what may be done about what is gone
    covers        what may replace an attribute, or a whole relation
    join_paths    paths along the join constraints
    draft         a rewriting before it is a tree
    drafts        for each combination of covers, the ways to join them with what is left of the view
    substitution  expressions with some of their columns replaced
    obstacles     why no legal rewriting was found
"""
