"""`dyda impact`: what some DDL would do to every view, computed from the catalog; no source is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyda.commands.migrations import Migration, read_migrations
from dyda.errors import ConfigurationError, DydaError
from dyda.model.ddl.schemas import Schemas
from dyda.model.relation import RelationName
from dyda.open_project import OpenProject

if TYPE_CHECKING:
    from dyda.engine import Engine

__all__ = ["impact"]


def impact(
    folder: Path, ddl: str = "", source: str | None = None, engine: Engine | None = None, files: Sequence[Path] = ()
) -> dict[str, Any]:
    """Judge every view as if the statements of `ddl` and of `files` had been run in one transaction.

    `source` is the source of tables whose names do not say it. Spark starts only if types have to be checked.
    """
    from dyda.maintenance.catalog_state import load
    from dyda.maintenance.plan.impact import impact_of_changes

    # PostgreSQL's grammar takes a moment to load, and no other command needs it.
    from dyda.model.ddl.statements import apply_ddl

    migrations, notes = read_migrations(files)
    migrations.insert(0, Migration(ddl))
    with OpenProject.open(folder, engine) as opened:
        if source is not None:
            opened.source(source)
        known = load(opened)
        schemas = Schemas({name: record.relation for name, record in known.relations.items()})
        named = _names(opened, source, {name.schema for name in known.relations if name.source == source})
        counts = [apply_ddl(migration.text, schemas, named, migration.file) for migration in migrations]
        if not any(counts):
            raise DydaError("there is no statement to judge", "Give it as an argument, with -f PATH, or with -.")
        notes += [note for migration in migrations for note in migration.notes]
        notes += [f"no view and no constraint uses {name}" for name in schemas.unknown]
        notes += [f"the DDL also changes rows of {name}, which is maintained as usual" for name in schemas.written]
        waiting = [record.id for record in opened.warehouse.messages() if record.message.schema_changes]
        if waiting:
            numbers = ", ".join(map(str, waiting))
            notes.append(f"schema changes are pending (message {numbers}); the views are judged as they were before")
        return {"views": [view.as_dict() for view in impact_of_changes(opened, known, schemas)], "notes": notes}


def _names(opened: OpenProject, source: str | None, schemas: set[str]) -> Callable[[tuple[str, ...]], RelationName]:
    """How to resolve a table's name: `source.table`, `source.schema.table`, or as the one `source` writes it, which is
    known to have these `schemas`."""

    def resolve(parts: tuple[str, ...]) -> RelationName:
        written = ".".join(parts)
        schema: str | None = None
        match parts:
            case (named, schema, table):
                pass
            case (schema, table) if source is not None and (schema != source or schema in schemas):
                named = source
            case (named, table):
                schema = None
            case (table,) if source is not None:
                named = source
            case _:
                raise ConfigurationError(f"{written} does not say whose table it is", "Name the source: --source NAME")
        if named not in opened.sources:
            known = ", ".join(opened.sources) or "none"
            raise ConfigurationError(
                f"{written}: there is no source {named!r}; this project has: {known}",
                "Write source.table, or name the source of all tables: --source NAME",
            )
        return opened.relation_name(named, schema, table)

    return resolve
