"""How `dyda apply` recovers broken views: from their file, from their last definition, or by a rewriting."""

from __future__ import annotations

from dyda.errors import DydaError, SourceUnreachable, UnsupportedSql
from dyda.maintenance.catalog_state import BuildRequest, CatalogState, last_definition
from dyda.maintenance.loop import Maintainer
from dyda.maintenance.observe.round import Round
from dyda.maintenance.observe.tables import look_at
from dyda.maintenance.plan.relations_after import RelationsAfter
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.cause import BuildReason, Rejected, ToBeBuilt
from dyda.model.sql.parse import parse_view
from dyda.open_project import OpenProject
from dyda.warehouse import ViewRecord
from vs import Broken, Rewritten, World, synchronize

__all__ = ["recover"]


def recover(maintainer: Maintainer, record: ViewRecord, file_text: str) -> tuple[BuildRequest, ViewDefinition] | None:
    """What to build, and its definition; None if the view has no legal form: it stays broken."""
    opened = maintainer.opened
    numeric = opened.project.settings.spark.numeric
    for sql, applied in ((file_text, file_text), (record.sql, None)):
        try:
            definition = parse_view(record.name, sql or "", opened.describe, plain_numeric=numeric)
            opened.engine.analyse(definition)
            return BuildRequest(record.name, definition.sql, applied, ToBeBuilt(BuildReason.APPLIED_AGAIN)), definition
        except SourceUnreachable:
            raise
        except DydaError:
            continue
    if isinstance(record.cause, Rejected):
        return None  # an operator did not want it rewritten
    return _rewritten(opened, maintainer.known, record)


def _rewritten(
    opened: OpenProject, known: CatalogState, record: ViewRecord
) -> tuple[BuildRequest, ViewDefinition] | None:
    """The best rewriting of its last definition that preferences and knowledge allow now."""
    numeric = opened.project.settings.spark.numeric
    definition = last_definition(opened.project, known, record)
    if definition is None:
        return None  # the catalog no longer has what it reads
    relations = {name: record.relation for name, record in known.relations.items()}
    concerned = definition.relations | known.knowledge.relations
    read = [relations[name] for name in sorted(concerned) if name in relations]
    now = RelationsAfter(Round(opened.project, known, tables=look_at(opened, read)), ()).of(read)
    judgement = synchronize(definition, World(relations, now, known.knowledge), known.defaults, numeric)
    if isinstance(judgement, Broken):
        return None
    after = judgement.definition
    try:
        opened.engine.analyse(after)
    except UnsupportedSql:
        return None  # its names are valid, its types are not
    rewriting = judgement.reason if isinstance(judgement, Rewritten) else "its definition is valid again"
    return BuildRequest(record.name, after.sql, None, ToBeBuilt(BuildReason.APPLIED_AGAIN, rewriting)), after
