"""`dyda daemon` is ended in order, however that is asked for: by a supervisor, a shell, or Ctrl-C in a terminal.

These tell the whole process group, Spark's processes among them, and a unit may be under way.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.torture.watching import Processes
from tests.town import Town

pytestmark = pytest.mark.long


def _until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _stopped_or_shown(daemon: int, town: Town, rows: dict[str, int]) -> bool:
    return _state(daemon) == "T" or town.extent("names") == rows


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_ends_it_in_order(town: Town, tmp_path: Path, number: signal.Signals) -> None:
    town.source(
        "crm", "CREATE TABLE customer (id int PRIMARY KEY, name text)", "INSERT INTO customer VALUES (1, 'Ann')"
    )
    town.view("names", "SELECT c.name, count(*) AS n FROM crm.customer c GROUP BY c.name")
    town.apply()
    log = tmp_path / "daemon.log"
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [sys.executable, "-m", "dyda", "-C", str(town.folder), "daemon"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={**os.environ, "DYDA_FAULT": "unit.swept=stop:3"},
            # As a terminal's own jobs have it, also where these tests run in the background.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        _until(lambda: "maintaining" in log.read_text(), "it does not come up")
        rows = 1
        while _state(daemon.pid) != "T":  # in the first unit, Spark would not run yet
            rows += 1
            town.execute("crm", f"INSERT INTO customer VALUES ({rows}, 'Bob')")
            stopped_or_shown = partial(_stopped_or_shown, daemon.pid, town, {"Ann\t1": 1, f"Bob\t{rows - 1}": 1})
            _until(stopped_or_shown, "a unit is not installed")
        assert rows > 2
        os.killpg(daemon.pid, number)
        # Whoever is not stopped has heard it before the daemon goes on.
        daemon.send_signal(signal.SIGCONT)
        code = daemon.wait(60)
        said = log.read_text()
        assert code == 0, said
        assert "Traceback" not in said
        assert "rror" not in said
        lines = said.splitlines()
        assert lines[-1].endswith(f"stopped by {number.name}; nothing is lost")
        assert sum("stop" in line for line in lines) == 1, said
        _until(lambda: not sum(Processes(daemon.pid, {}).memory().values()), "something of it is left")
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait(30)
    town.settle()
    town.check("names")


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
