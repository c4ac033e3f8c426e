"""Fault points: named places where a test may stop, kill or interleave a running unit.

No sleeps make a race pass here: a test registers a hook with `on`, or starts a process with
`DYDA_FAULT=point=kill` and the process kills itself there with SIGKILL. In normal life `point` is one
dictionary look-up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["POINTS", "on", "point"]

POINTS = (
    "unit.snapshots-open",  # every source's snapshot is taken, nothing else has been read
    "unit.messages-received",  # the queue in the catalog knows the messages
    "sweep.before-hop",  # before each maintenance query
    "sweep.after-hop",  # after each maintenance query
    "unit.swept",  # all rows are here, Spark has not run
    "unit.evaluated",  # Spark has run, the schemas have not been checked again
    "unit.checked",  # the schemas were the same after the reads
    "install.begun",  # the warehouse transaction is open
    "install.merged",  # extents are merged, positions are not
    "install.before-commit",  # everything is written
    "install.committed",  # committed, nothing acknowledged
    "acknowledge.before",  # before each source's acknowledgement
    "acknowledge.after",  # after each source's acknowledgement
)

_hooks: dict[str, Callable[[], None]] = {}


def point(name: str) -> None:
    """Pass the fault point `name`; does nothing unless a test asked for it."""
    hook = _hooks.get(name)
    if hook is not None:
        hook()


@contextmanager
def on(name: str, hook: Callable[[], None]) -> Iterator[None]:
    """Run `hook` each time `name` is passed, within the block."""
    if name not in POINTS:
        raise ValueError(f"no fault point {name!r}; there are: {', '.join(POINTS)}")
    _hooks[name] = hook
    try:
        yield
    finally:
        _hooks.pop(name, None)


def _kill_from_environment() -> None:
    """`DYDA_FAULT=install.merged=kill` (or `=kill:3` for the third passing) arms one point of this process."""
    wanted = os.environ.get("DYDA_FAULT")
    if not wanted:
        return
    name, _, action = wanted.partition("=")
    if name not in POINTS or not action.startswith("kill"):
        raise ValueError(f"DYDA_FAULT={wanted!r}: expected POINT=kill or POINT=kill:N")
    remaining = int(action.partition(":")[2] or 1)

    def kill() -> None:
        nonlocal remaining
        remaining -= 1
        if remaining <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    _hooks[name] = kill


_kill_from_environment()
