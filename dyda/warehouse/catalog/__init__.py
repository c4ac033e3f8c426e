"""The catalog: DyDa's own tables in schema `dyda` of the warehouse.

Always true here: migrations from an empty schema give exactly the tables of `tables` (tested); records are plain and
frozen, never rows of an open transaction.

    schema        where the tables are
    tables        the tables, for SQLAlchemy and Alembic
    records       what is read from the catalog, and what is saved in it
    queries       one function per kind of record, each given a cursor, so that several can share a snapshot
    stored_views  views as one transaction finds them: version, extent, columns, states
    events        what happened: saved, read, forgotten in time
    codec         model objects as JSON, and back
    cause_codec   causes as JSON, and back
    schema_steps  steps of schema changes as JSON, and back
    upgrade       bringing the catalog to this program's version, with Alembic
    migrations/   from every older version to this one
"""
