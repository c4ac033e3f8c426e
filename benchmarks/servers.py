"""PostgreSQL servers for a benchmark: all of one build, with postgres_fdw where the machine has it.

Debian's package `postgresql` brings postgres_fdw; the embedded server that DyDa carries does not.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg2
from psycopg2 import sql

from dyda import embedded

__all__ = ["Server", "fdw_binaries", "servers"]

SETTINGS = {
    **embedded.DEFAULT_SETTINGS,
    "shared_buffers": "512MB",
    "work_mem": "64MB",
    "wal_level": "logical",
    "max_wal_size": "4GB",
    "autovacuum_naptime": "10s",
}
"""The same for all contenders. Commits reach the disk, as they do for people."""


@functools.cache
def fdw_binaries() -> Path | None:
    """The programs of an installed PostgreSQL that has postgres_fdw; the newest."""
    found = []
    for control in Path("/usr/share/postgresql").glob("*/extension/postgres_fdw.control"):
        programs = Path("/usr/lib/postgresql") / control.parts[-3] / "bin"
        if (programs / "initdb").exists():
            found.append((int(control.parts[-3]), programs))
    return max(found)[1] if found else None


class Server:
    """One server process, a child of ours, on a socket of its own."""

    def __init__(self, binaries: Path | None = None, settings: dict[str, str] | None = None) -> None:
        self.binaries = binaries or embedded.binaries()
        self.folder = embedded.prepare(Path(tempfile.mkdtemp(prefix="dyda-b-", dir="/tmp")))
        options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]
        call = self._call("initdb", [*options, "-D", str(self.folder / "data")])
        subprocess.run(**call, check=True, capture_output=True)  # type: ignore[call-overload]
        lines = [f"{name} = '{value}'\n" for name, value in {**SETTINGS, **(settings or {})}.items()]
        with (self.folder / "data" / "postgresql.conf").open("a") as configuration:
            configuration.writelines(lines)
        self.process = self._start()

    def _call(self, tool: str, arguments: list[str]) -> dict[str, object]:
        call = embedded.tool_call(tool, arguments, self.folder)
        return {**call, "args": [str(self.binaries / tool), *arguments]}

    def _start(self) -> subprocess.Popen[bytes]:
        with open(self.folder / "log", "ab") as log:
            call = self._call("postgres", ["-D", str(self.folder / "data"), "-k", str(self.folder)])
            process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
                **call, stdout=log, stderr=log, start_new_session=True
            )
        while True:
            try:
                psycopg2.connect(self.url()).close()
                return process
            except psycopg2.OperationalError:
                if process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-4000:]) from None
            time.sleep(0.02)

    @property
    def version(self) -> str:
        with contextlib.closing(psycopg2.connect(self.url())) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW server_version")
            return str(cursor.fetchone()[0])

    def url(self, database: str = "postgres") -> str:
        host = urllib.parse.quote(str(self.folder), safe="")
        return f"postgresql://postgres@/{urllib.parse.quote(database, safe='')}?host={host}"

    def database(self, name: str) -> str:
        """A new database; its URL."""
        with contextlib.closing(psycopg2.connect(self.url())) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def rest(self) -> None:
        """Wait until the server has cleaned up after who came before: that is nobody else's time."""
        with contextlib.closing(psycopg2.connect(self.url())) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            while True:
                cursor.execute("SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'")
                if cursor.rowcount == 0:
                    return
                time.sleep(0.05)

    def remove(self) -> None:
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def servers(names: Sequence[str]) -> Iterator[dict[str, Server]]:
    """Servers by name, all of one build; gone at the end."""
    with contextlib.ExitStack() as stack:
        started = {}
        for name in names:
            started[name] = Server(fdw_binaries())
            stack.callback(started[name].remove)
        yield started
