"""What is proven about the rows of a rewriting (rules V1 to V4).

Always true here: sound, not complete; in doubt, unknown.

    extent       what a rewriting does to the extent, as far as the constraints prove it
    propagation  what is proven of a region's rows, carried up to the view
    implication  when a condition is equivalent to another, or follows from others
"""
