"""What a snapshot asks of the captured changes, whichever way they come: from the log table, or from the WAL."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from dyda.model.position import Position
from dyda.sources.log.commit_order import Look
from dyda.sources.log.inbox import KeptMessages
from dyda.sources.log.transactions import Reading

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FIELDS", "HeldState", "LogReader"]

FIELDS = ("seq", "xid", "op", "root", "shape", "image")
"""The columns of entries about rows."""


@dataclass(frozen=True)
class HeldState:
    """A state that a snapshot holds; `begin` opens a transaction in it. `log` is equal for two snapshots if nothing has
    happened to what was captured but what is in it."""

    look: Look
    begin: str
    log: object


class LogReader(Protocol):
    """The transactions of one source that were captured and are not acknowledged yet."""

    messages: KeptMessages

    @property
    def clock(self) -> bool:
        """Whether the source's clock can be trusted for everything that waits."""
        ...

    def read(self, now: HeldState, after: Position | None) -> Reading:
        """The transactions that `now` has and `after` does not."""
        ...

    def images(
        self, now: HeldState, roots: Collection[int], after: Position | None, xids: Collection[int] | None
    ) -> pa.Table:
        """Their entries about rows of these relations, in order within each transaction; `xids`: of these alone."""
        ...

    def writers(self, table: int) -> Collection[int]:
        """The transactions of the last reading that have entries about the table with this oid."""
        ...

    def acknowledged(self, position: Position) -> None:
        """These are installed for good."""
        ...

    def forget(self) -> None:
        """Read everything again next time."""
        ...

    def close(self) -> None: ...
