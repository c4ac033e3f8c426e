"""`make demo` shows what it says: the demo as a user starts it, without a terminal and on one."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

DEMO = [sys.executable, "-m", "dyda", "demo"]


def leftovers() -> set[Path]:
    return set(Path("/tmp").glob("dyda-demo-*"))


def processes(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def test_the_demo_ends_verified_and_leaves_nothing() -> None:
    before = leftovers()
    result = subprocess.run([*DEMO, "--seconds", "4", "--json"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert {view["name"]: view["result"] for view in answer["views"]} == {
        "asia_customer": "equal",
        "asia_trip": "equal",
    }
    assert all(count > 0 for count in answer["transactions"].values()), "a source did not change"
    assert answer["states_seen"] > 1, "the views did not follow"
    assert answer["rewritten"]["version"] > 1, "the view was not rewritten"
    relations = re.findall(r"`(\w+)`\.`public`\.`(\w+)`", answer["rewritten"]["sql"])
    assert sorted(relations) == [("booking", "flight_res"), ("people", "participant"), ("tours", "tour")]
    assert "DROP TABLE customer" in result.stderr
    assert "asia_customer is rewritten: keeps name" in result.stderr
    assert "Traceback" not in result.stderr
    assert not leftovers() - before


def test_the_demo_s_table_moves_on_a_terminal_and_an_interrupt_leaves_nothing() -> None:
    before = leftovers()
    screen, side = pty.openpty()
    with subprocess.Popen(
        [*DEMO, "--seconds", "60"],
        stdin=side,
        stdout=side,
        stderr=side,
        start_new_session=True,
        # As a terminal's own jobs have it, also where these tests run in the background.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as demo:
        os.close(side)
        seen, interrupted, deadline = "", False, time.monotonic() + 240
        while time.monotonic() < deadline:
            try:
                chunk = os.read(screen, 65536)
            except OSError:  # the other side is closed: the demo has ended
                break
            seen += chunk.decode(errors="replace")
            if not interrupted and len(re.findall(r"asia_trip, \d+ rows", seen)) > 2:
                mine = leftovers() - before
                interrupted = True
                demo.send_signal(signal.SIGINT)
        demo.wait(60)
    os.close(screen)
    assert interrupted, seen[-2000:]
    assert demo.returncode == 130, seen[-2000:]
    assert "Traceback" not in seen
    assert not leftovers() - before
    for folder in mine:
        assert not processes(str(folder)), "a server or daemon was left running"


def test_a_folder_that_is_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    result = subprocess.run([*DEMO, "--keep", str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "not empty" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_terminated_demo_leaves_nothing() -> None:
    before = leftovers()
    with subprocess.Popen([*DEMO, "--seconds", "60"], stderr=subprocess.PIPE, text=True) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if "starting the daemon" in line:
                demo.send_signal(signal.SIGTERM)
                break
        rest = demo.stderr.read()
        assert demo.wait(60) == 130, rest
    assert "Traceback" not in rest
    assert not leftovers() - before
