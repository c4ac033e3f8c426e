"""`dyda psql NAME`: psql on a source or on the warehouse, as dyda.toml reaches it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from psycopg2.extensions import make_dsn, parse_dsn

from dyda.embedded import binaries
from dyda.errors import DydaError
from dyda.open_project import server_url
from dyda.project import Project

__all__ = ["PsqlCall", "psql"]

WAREHOUSE = "warehouse"


@dataclass(frozen=True)
class PsqlCall:
    """The program to run, and its environment: a password is there alone, and never among the arguments, which every
    user of the machine can read."""

    program: str
    arguments: tuple[str, ...]
    secrets: tuple[tuple[str, str], ...]


def psql(folder: Path, name: str, arguments: Sequence[str] = ()) -> PsqlCall:
    """How to open psql on this source, or on the `warehouse`."""
    project = Project.load(folder)
    settings = project.settings
    if name != WAREHOUSE and name not in settings.sources:
        known = ", ".join([WAREHOUSE, *settings.sources])
        raise DydaError(f"there is no source {name!r}; this project has: {known}", "Choose one of them.")
    entry = settings.warehouse if name == WAREHOUSE else settings.sources[name]  # whatever a source is called
    program = _program()
    options = parse_dsn(server_url(project, name, entry.url))
    password = options.pop("password", None)
    if "sslpassword" in options:
        raise DydaError(
            f"the url of {name} has an sslpassword, which cannot be given to psql without showing it",
            "Use a key without a password, or run psql by hand.",
        )
    secrets = () if password is None else (("PGPASSWORD", password),)
    return PsqlCall(
        program, (program, make_dsn(**options), *arguments), secrets
    )  # it looks for its libraries beside itself


def _program() -> str:
    """The machine's own, or else the one that the embedded servers come with."""
    found = shutil.which("psql")
    if found is not None:
        return found
    carried = binaries() / "psql"
    if os.access(carried, os.X_OK):
        return str(carried)
    raise DydaError("psql is not installed on this machine", "Install PostgreSQL's client programs.")
