"""One cycle of the loop: what it was asked for, what a poll asks for beside its messages, and how it ended."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from dyda.maintenance.catalog_state import BuildRequest
from dyda.maintenance.execute.execution import Progress
from dyda.model.cause import Cause

__all__ = ["Cycle", "Due", "Outcome"]


class Outcome(enum.Enum):
    """How a cycle ended."""

    IDLE = "nothing to do"
    WORKED = "at least one unit was installed"
    BROKEN = "the unit was abandoned: a schema changed under it"
    BLOCKED = "something that it needs is not available"


@dataclass
class Cycle:
    """What a cycle was asked for, and what it has tried so far."""

    requested: Mapping[str, BuildRequest]
    progress: Progress
    healed: set[str] = field(default_factory=set)
    """Views for whose relations capture was attached again."""
    returning: dict[str, BuildRequest] = field(default_factory=dict)
    """Broken views that mean something again."""


@dataclass(frozen=True)
class Due:
    """What a poll asks for beside its messages: views to build, with and without a request, and views that wait."""

    again: Mapping[str, BuildRequest]
    builds: Mapping[str, BuildRequest]
    waiting: Mapping[str, Cause]
