"""Where a unit's time went."""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass, field

__all__ = ["Phases"]


@dataclass
class Phases:
    """Where a unit's time went, in seconds; `jobs` and `queries` are the counters' state when it began."""

    jobs: int = 0
    queries: int = 0
    started_at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    spent: dict[str, float] = field(default_factory=dict)
    _since: float = field(default_factory=time.perf_counter)

    def done(self, phase: str) -> None:
        now = time.perf_counter()
        self.spent[phase] = self.spent.get(phase, 0.0) + now - self._since
        self._since = now

    def after_installing(self) -> dict[str, float]:
        """What a unit's record cannot say when it is written."""
        return {phase: self.spent[phase] for phase in ("install", "acknowledge") if phase in self.spent}

    @property
    def total(self) -> float:
        return sum(self.spent.values()) + time.perf_counter() - self._since
