"""Extents: a view's rows, counted, and what readers query.

Always true here: a row and its count are found by one digest; a reader sees a bag and nothing else, whole, whatever
version of the view the snapshot is from (I2). `copy_in` travels to Spark's executors.

    extent                 dyda.extent_<number>, and how a bag gets into one
    entries                the entries that an installation adds to one table
    staging                tables for rows that Spark's tasks deliver before an installation
    lockless_staging       the same in a session of their own, for `verify` and lanes
    prepared_tables        extents that are filled before a view has them
    copy_in                rows of Spark's tasks into a staging table
    published_view         the views that readers query
    exported_snapshot      extents and states under one snapshot while Spark reads them
    verification_snapshot  positions and extents that belong together, for `verify`
    set_comparison         how the rows of two queries relate as sets
"""
