"""The settings of a session with PostgreSQL: how our statements are understood and how values are printed.

The defaults of a role or a database (ALTER ROLE ... SET, ALTER DATABASE ... SET) must change neither. Settings after
connecting come too late: psycopg2 looks only once, at the start, whether a backslash in a literal is a plain character.
So they are startup options, which win over those defaults. They are set again afterwards, for poolers that drop startup
options or reuse another session.

Imports only psycopg2 and the standard library, so that Spark can ship it to executors without DyDa.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import psycopg2
import psycopg2.extensions

if TYPE_CHECKING:
    from dyda.cursor import Connection

__all__ = ["connect", "startup_options"]

UNDERSTANDING = {
    "standard_conforming_strings": "on",
    "backslash_quote": "safe_encoding",
    "escape_string_warning": "off",
    "array_nulls": "on",
    "transform_null_equals": "off",
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",  # R3: an error instead of a silent subset
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
}
"""Settings that change what our statements mean."""

PRINTING = {
    "extra_float_digits": "1",
    "IntervalStyle": "postgres",
    "DateStyle": "ISO, YMD",
    "TimeZone": "UTC",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "quote_all_identifiers": "off",
    "xmloption": "content",
}
"""Settings that change the text of a value (rule C1)."""

TIMELESS = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_session_timeout": "0",
    "idle_in_transaction_session_timeout": "0",  # a snapshot is held by an idle transaction
}
"""Time limits meant for applications do not apply to us; where we need one, we set it ourselves."""

SINCE = {170000: {"transaction_timeout": "0"}}
"""Settings that only newer servers know: they are set after the start."""


def connect(
    url: str,
    settings: Mapping[str, str],
    *,
    defaults: Mapping[str, str | int] | None = None,
    factory: Callable[..., Connection] | None = None,
    **parameters: str,
) -> Connection:
    """A psycopg2 connection in autocommit whose session has these settings, and those above, from its start.

    Every supported server must know the `settings`. `defaults` are libpq parameters that the url may override,
    `parameters` those that it may not. Everything else is left to libpq (above all TLS).
    """
    given = psycopg2.extensions.parse_dsn(url)
    chosen: dict[str, object] = {name: value for name, value in (defaults or {}).items() if name not in given}
    chosen |= {"client_encoding": "UTF8", "connection_factory": factory, **parameters}
    wanted = UNDERSTANDING | PRINTING | TIMELESS | dict(settings)
    try:
        options = f"{_own_options(url, given, chosen)} {startup_options(wanted)}".strip()
        connection: Connection = psycopg2.connect(url, options=options, **chosen)
    except psycopg2.OperationalError as error:
        if "startup parameter" not in str(error):
            raise
        connection = psycopg2.connect(url, **chosen)  # a pooler that accepts no options
    try:
        if connection.get_parameter_status("standard_conforming_strings") != "on":
            raise psycopg2.OperationalError(
                "the session started with standard_conforming_strings = off, although on was requested: a connection"
                " pooler drops startup options; let it pass `options`, or connect to the server itself"
            )
        connection.autocommit = True
        for version, more in SINCE.items():
            wanted |= more if connection.server_version >= version else {}
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT " + ", ".join(["pg_catalog.set_config(%s, %s, false)"] * len(wanted)),
                [part for setting in wanted.items() for part in setting],
            )
    except BaseException:
        connection.close()
        raise
    return connection


def startup_options(settings: Mapping[str, str]) -> str:
    """The settings as libpq's parameter `options`: words separated by blanks, which a backslash escapes."""
    escaped = {name: value.replace("\\", "\\\\").replace(" ", "\\ ") for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items())


def _own_options(url: str, given: Mapping[str, str], chosen: Mapping[str, object]) -> str:
    """The options that the connection would have without ours, which come after them and win."""
    if "options" in given:
        return given["options"]
    if "service" in given or "PGSERVICE" in os.environ:
        # Only libpq reads the service file, and it reports the contents only after connecting.
        with contextlib.closing(psycopg2.connect(url, **chosen)) as connection:
            return str(connection.info.dsn_parameters.get("options", ""))
    return os.environ.get("PGOPTIONS", "")
