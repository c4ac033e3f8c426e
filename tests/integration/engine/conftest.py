"""The [spark] section for tests that start a Spark of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """The [spark] section, as a test sets it."""

    master: str = "local[2]"
    timezone: str = "UTC"
    numeric: str = "decimal(38,18)"
    config: Mapping[str, str] = field(default_factory=dict)
