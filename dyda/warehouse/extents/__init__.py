"""Extents: a view's rows, counted, and what readers query.

Always true here: a row and its count are found by one digest; a reader sees a bag and nothing else, whole, whatever
version of the view his snapshot is from (I2). `copy_in` and `copy_out` travel to Spark's executors.

    extent                 dyda.extent_<number>, and how a bag gets into one
    entries                what an installation brings to one table
    staging                tables for rows that Spark's tasks deliver before an installation
    lockless_staging       the same for `verify`, which does not hold the project's lock
    copy_in                rows of Spark's tasks into a staging table
    copy_out               results of a query as Arrow text columns
    published_view         the views that readers query
    exported_snapshot      extents and states under one snapshot while Spark reads them
    verification_snapshot  positions and extents that belong together, for `verify`
    set_comparison         how the rows of two queries relate as sets
"""
