"""Every error DyDa raises on purpose. Each says what happened, to what, and what to do next.

The command line prints `str(error)` without a traceback and exits with `error.exit_code`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "Blocker",
    "BrokenUnit",
    "CaptureBlocked",
    "ConfigurationError",
    "DeclaredKeyBroken",
    "DydaError",
    "EngineFailed",
    "EvaluationFailed",
    "Fenced",
    "InstallBlocked",
    "InvariantViolated",
    "MissingRights",
    "NotAvailable",
    "NotComputable",
    "NotInstallable",
    "PositionMoved",
    "ProjectBusy",
    "RefusedFiles",
    "RelationRefused",
    "RequestFailed",
    "SameDatabase",
    "SchemaTaken",
    "SourceBusy",
    "SourceInUse",
    "SourceNotAvailable",
    "SourceUnreachable",
    "SourceUnreadable",
    "StoodOn",
    "UnknownColumn",
    "UnknownRelation",
    "UnknownView",
    "UnsupportedSql",
    "ValueDoesNotFit",
    "ValueTooLarge",
    "WarehouseUnreachable",
]


class DydaError(Exception):
    """Base of all errors that a user may see. `remedy` says what to do next."""

    exit_code = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        what, remedy = _shortened(what), _shortened(remedy)
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n{self.remedy}" if self.remedy else self.what

    @property
    def in_one_line(self) -> str:
        """For a log, where a message is one line."""
        return f"{self.what}. {self.remedy}" if self.remedy else self.what


LONGEST = 1500
"""Characters of a sentence: a value of a megabyte must not bury what happened."""


def _shortened(sentence: str) -> str:
    return sentence if len(sentence) <= LONGEST else f"{sentence[: LONGEST // 2]} … {sentence[-LONGEST // 2 :]}"


class ConfigurationError(DydaError):
    """dyda.toml, knowledge.toml or the project folder is not valid."""


class UnsupportedSql(DydaError):
    """A view file that cannot be maintained: names the construct, the place and what to write instead."""

    def __init__(self, view: str, what: str, remedy: str = "", line: int | None = None) -> None:
        place = f"views/{view}.sql" + (f", line {line}" if line else "")
        super().__init__(f"{place}: {what}", remedy)
        self.view = view
        self.line = line

    fragment = ""
    """The piece of SQL that Spark complained about, if no line is known yet."""


class RefusedFiles(DydaError):
    """Several files are wrong: all their errors, so that they can be corrected at once."""

    def __init__(self, errors: Sequence[DydaError]) -> None:
        self.errors = tuple(errors)
        self.what = "\n\n".join(str(error) for error in errors)  # each one is short; together they are not cut
        self.remedy = f"\n{len(errors)} errors. Nothing was changed."
        Exception.__init__(self, self.what)

    @property
    def in_one_line(self) -> str:
        return " ".join(error.in_one_line for error in self.errors)


class UnknownRelation(DydaError):
    """A relation that the source does not have."""

    written: tuple[str, ...] = ()
    """Its name as written in a view."""


class UnknownColumn(DydaError):
    """A column that the relation does not have; the message lists those it has.

    `relations` were searched for `column`: their columns by name. `relation` is the one that a text names, if it does.
    """

    def __init__(
        self,
        what: str,
        remedy: str = "",
        *,
        column: str = "",
        relation: str | None = None,
        relations: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        super().__init__(what, remedy)
        self.column = column
        self.relation = relation
        self.relations = relations or {}


class UnknownView(DydaError):
    """A view name that this project does not have."""


class RelationRefused(DydaError):
    """A relation whose changes cannot be captured exactly (CORRECTNESS C3, C1): refused by name."""


class NotAvailable(DydaError):
    """Something that maintenance needs is not available now. Nothing is lost; trying again is right."""


class SourceNotAvailable(NotAvailable):
    """A source is not available now. Views that do not need it go on."""

    def __init__(self, what: str, remedy: str = "", source: str = "") -> None:
        super().__init__(what, remedy)
        self.source = source


class SourceUnreachable(SourceNotAvailable):
    """A source does not answer, or must not be read (`what`)."""

    def __init__(self, source: str, why: str = "", *, what: str = "", remedy: str = "") -> None:
        check = f"Check [sources.{source}] url in dyda.toml and that the server accepts connections."
        super().__init__(what or f"source {source} cannot be reached: {why}", remedy or check, source)


class SameDatabase(SourceUnreachable):
    """Two sources of a project are one database (C7): neither may read what the other acknowledges."""

    def __init__(self, source: str, other: str, *, attached: bool = True) -> None:
        """`attached`: as the other source, not as both."""
        first, second = (other, source) if attached else sorted((source, other))
        what = f"sources {first} and {second} are one database, which is attached as {other if attached else 'both'}"
        remedy = f"Remove [sources.{second}] from dyda.toml and let its views read {first}.schema.table instead."
        super().__init__(source, what=what, remedy=remedy)


class SourceUnreadable(SourceUnreachable):
    """A source answers, but contains text that cannot be converted to UTF8."""

    def __init__(self, source: str, why: str) -> None:
        what = f"source {source} has a text that cannot be read: {why}"
        super().__init__(source, what=what, remedy="Correct it at the source; maintenance then resumes.")


class SourceBusy(SourceNotAvailable):
    """A source answers, but a lock or a time limit got in the way. Trying again is right."""

    def __init__(self, source: str, why: str) -> None:
        super().__init__(f"source {source} is busy: {why}", "Nothing is lost; DyDa tries again.", source)
        self.why = why


@dataclass(frozen=True)
class Blocker:
    """A session of a source, or a prepared transaction (`gid`), that keeps a table open. None: not visible to us."""

    pid: int | None
    role: str | None = None
    application: str | None = None
    since: datetime.datetime | None = None
    gid: str | None = None

    def __str__(self) -> str:
        who = f"prepared transaction {self.gid!r}" if self.gid else f"pid {self.pid}"
        parts = [f"role {self.role}"] if self.role else []
        parts += [f"application {self.application}"] if self.application else []
        since = f", open since {self.since.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC" if self.since else ""
        return who + (f" ({', '.join(parts)})" if parts else "") + since

    @property
    def ended_by(self) -> str:
        if self.gid:
            return "ROLLBACK PREPARED '" + self.gid.replace("'", "''") + "'"
        return f"SELECT pg_terminate_backend({self.pid})"


class CaptureBlocked(SourceBusy):
    """Open transactions keep capture from being attached to a table, or released. Waiting for them is right."""

    def __init__(self, source: str, relation: str, blockers: Sequence[Blocker], why: str, undone: str = "") -> None:
        self.relation = relation
        self.blockers = tuple(blockers)
        self.why = why
        more = f" and {len(blockers) - 1} more" if len(blockers) > 1 else ""
        who = f"{blockers[0]}{more}" if blockers else "a transaction that has just ended"
        self.waiting = f"waiting for {who}, on table {relation}"
        """Progress, for users."""
        SourceNotAvailable.__init__(
            self,
            f"{undone}capture on {relation} cannot be changed while it is in use by {who}: {why}",
            f"Wait until that transaction has ended, or end it (at the source: {blockers[0].ended_by})"
            if blockers
            else "It has ended by now",
            source,
        )

    def costing(self, undone: str) -> CaptureBlocked:
        """The same for a command that has given up: what was not done, and that it must be run again."""
        found = CaptureBlocked(self.source, self.relation, self.blockers, self.why, f"{undone}: ")
        found.remedy = f"{found.remedy}; then run the command again."
        return found


class MissingRights(SourceNotAvailable):
    """The role that reads a source lacks a right; the remedy is the statement that grants it.

    `relations` are those that it may not read or capture; none: the whole source is affected.
    """

    def __init__(self, what: str, remedy: str = "", source: str = "", relations: frozenset[str] = frozenset()) -> None:
        super().__init__(what, remedy, source)
        self.relations = relations


class SourceInUse(DydaError):
    """Another project consumes this source's log (C7)."""


