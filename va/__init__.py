"""View adaptation: how an extent follows its definition (paper 001, Section 6.5).

Always true here: a plan is plain data and says why it was chosen; no plan trusts a constraint of the knowledge base, so
the rows are those of the new definition whatever the data are.

    plan = adapt(before, after, changes)  # MetadataOnly | FromExtent | Reaggregate | Recompute, with kind and reason
"""

from va.extent import EXTENT
from va.nested import Reaggregate
from va.plan import Adaptation, FromExtent, MetadataOnly, Recompute, Restored, adapt

__all__ = ["EXTENT", "Adaptation", "FromExtent", "MetadataOnly", "Reaggregate", "Recompute", "Restored", "adapt"]
