"""Which messages are processed next, and together with which others (paper 001, Sections 4 to 6).

Always true here: planning is pure; messages of one source never overtake each other; every decision carries its
reason. Data updates alone need no graph: they are taken in arrival order, in batches (`strong`) or one source
transaction at a time (`complete`, paper 003, Section 5).
"""

from scheduler.queue import Consistency, Queued, Unit, next_unit

__all__ = ["Consistency", "Queued", "Unit", "next_unit"]
