"""A daemon that has nothing to do yet gets ready; whoever ends it does not wait for that."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.town import Town

pytestmark = pytest.mark.long


@contextmanager
def _daemon(town: Town, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "dyda", "-C", str(town.folder), "daemon"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield daemon
    finally:
        daemon.kill()
        daemon.wait()


def _until(done: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 180
    while not done():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


@pytest.fixture
def customers(town: Town) -> Town:
    town.source(
        "crm", "CREATE TABLE customer (id int PRIMARY KEY, name text)", "INSERT INTO customer VALUES (1, 'Ann')"
    )
    # The division fails on NULL, which the warm-up computes with: that must be nobody's trouble.
    town.view("names", "SELECT c.name, 1 / coalesce(c.id, 0) AS part FROM crm.customer c")
    town.view("counted", "SELECT c.name, count(*) AS n FROM crm.customer c GROUP BY c.name")
    town.apply()
    return town


def test_spark_and_the_views_are_ready_before_the_first_change(customers: Town, tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    with _daemon(customers, log) as daemon:
        _until(lambda: "ready to maintain 2 views after" in log.read_text(), log)
        said = log.read_text()
        assert said.index("Spark is starting") < said.index("Spark has started, in") < said.index("ready to maintain")
        customers.execute("crm", "INSERT INTO customer VALUES (2, 'Bob')")
        _until(lambda: customers.extent("counted") == {"Ann\t1": 1, "Bob\t1": 1}, log)
        customers.check()
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
    assert "Traceback" not in log.read_text()


def test_nobody_waits_for_spark_to_start_before_the_daemon_ends(customers: Town, tmp_path: Path) -> None:
    log = tmp_path / "daemon.log"
    with _daemon(customers, log) as daemon:
        _until(lambda: "Spark is starting" in log.read_text(), log)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
    said = log.read_text()
    assert "stopped by SIGTERM; nothing is lost" in said
    assert "Spark has started" not in said
    assert "Traceback" not in said


def test_a_daemon_without_work_to_do_needs_no_spark(customers: Town) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dyda", "-C", str(customers.folder), "daemon", "--until-idle"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Spark" not in done.stderr
