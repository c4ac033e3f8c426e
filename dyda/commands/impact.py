"""`dyda impact`: what some DDL would do to every view, told from the catalog; no source is touched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dyda.commands.migrations import Migration, read_migrations
from dyda.engine import Engine
from dyda.errors import ConfigurationError, DydaError
from dyda.maintenance.catalog_state import load
from dyda.maintenance.plan.impact import impact_of_changes
from dyda.model.ddl.schemas import Schemas
from dyda.model.relation import RelationName
from dyda.open_project import OpenProject

__all__ = ["impact"]


def impact(
    folder: Path, ddl: str = "", source: str | None = None, engine: Engine | None = None, files: Sequence[Path] = ()
) -> dict[str, Any]:
    """Judge every view as if the statements of `ddl` and of `files` had happened, all of them in one transaction.

    `source` is whose DDL it is where its table names say no source. Spark starts only if types have to be judged.
    """
    # PostgreSQL's grammar takes a moment to load, and no other command needs it.
    from dyda.model.ddl.statements import apply_ddl

    migrations, notes = read_migrations(files)
    migrations.insert(0, Migration(ddl))
    with OpenProject.open(folder, engine) as opened:
        if source is not None:
            opened.source(source)
        known = load(opened)
        schemas = Schemas({name: record.relation for name, record in known.relations.items()})
        named = _Names(opened, source, {name.schema for name in known.relations if name.source == source})
        counts = [apply_ddl(migration.text, schemas, named, migration.file) for migration in migrations]
        if not any(counts):
            raise DydaError("there is no statement to judge", "Write it as an argument, in a file, or to -.")
        notes += [note for migration in migrations for note in migration.notes]
        notes += [f"no view and no constraint uses {name}" for name in schemas.unknown]
        notes += [
            f"the text also changes rows of {name}; row changes are maintained as usual" for name in schemas.written
        ]
        waiting = [record.id for record in opened.warehouse.messages() if record.message.schema_changes]
        if waiting:
            told = ", ".join(map(str, waiting))
            notes.append(f"schema changes are pending (message {told}): the views are judged as they were before them")
        return {"views": [view.as_dict() for view in impact_of_changes(opened, known, schemas)], "notes": notes}


class _Names:
    """What a table's written name means: `source.table`, `source.schema.table`, or of one source as it writes them."""

    def __init__(self, opened: OpenProject, source: str | None, schemas: set[str]) -> None:
        self.opened = opened
        self.source = source
        self.schemas = schemas

    def __call__(self, parts: tuple[str, ...]) -> RelationName:
        written = ".".join(parts)
        if len(parts) == 3:
            return self._of(parts[0], parts[1], parts[2], written)
        if len(parts) == 2 and self.source is not None:
            if parts[0] == self.source and parts[0] not in self.schemas:
                return self._of(self.source, None, parts[1], written)
            return self._of(self.source, parts[0], parts[1], written)
        if len(parts) == 2:
            return self._of(parts[0], None, parts[1], written)
        if len(parts) == 1 and self.source is not None:
            return self._of(self.source, None, parts[0], written)
        raise ConfigurationError(f"{written} does not say whose table it is", "Name the source: --source NAME")

    def _of(self, source: str, schema: str | None, table: str, written: str) -> RelationName:
        if source not in self.opened.sources:
            known = ", ".join(self.opened.sources) or "none"
            raise ConfigurationError(
                f"{written}: there is no source {source!r}; this project has: {known}",
                "Write source.table, or name the source of the whole text: --source NAME",
            )
        return self.opened.relation_name(source, schema, table)
