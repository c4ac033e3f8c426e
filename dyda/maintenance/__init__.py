"""How one update travels: observe the sources, plan a unit, execute it, install it, acknowledge.

    observe ──▶ plan ──▶ execute ──▶ install ──▶ acknowledge

Always true here: nothing is installed unless the schemas were the same before the snapshot and after the last read (R2)
and the sources' WAL is on disk (P2); positions and extents move together or not at all.

    loop           observe, and decide what an error means for the rounds to come
    units          units under one poll: planned, executed, checked, installed, acknowledged
    lanes/         what takes long, beside the units
    approval       schema changes that wait until an operator agrees
    next_unit      which messages make the next unit: Dyno's schedules between units, their breaks and locks
    schedules      a schedule for the views that wait for the same messages, and units of several at once
    lacked_messages  what of the queue a group of views does not have, kept from unit to unit
    arrivals       what a poll shows of the queue
    waiting        which views a message stops that an operator has yet to decide about
    view_reads     what maintaining a view reads, for the schedule
    cycle          what a cycle was asked for, and how it ended
    phases         where a unit's time went
    catalog_state  the catalog as one round knows it, and the views with their definitions resolved
    programs       programs of views as the catalog knows them
    error_causes   what an error means for the view or the message that it concerns
    observe/       what the sources show: polls, drift, who is out of reach, what comes back
    plan/          what a unit means for relations, views and knowledge
    execute/       rows: deltas, rebuilds, adaptation from the extent
    install/       one installation, and the acknowledgement after it
"""
