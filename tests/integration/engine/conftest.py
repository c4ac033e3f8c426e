"""The [spark] section for tests that start a Spark of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from dyda.engine import Engine


@dataclass(frozen=True)
class Settings:
    """The [spark] section, as a test sets it."""

    master: str = "local[2]"
    timezone: str = "UTC"
    numeric: str = "decimal(38,18)"
    config: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(params=["by jobs", "by a plan that is kept"])
def small_jobs(request: pytest.FixtureRequest, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many jobs a unit of a few rows takes; the tests that ask for it run both ways."""
    if request.param == "by jobs":
        monkeypatch.setattr(engine.prepared, "most_rows", 0)
        return 1
    return 0
