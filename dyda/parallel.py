"""The same at several sources at once: each is a machine of its own, and waiting for one need not delay another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

__all__ = ["WORKERS", "in_parallel"]

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_MOST = 16
"""Threads that wait for a source."""

WORKERS = ThreadPoolExecutor(AT_MOST, "dyda source")
"""They stay: a unit goes to the sources many times, and starting a thread takes longer than most questions."""


def in_parallel(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in the order of the items. Whatever is raised, all of them have ended by then."""
    waiting = list(items)
    if not waiting:
        return []
    first, *others = waiting
    futures = [WORKERS.submit(function, item) for item in others]
    try:
        result = function(first)
    finally:
        wait(futures)
    return [result, *(future.result() for future in futures)]
