"""What an installation means to its views, as events: made from what was known of each view and what changed."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator

from dyda.model import event as events
from dyda.model.cause import (
    BuildReason,
    Cause,
    Followed,
    Following,
    LayoutChanged,
    LostIndex,
    RelationDrifted,
    SourceDrift,
    SourceDrifted,
    ToBeBuilt,
)
from dyda.model.event import (
    Event,
    SourceGap,
    UnitInstalled,
    UnitMerged,
    ViewAdapted,
    ViewBuilt,
    ViewIndexLost,
    ViewRecovered,
    ViewRelaid,
    ViewRewritten,
    view_moved,
)
from dyda.model.layout import LayoutEvent
from dyda.model.view_state import ViewState
from dyda.warehouse.catalog.records import UnitRecord, ViewVersion
from dyda.warehouse.catalog.stored_views import KnownView
from dyda.warehouse.hidden_names import is_hidden
from dyda.warehouse.installation import ViewChange

__all__ = ["drifted", "lost_indexes", "unit_event", "view_events"]

STOPPED = (ViewState.BROKEN, ViewState.HELD)
"""States from which a view recovers; from the others it is built."""


def view_events(
    change: ViewChange, known: KnownView | None, rows: int | None, lost: Iterable[LostIndex], *, built: bool
) -> Iterator[Event]:
    """What happens to one view. `rows`: how many it has, if all were written; `built`: its unit builds views whole."""
    view, version = change.view, change.version
    if is_hidden(view):
        return
    whole = change.mode == "replace" and change.has_rows
    before = ViewState.BUILDING if known is None else known.state
    why = None if known is None else known.cause
    after = change.state or (ViewState.LIVE if version is not None or whole else before)
    if version is not None:
        yield from _new_version(view, known, version, after, rows)
    elif whole and after is ViewState.LIVE and (built or before is not ViewState.LIVE):
        yield ViewBuilt(view, rows, why)
    if after is not ViewState.LIVE:
        cause = change.cause if change.state is not None else why
        if (moved := view_moved(view, before, why, after, cause)) is not None:
            yield moved
    elif before in STOPPED or (change.state is ViewState.LIVE and before is ViewState.LIVE and why is not None):
        yield ViewRecovered(view, before)
    yield from lost_indexes(lost)


def _new_version(
    view: str, known: KnownView | None, version: ViewVersion, after: ViewState, rows: int | None
) -> Iterator[Event]:
    details = version.details
    number = ((known.version if known is not None else None) or 0) + 1
    rewriting = details.get("rewriting")
    adaptation = (details.get("adaptation") or {}).get("kind")
    if known is None or known.version is None:
        yield ViewBuilt(view, rows, version.cause)
    elif rewriting is not None:
        components = tuple(map(str, details.get("components", ())))
        yield ViewRewritten(view, number, components, version.cause, rewriting.get("extent"))
    elif _has_followed(version.cause):
        yield ViewAdapted(view, number, version.cause, None if after is ViewState.RESYNC else adaptation)
    elif not isinstance(version.cause, LayoutChanged):
        yield ViewBuilt(view, rows, version.cause)
    # What is lost of keys and indexes has events of its own.
    gone = (LayoutEvent.KEY_LOST, LayoutEvent.INDEX_LOST)
    if changes := tuple(one for one in version.layout_changes if one.event not in gone):
        yield ViewRelaid(view, LayoutChanged(changes))


def _has_followed(cause: Cause) -> bool:
    """Whether the version says something else than the one before, and was not only computed again."""
    if isinstance(cause, ToBeBuilt):
        return cause.reason in (BuildReason.FILE_CHANGED, BuildReason.EVOLVED)
    return isinstance(cause, Followed | Following)


def lost_indexes(lost: Iterable[LostIndex]) -> Iterator[Event]:
    for one in lost:
        yield ViewIndexLost(one.view, one)


def unit_event(number: int, unit: UnitRecord, views: int) -> Event:
    """One line about a unit."""
    seconds = sum(unit.phases.values())
    if unit.started_at is not None:
        seconds = max(0.0, (datetime.datetime.now(datetime.UTC) - unit.started_at).total_seconds())
    seconds = round(seconds, 3)
    if unit.kind == "merged":
        return UnitMerged(number, unit.messages, unit.rows, views, seconds)
    return UnitInstalled(number, unit.kind, unit.messages, unit.rows, views, seconds)


def drifted(causes: Iterable[Cause]) -> Iterator[Event]:
    """What happened to sources and relations, each once, whatever the number of views that owe a rebuild for it."""
    for cause in dict.fromkeys(causes):
        match cause:
            case SourceDrifted(source, SourceDrift.CHANGES_MISSED):
                yield SourceGap(source, cause)
            case SourceDrifted(source) | RelationDrifted(source):
                yield events.SourceDrift(source, cause)
