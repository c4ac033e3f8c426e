"""The same at several sources at once: each is a machine of its own, and waiting for one need not delay another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["at_once"]

Item = TypeVar("Item")
Result = TypeVar("Result")

AT_MOST = 16
"""Threads that wait for a source."""


def at_once(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results in the order of the items. Whatever is raised, all of them have ended by then."""
    waiting = list(items)
    if len(waiting) < 2:
        return [function(item) for item in waiting]
    with ThreadPoolExecutor(min(len(waiting), AT_MOST), "dyda source") as workers:
        futures = [workers.submit(function, item) for item in waiting]
    return [future.result() for future in futures]
