"""What Spark's tasks do for something that is computed beside units: at a lower priority than theirs.

Java's threads share one priority and PostgreSQL's servers have their own. A task's Python process can lower its own,
and with it the pace of the task. It cannot raise it again, so whoever gets the process next has it slow, too; Spark
ends processes that nobody has needed for a minute.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Background"]

PRIORITY = 15
"""Of 19, where 0 is the usual one: the share of a processor is about a thirtieth while others want it."""


@dataclass(frozen=True)
class Background:
    """A reader or a sink; picklable if that is."""

    function: Callable[[Any], Any]

    def __call__(self, argument: Any) -> Any:
        if hasattr(os, "setpriority") and os.getpriority(os.PRIO_PROCESS, 0) < PRIORITY:
            os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
        return self.function(argument)
