"""The states of a view: those that the catalog stores, and those that users see."""

from __future__ import annotations

import enum

__all__ = ["ShownState", "ViewState"]


class ViewState(enum.StrEnum):
    """What the catalog stores."""

    LIVE = "live"
    """It follows its sources."""
    BUILDING = "building"
    """It has no rows yet."""
    RESYNC = "resync"
    """It will be rebuilt, and serves its old rows until then."""
    BROKEN = "broken"
    """Its definition is not valid now: it serves its last correct rows."""
    HELD = "held"
    """It waits for an operator: it serves its last correct rows."""


class ShownState(enum.StrEnum):
    """What users see: `live` is fresh or stale, by what waits for the view and when its sources were polled."""

    FRESH = "fresh"
    STALE = "stale"
    BUILDING = "building"
    RESYNC = "resync"
    BROKEN = "broken"
    HELD = "held"
