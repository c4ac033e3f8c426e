"""The warehouse: counted extents, reader-facing views, the catalog, and the one transaction that installs a unit.

Always true here: after every commit each extent is its current definition over the source states that the committed
positions name. Whatever moves, moves in one transaction (paper 000, step 3), by the one process that holds the
project's lock and whose fence is the current one. Readers never see two views in different states (I3).

    warehouse       reading the catalog, requests, taking the lock
    writer          every write, by the one process that holds the project's lock
    fenced_session  its session: the lock, and the fence that each write passes
    message_queue   the queue of received messages
    installation    what a unit installs, as data
    install         the one transaction that installs a unit
    view_installer  one view's part of it
    transitions     what an installation means to its views, as events
    hidden_views    views that lanes have built and no reader sees yet
    hidden_names    what those are called
    reading         sessions for short questions
    standby         a daemon that waits for the project's lock
    connection      one way to connect, one set of pinned settings
    catalog/        DyDa's own tables: records, queries, migrations
    extents/        a view's rows, counted; what readers query; rows in and out
    states/         what keyed operators store, and how entries change it
"""

from dyda.warehouse.catalog.cause_codec import cause_to_json
from dyda.warehouse.catalog.records import (
    DaemonRecord,
    EarlierCatalog,
    EventRecord,
    FreshnessRecord,
    Identity,
    IndexRecord,
    KnowledgeRecord,
    MessageRecord,
    RelationRecord,
    RelationState,
    RequestRecord,
    SourceRecord,
    SourceState,
    StateTable,
    UnitRecord,
    VersionRecord,
    ViewColumn,
    ViewRecord,
    ViewVersion,
)
from dyda.warehouse.hidden_names import hidden_name, is_hidden, visible_name
from dyda.warehouse.installation import Installation, ViewChange
from dyda.warehouse.warehouse import Warehouse

__all__ = [
    "DaemonRecord",
    "EarlierCatalog",
    "EventRecord",
    "FreshnessRecord",
    "Identity",
    "IndexRecord",
    "Installation",
    "KnowledgeRecord",
    "MessageRecord",
    "RelationRecord",
    "RelationState",
    "RequestRecord",
    "SourceRecord",
    "SourceState",
    "StateTable",
    "UnitRecord",
    "VersionRecord",
    "ViewChange",
    "ViewColumn",
    "ViewRecord",
    "ViewVersion",
    "Warehouse",
    "cause_to_json",
    "hidden_name",
    "is_hidden",
    "visible_name",
]
