"""Where passwords may come from, and how they are kept out of messages.

The environment (`${NAME}` in a url, PGPASSWORD), libpq's password file (.pgpass, PGPASSFILE, `passfile=`), a file that
`password_file` names, and dyda.toml itself. A file is refused if other users of the machine can read it.
"""

from __future__ import annotations

import os
import re
import stat
import urllib.parse
from collections.abc import Mapping
from pathlib import Path

import psycopg2
import psycopg2.extensions

from dyda.errors import ConfigurationError
from dyda.masking import masked

__all__ = ["check_url", "hidden", "is_written_in", "quoted_password", "refuse_readable_by_others", "with_password_of"]

_VARIABLE = r"\$\{[^}]*\}"
_SECRET_OPTION = re.compile(r"[?&](?:ssl)?password=([^&#]*)")
_ENCODED = re.compile(r"(?:[A-Za-z0-9\-._~]|%[0-9A-Fa-f]{2})*")


_known: set[str] = set()
"""The passwords of this process's projects."""


def hidden(text: str) -> str:
    """`text` without any password that this process knows: for messages of unexpected errors."""
    return masked(text, _known)


def is_written_in(url: str) -> bool:
    """Whether the url, as written in dyda.toml, contains a password; a `${NAME}` does not count."""
    written = re.sub(_VARIABLE, "", url)
    user = re.match(r"\w+://[^/@:]*:[^/@]+@", written)  # as far as libpq looks for one
    return user is not None or any(_SECRET_OPTION.findall(written))


def quoted_password(value: str) -> str:
    """A variable's value as a url's password, percent-encoded if necessary.

    Unencoded, an @ or a slash would end the password early, and libpq would show the rest as part of a host name.
    """
    return value if _ENCODED.fullmatch(value) else urllib.parse.quote(value, safe="")


def with_password_of(url: str, file: Path, place: str) -> str:
    """The url with the password from `file`."""
    if psycopg2.extensions.parse_dsn(url).get("password"):
        raise ConfigurationError(
            f"dyda.toml, [{place}]: there is a password_file, and the url has a password too", "Keep only one."
        )
    refuse_readable_by_others(file, f"dyda.toml, [{place}]: password_file")
    try:
        password = file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ConfigurationError(f"dyda.toml, [{place}]: {file} is not UTF-8", "Save it as UTF-8.") from None
    except OSError as error:
        raise _unreadable(file, f"dyda.toml, [{place}]: password_file", error) from None
    if not password or "\n" in password or "\x00" in password:
        raise ConfigurationError(
            f"dyda.toml, [{place}]: {file} does not hold exactly one line", "Write only the password into it."
        )
    _remember({"password": password})
    return f"{url}{'&' if '?' in url else '?'}password={urllib.parse.quote(password, safe='')}"


def check_url(url: str, place: str, environment: Mapping[str, str]) -> None:
    """Refuse urls that libpq would misread, perhaps showing half a password, and password files others can read."""
    try:
        options = psycopg2.extensions.parse_dsn(url)
    except (psycopg2.Error, UnicodeError):  # the message would quote it
        raise _misread(place) from None
    ports = [port for port in options.get("port", "").split(",") if port]
    if "@" in options.get("host", "") or not all(port.isdigit() for port in ports):
        raise _misread(place)
    _remember(options)
    named = options.get("passfile") or environment.get("PGPASSFILE")
    if named and not options.get("password") and Path(named).exists():
        refuse_readable_by_others(Path(named), f"dyda.toml, [{place}]: the password file")


def _remember(options: Mapping[str, str]) -> None:
    _known.update(secret for secret in (options.get("password"), options.get("sslpassword")) if secret)


def refuse_readable_by_others(file: Path, what: str) -> None:
    """libpq would only warn about such a file and ignore it."""
    try:
        mode = file.stat().st_mode
    except OSError as error:
        raise _unreadable(file, what, error) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(
            f"{what} {file} can be read by other users of this machine (mode {stat.S_IMODE(mode):o})",
            f"Run: chmod 600 {_shell(file)}",
        )


def _misread(place: str) -> ConfigurationError:
    return ConfigurationError(
        f"dyda.toml, [{place}]: url is not valid for PostgreSQL's libpq",
        "Percent-encode special characters in a user or password (@ is %40, / is %2F); or leave the password out and"
        ' name its file: password_file = "…"',
    )


def _unreadable(file: Path, what: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"{what} {file} cannot be read: {error.strerror}", "Check the name and its permissions.")


def _shell(file: Path) -> str:
    text = os.fspath(file)
    return text if re.fullmatch(r"[\w./-]+", text, re.ASCII) else "'" + text.replace("'", "'\\''") + "'"
