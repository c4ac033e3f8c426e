"""The log that capture writes at a source, as update messages.

Always true here: a transaction is known by its top-level id, its messages come in the source's order, and a row image
is PostgreSQL's own text of the whole row.

    transactions    a source's transactions as its log tells them
    commit_order    the order in which they committed, as far as the source's clock tells it
    cache           what was read and is still waiting: a poll reads only what came since the one before
    messages        what each transaction did, under the names that the reader knows the relations by
    schema_entries  entries about schema changes, told as primitive steps
    row_images      row images, taken apart by Arrow's CSV reader
"""
