"""One Spark application for all engine tests of a pytest worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    with Engine(Settings(config={"spark.sql.shuffle.partitions": "2"})) as started:
        yield started
