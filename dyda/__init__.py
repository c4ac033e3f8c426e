"""DyDa keeps materialized views over autonomous databases correct while rows and schemas change.

Always true here: `commands` and `maintenance` see everything; `model` sees none of the others; `sources`, `warehouse`
and `engine` do not see each other. The algorithms live beside this package: `scheduler`, `vs`, `va`, `vm`.

    model/          what things are
    sources/        PostgreSQL databases, captured and read
    warehouse/      extents, the catalog, the transaction that installs a unit
    engine/         Spark
    maintenance/    one unit from the sources to the warehouse
    commands/       the API
    cli/            its command line
    queue_picture/  the queue as svg or png
    project         a project's folder
    settings        dyda.toml
    open_project    an opened project: its warehouse, sources and engine
    identity        whether a folder and a warehouse belong together
    embedded        a PostgreSQL of DyDa's own
    handshake       the settings of a session with PostgreSQL
    cursor          the types of cursors and connections
    rows            rows from PostgreSQL's text formats
    parallel        one function for several sources in parallel
    passwords       where passwords may come from
    masking         messages without passwords
    wording         causes as sentences; they are made nowhere else
    event_wording   events as sentences, and what to do about each
    errors          every error that is raised on purpose
    faults          where a test may stop or kill a running unit
"""

__version__ = "0.1.0"
