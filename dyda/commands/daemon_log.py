"""The daemon's log: a line for each event and each note, for people or for programs, on standard error or in a file."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dyda.errors import ConfigurationError
from dyda.event_wording import in_one_line
from dyda.model.event import Level
from dyda.passwords import hidden
from dyda.warehouse import EventRecord

__all__ = ["DaemonLog", "LogFile", "event_to_json", "moment_text"]

LARGEST, KEPT = 10 * 2**20, 5
"""Bytes of a log file, and how many older ones are kept."""

ORDER = list(Level)


class DaemonLog:
    """Called with a text, it writes a note; `event` writes an event. Threads take turns."""

    def __init__(self, write: Callable[[str], None], form: str = "human", level: Level = Level.INFO) -> None:
        """`write` gets whole lines; `form` is `human` or `json`; what matters less than `level` is left out."""
        self._write = write
        self._json = form == "json"
        self._least = ORDER.index(level)
        self._turn = threading.Lock()

    def __call__(self, text: str) -> None:
        """A note: what the daemon is doing, which is no change of a state."""
        self._line(Level.INFO, hidden(text), {})

    def event(self, event: EventRecord) -> None:
        parts = event_to_json(event)
        text = in_one_line(event.text, event.next)
        self._line(event.level, hidden(text), parts)

    def _line(self, level: Level, text: str, parts: dict[str, Any]) -> None:
        if ORDER.index(level) < self._least:
            return
        now = moment_text(datetime.datetime.now(datetime.UTC))
        if self._json:
            line = json.dumps({"at": now, "level": level, "text": text, **parts}, default=str)
        else:
            line = f"{now} {text}" if level is Level.INFO else f"{now} {level}: {text}"
        with self._turn:
            self._write(line)


def event_to_json(event: EventRecord) -> dict[str, Any]:
    """An event as `--json` answers, log lines and notifications have it."""
    return {
        "id": event.id,
        "at": moment_text(event.at),
        "kind": event.kind,
        "level": event.level,
        "view": event.view,
        "source": event.source,
        "message": event.message,
        "text": event.text,
        "next": event.next,
        "cause": event.cause,
        "details": event.details,
    }


def moment_text(moment: datetime.datetime) -> str:
    """RFC 3339, in UTC, with milliseconds."""
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class LogFile:
    """A file that lines are appended to: when it is large it becomes NAME.1, the one before NAME.2, and so on."""

    def __init__(self, path: Path, otherwise: Callable[[str], None], largest: int = LARGEST, kept: int = KEPT) -> None:
        """`otherwise` gets the lines that the file does not take: a full disk stops nobody."""
        self._path = path
        self._otherwise = otherwise
        self._largest = largest
        self._kept = kept
        try:
            self._append("")
        except OSError as error:
            raise ConfigurationError(
                f"cannot write the log file {path}: {error.strerror}", "Choose another file with --log-file."
            ) from None

    def write(self, line: str) -> None:
        try:
            if self._path.exists() and self._path.stat().st_size + len(line) > self._largest:
                self._rotate()
            self._append(f"{line}\n")
        except OSError as error:
            self._otherwise(f"{line} (not in {self._path}: {error.strerror})")

    def _append(self, text: str) -> None:
        with open(self._path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)

    def _rotate(self) -> None:
        for number in range(self._kept - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self._path}.{number}", f"{self._path}.{number + 1}")
        os.replace(self._path, f"{self._path}.1")
