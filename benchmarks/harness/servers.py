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
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import sql

from dyda import embedded
from dyda.engine import Engine
from dyda.settings import SparkSettings

__all__ = ["Server", "fdw_binaries", "lending", "lent_engine", "servers", "spark"]

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

    _named: Counter[str]

    def __init__(
        self, binaries: Path | None = None, settings: dict[str, str] | None = None, place: str = "/tmp"
    ) -> None:
        self._named = Counter()
        self.binaries = binaries or embedded.binaries()
        self.folder = embedded.prepare(Path(tempfile.mkdtemp(prefix="dyda-b-", dir=place)))
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
        """A new database, of this name unless there is one already; its URL."""
        self._named[name] += 1
        if self._named[name] > 1:
            name = f"{name}_again_{self._named[name]}"
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


_lent: tuple[Server, Engine] | None = None


@contextmanager
def lending(server: Server, engine: Engine) -> Iterator[None]:
    """In this block `servers` and `spark` give these: to start several for each benchmark takes longer than a tiny run
    of it."""
    global _lent
    _lent = (server, engine)
    try:
        yield
    finally:
        _lent = None


class _Returnable:
    """A server that is lent: of no use when it should have been stopped."""

    def __init__(self, server: Server) -> None:
        self._server, self.returned = server, False

    def __getattr__(self, name: str) -> Any:
        if self.returned:
            raise RuntimeError(f"{name} is asked of a server that has been stopped")
        return getattr(self._server, name)


def lent_engine() -> Engine | None:
    """The Spark that a town may use in this process, if one is lent."""
    return _lent[1] if _lent is not None else None


@contextmanager
def spark() -> Iterator[Engine]:
    """A Spark of two cores; gone at the end."""
    if _lent is not None:
        yield _lent[1]
        return
    with Engine(SparkSettings(master="local[2]")) as engine:
        yield engine


@contextmanager
def servers(names: Sequence[str]) -> Iterator[dict[str, Server]]:
    """Servers by name, all of one build; gone at the end."""
    if _lent is not None:
        lent = _Returnable(_lent[0])
        yield dict.fromkeys(names, lent)  # type: ignore[arg-type]
        lent.returned = True
        return
    with contextlib.ExitStack() as stack:
        started = {}
        for name in names:
            started[name] = Server(fdw_binaries())
            stack.callback(started[name].remove)
        yield started
