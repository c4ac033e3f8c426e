"""`dyda daemon` as a process of a test's own, to be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Daemon", "TortureFailed"]


class TortureFailed(AssertionError):
    """Something that must hold did not."""


class Daemon:
    """`dyda daemon` as a process of its own, with all its children in one process group."""

    def __init__(self, folder: Path, log: Path, fault: str = "", more: Mapping[str, str] | None = None) -> None:
        self.log = log
        self.fault = fault
        environment = os.environ | ({"DYDA_FAULT": fault} if fault else {}) | dict(more or {})
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dyda", "-C", str(folder), "daemon"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def stopped(self) -> bool:
        shown = subprocess.run(["ps", "-o", "state=", "-p", str(self.process.pid)], capture_output=True, check=False)
        return shown.stdout.strip().startswith(b"T")

    def up(self) -> bool:
        """Wait until it maintains; False if it has died before."""
        deadline = time.monotonic() + 300
        while "maintaining" not in self.text():
            if not self.alive:
                return False
            if time.monotonic() > deadline:
                raise TortureFailed(f"the daemon does not come up:\n{self.text()[-4000:]}")
            time.sleep(0.02)
        return True

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def kill(self, children: bool) -> None:
        """SIGKILL; without `children`, Spark is left to find out by itself that its parent is gone."""
        self.process.kill()
        self.process.wait(30)
        if children:
            self.bury()

    def bury(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def check(self) -> None:
        """It must have been killed; whatever else ended it is a bug."""
        code = self.process.wait(30)
        text = self.text()
        if code != -signal.SIGKILL or "Traceback (most recent call last)" in text:
            raise TortureFailed(f"the daemon ended by itself with {code}:\n{text[-6000:]}")
