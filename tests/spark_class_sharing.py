"""Every JVM of the tests reads one archive of Spark's classes (`dyda.engine.class_archive`).

    python -m tests.spark_class_sharing .venv/spark-classes.jsa

`make test` writes it once; tests/conftest.py lets every JVM of the tests use it. Where Java cannot write one, the file
is left empty and the tests do without.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dyda.engine.class_archive import OPTIONS_OF_JAVA, make_archive, reading_options

__all__ = ["ARCHIVE", "share_classes"]

ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"


def share_classes() -> None:
    """Every JVM that this process and its children start reads the archive, if there is one that fits it."""
    if (options := reading_options(ARCHIVE)) is not None:
        os.environ[OPTIONS_OF_JAVA] = options


if __name__ == "__main__":
    make_archive(Path(sys.argv[1]))
