"""A view as synchronization sees it.

Always true here: every component has one effective preference, and an expression is never looked into by its text.

    block               a region's components with their effective preferences
    preferences         the strongest preferences that agree with each other
    regions             a view taken apart: regions of inner joins, and the places of its expressions
    region_blocks       the regions as blocks, so that each is searched like a view of its own
    region_preferences  what its author allows for each expression, itself or by what reads it
    descriptions        what the parts of a view are called in sentences
"""
