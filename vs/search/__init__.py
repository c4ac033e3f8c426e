"""The search for legal rewritings (the EVE project's CVS).

Always true here: every combination that the preferences and the knowledge allow is looked at, minimal ones first, in
the same order every time.

    choices       what may be done about what is gone
    covers        where an attribute, or a whole relation, can be had instead
    join_paths    ways over the join constraints
    draft         a rewriting that is not written down yet
    drafts        for each combination of covers, the ways to join them with what is left of the view
    substitution  expressions with some of their columns put differently
    obstacles     why no legal rewriting was found
"""