class SchemaTaken(SourceInUse, SourceUnreachable):
    """Schema dyda of a source belongs to somebody else, who may have laid traps in it."""

    def __init__(self, source: str, owners: Iterable[str]) -> None:
        what = f"source {source}: schema dyda exists already and belongs to {', '.join(owners)}"
        remedy = "Ask its owner. If it is not needed: DROP SCHEMA dyda CASCADE"
        SourceUnreachable.__init__(self, source, what=what, remedy=remedy)


class WarehouseUnreachable(NotAvailable):
    """The warehouse does not answer."""


class ProjectBusy(DydaError):
    """Another process works on this project."""


class Fenced(DydaError):
    """A newer process has taken over the project; this one must stop without installing anything."""


class InstallBlocked(NotAvailable):
    """A reader's open transaction keeps a view from being replaced or dropped; nothing was installed."""

    def __init__(self, reader: str, sessions: list[int], view: str = "") -> None:
        shown = ", ".join(str(pid) for pid in sessions) or "one that has ended since"
        super().__init__(
            f"{reader} is being read in an open transaction (session {shown}), so its definition cannot be replaced",
            "DyDa tries again. End that transaction, or: SELECT pg_terminate_backend(<session>)",
        )
        self.sessions = sessions
        self.view = view


class PositionMoved(DydaError):
    """A view's position is not the one this unit started from (I1): the unit is void, nothing was installed."""

    def __init__(self, view: str, source: str, expected: str | None, found: str | None) -> None:
        super().__init__(f"view {view} is at {found} of source {source}, not at {expected} as this unit expected")
        self.view = view
        self.source = source


