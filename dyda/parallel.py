"""One function for several sources in parallel: each is its own machine, and waiting for one must not delay another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

__all__ = ["WORKERS", "in_parallel"]

Result = TypeVar("Result")

AT_MOST = 16
"""Threads that wait for a source."""

WORKERS = ThreadPoolExecutor(AT_MOST, "dyda source")
"""Kept alive: a unit queries the sources many times, and starting a thread takes longer than most queries."""


def in_parallel(function: Callable[..., Result], *items: Iterable[Any]) -> list[Result]:
    """What `map` gives, in the order of the items. Even after an error, all calls have ended."""
    waiting = list(zip(*items, strict=True))
    if not waiting:
        return []
    first, *others = waiting
    futures = [WORKERS.submit(function, *item) for item in others]
    try:
        result = function(*first)
    finally:
        wait(futures)
    return [result, *(future.result() for future in futures)]
