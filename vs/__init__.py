"""View synchronization: what becomes of a view's definition when a schema under it moves (paper 001, Section 2).

Always true here: rewriting is pure, and a view whose definition cannot be kept is reported broken with its reason,
never guessed at. The one rule in force so far: a definition holds if it still means something over the relations as
they are now; it is never altered.
"""

from vs.judgement import Broken, Holds, Judgement, judge

__all__ = ["Broken", "Holds", "Judgement", "judge"]
