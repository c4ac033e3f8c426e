"""How answers look: JSON, or aligned tables. Values of users are never read as markup."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

import click
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

__all__ = ["console", "facts", "log", "progress", "say", "show_json", "state_text", "table"]

Report = Callable[[str, int, int], None]
"""Text, done and total: what the commands call to tell how far they are."""

WIDE = 100_000
"""Where nobody looks at the width (a pipe, a file), no line is cut or folded."""

COLOURS = {
    "fresh": "green",
    "equal": "green",
    "holds": "green",
    "active": "green",
    "ok": "green",
    "stale": "yellow",
    "building": "yellow",
    "resync": "yellow",
    "held": "yellow",
    "approval": "yellow",
    "rewritten": "yellow",
    "adapted": "yellow",
    "warning": "yellow",
    "skipped": "yellow",
    "unverifiable": "yellow",
    "untested": "yellow",
    "unread": "yellow",
    "retired": "yellow",
    "broken": "red",
    "different": "red",
    "violated": "red",
    "error": "red",
    "quarantined": "red",
}


class _Output(Console):
    """rich ends the program with 1 when the reader of its output goes away; for us nothing is wrong then."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(stream: TextIO | None = None) -> Console:
    """A console on standard output, or on `stream`."""
    stream = stream or sys.stdout
    width = None if stream.isatty() else WIDE
    return _Output(file=stream, width=width, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """A line of the answer."""
    click.echo(text)


def log(text: str) -> None:
    """A line for the log."""
    click.echo(text, err=True)


def show_json(value: Any) -> None:
    # Where a letter cannot be written it is escaped as JSON does it, not as the terminal would.
    readable = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    click.echo(json.dumps(value, ensure_ascii=not readable, indent=2, default=str))


def state_text(value: Any) -> Text:
    """A cell: None is empty, yes and no are words, states have their colour on terminals."""
    if value is None:
        return Text("")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:.1f}")
    if isinstance(value, list | tuple):
        return Text(", ".join(str(item) for item in value))
    if isinstance(value, Mapping):
        return Text(", ".join(f"{name} {item}" for name, item in value.items()))
    return Text(str(value), style=COLOURS.get(str(value), ""))


def table(columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, Any]], none: str) -> None:
    """Prints one line per row; `columns` are (key, heading). Without rows it says `none` on standard error."""
    if not rows:
        log(none)
        return
    grid = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, header_style="bold")
    for key, heading in columns:
        numbers = all(_is_number(row.get(key)) for row in rows) and any(row.get(key) is not None for row in rows)
        grid.add_column(heading, justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(state_text(row.get(key)) for key, _ in columns))
    console().print(grid)


def facts(pairs: Sequence[tuple[str, Any]]) -> None:
    """Prints what is known about one thing, one fact per line."""
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            grid.add_row(name, state_text(value))
    console().print(grid)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


@contextmanager
def progress() -> Iterator[Report]:
    """Shows progress on standard error: bars on a terminal, otherwise one line for each thing that begins."""
    if not sys.stderr.isatty():
        begun: set[str] = set()

        def line(text: str, done: int, total: int) -> None:
            if text not in begun:
                begun.add(text)
                log(text)

        yield line
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console(sys.stderr)) as bars:
        tasks: dict[str, TaskID] = {}

        def bar(text: str, done: int, total: int) -> None:
            if text not in tasks:
                tasks[text] = bars.add_task(text, total=total or None)
            bars.update(tasks[text], completed=done, total=total or None)

        yield bar
