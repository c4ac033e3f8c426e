"""Connections to the warehouse: one way to open them, one set of pinned settings, no password in any message.

Canonical texts depend on a handful of session settings (how floats, dates, intervals and bytes print); a role's or a
database's own defaults must not leak into an extent's identity, so every session begins with them (`handshake`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from importlib import resources

import psycopg2
import psycopg2.extensions
from psycopg2 import sql

from dyda import handshake
from dyda.cursor import Connection
from dyda.errors import ConfigurationError, DydaError, WarehouseUnreachable
from dyda.masking import masked

__all__ = ["PROJECT_LOCK", "connect", "load", "read_only", "session", "short", "translated", "without_password"]

ADVISORY_CLASS = 0x44794461  # "DyDa": keeps our advisory locks apart from those of other programs in the database
PROJECT_LOCK = 1
UPGRADE_LOCK = 2
WAITING_LOCK = 3  # shared by the daemons that wait for the project's
STAGING_CLASS = 0x44794473  # the second key is the staging table's number
PREPARED_CLASS = 0x44794470  # … the number of an extent that no view has yet


KEEPALIVES = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
"""Seconds after which the loss of the warehouse's machine is noticed. session.sql sets the same on the other side, so
that the lock of a lost machine becomes free."""

PINNED = {
    "client_min_messages": "warning",
    # Compiling takes longer than a unit's queries: with plans steered away from whole tables, costs look enormous.
    "jit": "off",
}
"""Settings of every session, besides those of `handshake`."""


def connect(url: str, application: str) -> Connection:
    """A psycopg2 connection with pinned settings, in transaction mode."""
    try:
        connection = handshake.connect(url, PINNED, defaults=KEEPALIVES, application_name=application)
    except (psycopg2.Error, UnicodeError) as error:
        raise WarehouseUnreachable(
            f"the warehouse cannot be reached: {without_password(str(error), url)}",
            "Check [warehouse] url in dyda.toml and that the server accepts connections.",
        ) from None
    try:
        _require_utf8(connection)
        with translated(url), connection.cursor() as cursor:
            cursor.execute(load("session.sql"))
        connection.autocommit = False
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def session(url: str, application: str) -> Iterator[Connection]:
    """A connection for the length of the block, with its errors translated."""
    with closing(connect(url, application)) as connection, translated(url):
        yield connection


def _require_utf8(connection: Connection) -> None:
    """Sources may hold any character, and views hold what sources hold."""
    encoding = connection.get_parameter_status("server_encoding")
    if encoding != "UTF8":
        name = connection.info.dbname
        raise ConfigurationError(
            f"the warehouse's database {name} has the encoding {encoding}, which cannot hold every text of the sources",
            "Name another one in [warehouse] url: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
        )


@cache
def load(name: str) -> sql.SQL:
    """A statement of the folder sql/, with {placeholders} for identifiers and generated parts."""
    return sql.SQL(resources.files("dyda.warehouse").joinpath("sql", name).read_text("utf-8"))


@contextmanager
def translated(url: str) -> Iterator[None]:
    """Turns the loss of a connection and a missing right into errors that say what to do."""
    try:
        yield
    except psycopg2.errors.InsufficientPrivilege as error:
        raise DydaError(
            f"the warehouse refused: {short(error)}",
            "The role in [warehouse] url needs CREATE on the database and on the readers' schema, and must own schema"
            " dyda if it exists. A role with SELECT alone can still run: dyda status",
        ) from None
    except psycopg2.errors.ReadOnlySqlTransaction as error:
        raise read_only(short(error)) from None
    except psycopg2.Error as error:
        if _is_lost(error):
            raise WarehouseUnreachable(
                f"the connection to the warehouse was lost: {without_password(short(error), url)}",
                "Nothing was left half done: run the command again when the warehouse is back.",
            ) from None
        raise DydaError(f"the warehouse failed: {short(error)}", "Nothing of this step was saved.") from error


def read_only(why: str) -> DydaError:
    return DydaError(
        f"the warehouse is read-only: {why}",
        "Point [warehouse] url at the primary; with several hosts in it, add target_session_attrs=read-write.",
    )


def _is_lost(error: psycopg2.Error) -> bool:
    """Whether the session is gone: libpq's own errors have no code; 57P.. is a shutdown, 08.. a broken connection.

    A server that dies in the middle of an answer makes psycopg2 raise a bare DatabaseError."""
    if error.pgcode is None:
        return isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError) or (
            type(error) is psycopg2.DatabaseError
        )
    return str(error.pgcode).startswith(("57P", "08"))


def short(error: BaseException) -> str:
    """PostgreSQL's own sentence, without the statement that it was about."""
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return str(primary or error).strip()


def without_password(text: str, url: str) -> str:
    """`text` with every trace of the connection's password masked; libpq quotes a malformed URL in full."""
    secrets = set(re.findall(r"//[^:/@\s]*:([^\s]+)@", url)) | set(re.findall(r"password\s*=\s*'?([^\s'&]+)", url))
    try:
        secrets.add(psycopg2.extensions.parse_dsn(url).get("password") or "")
    except psycopg2.Error:
        text = text.replace(url, "the configured url")
    return masked(text, secrets - {""}).strip()