class RequestFailed(DydaError):
    """A request to the running daemon failed; the message is the daemon's."""

    def __init__(self, what: str, remedy: str = "") -> None:
        Exception.__init__(self, what)  # it was shortened where it was raised
        self.what = what
        self.remedy = remedy


class NotInstallable(DydaError):
    """The warehouse cannot take one view's change; no other view is to blame, and nothing was installed."""

    def __init__(self, view: str, what: str) -> None:
        super().__init__(f"view {view}: {what}", f"Remove the cause, then: dyda views resync {view}")
        self.view = view


class StoodOn(NotInstallable):
    """A user's own objects depend on the view that readers query, so its columns cannot change."""

    def __init__(self, view: str, reader: str, dependents: list[str]) -> None:
        depend = "depends" if len(dependents) == 1 else "depend"
        super().__init__(view, f"{', '.join(dependents)} {depend} on {reader}, whose columns must change")
        self.remedy = "Drop or redirect the dependent objects; maintenance then resumes."
        self.dependents = dependents


class DeclaredKeyBroken(NotInstallable):
    """The key that a view's file declares does not hold."""

    def __init__(self, view: str, key: tuple[str, ...], why: str) -> None:
        super().__init__(view, f"({', '.join(key)}) is not a key of its rows: {why}")
        self.remedy = "Correct the rows, or the key in the view's file."
        self.key = key


class InvariantViolated(DydaError):
    """An extent would get a negative count: something is wrong, nothing is installed, the view needs a resync."""

    def __init__(self, view: str, what: str) -> None:
        super().__init__(f"view {view}: {what}", f"Nothing was installed. Rebuild it with: dyda views resync {view}")
        self.view = view


class NotComputable(DydaError):
    """A view computes with a type that is only known as text; the message says which cast to write."""


class ValueDoesNotFit(DydaError):
    """A value has no exact counterpart in Spark: its message is quarantined, never rounded."""

    def __init__(self, relation: str, column: str, value: str, spark_type: str) -> None:
        shown = value if len(value) <= 200 else value[:200] + "…"
        super().__init__(
            f"{relation}.{column}: the value {shown!r} has no exact counterpart in Spark's {spark_type}",
            "Correct the row at the source, or cast the column to STRING in the view if it does not compute with it.",
        )
        self.relation = relation
        self.column = column


class ValueTooLarge(ValueDoesNotFit):
    """A value that would take too much of Spark's memory: its message is quarantined."""

    def __init__(self, relation: str, column: str, size: int, most: int) -> None:
        DydaError.__init__(
            self,
            f"{relation}.{column}: a value of {size} bytes is larger than {most}, the most that a view can read",
            "Shorten it at the source, or leave the column out of the view.",
        )
        self.relation = relation
        self.column = column


class EngineFailed(NotAvailable):
    """Spark itself failed (a lost executor, no memory, no JVM): no row is to blame, nothing was installed."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Spark failed: {why}",
            "Nothing is lost; DyDa tries again. If it persists, check [spark] in dyda.toml (memory, master).",
        )


class EvaluationFailed(DydaError):
    """Spark refused to evaluate a view over these rows (a division by zero, an overflow, a failed cast)."""

    view = ""
    """The view concerned, where it is known."""


class BrokenUnit(DydaError):
    """A schema moved under a running unit (R1, R2): the unit is void, nothing was installed."""

    def __init__(self, source: str, relations: frozenset[str], why: str) -> None:
        super().__init__(f"source {source}: {why} ({', '.join(sorted(relations))})")
        self.source = source
        self.relations = relations

    recorded = False
    """Whether the warehouse has it, with the unit's messages."""
