"""View adaptation: how an extent follows its definition (paper 001, Section 6.5).

Always true here: a plan is plain data and says why it was chosen; no plan trusts a constraint of the knowledge base, so
the rows are those of the new definition for any data.

    plan = adapt(before, after, changes)  # MetadataOnly | FromExtent | Reaggregate | Recompute, with kind and reason

    plan            how an extent follows its definition
    comparison      two forms of a view compared: what stays, is lost, is new
    extent_query    the new view as a query over the old extent
    reaggregation   plans for views of several blocks
    canonical_form  what a tree computes, independent of names
"""

from va.extent_query import EXTENT
from va.plan import (
    WORTH_WHILE,
    Adaptation,
    Emptied,
    FromExtent,
    MetadataOnly,
    Recompute,
    Restored,
    Truncated,
    adapt,
    in_new_table,
)
from va.reaggregation import Reaggregate

__all__ = [
    "EXTENT",
    "WORTH_WHILE",
    "Adaptation",
    "Emptied",
    "FromExtent",
    "MetadataOnly",
    "Reaggregate",
    "Recompute",
    "Restored",
    "Truncated",
    "adapt",
    "in_new_table",
]
