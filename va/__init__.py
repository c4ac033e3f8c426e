"""View adaptation: how an extent follows its definition (paper 001, Section 6.5).

Always true here: a plan is plain data and says why it was chosen; no plan trusts a constraint of the knowledge base, so
the rows are those of the new definition whatever the data are.

    plan = adapt(before, after, changes)  # MetadataOnly | FromExtent | Reaggregate | Recompute, with kind and reason

    plan            what an extent needs so that it follows its definition
    comparison      two forms of a view, side by side
    extent_query    the old extent as a relation of its own
    reaggregation   plans for views of several blocks
    canonical_form  what a tree computes, whatever it is called
"""

from va.extent_query import EXTENT
from va.plan import Adaptation, FromExtent, MetadataOnly, Recompute, Restored, adapt
from va.reaggregation import Reaggregate

__all__ = ["EXTENT", "Adaptation", "FromExtent", "MetadataOnly", "Reaggregate", "Recompute", "Restored", "adapt"]
