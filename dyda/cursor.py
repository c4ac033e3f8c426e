"""Cursors and connections: what this code asks of psycopg2, which comes without types.

Modules that Spark ships to executors import this for type checkers alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from psycopg2 import sql

if TYPE_CHECKING:
    from _typeshed import SupportsRead, SupportsWrite

__all__ = ["Connection", "Cursor", "File", "Row", "Values"]

Row = tuple[Any, ...]
Values = Sequence[object] | Mapping[str, object]
"""Of a statement's parameters."""
File: TypeAlias = "SupportsRead[bytes] | SupportsWrite[bytes] | SupportsWrite[str]"
"""What COPY reads from or writes to; text is written decoded."""


class Cursor(Protocol):
    """Inside a transaction of its connection."""

    @property
    def connection(self) -> Connection: ...

    @property
    def rowcount(self) -> int: ...

    @property
    def description(self) -> Sequence[Any]: ...

    def execute(self, query: str | sql.Composable, values: Values | None = None, /) -> None: ...

    # None after the last row. Most of our queries have exactly one, so callers that expect it need not check.
    def fetchone(self) -> Row | Any: ...

    def fetchall(self) -> list[Row]: ...

    def copy_expert(self, query: str | sql.Composable, file: File, size: int = 8192, /) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *details: object) -> None: ...


class Connection(Protocol):
    """One session with PostgreSQL. As a context manager: a transaction, not the session's end."""

    autocommit: bool

    @property
    def closed(self) -> int: ...

    @property
    def server_version(self) -> int: ...

    @property
    def info(self) -> Any: ...

    def get_parameter_status(self, parameter: str, /) -> str | None: ...

    def set_session(self, *, isolation_level: str) -> None: ...

    def cursor(self) -> Cursor: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def cancel(self) -> None: ...

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *details: object) -> None: ...
