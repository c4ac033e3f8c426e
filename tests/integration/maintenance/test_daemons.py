"""Several daemons on one project, as real processes: one works, the others wait and take over.

The old one is frozen in the middle of an installation and wakes up when another has taken its place.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dyda import commands
from tests.conftest import _children
from tests.recompute_oracle import printed
from tests.town import Town

pytestmark = pytest.mark.long

PATIENCE = 180.0
"""Seconds for what a busy machine may take; every wait is for a condition."""

WAITS = "standing by to take over when it ends"
TAKES_OVER = "the project lock is free; taking over"


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.05)


class Daemon:
    """`dyda daemon` as a process of its own; its log is read while it runs."""

    def __init__(self, town: Town, file: Path, *arguments: str, fault: str = "") -> None:
        self.file = file
        environment = os.environ | ({"DYDA_FAULT": fault} if fault else {})
        with open(file, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dyda", "-C", str(town.folder), "daemon", *arguments],
                stdout=log,
                stderr=log,
                env=environment,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self.file.read_text()

    def says(self, text: str, times: int = 1) -> None:
        def said() -> bool:
            assert self.process.poll() is None or self.log.count(text) >= times, self.log
            return self.log.count(text) >= times

        until(said, f"{text!r} in\n{self.log}")

    def is_stopped(self) -> None:
        """At its fault point."""

        def stopped() -> bool:
            assert self.process.poll() is None, self.log
            return Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"

        until(stopped, f"stop of\n{self.log}")

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)


@pytest.fixture
def start(town: Town, tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    started: list[Daemon] = []

    def create(*arguments: str, fault: str = "") -> Daemon:
        started.append(Daemon(town, tmp_path / f"daemon{len(started)}.log", *arguments, fault=fault))
        return started[-1]

    yield create
    for daemon in started:
        daemon.end()


@pytest.fixture
def travel(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (name text, city text)", "INSERT INTO customer VALUES ('Ann', 'Rome')")
    town.source(
        "booking", "CREATE TABLE flight (name text, no int)", "INSERT INTO flight VALUES ('Ann', 1), ('Bob', 2)"
    )
    town.view("v", "SELECT c.name, c.city, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name")
    town.view(
        "cities",
        "SELECT c.city, count(*) AS times, max(f.no) AS last FROM crm.customer c"
        " LEFT JOIN booking.flight f ON c.name = f.name GROUP BY c.city",
    )
    town.apply()
    return town


def terminate_the_workers_session(town: Town) -> None:
    """As a network that is gone, or a server that gave up on a client that does not answer."""
    with contextlib.closing(psycopg2.connect(town.warehouse)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(backend) FROM dyda.daemon")
        assert cursor.fetchall() == [(True,)]


def data_units(town: Town) -> list[int]:
    """How many messages each unit of data had, oldest first."""
    with town.opened() as opened:
        return [unit.messages for unit in reversed(opened.warehouse.units(1000)) if unit.kind == "data"]


def installed(town: Town, row: str) -> Callable[[], bool]:
    return lambda: row in town.extent("v")


@pytest.mark.parametrize(
    ("first_stops_at", "second_stops_at"),
    [("install.merged", "install.committed"), ("install.before-commit", "acknowledge.before")],
)
def test_an_old_daemon_that_wakes_up_writes_nothing_and_waits(
    travel: Town, start: Callable[..., Daemon], first_stops_at: str, second_stops_at: str
) -> None:
    """The first is frozen before its commit, the second between its commit and the acknowledgement."""
    before = travel.extent("v")
    first = start(fault=f"{first_stops_at}=stop")
    first.says("maintaining 2 views")
    travel.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    first.is_stopped()
    second = start(fault=f"{second_stops_at}=stop")
    second.says(WAITS)
    assert f"(pid {first.pid} on" in second.log
    assert travel.extent("v") == before
    assert TAKES_OVER not in second.log, "as long as the first has its session, the second waits"

    terminate_the_workers_session(travel)
    second.is_stopped()  # it took over, installed the first change, and has not acknowledged it
    after = before + Counter({"Bob\tOslo\t2": 2})
    assert travel.extent("v") == after
    fence = printed(travel.warehouse, "SELECT fence FROM dyda.project")

    first.wake()
    first.says("the connection to the warehouse was lost")
    first.says(WAITS)
    assert f"(pid {second.pid} on" in first.log
    assert travel.extent("v") == after, "the old one has written nothing"
    assert printed(travel.warehouse, "SELECT fence FROM dyda.project") == fence

    travel.execute("booking", "INSERT INTO flight VALUES ('Ann', 3)")
    terminate_the_workers_session(travel)
    until(installed(travel, "Ann\tRome\t3"), f"the takeover by the first:\n{first.log}")
    assert TAKES_OVER in first.log
    second.wake()
    second.says(WAITS, times=2)
    travel.execute("booking", "DELETE FROM flight WHERE no = 1")
    until(lambda: "Ann\tRome\t1" not in travel.extent("v"), f"the last change:\n{first.log}")

    travel.check()
    assert data_units(travel) == [1, 1, 1], "each message in one unit, none twice"
    until(
        lambda: all(not printed(url, "SELECT xid FROM dyda.log") for url in travel.sources.values()),
        "what is installed is acknowledged",
    )
    assert commands.pending(travel.folder) == []
    assert second.log.count(WAITS) == 2, "one line for each wait"
    assert first.log.count("Traceback") == second.log.count("Traceback") == 0
    assert {a["name"]: a["result"] for a in commands.verify(travel.folder, engine=travel.engine)} == {
        "v": "equal",
        "cities": "equal",
    }


def test_one_works_the_others_wait_and_take_over(travel: Town, start: Callable[..., Daemon]) -> None:
    first = start(fault="install.before-commit=stop")
    first.says("maintaining 2 views")
    second = start()
    second.says(WAITS)
    assert re.search(rf"the daemon \(pid {first.pid} on \S+, since \d+-\d+-\d+ \d+:\d+:\d+ UTC\) works", second.log)
    travel.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    first.is_stopped()  # between the fence and the commit, and with its session
    third = start("--until-idle")
    third.says(WAITS)
    daemon = commands.status(travel.folder)["daemon"]
    assert (daemon["running"], daemon["pid"], daemon["waiting"]) == (True, first.pid, 2)
    shown = travel.run("status").stdout
    assert re.match(rf"daemon: running, pid {first.pid} on \S+ since \S+; 2 standing by\n", shown), shown
    assert "Bob\tOslo\t2" not in travel.extent("v")

    first.wake()
    assert third.process.wait(PATIENCE) == 0, third.log
    assert travel.extent("v")["Bob\tOslo\t2"] == 1, "the one that waits until all is done ends after it is"
    assert TAKES_OVER not in second.log + third.log

    # Somebody else had the project for a moment; the process notices at its next write, and gets in line again.
    with (
        contextlib.closing(psycopg2.connect(travel.warehouse)) as connection,
        connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("UPDATE dyda.project SET fence = fence + 1")
    first.says("another process has taken over this project")
    until(lambda: commands.status(travel.folder)["daemon"]["running"], "somebody works")
    writer, other = (first, second) if TAKES_OVER not in second.log else (second, first)
    other.says(WAITS)
    until(lambda: commands.status(travel.folder)["daemon"]["waiting"] == 1, "the other one waits")

    writer.process.kill()
    killed_at = time.monotonic()
    other.says(TAKES_OVER)
    assert time.monotonic() - killed_at < 20, "within seconds"
    travel.execute("crm", "INSERT INTO customer VALUES ('Ann', 'Bonn')")
    until(installed(travel, "Ann\tBonn\t1"), f"the change after the takeover:\n{other.log}")
    travel.check()
    assert data_units(travel) == [1, 1]

    last = start()
    last.says(WAITS)
    assert commands.stop(travel.folder) == {"daemon": True, "waiting": 1, "servers": []}
    assert other.process.wait(60) == last.process.wait(60) == 0
    assert TAKES_OVER not in last.log


def test_spark_stays_while_the_warehouse_goes_and_comes_back(travel: Town, start: Callable[..., Daemon]) -> None:
    """Starting Spark anew takes longer than most things that happen to a warehouse."""
    daemon = start()
    daemon.says("maintaining 2 views")
    travel.execute("crm", "INSERT INTO customer VALUES ('Bob', 'Oslo')")
    until(installed(travel, "Bob\tOslo\t2"), f"the first change:\n{daemon.log}")
    (spark,) = java_below(daemon.pid)
    terminate_the_workers_session(travel)
    daemon.says("the connection to the warehouse was lost")
    daemon.says("maintaining 2 views", times=2)
    travel.execute("booking", "INSERT INTO flight VALUES ('Bob', 4)")
    until(installed(travel, "Bob\tOslo\t4"), f"the second change:\n{daemon.log}")
    assert java_below(daemon.pid) == [spark]


def java_below(pid: int) -> list[int]:
    """The Java processes that a process has started, itself or through others."""
    found = []
    for child in _children(pid):
        if Path(f"/proc/{child}/comm").read_text().strip() == "java":
            found.append(child)
        found += java_below(child)
    return found
