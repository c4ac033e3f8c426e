"""View adaptation: how an extent follows its definition (paper 001, Section 6.5).

Always true here: a plan is plain data and says why it was chosen. Two plans so far: only the definition's text moves,
or the view is computed again and merged by difference, so readers never see it empty.
"""

from va.plan import Adaptation, MetadataOnly, Recompute, adapt

__all__ = ["Adaptation", "MetadataOnly", "Recompute", "adapt"]
