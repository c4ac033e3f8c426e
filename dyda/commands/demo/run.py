"""`dyda demo`: the travel example of paper 001, from nothing to a verified warehouse.

    four writers ──▶ crm, tours, people, booking ──capture──▶ daemon ──▶ warehouse ──▶ a table on the screen

Half way through, crm drops Customer and booking drops FlightRes.Age: the cyclic case of Section 4.4. The daemon is a
separate process, as in real life; everything else uses the commands and reads the warehouse as any reader would.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2

from dyda import commands
from dyda.commands.demo.writers import SCHEMA_CHANGES, SOURCES, Writer, expected_rows, seed
from dyda.cursor import Connection
from dyda.embedded import EmbeddedServer
from dyda.errors import DydaError

__all__ = ["VIEWS", "DemoFailed", "Frame", "demo"]

TRAVEL = Path(__file__).parent / "travel"
VIEWS = ("asia_customer", "asia_trip")
CATCH_UP = 60.0
START_UP = 90.0

Rows = list[tuple[Any, ...]]
Step = Callable[[str], None]
Watch = Callable[["Frame"], None]


class DemoFailed(DydaError):
    """The demo could not continue; the end of the daemon's log is in the message."""


@dataclass(frozen=True)
class Frame:
    """What the screen shows at one moment: the views as a reader sees them, in one transaction."""

    elapsed: float
    committed: dict[str, int]
    columns: dict[str, list[str]]
    rows: dict[str, Rows]
    following: bool
    """False once the writers have stopped."""


def demo(folder: Path | None, seconds: float, chance: int, step: Step, watch: Watch) -> dict[str, Any]:
    """Run the demo with `seconds` of random changes from the seed `chance`; a given `folder` is kept."""
    begun = time.monotonic()
    kept = folder is not None
    folder = _new_project(folder)
    try:
        step("starting five PostgreSQL servers: four sources and the warehouse")
        urls = _start_servers(folder, chance)
        step("starting the daemon: dyda daemon")
        with _daemon(folder) as process:
            _wait_for_daemon(folder, process)
            step("building the views: dyda apply")
            commands.apply(folder, lambda plan: True)
            step("changing all four sources concurrently while the daemon maintains the views")
            committed, states = _change_and_follow(folder, urls, process, seconds, chance, watch, step)
            rewritten = commands.views_history(folder, "asia_customer")[-1]
            step("recomputing both views from their sources and comparing: dyda verify")
            verified = commands.verify(folder, (), lambda text, done, total: None)
    finally:
        with contextlib.suppress(DydaError):
            commands.stop(folder)
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)
    return {
        "seconds": round(time.monotonic() - begun, 1),
        "transactions": committed,
        "states_seen": states,
        "rewritten": rewritten,
        "views": verified,
        "folder": str(folder) if kept else None,
    }


def _new_project(folder: Path | None) -> Path:
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="dyda-demo-", dir="/tmp"))
    elif folder.exists() and any(folder.iterdir()):
        raise DemoFailed(f"{folder} is not empty", "Name a new folder for the demo.")
    shutil.copytree(TRAVEL, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("sources"))
    return folder.resolve()


def _start_servers(folder: Path, chance: int) -> dict[str, str]:
    """The URLs of all servers, started in parallel; the sources have their first rows."""

    def start(name: str) -> str:
        url = EmbeddedServer.ensure(folder / ".dyda" / "pg" / name)
        if name in SOURCES:
            seed(url, name, TRAVEL / "sources" / f"{name}.sql", random.Random(f"{chance} {name}"))
        return url

    names = (*SOURCES, "warehouse")
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(start, names), strict=True))


