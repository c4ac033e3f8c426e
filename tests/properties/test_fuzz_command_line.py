"""The command line: whatever is typed, it ends in time with 0, 1, 2 or 3, and says in one message what is wrong."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dyda.cli.main import main
from tests.properties.fuzzing import ODD_TEXT, in_time, profile

COMMANDS = [
    ["init"],
    ["sources"],
    ["sources", "check"],
    ["sources", "detach"],
    ["apply"],
    ["apply", "--yes"],
    ["daemon", "--until-idle"],
    ["status"],
    ["pending"],
    *(["pending", verb] for verb in ("show", "plan", "graph", "hold", "release", "approve", "reject", "retry", "skip")),
    ["views"],
    *(["views", verb] for verb in ("show", "history", "diff", "explain", "resync")),
    ["knowledge"],
    ["knowledge", "check"],
    ["impact"],
    ["verify"],
    ["stop"],
    [],
]
OPTIONS = [
    "--json",
    "-C",
    "--yes",
    "--help",
    "-h",
    "--version",
    "--reason",
    "--format",
    "--output",
    "--limit",
    "--sql",
    "--source",
    "-f",
    "--file",
    "--",
    "-",
    "--js",
    "--json=1",
    "-Cnowhere",
    "--limit=-1",
    "--format=gif",
]
VALUES = [
    "",
    " ",
    "1",
    "-1",
    "0x10",
    "1e3",
    "9" * 30,
    "9" * 5000,
    "²",
    "nan",
    "v",
    "..",
    "/",
    "/dev/null",
    "/dev/full",
    "nowhere/x",
    "é\udcff",
    "a\nb",
    "%s",
    "ALTER TABLE crm.customer DROP name",
    "DROP TABLE x; ' $$",
    "svg",
    "x.svg",
    "x" * 300,
    "x" * 5000,
]
WORDS = st.sampled_from(OPTIONS) | st.sampled_from(VALUES) | ODD_TEXT.filter(lambda text: "\x00" not in text)
LINES = st.builds(lambda command, words: [*command, *words], st.sampled_from(COMMANDS), st.lists(WORDS, max_size=4))


@pytest.fixture(scope="module")
def project(module_database: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with a warehouse and a source that are there, and no views: no command of it needs Spark."""
    folder = tmp_path_factory.mktemp("typed") / "p"
    (folder / "views").mkdir(parents=True)
    (folder / "dyda.toml").write_text(
        f"[warehouse]\nurl = {json.dumps(module_database('warehouse'))}\n"
        f"[sources.crm]\nurl = {json.dumps(module_database('crm'))}\n"
    )
    before = Path.cwd()
    os.chdir(folder)
    yield folder
    os.chdir(before)


def typed(words: list[str], given: str = "") -> tuple[int, str, str]:
    """`dyda words…` in this process: exit code, standard output, standard error."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape") for _ in range(2))
    arguments, sys.argv = sys.argv, ["dyda", *words]
    stdin, sys.stdin = sys.stdin, io.StringIO(given)
    limit = sys.getrecursionlimit()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), in_time(60):
            main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        sys.argv, sys.stdin = arguments, stdin
        sys.setrecursionlimit(limit)
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode("utf-8", "replace"))
    return code, texts[0], texts[1]


def require_sane(words: list[str], code: int, out: str, err: str) -> None:
    assert code in (0, 1, 2, 3), (words, code, err)
    assert "Traceback" not in out + err, (words, err)
    assert "bug in DyDa" not in err, (words, err)
    if code in (1, 2):
        assert err.strip(), f"{words} failed without a word"
        assert len(err) < 20_000, (words, len(err))


@profile(100)
@given(words=LINES, stdin=ODD_TEXT)
@example(words=["pending", "show", "9" * 30], stdin="")
@example(words=["views", "diff", "v", "9" * 30], stdin="")
@example(words=["-C", "é\udcff", "status"], stdin="")
@example(words=["views", "show", "é\udcff", "--json"], stdin="")
@example(words=["init", "x" * 300], stdin="")
@example(words=["init", "/dev/null/x"], stdin="")
@example(words=["pending", "graph", "--output", "/dev/full"], stdin="")
@example(words=["impact", "-"], stdin="\x00")
def test_anything_that_can_be_typed(project: Path, words: list[str], stdin: str) -> None:
    require_sane(words, *typed(words, stdin))


def test_folders_that_are_no_project(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "folder" / "dyda.toml").mkdir(parents=True)
    for name in ("file", "loop", "dangling", "folder", "nowhere", "file/x", "loop/x", "x" * 300, "x" * 5000, "é\udcff"):
        for command in (["status"], ["views", "--json"], ["apply", "--yes"], ["stop"]):
            words = ["-C", str(tmp_path / name), *command]
            code, out, err = typed(words)
            require_sane(words, code, out, err)
            assert code == (2 if "\udcff" in name else 1), (words, code)
            assert out == ""


# --- the real process: terminals and pipes of every kind


def process(folder: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **options.pop("env", {})}
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        [sys.executable, "-m", "dyda", "-C", os.fspath(folder), *words],
        stderr=subprocess.PIPE,
        env=environment,
        timeout=120,
        check=False,
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, **options},
    )
    return done


def test_terminals_and_pipes_of_every_kind(project: Path) -> None:
    name = "größe"
    for environment in (
        {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"COLUMNS": "1", "NO_COLOR": "1", "TERM": "dumb"},
    ):
        done = process(project, "views", "show", name, env=environment)
        read = "LANG" not in environment
        assert (done.returncode, done.stdout) == (1 if read else 2, b""), (environment, done)
        assert (b"there is no view" if read else b"use UTF-8") in done.stderr
        assert b"bug in DyDa" not in done.stderr
        done = process(project, "sources", "--json", env=environment)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)[0]["name"] == "crm"


def test_an_output_that_nobody_reads(project: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = process(project, "sources", stdout=writing)
        assert (done.returncode, done.stderr) == (0, b"")
    finally:
        os.close(writing)
    for words in (["sources"], ["--help"], ["sources", "--json"], ["pending", "graph"]):
        command = f'exec {sys.executable} -m dyda "$@" >&-'
        done = subprocess.run(
            ["sh", "-c", command, "sh", "-C", str(project), *words], stderr=subprocess.PIPE, timeout=120, check=False
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        assert b"bug in DyDa" not in done.stderr, done.stderr.decode()
    with open("/dev/full", "wb") as full:
        done = process(project, "sources", stdout=full)
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert b"bug in DyDa" not in done.stderr
