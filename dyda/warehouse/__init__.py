"""The warehouse: counted extents, reader-facing views, the catalog, and the one transaction that installs a unit.

Always true here: after every commit each extent is its current definition over the source states that the committed
positions name. Whatever moves, moves in one transaction (paper 000, step 3), by the one process that holds the
project's lock and whose fence is the current one. Readers never see two views in different states (I3).

    warehouse.py   reading the catalog, requests, taking the lock         worker.py   every write
    installation.py ─ extents.py (rows), reader.py (what readers query)   staging.py, sink.py   rows from Spark tasks
    states.py   what keyed operators keep       combining.py, grouping.py   how entries change it
"""

from dyda.warehouse.combining import Combined
from dyda.warehouse.extents import Comparison
from dyda.warehouse.frozen import FrozenWarehouse
from dyda.warehouse.held import HeldExtent, HeldState, HeldWarehouse, hold_extent, hold_warehouse
from dyda.warehouse.installation import Installation, ViewChange
from dyda.warehouse.records import (
    Blocker,
    DaemonRecord,
    Identity,
    KnowledgeRecord,
    MessageRecord,
    RelationRecord,
    RelationState,
    RequestRecord,
    SourceRecord,
    SourceState,
    StateTable,
    Status,
    UnitRecord,
    VersionRecord,
    ViewColumn,
    ViewRecord,
    ViewVersion,
    WaitingRecord,
)
from dyda.warehouse.sets import SetComparison
from dyda.warehouse.sink import StagingSink
from dyda.warehouse.staging import Staging
from dyda.warehouse.stagings import Stagings
from dyda.warehouse.state_changes import StateChange
from dyda.warehouse.warehouse import Warehouse
from dyda.warehouse.worker import Worker

__all__ = [
    "Blocker",
    "Combined",
    "Comparison",
    "DaemonRecord",
    "FrozenWarehouse",
    "HeldExtent",
    "HeldState",
    "HeldWarehouse",
    "Identity",
    "Installation",
    "KnowledgeRecord",
    "MessageRecord",
    "RelationRecord",
    "RelationState",
    "RequestRecord",
    "SetComparison",
    "SourceRecord",
    "SourceState",
    "Staging",
    "StagingSink",
    "Stagings",
    "StateChange",
    "StateTable",
    "Status",
    "UnitRecord",
    "VersionRecord",
    "ViewChange",
    "ViewColumn",
    "ViewRecord",
    "ViewVersion",
    "WaitingRecord",
    "Warehouse",
    "Worker",
    "hold_extent",
    "hold_warehouse",
]
