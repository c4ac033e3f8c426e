"""Spark's classes as Java shares them between its processes (class data sharing): they start in half the time.

    python -m tests.spark_class_sharing .venv/spark-classes.jsa

`make test` writes the archive once; tests/conftest.py lets every JVM of the tests use it. Where Java cannot write one,
the file is left empty and the tests do without.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["ARCHIVE", "share_classes"]

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
SILENT = "-Xlog:disable -Xlog:all=off"

WORK = """
from pyspark import SparkContext
from dyda.engine.session import Sessions
from dyda.settings import SparkSettings

sessions = Sessions(SparkSettings(master="local[2]", config={}))
frame = sessions.bulk.range(0, 4, 1, 2).mapInArrow(lambda batches: batches, "id bigint")
frame.createOrReplaceTempView("numbers")
joined = "SELECT a.id % 2 AS k, count(*), max(b.id) FROM numbers a LEFT JOIN numbers b ON a.id = b.id GROUP BY 1"
for session in (sessions.bulk, sessions.small):
    session.createDataFrame(session.sql("SELECT 1L AS id, 'x' AS t").toArrow()).createOrReplaceTempView("row")
    session.sql("SELECT t, upper(t), CAST(id AS DECIMAL(10, 2)) FROM row").toArrow()
sessions.bulk.sql(joined).toArrow()
process = SparkContext._gateway.proc
sessions.bulk.stop()
SparkContext._gateway.shutdown()
process.stdin.close()
process.wait()  # it writes while it ends, and takes its time
"""


def share_classes() -> None:
    """Every JVM that this process and its children start reads the archive, if there is one that fits it."""
    if ARCHIVE.is_file() and ARCHIVE.stat().st_size:
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:SharedArchiveFile={ARCHIVE} {SILENT}"


def main() -> None:
    target = Path(sys.argv[1])
    fresh = target.with_suffix(".fresh")
    fresh.unlink(missing_ok=True)
    options = {"SPARK_SUBMIT_OPTS": f"-XX:ArchiveClassesAtExit={fresh} {SILENT}"}
    subprocess.run([sys.executable, "-c", WORK], env=os.environ | options, check=True)
    if not fresh.exists():
        fresh.touch()
    fresh.replace(target)


if __name__ == "__main__":
    main()
