"""A drift is recorded before anything is done about it.

Every view that reads the source needs a rebuild: maintained ones are marked `resync` with the cause, held ones `behind`
until they are released. The same transaction records the source as it is now. So each view's debt is its own: one whose
other source is away does not make the others rebuild again and again, and a crash loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from dyda.errors import SourceBusy
from dyda.maintenance.catalog_state import CatalogState
from dyda.maintenance.observe.poll import Poll
from dyda.maintenance.observe.unexplained_changes import LOST, Movement
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.warehouse import SourceState
from dyda.warehouse.writer import Writer

__all__ = ["account_for", "listen_again"]


def account_for(writer: Writer, known: CatalogState, polled: Poll, movement: Movement) -> bool:
    """Record what is new in `movement`; whether there was anything, so that a new poll is needed."""
    owing = {
        name: cause for name, cause in movement.again.items() if known.records[name].stored_state != ViewState.RESYNC
    }
    drifted = {drift.source for drift in movement.drifts}
    held = [
        name
        for name, record in known.held.items()
        if not record.behind and (name in movement.held or drifted & set(record.positions))
    ]
    states = [state for source in sorted(drifted) if (state := _state(known, polled, source)) is not None]
    void = [drift.source for drift in movement.drifts if drift.drift in LOST]
    if not owing and not held and not states:
        return False
    writer.account_for(owing, held, states, void, movement.drifts)
    return True


def _state(known: CatalogState, polled: Poll, source: str) -> SourceState | None:
    """The source as it is now, if that is new. Without capture only that: it is attached first, and shows more then."""
    snapshot, record = polled.snapshots[source], known.sources[source]
    if not snapshot.state.attached:
        return None if record.capture == snapshot.state.capture else SourceState(source, capture=snapshot.state.capture)
    marked = record.mark is None or record.mark in snapshot.state.marks
    if marked and record.identity == snapshot.identity and record.gap == snapshot.gap:
        return None
    return SourceState(source, identity=snapshot.identity, gap=snapshot.gap, capture=snapshot.state.capture, mark="")


def listen_again(opened: OpenProject, writer: Writer, sources: tuple[str, ...], log: Callable[[str], None]) -> None:
    """Restore event triggers that were dropped or disabled. What they missed shows in the fingerprints (C5)."""
    for name in sources:
        source = opened.source(name)
        try:
            source.attach([])
        except SourceBusy:
            continue  # at the next poll
        capture = source.state().capture
        now = "they are back" if capture == "attached" else "schema changes are found on each poll from now on"
        log(f"source {name}: event triggers were dropped or disabled; {now}")
        writer.save_sources([SourceState(name, capture=capture)])