@contextlib.contextmanager
def _daemon(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`dyda daemon` as a separate process; its log is kept beside the servers."""
    path = folder / ".dyda" / "daemon.log"
    process: subprocess.Popen[bytes] | None = None
    try:
        with open(path, "wb") as log, _signals_later():
            process = subprocess.Popen(
                [sys.executable, "-m", "dyda", "-C", str(folder), "daemon"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches only the demo, which then ends the daemon cleanly
            )
        yield process
    finally:
        if process is not None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def _signals_later() -> Iterator[None]:
    """A signal to end is obeyed at the end of the block: a process that is being started must not be left behind, where
    it would start servers again in a folder that is gone."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for one in came:
            signal.raise_signal(one)


def _change_and_follow(
    folder: Path,
    urls: dict[str, str],
    process: subprocess.Popen[bytes],
    seconds: float,
    chance: int,
    watch: Watch,
    step: Step,
) -> tuple[dict[str, int], int]:
    """Start the writers, show the views until they have caught up; returns commits and states seen."""
    migration, stopped = threading.Event(), threading.Event()
    writers = [Writer(urls[name], name, chance + number, migration, stopped) for number, name in enumerate(SOURCES)]
    states: list[dict[str, Rows]] = []
    shown = _version(folder)
    began = time.monotonic()
    reader = psycopg2.connect(urls["warehouse"])

    def look() -> dict[str, Rows]:
        _still_runs(process, folder)
        for writer in writers:
            if writer.failure is not None:
                raise DemoFailed(f"the {writer.name} failed: {writer.failure}")
        columns, rows = _read_views(reader)
        if not states or states[-1] != rows:
            states.append(rows)
        committed = {writer.source: writer.committed for writer in writers}
        watch(Frame(time.monotonic() - began, committed, columns, rows, not stopped.is_set()))
        return rows

    try:
        for writer in writers:
            writer.start()
        while time.monotonic() - began < seconds or not all(writer.migrated for writer in writers):
            look()
            if time.monotonic() - began > seconds / 2 and not migration.is_set():
                for source, ddl in SCHEMA_CHANGES.items():
                    step(f"schema change at {source}: {ddl}")
                migration.set()
            elif migration.is_set():
                shown = _show_rewritings(folder, shown, step)
            time.sleep(0.25)
        stopped.set()
        for writer in writers:
            writer.join()
        wanted = expected_rows(lambda source, text: _query(urls[source], text))
        deadline = time.monotonic() + CATCH_UP
        while any(Counter(rows) != wanted[view] for view, rows in look().items()):
            if time.monotonic() > deadline:
                step(f"the views did not catch up within {CATCH_UP:.0f} s")
                break
            time.sleep(0.1)
    finally:
        stopped.set()
        reader.close()
    _show_rewritings(folder, shown, step)
    return {writer.source: writer.committed for writer in writers}, len(states)


def _version(folder: Path) -> int:
    return next(int(view["version"]) for view in commands.views(folder) if view["name"] == "asia_customer")


def _show_rewritings(folder: Path, shown: int, step: Step) -> int:
    """The versions of Asia-Customer after version `shown`: one or two, as the changes arrive. Returns the newest."""
    if _version(folder) == shown:
        return shown
    for version in commands.views_history(folder, "asia_customer"):
        if version["version"] > shown:
            reason = (version["rewriting"] or {}).get("reason", version["cause"])
            text = version["sql"].strip().replace("\n", "\n      ")
            step(f"asia_customer is rewritten: {reason}\n      {text}")
            shown = version["version"]
    return shown


def _wait_for_daemon(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_UP
    while not commands.status(folder)["daemon"]["running"]:
        _still_runs(process, folder)
        if time.monotonic() > deadline:
            raise DemoFailed(f"the daemon did not start within {START_UP:.0f} s:\n{_end_of_log(folder)}")
        time.sleep(0.25)


def _still_runs(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.poll() is not None:
        raise DemoFailed(f"the daemon ended with {process.returncode}:\n{_end_of_log(folder)}")


def _end_of_log(folder: Path) -> str:
    lines = (folder / ".dyda" / "daemon.log").read_text(errors="replace").splitlines()
    return "\n".join(lines[-10:])


def _read_views(reader: Connection) -> tuple[dict[str, list[str]], dict[str, Rows]]:
    """Both views in one REPEATABLE READ transaction, which shows them in one state (rule I3).

    A transaction that is older than a new definition gets a serialization error and is repeated (rule I2).
    """
    columns: dict[str, list[str]] = {}
    rows: dict[str, Rows] = {}
    try:
        with reader, reader.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            for view in VIEWS:
                cursor.execute(f"SELECT * FROM public.{view} ORDER BY 1, 2, 3, 4")
                columns[view] = [column.name for column in cursor.description]
                rows[view] = cursor.fetchall()
    except psycopg2.errors.SerializationFailure:
        return _read_views(reader)
    return columns, rows


def _query(url: str, text: str) -> Rows:
    with contextlib.closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(text)
        rows: Rows = cursor.fetchall()
        return rows
