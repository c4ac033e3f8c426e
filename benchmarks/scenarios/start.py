"""Start: what a command costs before it says anything, and how long a daemon takes until its first unit is installed.

commands              processor time of child processes, one that only connects beside each command
first unit            daemon starts ── Spark starts ── a change that waits already is shown ÷ Spark alone starts
warmed up             a change that comes when the daemon says that it is ready ÷ the changes after it
"""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.measuring import progress
from benchmarks.harness.servers import servers, spark
from benchmarks.report.report import Bar, Plot, Report
from tests.town import Town

__all__ = ["run"]

COMMANDS = (["--help"], ["status"], ["views"], ["pending"], ["sources"])
CONNECT = "import psycopg2, sys; psycopg2.connect(sys.argv[1]).close()"
SPARK = """
from dyda.engine import Engine
from dyda.settings import SparkSettings
with Engine(SparkSettings(master="local[2]")) as engine:
    engine.start()
    print("started", flush=True)
    input()
"""
LONGEST = 300.0


@dataclass(frozen=True)
class Scale:
    rounds: int
    """Of each command."""
    starts: int
    later: int = 5
    """Changes after the first one."""


SCALES = {"tiny": Scale(1, 1, 1), "quick": Scale(7, 3), "full": Scale(15, 7)}


def run(profile: str) -> Report:
    report = Report("start", "processor time of commands and first units, milliseconds", ["what", "median", "÷"])
    scale = SCALES[profile]
    with contextlib.ExitStack() as stack:
        machines = stack.enter_context(servers(["warehouse"]))
        report.ran_on["postgres"] = machines["warehouse"].version
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with spark() as engine:
            town = Town(folder / "town", machines["warehouse"].database, engine)
            stack.callback(town.close)
            town.source("shop", "CREATE TABLE sale (id int PRIMARY KEY, customer text, amount int)")
            town.view("totals", "SELECT s.customer, sum(s.amount) AS total FROM shop.sale s GROUP BY s.customer")
            town.view("sales", "SELECT s.customer, s.amount FROM shop.sale s WHERE s.amount > 0")
            town.apply()
        commands = _commands(town, scale)
        starts = [_first_unit(town, folder, scale) for _ in range(scale.starts)]
    connect = commands.pop("connect")
    report.rows.append(["connecting alone, processor time", f"{connect * 1000:,.0f}", ""])
    report.rows += [
        [f"dyda {name}, processor time", f"{spent * 1000:,.0f}", f"{spent / connect:.1f} × connecting"]
        for name, spent in commands.items()
    ]
    for name, among in (("Spark alone starts", 0), ("a daemon's first unit is shown", 1)):
        report.rows.append([name, f"{statistics.median(one[among] for one in starts) * 1000:,.0f}", ""])
    first = statistics.median(one[1] / one[0] for one in starts)
    ready = statistics.median(one[2] / one[3] for one in starts)
    report.rows.append(["first change after `ready`", _median(starts, 2), f"{ready:.1f} × those after it"])
    report.bars = [
        Bar("dyda status, processor seconds beyond connecting", commands["status"] - connect, most=0.35),
        Bar("daemon's start to its first unit ÷ Spark's own start", first, most=2.0),
    ]
    lines = {name: [(1.0, spent * 1000)] for name, spent in commands.items()}
    report.plots = [Plot("processor time of a command", "", "milliseconds", lines)]
    report.notes = ["Least of the rounds for commands, median for starts. Java has no archive of Spark's classes here."]
    report.data = {"connect": connect, "commands": commands, "starts": starts}
    return report


def _median(starts: Sequence[tuple[float, ...]], place: int) -> str:
    return f"{statistics.median(one[place] for one in starts) * 1000:,.0f}"


def _commands(town: Town, scale: Scale) -> dict[str, float]:
    """The least processor time of each command, and of a process that only connects; one after the other in turn."""
    programs = {"connect": ["-c", CONNECT, town.warehouse]}
    programs |= {words[0].strip("-"): ["-m", "dyda", "-C", str(town.folder), *words] for words in COMMANDS}
    spent: dict[str, list[float]] = {name: [] for name in programs}
    for number in range(scale.rounds):
        progress(f"commands, round {number + 1}")
        for name, arguments in programs.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent[name].append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return {name: min(times) for name, times in spent.items()}


def _first_unit(town: Town, folder: Path, scale: Scale) -> tuple[float, float, float, float]:
    """Seconds: Spark alone, a daemon's first unit, a change when it is ready, and those after that (median)."""
    progress("Spark alone")
    began = time.monotonic()
    with _child(["-c", SPARK], folder / "spark.log") as said:
        _until(lambda: "started" in said())
        alone = time.monotonic() - began
    progress("a change that waits when the daemon starts")
    _sell(town)
    began = time.monotonic()
    with _daemon(town, folder):
        _until(lambda: _shown(town))
        first = time.monotonic() - began
    progress("changes when the daemon is ready")
    with _daemon(town, folder) as said:
        _until(lambda: "ready to maintain" in said())
        changes = [_change(town) for _ in range(1 + scale.later)]
    return alone, first, changes[0], statistics.median(changes[1:])


def _sell(town: Town) -> None:
    town.execute("shop", "INSERT INTO sale SELECT coalesce(max(id), 0) + 1, 'Ann', 1 FROM sale")


def _change(town: Town) -> float:
    began = time.monotonic()
    _sell(town)
    _until(lambda: _shown(town))
    return time.monotonic() - began


def _shown(town: Town) -> bool:
    with contextlib.closing(town.connect("shop")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM sale")
        (sold,) = cursor.fetchone()
    return town.extent("sales").total() == int(sold)


def _daemon(town: Town, folder: Path) -> contextlib.AbstractContextManager[Callable[[], str]]:
    return _child(["-m", "dyda", "-C", str(town.folder), "daemon"], folder / "daemon.log")


@contextlib.contextmanager
def _child(arguments: Sequence[str], log: Path) -> Iterator[Callable[[], str]]:
    """A process whose output can be read; ended at the end."""
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_SUBMIT_OPTS"}
    command = [sys.executable, *arguments]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment) as process,
    ):
        try:
            yield lambda: log.read_text(errors="replace")
        finally:
            process.terminate()


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONGEST
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError("the daemon does not go on")
        time.sleep(0.02)
