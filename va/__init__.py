"""View adaptation: how an extent follows its definition (paper 001, Section 6.5).

Always true here: a plan is plain data and says why it was chosen. The one plan so far is to recompute; the extent is
then merged by difference, so readers never see it empty.
"""

from va.plan import Adaptation, Recompute, adapt

__all__ = ["Adaptation", "Recompute", "adapt"]
