"""A standalone Spark master and two workers as processes of their own: no assumption that holds on the driver only."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from dyda.engine.java import find_java_home

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]

DRIVER = """
import sys
from dyda.engine import Engine
from tests.integration.engine.conftest import Settings
from tests.integration.engine.tasks import Files, parts, read_part_without_dyda
from tests.integration.engine.test_build import READ, definition
from tests.integration.engine.test_evaluate import unit
from tests.unit.vm.builders import Memory
from tests.unit.vm.judge import rows_of
from vm import build_evaluation

master, folder, bare = sys.argv[1:]
config = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.pyspark.python": sys.executable,
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.executorEnv.PYTHONPATH": bare,
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
with Engine(Settings(master=master, config=config)) as engine:
    block = engine.block(definition())
    memory = Memory(block.by_alias, READ)
    sink = Files(folder)
    partitions = {one.alias: parts(memory.text(one), 4) for one in block.occurrences}
    written = engine.build([build_evaluation(block, partitions)], sink, read_part_without_dyda)
    executors = engine._sessions.context._jsc.sc().getExecutorMemoryStatus().size() - 1
    print("build", written, sum(sink.rows().values()), executors)
    delta = {("2", "2024-01-03 00:00:00+00", "2.50"): 1}
    for most_rows in (0, engine.prepared.most_rows):  # by a job on the cluster, and in the driver
        engine.prepared.most_rows, jobs = most_rows, engine.jobs
        found = rows_of(engine.evaluate([unit(engine, definition(), READ, {"r": delta})])[0])
        print("delta", found, engine.jobs - jobs)
"""


BARE = """
import sys

class Bare:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("dyda", "vm", "tests"):
            raise ImportError(f"{name} is not installed on executors")

sys.meta_path.insert(0, Bare())
"""


class Cluster:
    """A master and its workers, bound to loopback."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.port = _free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self.port))
        self._wait("master", "Starting Spark master")
        for number in range(workers):
            name = f"writer{number}"
            arguments = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), self.url]
            self._start(name, "org.apache.spark.deploy.worker.Worker", *arguments)
        for number in range(workers):
            self._wait(f"writer{number}", "Successfully registered with master")

    def _start(self, name: str, main: str, *arguments: str) -> None:
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java_home()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "PYTHONPATH": "",
        }
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    [program, main, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                    env=environment,
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                )
            )

    def _wait(self, name: str, text: str) -> None:
        deadline = time.monotonic() + 240
        log = self.folder / f"{name}.log"
        while text not in log.read_text(errors="replace"):
            assert time.monotonic() < deadline, log.read_text(errors="replace")
            assert all(process.poll() is None for process in self.processes), log.read_text(errors="replace")
            time.sleep(0.2)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    started = Cluster(tmp_path, workers=2)
    try:
        yield started
    finally:
        started.stop()


def test_a_build_and_a_maintenance_batch_on_a_master_and_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    """The driver is a process of its own, too: there is one Spark application per process."""
    output = tmp_path / "rows"
    output.mkdir()
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "sitecustomize.py").write_text(BARE)
    answer = subprocess.run(
        [sys.executable, "-c", DRIVER, cluster.url, str(output), str(bare)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert answer.returncode == 0, answer.stderr
    built, *deltas = answer.stdout.splitlines()
    assert built.split() == ["build", "50", "50", "2"]
    row = "('2', '2024-01-03 00:00:00+00', '5.00', '\\\\x02', '1')"
    assert deltas == [f"delta {{{row}: 1}} {jobs}" for jobs in (1, 0)]
