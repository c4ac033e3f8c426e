"""Extents: a view's rows, and what readers query.

Always true here: a row is found by its proven key, by columns that few rows share, or by a digest of its text, and is
the same only if its text is; a reader sees a bag and nothing else, whole, whatever version of the view the snapshot is
from (I2). `copy_in` travels to Spark's executors.

    extent                 dyda.extent_<number>, whatever its form, and how it is read
    plain_extent           the view's rows as they are; a bag with digests
    keyed_extent           the same, found by columns: a proven key, or an index that few rows share
    selectivity            which columns few rows share
    counted_extent         distinct rows with counts: operators' states, and extents of older versions
    forms                  which form a table has, and which one a new table gets
    indexes                declared indexes, and those that users made by hand
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
