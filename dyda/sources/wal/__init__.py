"""Capture from the write-ahead log: nothing of ours runs when a source's applications write rows.

    tables ──WAL──▶ slot ──pgoutput──▶ stream ──▶ layout ──▶ reader
    DDL, TRUNCATE ──logical messages──▶   in the same place of the stream

Always true here: a state has exactly the transactions that its snapshot shows. The stream is read up to a marker that
was committed after the snapshot was taken, so it has all of those; what it has beyond is held back for a later state.
A cut by the place in the stream would be wrong: with synchronous_commit = off a transaction is visible long before it
is streamed, and with a synchronous standby it is streamed before it is visible.

    pgoutput  PostgreSQL's logical replication messages as data
    stream    one connection that reads a slot, transaction by transaction
    layout    which relation a streamed row belongs to, and which of its columns the values are
    reader    what was streamed and is not acknowledged: messages and row images of a state
    slot      the slot, the publication, and what they keep at the source
"""
