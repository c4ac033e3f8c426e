"""All kinds of faults, by what they are called in the table."""

from __future__ import annotations

from tests.torture.fault import Fault
from tests.torture.faults_of_processes import (
    DaemonKilled,
    DaemonKilledAtPoint,
    DaemonsClockJumps,
    DriverKilled,
    ExecutorKilled,
)
from tests.torture.faults_of_sources import (
    BackendKilled,
    BackendTerminated,
    CounterWraps,
    Deadlock,
    LongTransaction,
    SerializationFailure,
    SourceCut,
    SourceFrozen,
    SourceKilled,
    SourceRefuses,
    SourceRestarted,
    SourcesClockJumps,
    SourceSlow,
    TableLocked,
)
from tests.torture.faults_of_warehouse import (
    ViewHeld,
    WarehouseCut,
    WarehouseFull,
    WarehouseKilled,
    WarehouseRefuses,
    WarehouseRestarted,
    WarehouseSlow,
)

__all__ = ["KINDS"]

KINDS: dict[str, type[Fault]] = {
    kind.kind: kind
    for kind in (
        DaemonKilled,
        DaemonKilledAtPoint,
        DaemonsClockJumps,
        DriverKilled,
        ExecutorKilled,
        BackendTerminated,
        BackendKilled,
        SourceKilled,
        SourceRestarted,
        SourceFrozen,
        SourceRefuses,
        SourceCut,
        SourceSlow,
        SourcesClockJumps,
        CounterWraps,
        TableLocked,
        LongTransaction,
        Deadlock,
        SerializationFailure,
        WarehouseKilled,
        WarehouseRestarted,
        WarehouseRefuses,
        WarehouseCut,
        WarehouseSlow,
        WarehouseFull,
        ViewHeld,
    )
}
