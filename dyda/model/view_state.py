"""The states of a view: what the catalog keeps of it, and what users are shown."""

from __future__ import annotations

import enum

__all__ = ["ShownState", "ViewState"]


class ViewState(enum.StrEnum):
    """What the catalog keeps."""

    LIVE = "live"
    """It follows its sources."""
    BUILDING = "building"
    """It has no rows yet."""
    RESYNC = "resync"
    """It is to be built again, and serves its old rows until then."""
    BROKEN = "broken"
    """Its definition means nothing now: it serves its last correct rows."""
    HELD = "held"
    """It cannot go on before somebody does something: it serves its last correct rows."""


class ShownState(enum.StrEnum):
    """What users are shown: `live` is told apart by what waits for the view, and when its sources were polled."""

    FRESH = "fresh"
    STALE = "stale"
    BUILDING = "building"
    RESYNC = "resync"
    BROKEN = "broken"
    HELD = "held"
