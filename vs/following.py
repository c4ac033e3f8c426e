"""Following renames and types: a view means the table and its columns, not what they are called.

For whoever wants the same view under today's names and nothing else; what a view may lose or have replaced is
synchronization's business.
"""

from __future__ import annotations

from collections.abc import Mapping

from dyda.errors import DydaError
from dyda.model.algebra import ViewDefinition, scans
from dyda.model.relation import Relation, RelationName
from vs.assembly import assemble
from vs.block import block, lost
from vs.draft import as_it_stands
from vs.judgement import Broken, Holds, Judgement
from vs.passage import Passage
from vs.preferences import Defaults

__all__ = ["follow"]


def follow(
    definition: ViewDefinition,
    now: Mapping[RelationName, Relation | None],
    plain_numeric: str = "decimal(38,18)",
) -> Judgement:
    """The definition over the relations as they are `now`, by the names the view knew them by; None: gone."""
    passage = Passage({scan.relation.name: scan.relation for scan in scans(definition.tree)}, now)
    view = block(definition, Defaults())
    gone = lost(view, passage)
    if gone:
        return Broken(gone[0])
    assembly = assemble(as_it_stands(view), passage, append=False)
    try:
        return Holds(assembly.read(plain_numeric), assembly.followed)
    except DydaError as error:
        return Broken(error.what)
