"""Fault points: named places where a test may stop, kill or interleave a running unit.

Tests need no sleeps to provoke a race: they register a hook with `on`, or start a process with `DYDA_FAULT=point=kill`,
which kills itself there with SIGKILL (`=stop`: it stops until SIGCONT). Normally `point` is one dictionary look-up.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["LANE_POINTS", "POINTS", "RESTING_POINTS", "REWRITING_POINTS", "on", "point"]

POINTS = (
    "unit.snapshots-open",  # every source's snapshot is taken, nothing else has been read
    "unit.messages-received",  # the queue in the catalog knows the messages
    "sweep.before-hop",  # before each maintenance query
    "sweep.after-hop",  # after each maintenance query
    "unit.swept",  # all rows are here, Spark has not run
    "unit.evaluated",  # Spark has run; what its tasks read has not been compared yet
    "unit.checked",  # the schemas were the same after the reads
    "install.begun",  # the warehouse transaction is open
    "install.merged",  # extents are merged, positions are not
    "install.before-commit",  # everything is written
    "install.committed",  # committed, nothing acknowledged
    "acknowledge.before",  # before each source's acknowledgement
    "acknowledge.after",  # after each source's acknowledgement
)

LANE_POINTS = (
    "lane.opened",  # a lane has its snapshots and has read nothing
    "lane.computed",  # all rows are in staging tables, the schemas were the same after the reads
    "lane.prepared",  # all rows are in tables that no view has yet
    "lane.adopted",  # a hidden view has them: it catches up with the others
    "lane.shown",  # it is the view
)
"""Passed only where something is built beside the units; the first three in a thread of their own."""

RESTING_POINTS = ("lane.resting",)  # between two parts of what a lane reads, if that is more than one

REWRITING_POINTS = ("lane.rewritten",)  # a narrowed extent is in a table that no view has yet

BESIDE = (*LANE_POINTS, *RESTING_POINTS, *REWRITING_POINTS)

_hooks: dict[str, Callable[[], None]] = {}
_one_at_a_time = threading.RLock()
"""Sources are queried in parallel, but a hook that acts the first time must not run twice at a time."""


def point(name: str) -> None:
    """Pass the fault point `name`; does nothing unless a test armed it."""
    hook = _hooks.get(name)
    if hook is not None:
        if name in BESIDE:
            hook()  # a lane that a test holds there must not hold the units
            return
        with _one_at_a_time:
            hook()


@contextmanager
def on(name: str, hook: Callable[[], None]) -> Iterator[None]:
    """Run `hook` each time `name` is passed, within the block."""
    if name not in (*POINTS, *BESIDE):
        raise ValueError(f"no fault point {name!r}; there are: {', '.join((*POINTS, *BESIDE))}")
    _hooks[name] = hook
    try:
        yield
    finally:
        _hooks.pop(name, None)


SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def _arm_from_environment() -> None:
    """`DYDA_FAULT=install.merged=kill` (or `=kill:3` for the third passing) arms one point of this process, once."""
    wanted = os.environ.get("DYDA_FAULT")
    if not wanted:
        return
    name, _, action = wanted.partition("=")
    action, _, count = action.partition(":")
    if name not in (*POINTS, *BESIDE) or action not in SIGNALS:
        raise ValueError(f"DYDA_FAULT={wanted!r}: expected POINT=kill, POINT=kill:N or POINT=stop")
    remaining = int(count or 1)

    def strike() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining == 0:
            os.kill(os.getpid(), SIGNALS[action])

    _hooks[name] = strike


_arm_from_environment()
