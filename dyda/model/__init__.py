"""The basic values: relations and types, views as algebra, update messages, signed bags, positions.

Always true here: values are immutable, nothing talks to a database or to Spark, and dyda.errors is the only other
import of ours. Papers: 003 for the messages and counts, 000 for positions, 002 for the algebra.

    relation        tables at sources, with typed columns
    types           how a PostgreSQL value travels to Spark and back
    bag             rows with signed multiplicities, and their laws
    position        which transactions of a source an extent already has
    xids            transactions in order, to be found by position
    message         what one source transaction did
    view_state      the states of a view, stored and shown
    cause           why a view or a message is in its state
    event           what happened: one for each change of a state
    schema_change   what a schema change did to a relation, as primitive steps
    operator_state  what a keyed operator stores beside the extent
    preferences     what a view's author allows when a schema changes
    layout          what is unique in a view's rows, and what is indexed
    algebra/        a view as a tree that knows its schema
    sql/            view text to tree, and back
    ddl/            PostgreSQL's DDL as a source team writes it
    knowledge/      what the sources mean to each other
    cached          a property that is computed once per object
    printable       text that others wrote, safe for a terminal
"""
