"""Observing: a snapshot of every source, and what in it no message explains.

Always true here: what one poll shows belongs together; what drifted is written down before anything is done about it.

    round                everything that one round knows, in one frozen object
    tables               tables as their sources' catalogs show them now
    poll                 a snapshot of every source, and the messages between the extents and it
    backlog              the messages that wait, kept from poll to poll
    unexplained_changes  which views must be read again because something moved that no message shows
    drift                writes that down, and puts capture back
    recovery             broken and held views whose cause is gone
    knowledge_watch      relations that only the knowledge names, and that have changed
    source_backoff       sources that are left alone for a while
    missing_rights       relations that the source's role may not read
"""
