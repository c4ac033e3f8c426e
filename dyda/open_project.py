"""An opened project: its warehouse, sources and Spark engine, which have to be closed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dyda.embedded import EmbeddedServer
from dyda.errors import UnknownRelation
from dyda.identity import refuse_another_project
from dyda.model.relation import Relation, RelationName
from dyda.project import Project
from dyda.settings import EMBEDDED
from dyda.sources import PostgresSource, Source, SourceSettings
from dyda.warehouse import Warehouse

if TYPE_CHECKING:
    from dyda.engine import Engine

__all__ = ["OpenProject", "open_sources", "server_url"]


class OpenProject:
    """Used by all commands and the daemon. Sources connect and Spark starts when first needed."""

    def __init__(
        self, project: Project, warehouse: Warehouse, sources: dict[str, Source], engine: Engine | None = None
    ) -> None:
        """`engine`: one that somebody else stops."""
        self.project = project
        self.warehouse = warehouse
        self.sources = sources
        self._lent = engine
        self._own: Engine | None = None

    @property
    def engine(self) -> Engine:
        """Spark's modules take longer to import than most commands take: they are imported when they are needed."""
        if self._lent is not None:
            return self._lent
        if self._own is None:
            from dyda.engine import Engine

            self._own = Engine(self.project.settings.spark, archives=self.project.archives)
        return self._own

    def close(self) -> None:
        """Stops the engine, unless it was lent."""
        if self._own is not None:
            self._own.stop()

    @classmethod
    @contextmanager
    def open(cls, folder: Path, engine: Engine | None = None) -> Iterator[OpenProject]:
        """Open the project in `folder`; a caller may lend a running Spark engine."""
        project = Project.load(folder)
        settings = project.settings
        with ExitStack() as stack:
            warehouse = Warehouse.connect(
                server_url(project, "warehouse", settings.warehouse.url), settings.warehouse.schema
            )
            stack.callback(warehouse.close)
            warehouse.upgrade()
            refuse_another_project(project, warehouse)
            sources = stack.enter_context(open_sources(project, str(warehouse.project_id)))
            yield stack.enter_context(closing(cls(project, warehouse, sources, engine)))

    def source(self, name: str) -> Source:
        return self.sources[self.project.source(name).name]

    def relation_name(self, source: str, schema: str | None, table: str) -> RelationName:
        """What a view means by `source.table`: the source's own schema if none is written."""
        return self.project.relation_name(source, schema, table)

    def describe(self, source: str, schema: str | None, table: str) -> Relation:
        """The relation as its source's catalog describes it now."""
        name = self.relation_name(source, schema, table)
        found = self.source(source).describe([(name.schema, name.table)])
        relation = found.get((name.schema, name.table))
        if relation is None:
            raise UnknownRelation(f"source {source} has no table {name.schema}.{table}")
        return relation


@contextmanager
def open_sources(project: Project, owner: str) -> Iterator[dict[str, Source]]:
    """The project's sources; they connect when first needed. `owner`: the project that consumes their logs."""
    limits = project.settings.maintenance
    with ExitStack() as stack:
        sources: dict[str, Source] = {}
        for name, entry in project.settings.sources.items():
            source_settings = SourceSettings(
                name=name,
                url=server_url(project, name, entry.url),
                schema=entry.schema,
                log_limit=entry.log_limit,
                capture=entry.capture,
                wal_limit=entry.wal_limit,
                trusted_owners=entry.trusted_owners,
                lock_timeout=limits.lock_timeout,
                statement_timeout=limits.statement_timeout,
            )
            sources[name] = PostgresSource(source_settings, owner, project.settings.sources)
            stack.callback(sources[name].close)
        yield sources


def server_url(project: Project, name: str, url: str) -> str:
    """The URL to connect to; an embedded server is started if necessary."""
    return EmbeddedServer.ensure(project.server_folder(name)) if url == EMBEDDED else url
