"""What is said about a source: how to reach it, which server it is, what a check of it found."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Finding", "SourceIdentity", "SourceSettings"]


@dataclass(frozen=True)
class SourceSettings:
    """One `[sources.NAME]` of dyda.toml, and the time limits that maintenance sets. Times in seconds."""

    name: str
    url: str = field(repr=False)
    schema: str = "public"
    log_limit: int = 10 * 2**30
    lock_timeout: float = 1.0
    statement_timeout: float = 60.0
    attach_timeout: float = 30.0


@dataclass(frozen=True)
class SourceIdentity:
    """Which cluster and which history of it answers (rule P2): if it changes, positions mean nothing any more."""

    system_identifier: str
    timeline: str


@dataclass(frozen=True)
class Finding:
    """One result of a check: `level` is ok, warning or error; `remedy` the exact statement that helps."""

    level: str
    what: str
    remedy: str = ""
