"""Broken views that `dyda apply` brings back: as their file says, as they had evolved, or by a rewriting."""

from __future__ import annotations

from dyda.errors import DydaError, SourceUnreachable, UnsupportedSql
from dyda.house import House
from dyda.maintenance import Maintainer, Target
from dyda.maintenance.live import Known, last_definition
from dyda.maintenance.poll import Poll
from dyda.maintenance.present import Present
from dyda.maintenance.recovery import REJECTED
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.sql.parse import parse_view
from dyda.warehouse import ViewRecord
from vs import Broken, World, synchronize

__all__ = ["recover"]


def recover(maintainer: Maintainer, record: ViewRecord, file_text: str) -> tuple[Target, ViewDefinition] | None:
    """What to build, and its definition; None if no legal form of the view is there: it stays broken."""
    house = maintainer.house
    for sql, applied in ((file_text, file_text), (record.sql, None)):
        try:
            definition = _read(house, record.name, sql or "")
            house.engine.analyse(definition)
            return Target(record.name, definition.sql, applied, "applied again"), definition
        except SourceUnreachable:
            raise
        except DydaError:
            continue
    if (record.reason or "").startswith(REJECTED):
        return None  # an operator did not want it rewritten
    return _rewritten(house, maintainer.known, record)


def _rewritten(house: House, known: Known, record: ViewRecord) -> tuple[Target, ViewDefinition] | None:
    """The best rewriting of its last definition that preferences and knowledge allow by now."""
    numeric = house.project.settings.spark.numeric
    definition = last_definition(house, known, record)
    if definition is None:
        return None  # the catalog has gone on without it
    relations = {name: found.relation for name, found in known.relations.items()}
    concerned = definition.relations | known.knowledge.relations
    now = Present(house, Poll(), known, ()).of([relations[name] for name in sorted(concerned) if name in relations])
    judgement = synchronize(definition, World(relations, now, known.knowledge), known.defaults, numeric)
    if isinstance(judgement, Broken):
        return None
    after = judgement.definition
    try:
        house.engine.analyse(after)
    except UnsupportedSql:
        return None  # its names hold, its types do not
    return Target(record.name, after.sql, None, f"applied again: {getattr(judgement, 'reason', 'it holds')}"), after


def _read(house: House, name: str, sql: str) -> ViewDefinition:
    return parse_view(name, sql, house.describe, plain_numeric=house.project.settings.spark.numeric)
