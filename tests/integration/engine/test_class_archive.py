"""The archive of Spark's classes: made once, read where it fits, and never in anybody's way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from dyda.engine.class_archive import OPTIONS_OF_JAVA, archive_file, make_archive, reading_options
from dyda.engine.java import find_java_home

START = """
import sys
from pathlib import Path
from dyda.engine import Engine
from tests.integration.engine.conftest import Settings
with Engine(Settings(), archives=Path(sys.argv[1])) as engine:
    print(engine.bulk_session.range(3).count())
    runtime = engine._sessions.context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    print(list(runtime.getInputArguments()))
"""

MAKE = """
import sys
from pathlib import Path
from dyda.engine.class_archive import make_archive
make_archive(Path(sys.argv[1]))
"""


def _started(folder: Path) -> str:
    """What a process says that starts Spark with the archives in this folder alone."""
    environment = {name: value for name, value in os.environ.items() if name != OPTIONS_OF_JAVA}
    done = subprocess.run(
        [sys.executable, "-c", START, str(folder)], capture_output=True, text=True, env=environment, check=True
    )
    return done.stdout


def test_each_java_and_each_spark_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = archive_file(tmp_path)
    assert here == archive_file(tmp_path)
    monkeypatch.setattr(pyspark, "__version__", "0.0.0")
    assert archive_file(tmp_path) != here
    monkeypatch.undo()
    other = tmp_path / "java"
    other.mkdir()
    monkeypatch.setattr("dyda.engine.class_archive.find_java_home", lambda: other)
    assert archive_file(tmp_path) != here
    without = archive_file(tmp_path)
    (other / "release").write_text('JAVA_VERSION="99"')
    assert archive_file(tmp_path) != without


def test_only_what_nobody_else_can_have_written_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsa"
    assert reading_options(file) is None
    file.touch(mode=0o600)
    assert reading_options(file) is None  # no Java could write it
    file.write_bytes(b"x")
    assert str(file) in (reading_options(file) or "")
    file.chmod(0o620)
    assert reading_options(file) is None
    blank = tmp_path / "a folder"
    blank.mkdir()
    (blank / "a.jsa").write_bytes(b"x")
    assert reading_options(blank / "a.jsa") is None  # its path would be two options


def test_spark_starts_beside_an_archive_that_is_none(tmp_path: Path) -> None:
    archive_file(tmp_path).write_bytes(os.urandom(1 << 16))
    said = _started(tmp_path)
    assert said.startswith("3\n")
    assert "SharedArchiveFile" in said


@pytest.mark.long
def test_one_is_made_read_and_replaces_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OPTIONS_OF_JAVA, "")
    target = archive_file(tmp_path)
    for name in ("spark-classes-0123456789abcdef.jsa", f"{target.stem}.fresh"):
        (tmp_path / name).write_bytes(b"x")
    subprocess.run([sys.executable, "-c", MAKE, str(target)], check=True)
    assert [file.name for file in tmp_path.iterdir()] == [target.name]
    assert target.stat().st_mode & 0o777 == 0o600
    said = _started(tmp_path)
    assert said.startswith("3\n")
    # Java adds to an archive of its own classes, which the one that DyDa installs comes without.
    adds = (find_java_home() / "lib" / "server" / "classes.jsa").exists()
    assert (target.stat().st_size > 2**20) == adds
    assert (str(target) in said) == adds


def test_where_none_can_be_made_that_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dyda.engine.class_archive._use_spark", lambda: 1 / 0)
    monkeypatch.setenv(OPTIONS_OF_JAVA, "")
    target = tmp_path / "spark" / "spark-classes-1.jsa"
    make_archive(target)
    assert target.stat().st_size == 0
    assert reading_options(target) is None
