"""The log that capture writes at a source, as update messages.

Always true here: a transaction is known by its top-level id, its messages come in the source's order, and a row image
is PostgreSQL's own text of the whole row.

    transactions    a source's transactions, as its log has them
    commit_order    the order in which they committed, as far as the source's clock can be trusted
    reader          what a snapshot asks of the captured changes, whichever way they come
    cache           what was read and is not acknowledged: a poll reads only what is new
    inbox           the messages of what waits, kept from poll to poll
    messages        what each transaction did, under the relation names that the reader knows
    schema_entries  entries about schema changes, as primitive steps
    row_images      row images, parsed by Arrow's CSV reader
"""
