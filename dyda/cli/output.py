"""How answers look: JSON or aligned tables. User data is never interpreted, as markup or by the terminal."""

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

from dyda.cli.options import common
from dyda.model.printable import unseen, visible

__all__ = ["answered", "console", "facts", "log", "progress", "say", "say_lines", "several_lines", "show_json", "table"]

Column = str | tuple[str, str]
"""A key, which is the heading too, or a key and its heading."""

Report = Callable[[str, int, int], None]
"""Text, done and total: the commands call it to report progress."""

WIDE = 100_000
"""The width of pipes and files: no line is cut or folded."""

COLOURS = {
    "green": "fresh equal holds active ok",
    "yellow": "stale building resync held approval skipped unverifiable untested unread retired"
    " rewritten adapted warning",
    "red": "broken different violated error quarantined",
}
STYLES = {state: colour for colour, states in COLOURS.items() for state in states.split()}


class _Output(Console):
    """rich exits with 1 when the reader of its output goes away; to us that is no error."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(stream: TextIO | None = None) -> Console:
    """A console on standard output, or on `stream`."""
    stream = stream or sys.stdout
    width = None if stream.isatty() else WIDE
    return _Output(file=stream, width=width, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """A line of the answer; it may begin with an empty one."""
    click.echo(_line(text))


def say_lines(text: str) -> None:
    """Lines of the answer that were written as lines."""
    click.echo(visible(text, kept="\n\t"))


def log(text: str) -> None:
    """A line for the log; it may begin with an empty one."""
    click.echo(_line(text), err=True)


def _line(text: str) -> str:
    """One line after that, whatever the text quotes: data must not be able to forge lines."""
    line = text.removeprefix("\n")
    return text[: len(text) - len(line)] + visible(line, kept="\t")


def answered(answer: Any) -> bool:
    """Print the answer as JSON if `--json` was given; whether it was."""
    if common().json:
        show_json(answer)
    return common().json


def show_json(value: Any) -> None:
    # A character that the terminal cannot show is escaped as JSON does it.
    readable = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not readable, indent=2, default=str)
    # JSON itself escapes only C0; terminals obey more control characters than those.
    click.echo(text.translate({ord(letter): json.dumps(letter)[1:-1] for letter in unseen(text, kept="\n")}))


def _cell(value: Any) -> Text:
    """None is empty, booleans are yes and no, states have their colour on terminals."""
    if isinstance(value, Text):
        return value
    if value is None:
        return Text("")
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, float):
        return Text(f"{value:.1f}")
    if isinstance(value, list | tuple):
        return Text(visible(", ".join(str(item) for item in value)))
    if isinstance(value, Mapping):
        return Text(visible(", ".join(f"{name} {item}" for name, item in value.items())))
    return Text(visible(str(value)), style=STYLES.get(str(value), ""))


def several_lines(text: str) -> Text:
    """A cell that keeps its line breaks."""
    return Text(visible(text, kept="\n"))


def table(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], none: str = "") -> None:
    """One line per row. Without rows, `none` on standard error."""
    if not rows:
        log(none)
        return
    grid = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, header_style="bold")
    headings = dict((key, key.replace("_", " ").upper()) if isinstance(key, str) else key for key in columns)
    for key, heading in headings.items():
        numbers = all(_is_number(row.get(key)) for row in rows) and any(row.get(key) is not None for row in rows)
        grid.add_column(visible(heading), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(_cell(row.get(key)) for key in headings))
    console().print(grid)


def facts(pairs: Sequence[tuple[str, Any]]) -> None:
    """One fact per line; empty ones are left out."""
    grid = Table(box=None, pad_edge=False, show_header=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", [], {}):
            grid.add_row(visible(name), _cell(value))
    console().print(grid)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


@contextmanager
def progress() -> Iterator[Report]:
    """Progress on standard error: bars on a terminal, otherwise one line for each step that begins.

    One step runs at a time: when the next one begins, or the end is reached, it counts as complete, whatever was last
    reported. After a failure the bar stays where it was.
    """
    if not sys.stderr.isatty():
        begun: set[str] = set()

        def line(text: str, done: int, total: int) -> None:
            if text not in begun:
                begun.add(text)
                log(text)

        yield line
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(sys.stderr)) as bars:
        tasks: dict[str, TaskID] = {}

        def complete() -> None:
            for task in bars.tasks:
                if not task.finished:
                    bars.update(task.id, total=task.total or 1, completed=task.total or 1)

        def bar(text: str, done: int, total: int) -> None:
            if text not in tasks:
                complete()
                tasks[text] = bars.add_task(visible(text), total=total or None)
            bars.update(tasks[text], completed=done, total=total or None)

        yield bar
        complete()
