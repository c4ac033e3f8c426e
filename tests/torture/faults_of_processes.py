"""Faults of the processes that maintain: the daemon, Spark's driver and its executors."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

from dyda import faults as points
from tests.conftest import _children, _tell
from tests.integration.engine.test_cluster import Cluster
from tests.torture.fault import ALL, Fault, World, until

__all__ = ["DaemonKilled", "DaemonKilledAtPoint", "DaemonsClockJumps", "DriverKilled", "ExecutorKilled"]

CLUSTER = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.cores.max": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


class DaemonKilled(Fault):
    kind = "daemon killed"
    lost = ALL
    words = '"running": false'

    def strike(self) -> None:
        time.sleep(self.random.uniform(0, 2))
        self.places.require_daemon().kill(children=self.random.random() < 0.5)

    def heal(self) -> None:
        self.places.start_daemon()


class DaemonKilledAtPoint(Fault):
    """It kills itself between two steps: the next daemon that runs is armed, and dies there."""

    kind = "daemon killed at a point"
    lost = ALL
    words = DaemonKilled.words

    def __init__(self, world: World) -> None:
        super().__init__(world)
        # A unit that needs no hop passes none.
        self.point = self.random.choice([point for point in points.POINTS if not point.startswith("sweep.")])
        self.passing = self.random.randint(1, 3)

    def __str__(self) -> str:
        return f"{self.kind}: {self.point}, passing {self.passing}"

    def strike(self) -> None:
        self.places.require_daemon().kill(children=True)
        daemon = self.places.start_daemon(f"{self.point}=kill:{self.passing}")
        until(lambda: not daemon.alive, f"the daemon does not come to {self.point}")
        daemon.check()

    def heal(self) -> None:
        self.places.start_daemon()


class DaemonsClockJumps(Fault):
    """A wall clock that goes back and forth; correctness must not depend on it."""

    kind = "clock of the daemon jumps"

    def strike(self) -> None:
        for seconds in (3600, -3600, 86_400 * 400, self.random.randint(-300, 300)):
            self.places.clocks["daemon"].jump(seconds)
            time.sleep(0.5)

    def heal(self) -> None:
        self.places.clocks["daemon"].jump(0)


class DriverKilled(Fault):
    """The Java process of Spark's driver, with its executors in local mode."""

    kind = "Spark driver killed"
    lost = ALL
    words = r"Spark (failed: \S+|does not start)"
    """The other, if it is killed while it starts."""

    def strike(self) -> None:
        pids: list[int] = []

        def found() -> bool:
            pid = self.places.driver()
            pids.extend([pid] if pid is not None else [])
            return bool(pids)

        until(found, "the daemon has no Java process")
        os.kill(pids[0], signal.SIGKILL)


class ExecutorKilled(Fault):
    """On a real cluster, a master and a writer: their executor dies under the driver, and another one takes over."""

    kind = "Spark executor killed"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._cluster: Cluster | None = None
        self._folder = world.places.folder / "cluster"

    def strike(self) -> None:
        self._folder.mkdir(exist_ok=True)
        self._cluster = Cluster(self._folder, workers=1)
        self.places.compute_on({**CLUSTER, "spark.master": self._cluster.url, "spark.pyspark.python": sys.executable})
        self.places.require_daemon().kill(children=True)
        self.places.start_daemon()
        until(lambda: bool(self._executors()), "the daemon has no executor", 300)
        _tell(self._executors(), signal.SIGKILL)

    def _executors(self) -> list[int]:
        assert self._cluster is not None
        family = [pid for process in self._cluster.processes for pid in _children(process.pid)]
        return [pid for pid in family if b"CoarseGrainedExecutorBackend" in _command(pid)]

    def heal(self) -> None:
        self.places.compute_on()
        self.places.require_daemon().kill(children=True)
        self.places.start_daemon()
        if self._cluster is not None:
            self._cluster.stop()
        shutil.rmtree(self._folder, ignore_errors=True)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
