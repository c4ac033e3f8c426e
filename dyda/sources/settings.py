"""A source's settings, and who reads its log."""

from __future__ import annotations

from dataclasses import dataclass, field

from dyda.errors import SameDatabase

__all__ = ["Consumer", "SourceSettings"]


@dataclass(frozen=True)
class SourceSettings:
    """One `[sources.NAME]` of dyda.toml, and the time limits that maintenance sets. Times in seconds."""

    name: str
    url: str = field(repr=False)
    schema: str = "public"
    log_limit: int = 10 * 2**30
    trusted_owners: tuple[str, ...] = ()
    lock_timeout: float = 1.0
    statement_timeout: float = 60.0
    attach_timeout: float = 30.0
    capture: str = "triggers"
    """How rows are captured: `triggers`, or `wal`."""
    wal_limit: int = 10 * 2**30
    """Bytes of WAL that the slot may keep at the source."""


@dataclass(frozen=True)
class Consumer:
    """Who reads a log (C7): one source of one project. The same database under another of the project's names would be
    a second reader, whose acknowledgements delete what the first has not seen; urls do not show that.

    `others` are the project's other sources. The log's database keeps `text`, or only the project (older versions).
    """

    project: str
    source: str
    others: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return f"{self.project}/{self.source}"

    def is_meant(self, found: str | None) -> bool:
        """Whether the log is this one's."""
        return found in (self.project, self.text)

    def is_of_project(self, found: str | None) -> bool:
        """Whether the log is this one's, or belongs to a source of this project, maybe under an earlier name."""
        return found is not None and found.partition("/")[0] == self.project

    def refuse_rival(self, found: str | None) -> None:
        """Refuse a log that another source of this project reads."""
        rival = found.partition("/")[2] if found is not None and self.is_of_project(found) else ""
        if rival in self.others:
            raise SameDatabase(self.source, rival)
