"""Real PostgreSQL for every test: one embedded server per pytest worker, fresh databases on it, servers of one's own.

DYDA_TEST_POSTGRES=postgresql://… lets `database` use another server (its role must be allowed to create databases);
DYDA_TEST_POSTGRES_VERSION=16 lets all embedded servers be the older PostgreSQL that the same package carries;
DYDA_TEST_POSTGRES_BIN=/usr/lib/postgresql/15/bin lets them be the one that is installed there (`make versions`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg2
import pytest
from hypothesis import Phase, settings
from psycopg2 import sql

from dyda import embedded
from dyda.engine import Engine
from dyda.settings import SparkSettings
from tests.spark_class_sharing import share_classes

PROGRAMS = Path(os.environ["DYDA_TEST_POSTGRES_BIN"]) if "DYDA_TEST_POSTGRES_BIN" in os.environ else None


def _version(programs: Path) -> int:
    shown = subprocess.run([str(programs / "postgres"), "--version"], capture_output=True, text=True, check=True)
    return int(re.findall(r"\d+", shown.stdout)[0])


VERSION = (
    _version(PROGRAMS) if PROGRAMS is not None else int(os.environ.get("DYDA_TEST_POSTGRES_VERSION", embedded.VERSION))
)
_carried = embedded.binaries


def _binaries(version: int = embedded.VERSION) -> Path:
    return PROGRAMS if PROGRAMS is not None and version == VERSION else _carried(version)


def pytest_configure() -> None:
    embedded.binaries = _binaries
    share_classes()
    # To explain a failure, Hypothesis traces every line of every example: most of the time of what is computed here.
    settings.register_profile("untraced", phases=set(Phase) - {Phase.explain})
    settings.load_profile("untraced")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules marked `long` come first: one that starts last would leave the other worker idle."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def memory() -> str:
    """A folder in memory, where the machine has one with room. On a disk, most of a test is databases that are made."""
    place = Path("/dev/shm")
    return str(place) if place.is_dir() and shutil.disk_usage(place).free > 4 * 2**30 else "/tmp"


class Server:
    """A PostgreSQL server process of the test's own: a child, so that it can be killed and reaped."""

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        version: int = VERSION,
        environment: dict[str, str] | None = None,
        place: str = "/tmp",
    ) -> None:
        self.folder = embedded.prepare(Path(tempfile.mkdtemp(prefix="dyda-t-", dir=place)))
        self.version = version
        self.environment = environment or {}
        self.process: subprocess.Popen[bytes] | None = None
        lines = {"log_min_messages": "warning", **(settings or {})}
        embedded.create(self.folder, lines, version)
        if version < 16:  # its initdb has no --set
            with (self.folder / "data" / "postgresql.conf").open("a") as configuration:
                configuration.writelines(
                    f"{name} = '{value}'\n" for name, value in {**embedded.DEFAULT_SETTINGS, **lines}.items()
                )

    def url(self, database: str = "postgres") -> str:
        return embedded.EmbeddedServer.url(self.folder, database)

    def start(self) -> Server:
        """Starts the server and waits until it accepts connections (after a crash: until recovery is done)."""
        assert self.process is None, "the server already runs"
        home = str(embedded.socket_folder(self.folder))
        arguments = ["-D", str(self.folder / "data"), "-k", home]
        with open(self.folder / "log", "ab") as log:
            call = embedded.tool_call("postgres", arguments, self.folder, self.version)
            call["env"] = {**call["env"], **self.environment}
            self.process = subprocess.Popen(**call, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg2.connect(self.url()).close()
                return self
            except psycopg2.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((self.folder / "log").read_text()[-4000:]) from None
            time.sleep(0.02)

    def stop(self) -> None:
        """An orderly (fast) shutdown; open sessions are ended."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(30)
                self.process = None
            except subprocess.TimeoutExpired:
                self.crash()

    def freeze(self) -> None:
        assert self.process is not None, "the server does not run"
        self.process.send_signal(signal.SIGSTOP)  # first, so that it starts no child that is not frozen
        _tell(_children(self.process.pid), signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None, "the server does not run"
        _tell(_children(self.process.pid), signal.SIGCONT)
        self.process.send_signal(signal.SIGCONT)

    def hold(self, name: str) -> None:
        """SIGSTOP of one of its processes, by the name that it gives itself: walwriter."""
        assert self.process is not None, "the server does not run"
        held = [pid for pid in _children(self.process.pid) if _title(pid).startswith(f"postgres: {name}")]
        assert held, f"the server has no process {name}"
        _tell(held, signal.SIGSTOP)

    def crash(self) -> None:
        """kill -9 of the postmaster and of all its children, as a machine that loses power would end them."""
        assert self.process is not None, "the server does not run"
        self.process.send_signal(signal.SIGSTOP)  # no new children, no clean-up, while we kill
        victims = _children(self.process.pid)
        self.process.kill()
        _tell(victims, signal.SIGKILL)
        self.process.wait(30)
        self.process = None
        while any(_alive(pid) for pid in victims):
            time.sleep(0.01)

    def remove(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(30)
            self.process = None
        home = embedded.socket_folder(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(entry.read_text().rsplit(")", 1)[1].split()[1]) == pid:
                found.append(int(entry.parent.name))
    return found


def _title(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().rstrip("\0 ")
    return ""


def _tell(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # a server's child ends whenever its work is done
            os.kill(pid, number)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The PostgreSQL server that this pytest process shares among its tests. Do not stop or crash it."""
    settings = {"fsync": "off", "full_page_writes": "off", "wal_level": "logical", "max_prepared_transactions": "10"}
    own = Server({**settings, "max_wal_size": "256MB"}, place=memory())
    try:
        yield own.start()
    finally:
        own.remove()


@contextlib.contextmanager
def fresh_databases(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """`create("crm")` creates a fresh database, whose name begins so, and returns its URL; dropped at the end."""
    other = os.environ.get("DYDA_TEST_POSTGRES")
    administration = other or request.getfixturevalue("server").url()
    created: list[str] = []

    def create(hint: str = "db") -> str:
        name = f"{re.sub('[^a-z0-9_]', '_', hint.lower())[:30]}_{uuid.uuid4().hex[:12]}"
        # Copying files takes a third of the time, and thousands of databases are made; only newer servers know it.
        strategy = "" if other or VERSION < 15 else " STRATEGY file_copy"
        _administer(administration, "CREATE DATABASE {}" + strategy, name)
        created.append(name)
        parts = urllib.parse.urlsplit(administration)
        return urllib.parse.urlunsplit(parts._replace(path="/" + name))

    try:
        yield create
    finally:
        for name in created:
            _administer(administration, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """`database("crm")` creates a fresh database, whose name begins so, and returns its URL; dropped at the end."""
    with fresh_databases(request) as create:
        yield create


@pytest.fixture(scope="module")
def module_database(request: pytest.FixtureRequest) -> Iterator[Callable[..., str]]:
    """Like `database`, for what all tests of a module share."""
    with fresh_databases(request) as create:
        yield create


@pytest.fixture
def databases(request: pytest.FixtureRequest) -> Callable[[], contextlib.AbstractContextManager[Callable[..., str]]]:
    """`with databases() as database:` drops them at the end of the block: for one example of many."""
    return lambda: fresh_databases(request)


@pytest.fixture
def new_server() -> Iterator[Callable[..., Server]]:
    """`new_server(wal_writer_delay="10s")` starts a server of the test's own with these settings.

    It has url(dbname), crash(), start(), stop(). `new_server(version=16)` is the older PostgreSQL.
    """
    servers: list[Server] = []

    def create(*, version: int = VERSION, **settings: str) -> Server:
        servers.append(Server(settings, version, place=memory()))
        return servers[-1].start()

    yield create
    for own in servers:
        own.remove()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The one Spark application of this pytest process: a JVM holds one, and it takes seconds to start."""
    with Engine(SparkSettings(master="local[2]", config={"spark.sql.shuffle.partitions": "2"})) as started:
        yield started


def _administer(url: str, statement: str, name: str) -> None:
    connection = psycopg2.connect(url)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql.SQL(statement).format(sql.Identifier(name)))
    finally:
        connection.close()
