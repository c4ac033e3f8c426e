"""`dyda demo`: the travel example of paper 001, from nothing to a verified warehouse.

Always true here: only embedded servers are touched, in a folder of the demo's own.

    run      the story: build, write, drop, follow, verify
    writers  four databases, each with users of its own
"""
