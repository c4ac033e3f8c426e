"""Installing capture at a source, checking it, and removing it (rules C1 to C7).

Always true here: capture is attached before a schema is read or a build snapshot taken; it belongs to one project; a
source can be left without a trace.

    install           attach to tables and whole hierarchies, and remove everything
    role              who owns capture: a role without login if possible
    state             what capture's own functions report
    check             whether a source can be reached, read and captured, and the statements that are missing
    unlogged_changes  changes undone between two polls at a source without event triggers
"""
