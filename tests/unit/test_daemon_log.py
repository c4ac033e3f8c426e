"""The daemon's log: for people and for programs, from a level on, in files that rotate."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import pytest

from dyda.commands.daemon_log import DaemonLog, LogFile
from dyda.errors import ConfigurationError
from dyda.model.event import Level
from dyda.warehouse import EventRecord

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
BROKEN = EventRecord(
    7, AT, "view.broken", "v", None, None, "view v is broken: gone.", "Run: dyda apply", {"kind": "text"}, {}
)
UNIT = EventRecord(8, AT, "unit.installed", None, None, None, "unit 1 installed", None, None, {"unit": 1})
NEWER = EventRecord(9, AT, "view.painted", "v", None, None, "view v was painted", None, None, {})


def written(form: str = "human", level: Level = Level.INFO) -> list[str]:
    lines: list[str] = []
    log = DaemonLog(lines.append, form, level)
    log("Spark is starting")
    for event in (BROKEN, UNIT, NEWER):
        log.event(event)
    return lines


def test_lines_for_people() -> None:
    moments, texts = zip(*(re.fullmatch(r"(\S+Z) (.*)", line).groups() for line in written()), strict=True)  # type: ignore[union-attr]
    assert all(datetime.datetime.fromisoformat(moment).tzinfo is not None for moment in moments)
    assert texts == (
        "Spark is starting",
        "error: view v is broken: gone. Run: dyda apply",
        "unit 1 installed",
        "view v was painted",
    )


def test_lines_for_programs() -> None:
    note, broken, unit, _ = map(json.loads, written("json"))
    assert (note["level"], note["text"]) == ("info", "Spark is starting")
    assert broken == {
        "id": 7,
        "at": "2026-01-02T03:04:05.678Z",
        "kind": "view.broken",
        "level": "error",
        "view": "v",
        "source": None,
        "message": None,
        "text": "view v is broken: gone.",
        "next": "Run: dyda apply",
        "cause": {"kind": "text"},
        "details": {},
    }
    assert unit["details"] == {"unit": 1}


@pytest.mark.parametrize("level", [Level.WARNING, Level.ERROR])
def test_what_matters_less_is_left_out(level: Level) -> None:
    assert [line.partition(" ")[2][:5] for line in written(level=level)] == ["error"]


def test_a_file_that_is_large_becomes_an_old_one(tmp_path: Path) -> None:
    otherwise: list[str] = []
    file = LogFile(tmp_path / "log", otherwise.append, largest=30, kept=2)
    for number in range(9):
        file.write(f"{number}" * 9)
    texts = {path.name: path.read_text().split() for path in tmp_path.iterdir()}
    assert texts == {
        "log": ["666666666", "777777777", "888888888"],
        "log.1": ["333333333", "444444444", "555555555"],
        "log.2": ["000000000", "111111111", "222222222"],
    }
    for number in range(3):
        file.write(f"x{number}")
    assert not (tmp_path / "log.3").exists(), "no more than are kept"
    assert otherwise == []


def test_a_file_that_takes_nothing_stops_nobody(tmp_path: Path) -> None:
    otherwise: list[str] = []
    folder = tmp_path / "logs"
    folder.mkdir()
    file = LogFile(folder / "log", otherwise.append)
    (folder / "log").unlink()
    folder.rmdir()
    file.write("something happened")
    assert otherwise == [f"something happened (not in {folder / 'log'}: No such file or directory)"]
    with pytest.raises(ConfigurationError, match="cannot write the log file"):
        LogFile(folder / "log", otherwise.append)
