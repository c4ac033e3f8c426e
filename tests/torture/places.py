"""The places of a run: a PostgreSQL server per source and one for the warehouse, proxies, a project and its daemon.

The project reaches every server through its proxy; writers, readers and the observer go straight to the server.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg2

from dyda import embedded
from tests.conftest import Server, _children, memory
from tests.torture.daemon import Daemon, TortureFailed
from tests.torture.proxy import Proxy
from tests.torture.recording import lost_is_operational

__all__ = ["Clock", "Place", "Places", "SmallDisk", "session"]

SERVER = {
    "fsync": "off",  # processes are killed here, not machines
    "shared_buffers": "32MB",
    "max_connections": "60",
    "deadlock_timeout": "300ms",
    "max_prepared_transactions": "5",
    "max_wal_size": "256MB",  # they are in memory
}
WRAP = 2**32
CLOCK = Path(__file__).parent / "clock"
"""A folder for PYTHONPATH whose sitecustomize lets a process live in another time."""


class SmallDisk:
    """A file system of a few hundred megabytes that can be filled: what a full disk is to a server."""

    def __init__(self, size: str = "400m") -> None:
        self.folder = embedded.prepare(Path(tempfile.mkdtemp(prefix="dyda-disk-", dir="/tmp")))
        command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "dyda-torture", str(self.folder)]
        self.why_not = ""
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                self.why_not = done.stderr.strip() or "mount failed"
        except OSError as error:
            self.why_not = str(error)
        if not self.why_not:
            embedded.prepare(self.folder)

    @property
    def possible(self) -> bool:
        return not self.why_not

    def fill(self) -> None:
        with open(self.folder / "filler", "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * (1 << 16))
        with open(self.folder / "filler", "ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0")

    def empty(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def remove(self) -> None:
        if self.possible:
            subprocess.run(["umount", "-l", str(self.folder)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Clock:
    """A wall clock that jumps. The daemon and, where there is a C compiler, the sources live by it."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "offset"
        self.jump(0)
        self.file.chmod(0o644)
        self._library = folder / "clock.so"
        self.why_not = ""
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(CLOCK / "clock.c")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.why_not = done.stderr.strip() if done.returncode else ""
        except OSError as error:
            self.why_not = f"no C compiler: {error}"

    def jump(self, seconds: int) -> None:
        """To so many seconds after the real time; before it if negative."""
        with open(self.file, "r+b" if self.file.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))

    @property
    def for_servers(self) -> dict[str, str]:
        return {} if self.why_not else {"LD_PRELOAD": str(self._library), "DYDA_TEST_CLOCK": str(self.file)}

    @property
    def for_python(self) -> dict[str, str]:
        path = os.pathsep.join([str(CLOCK), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {"PYTHONPATH": path, "DYDA_TEST_CLOCK": str(self.file)}


class Place:
    """One database on a server of its own, behind a proxy."""

    def __init__(self, name: str, seed: int, environment: Mapping[str, str] | None = None) -> None:
        self.name = name
        self.server = Server(SERVER, environment=dict(environment or {}), place=memory())
        self.proxy = Proxy(embedded.socket_folder(self.server.folder) / embedded.SOCKET, seed)

    def start(self) -> None:
        self.server.start()

    def create_database(self, tablespace: Path | None = None) -> None:
        with session(self.server.url()) as cursor:
            if tablespace is not None:
                cursor.execute(f"CREATE TABLESPACE small LOCATION '{tablespace}'")
            cursor.execute(f"CREATE DATABASE {self.name}" + (" TABLESPACE small" if tablespace else ""))

    @property
    def url(self) -> str:
        """For those who test."""
        return self.server.url(self.name)

    @property
    def shown_url(self) -> str:
        """For those who are tested."""
        return self.proxy.url(self.name)

    @property
    def running(self) -> bool:
        return self.server.process is not None

    def freeze(self) -> None:
        self.server.freeze()

    def thaw(self) -> None:
        self.server.thaw()

    def our_backends(self) -> list[int]:
        """The server processes that serve DyDa: they came through the proxy, and the test's sessions did not."""
        with session(self.url) as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name LIKE 'dyda%' ORDER BY pid"
            )
            return [pid for (pid,) in cursor.fetchall()]

    def grow_old(self, left: int) -> None:
        """Let the server have seen so many transactions that its 32-bit counter wraps after `left` more.

        A table may not be older than two thousand million transactions, so the counter is moved in three steps, with
        everything frozen in between. The server is stopped before and after.
        """
        for target in (WRAP // 3, 2 * WRAP // 3, WRAP - left):
            self.server.start()
            with session(self.server.url()) as cursor:
                cursor.execute("ALTER DATABASE template0 ALLOW_CONNECTIONS true")
                cursor.execute("SELECT datname FROM pg_database")
                names = [name for (name,) in cursor.fetchall()]
            for name in names:
                with session(self.server.url(name)) as cursor:
                    cursor.execute("VACUUM (FREEZE)")
            with session(self.server.url()) as cursor:
                cursor.execute("ALTER DATABASE template0 ALLOW_CONNECTIONS false")
                cursor.execute("CHECKPOINT")
            self.server.stop()
            self._set_next_transaction(target)

    def _set_next_transaction(self, target: int) -> None:
        data = self.server.folder / "data"
        page = 8192
        # What a server writes as its counter moves: the pages that hold the fate and the time of the next transactions.
        for folder, per_page in (("pg_xact", page * 4), ("pg_commit_ts", page // 10)):
            first = target // per_page
            for number in {first, first + 1}:
                segment = data / folder / f"{number // 32:04X}"
                if not segment.exists():
                    segment.write_bytes(b"\0" * page * 32)
                    shutil.copystat(data / "PG_VERSION", segment)
                    owner = (data / "PG_VERSION").stat()
                    os.chown(segment, owner.st_uid, owner.st_gid)
                    segment.chmod(0o600)
        options = ["-x", str(target), "-c", f"{target},{target}", "-D", str(data)]
        embedded.run_tool("pg_resetwal", options, self.server.folder, self.server.version)

    def close(self) -> None:
        if self.server.process is not None:
            self.thaw()
        self.proxy.close()
        self.server.remove()


class Places:
    """All of a run. `source("crm", …)`; `warehouse`; `start_daemon()`; `run("status", "--json")`."""

    def __init__(self, sources: Sequence[str], seed: int, maintenance: str = "", old: Sequence[str] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dyda-torture-", dir="/tmp"))
        self.maintenance = maintenance
        self.schema_changes: Sequence[str] = ("auto",)
        """What the daemons do about schema changes, in turn: auto or approve."""
        self._spark: Mapping[str, str] | None = None
        self.sources: dict[str, Place] = {}
        self.daemon: Daemon | None = None
        self.folder.chmod(0o711)  # the servers run as another user and read the clock
        self.clocks = {name: Clock(self._subfolder(f"clock-{name}")) for name in ("daemon", *sources)}
        self._logs = 0
        self.disk = SmallDisk()
        self.warehouse = Place("warehouse", seed)
        try:
            self.warehouse.start()
            self.warehouse.create_database(self._tablespace() if self.disk.possible else None)
            for number, name in enumerate(sources):
                place = self.sources[name] = Place(name, seed + 1 + number, self.clocks[name].for_servers)
                if name in old:
                    place.grow_old(left=3000)
                place.start()
                place.create_database()
            self._write_settings()
        except BaseException:
            self.close()
            raise

    def _subfolder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        folder.chmod(0o755)
        return folder

    def _tablespace(self) -> Path:
        return embedded.prepare(self.disk.folder / "tablespace")

    @property
    def all(self) -> list[Place]:
        return [*self.sources.values(), self.warehouse]

    def _write_settings(self) -> None:
        lines = [f"[warehouse]\nurl = {json.dumps(self.warehouse.shown_url)}\n"]
        lines += [f"[sources.{name}]\nurl = {json.dumps(place.shown_url)}\n" for name, place in self.sources.items()]
        config = dict(self._spark or {"spark.master": "local[2]"})
        lines.append(f"[spark]\nmaster = {json.dumps(config.pop('spark.master'))}\n")
        lines.append("[spark.config]\n" + "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in config.items()))
        asked = self.schema_changes[max(self._logs - 1, 0) % len(self.schema_changes)]
        lines.append(f'\n[maintenance]\n{self.maintenance}\nschema_changes = "{asked}"\n')
        (self.folder / "views").mkdir(exist_ok=True)
        (self.folder / "dyda.toml").write_text("\n".join(lines))

    def view(self, name: str, text: str) -> None:
        (self.folder / "views" / f"{name}.sql").write_text(text)

    def run(self, *arguments: str, check: bool = True, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        """The command line as a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "dyda", "-C", str(self.folder), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if "Traceback (most recent call last)" in done.stderr:
            raise TortureFailed(f"dyda {' '.join(arguments)} shows a traceback:\n{done.stderr}")
        if check and done.returncode != 0:
            raise TortureFailed(
                f"dyda {' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
            )
        return done

    # --- the daemon

    def compute_on(self, spark: Mapping[str, str] | None = None) -> None:
        """Another Spark for the next daemon; None: in its own process tree, as always."""
        self._spark = spark

    def start_daemon(self, fault: str = "") -> Daemon:
        assert self.daemon is None or not self.daemon.alive, "one daemon at a time"
        if self.daemon is not None:
            self.daemon.bury()
        self._logs += 1
        self._write_settings()
        log = self.folder / f"daemon-{self._logs}.log"
        self.daemon = Daemon(self.folder, log, fault, self.clocks["daemon"].for_python)
        return self.daemon

    def require_daemon(self) -> Daemon:
        """It must be running: nothing but SIGKILL may end it."""
        assert self.daemon is not None
        if not self.daemon.alive:
            self.daemon.check()
            raise TortureFailed("the daemon was killed by somebody else")
        return self.daemon

    def driver(self) -> int | None:
        """The process id of the daemon's Java process, if it has one now."""
        daemon = self.require_daemon()
        for pid in _children(daemon.process.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text().strip() == "java":
                    return pid
        return None

    def close(self) -> None:
        if self.daemon is not None:
            if self.daemon.alive:
                self.daemon.kill(children=True)
            self.daemon.bury()
        for place in self.all:
            place.close()
        self.disk.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def session(url: str) -> Iterator[Any]:
    """A cursor, in autocommit."""
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with lost_is_operational(), connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
