"""A warehouse that is away: the daemon says it, does not repeat it every second, and says when it is back."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dyda import commands
from dyda.commands import daemon


class _Stopping(daemon.StopSignal):
    """Counts how often the daemon pauses before it tries the warehouse again."""

    tries = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.tries += timeout == 1.0
        return super().wait(timeout)


def test_the_warehouse_goes_and_comes_back(
    new_server: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_server()
    (tmp_path / "views").mkdir()
    (tmp_path / "dyda.toml").write_text(f"[warehouse]\nurl = {json.dumps(server.url())}\n")
    stopping, log = _Stopping(), list[str]()

    @contextlib.contextmanager
    def signals() -> Iterator[_Stopping]:
        yield stopping

    def until(done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline, log
            time.sleep(0.05)

    monkeypatch.setattr(daemon, "_stop_signals", signals)
    running = threading.Thread(target=commands.run_daemon, args=(tmp_path, False, log.append))
    running.start()
    try:
        until(lambda: len(log) == 1)
        server.stop()
        until(lambda: stopping.tries >= 4)
        server.start()
        until(lambda: sum("maintaining" in line for line in log) == 2)
    finally:
        stopping.set()
        running.join(60)
    away, back = log[1:3]
    assert "warehouse" in away
    assert "the warehouse is back after " in back
    assert "maintaining" in log[3]
    assert "has ended" in log[4]
    assert len(log) == 6, "and one line at the end"
