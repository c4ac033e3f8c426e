"""Putting capture into a source, looking after it, and taking it out again (rules C1 to C7).

Always true here: capture is attached before a schema is read or a build snapshot taken; it belongs to one project; a
source can be left without a trace.

    install           attach to tables and whole hierarchies, and remove everything
    role              as whom capture runs: a role without login where there may be one
    state             what capture's own functions say of it
    check             whether a source can be reached, read and captured, and the statements that are missing
    unlogged_changes  what came and went between two polls at a source without event triggers
"""
