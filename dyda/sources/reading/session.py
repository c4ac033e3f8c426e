"""A session at a source that prints values canonically, and PostgreSQL's errors in one line without a password.

Imports nothing but psycopg2, the standard library and modules like it (`stalled_server`, `handshake`, `masking`), so
that Spark can ship it to executors that have no DyDa installed.
"""

from __future__ import annotations

from typing import cast

import psycopg2
import psycopg2.extensions

from dyda import handshake
from dyda.masking import masked
from dyda.sources.stalled_server import PatientConnection

__all__ = ["connect", "first_line"]

PINNED = {
    "client_min_messages": "error",
    "jit": "off",  # compiling takes longer than a lookup
}
"""Settings of every session at a source, besides those of all our sessions."""

PATIENT = {
    "connect_timeout": "10",
    "application_name": "dyda",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
"""How a connection is opened and kept, unless its url says otherwise."""


def connect(url: str, lock_timeout: float, statement_timeout: float) -> PatientConnection:
    """A session in autocommit: transactions are begun explicitly, so that none is left open by accident.

    Whatever the url says about the connection (TLS above all) takes precedence over our defaults.
    """
    limits = {
        "lock_timeout": f"{int(lock_timeout * 1000)}ms",
        "statement_timeout": f"{int(statement_timeout * 1000)}ms",
    }
    connection = handshake.connect(url, PINNED | limits, defaults=PATIENT, factory=PatientConnection)
    return cast(PatientConnection, connection)


def first_line(error: BaseException, url: str = "") -> str:
    """PostgreSQL's own message without its context. libpq quotes a URL that it cannot read, password and all."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    lines = str(primary or error).strip().splitlines()
    line = lines[0] if lines else type(error).__name__
    if line.startswith(("invalid dsn", "invalid connection option")):
        return "the url is not one that PostgreSQL's libpq can read"
    try:
        password = psycopg2.extensions.parse_dsn(url).get("password") if url else None
    except psycopg2.Error:
        password = None
    return masked(line, [password] if password else [])
