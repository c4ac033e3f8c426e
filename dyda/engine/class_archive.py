"""Spark's classes as Java keeps them from one start to the next (class data sharing): Spark starts in half the time.

    python -m dyda.engine.class_archive FILE     makes one: Spark starts, works a little, and Java writes while it ends

An archive is made once for each Java and each Spark, beside everything else, and replaces the one before. Java itself
checks that it fits and does without where it does not. Where none can be made, an empty file says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from dyda.engine.java import find_java_home

__all__ = ["OPTIONS_OF_JAVA", "Archiving", "archive_file", "make_archive", "reading_options"]

OPTIONS_OF_JAVA = "SPARK_SUBMIT_OPTS"
"""The environment variable with options for the JVM that is started."""

SILENT = "-Xlog:disable -Xlog:all=off"
"""Java would print what it thinks of an archive."""


def archive_file(folder: Path) -> Path:
    """The archive in `folder` for the Java and the Spark that would be started now."""
    home = find_java_home()
    try:
        java = (home / "release").read_bytes()
    except OSError:
        java = b""
    parts = (java, bytes(home.resolve()), pyspark.__version__.encode(), bytes(Path(pyspark.__file__).resolve()))
    return folder / f"spark-classes-{hashlib.sha256(b'|'.join(parts)).hexdigest()[:16]}.jsa"


def reading_options(file: Path) -> str | None:
    """How a JVM is told to read the archive; None if there is none, or somebody else may have written it."""
    try:
        found = file.stat()
    except OSError:
        return None
    mine = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    if not found.st_size or not mine or any(letter.isspace() for letter in str(file)):  # the launcher splits at blanks
        return None
    return f"-XX:SharedArchiveFile={file} {SILENT}"


def make_archive(target: Path) -> None:
    """Write the archive; an empty file where Java cannot. Earlier ones, and what was left half written, go."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_suffix(".fresh")
    fresh.unlink(missing_ok=True)
    os.environ[OPTIONS_OF_JAVA] = f"-XX:ArchiveClassesAtExit={fresh} {SILENT}"
    with contextlib.suppress(Exception):
        _use_spark()
    fresh.touch(mode=0o600)
    fresh.chmod(0o600)
    for older in target.parent.glob("spark-classes-*.jsa"):
        older.unlink(missing_ok=True)
    fresh.replace(target)


@dataclass(frozen=True)
class _Settings:
    """Which of them apply makes no difference to the classes."""

    master: str = "local[2]"
    timezone: str = "UTC"
    numeric: str = "decimal(38,18)"
    config: Mapping[str, str] = field(default_factory=dict)


def _use_spark() -> None:
    """What builds and units use of Spark; ends when Java has written and is gone."""
    from pyspark import SparkContext

    from dyda.engine.session import Sessions

    sessions = Sessions(_Settings())
    frame = sessions.bulk.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id bigint")
    frame.createOrReplaceTempView("numbers")
    joined = "SELECT a.id % 2 AS k, count(*), max(b.id) FROM numbers a LEFT JOIN numbers b ON a.id = b.id GROUP BY 1"
    for session in (sessions.bulk, sessions.small):
        session.createDataFrame(session.sql("SELECT 1L AS id, 'x' AS t").toArrow()).createOrReplaceTempView("row")
        session.sql("SELECT t, upper(t), CAST(id AS DECIMAL(10, 2)) FROM row").toArrow()
    sessions.bulk.sql(joined).toArrow()
    gateway: Any = SparkContext._gateway
    process = gateway.proc
    sessions.bulk.stop()
    gateway.shutdown()
    process.stdin.close()
    process.wait()  # it writes while it ends, and takes its time


class Archiving:
    """Makes an archive in a process of its own, at the lowest priority, some time from now."""

    def __init__(self, target: Path, after: float) -> None:
        self._target = target
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self._timer = threading.Timer(after, self._begin)
        self._timer.daemon = True
        self._timer.start()

    def _begin(self) -> None:
        command = [sys.executable, "-m", "dyda.engine.class_archive", str(self._target)]
        nowhere = subprocess.DEVNULL
        with self._guard, contextlib.suppress(OSError):
            self._process = subprocess.Popen(
                command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
            )

    def close(self) -> None:
        """An archive that is not finished is given up."""
        self._timer.cancel()
        with self._guard:
            process, self._process = self._process, None
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # Java, too: it would write while it ends
            process.wait()
            self._target.with_suffix(".fresh").unlink(missing_ok=True)


if __name__ == "__main__":
    os.nice(19)
    make_archive(Path(sys.argv[1]))
