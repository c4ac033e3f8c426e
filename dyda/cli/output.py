"""How answers look: JSON, or aligned tables. Values of users are never read as markup, nor by the terminal."""

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

from dyda.model.printable import unseen, visible

__all__ = [
    "console",
    "facts",
    "log",
    "progress",
    "say",
    "say_lines",
    "several_lines",
    "show_json",
    "state_text",
    "table",
]

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
    """A line of the answer; it may begin with an empty one."""
    click.echo(_line(text))


def say_lines(text: str) -> None:
    """Lines of the answer that were written as lines."""
    click.echo(visible(text, kept="\n\t"))


def log(text: str) -> None:
    """A line for the log; it may begin with an empty one."""
    click.echo(_line(text), err=True)


def _line(text: str) -> str:
    """What follows the beginning is one line, whatever it quotes: nobody else writes lines here."""
    line = text.removeprefix("\n")
    return text[: len(text) - len(line)] + visible(line, kept="\t")


def show_json(value: Any) -> None:
    # Where a letter cannot be written it is escaped as JSON does it, not as the terminal would.
    readable = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not readable, indent=2, default=str)
    # JSON itself escapes C0 alone; a terminal obeys others, too.
    click.echo(text.translate({ord(letter): json.dumps(letter)[1:-1] for letter in unseen(text, kept="\n")}))


def state_text(value: Any) -> Text:
    """A cell: None is empty, yes and no are words, states have their colour on terminals."""
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
    return Text(visible(str(value)), style=COLOURS.get(str(value), ""))


def several_lines(text: str) -> Text:
    """A cell whose lines were written as lines."""
    return Text(visible(text, kept="\n"))


def table(columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, Any]], none: str) -> None:
    """Prints one line per row; `columns` are (key, heading). Without rows it says `none` on standard error."""
    if not rows:
        log(none)
        return
    grid = Table(box=box.SIMPLE_HEAD if sys.stdout.isatty() else None, pad_edge=False, header_style="bold")
    for key, heading in columns:
        numbers = all(_is_number(row.get(key)) for row in rows) and any(row.get(key) is not None for row in rows)
        grid.add_column(visible(heading), justify="right" if numbers else "left", overflow="fold")
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
            grid.add_row(visible(name), state_text(value))
    console().print(grid)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


@contextmanager
def progress() -> Iterator[Report]:
    """Shows progress on standard error: bars on a terminal, otherwise one line for each thing that begins.

    One thing is under way at a time: when the next one begins, or all is done, the one before is complete, whatever was
    last heard of it. What fails stays where it was.
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
