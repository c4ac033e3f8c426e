"""`dyda demo`: the travel example of paper 001, from nothing to a verified warehouse.

Always true here: only embedded servers are touched, in the demo's own folder.

    run      the script: build, write, drop, follow, verify
    writers  four databases, each with its own users
"""
