"""View synchronization: what becomes of a view's definition when a schema under it moves (paper 001, Section 2).

Always true here: rewriting is pure, and a view whose definition cannot be kept is reported broken with its reason,
never guessed at. Two rules so far: renames are followed, with the view's own column names unchanged (following.py);
anything else must leave the definition meaningful as it stands (reading.py).
"""

from vs.following import follow
from vs.judgement import Alternative, Broken, Holds, Judgement, Rewritten
from vs.reading import read
from vs.synchronization import Defaults, World, synchronize

__all__ = [
    "Alternative",
    "Broken",
    "Defaults",
    "Holds",
    "Judgement",
    "Rewritten",
    "World",
    "follow",
    "read",
    "synchronize",
]
