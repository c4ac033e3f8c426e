"""Reading a source's tables under one snapshot (rules P1, R1 to R5).

Always true here: log and tables are read in the same snapshot; each read is a short transaction of its own; what a
table's owner wrote never runs with our rights. Spark ships `copy`, `session` and `stalled_server` to its
executors.

    snapshot     one state of a source, held still: position, messages, row images, lookups and scans
    queries      lookups by key and page ranges of a scan, as SQL
    scans        whole relations: a few rows here and now, others by Spark's tasks
    copy         text from PostgreSQL into Arrow, from the driver or from any Spark executor
    session      a session that prints values canonically
    rights       as whom tables are read
    encoding     texts that a source's own encoding can represent
    table_locks  locks that let a unit that was broken too often finish
"""
