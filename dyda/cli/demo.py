"""`dyda demo` on the screen: tables that follow the views, or plain lines without a terminal."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dyda.cli.options import CommonCommand
from dyda.cli.output import answered, console, log, say
from dyda.cli.views import show_verification
from dyda.model.printable import visible

if TYPE_CHECKING:
    from dyda.commands.demo.run import Frame

__all__ = ["demo_command"]

MOST_SHOWN = 7
LINE_EVERY = 2.0


@click.command("demo", cls=CommonCommand)
@click.option("--seconds", default=20.0, show_default=True, help="How long the sources are changed.")
@click.option("--seed", "chance", default=1, show_default=True, help="Other numbers give other changes.")
@click.option("--keep", type=click.Path(path_type=Path), metavar="DIR", help="Create the project here and keep it.")
def demo_command(seconds: float, chance: int, keep: Path | None) -> None:
    """Show the travel example live, on embedded databases.

    Four databases change concurrently, two of them change their schema, and two views follow. At the end the views are
    verified.
    """
    from dyda.commands.demo.run import demo

    # A terminated demo must not leave five servers behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # and not SIGINT, which a background job ignores
    screen = _Screen()
    with screen:
        answer = demo(keep, seconds, chance, screen.step, screen.watch)
    results = {view["result"] for view in answer["views"]}
    if not answered(answer):
        show_verification(answer["views"])
        verdict = "every row is correct" if results == {"equal"} else "the views are NOT verified"
        changes = f"{sum(answer['transactions'].values())} transactions at four databases"
        say(f"\n{changes}, {answer['states_seen']} view states seen: {verdict}. {answer['seconds']} s in total.")
        if answer["folder"]:
            log(f"The project is in {answer['folder']}; to look around: dyda -C {answer['folder']} status")
    if results != {"equal"}:
        sys.exit(3 if "different" in results else 1)


class _Screen(contextlib.AbstractContextManager["_Screen"]):
    """Steps and frames on standard error; on a terminal the tables are updated in place."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._last_line = -LINE_EVERY
        self._unsaid: Frame | None = None
        self._before: dict[str, Counter[tuple[Any, ...]]] = {}
        self._moving = sys.stderr.isatty()

    def __exit__(self, *failure: object) -> None:
        self._end_table()

    def step(self, text: str) -> None:
        self._end_table()
        for line in f"• {text}".splitlines():
            log(line)

    def watch(self, frame: Frame) -> None:
        if self._moving:
            if self._live is None:
                self._live = Live(console=console(sys.stderr), auto_refresh=False)
                self._live.start()
            self._live.update(self._picture(frame), refresh=True)
            return
        self._unsaid = frame
        if frame.elapsed - self._last_line >= LINE_EVERY:
            self._last_line = frame.elapsed
            self._say_frame()

    def _say_frame(self) -> None:
        if self._unsaid is not None:
            log(f"  {_summary(self._unsaid)}")
            self._unsaid = None

    def _end_table(self) -> None:
        self._say_frame()
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _picture(self, frame: Frame) -> Group:
        tables = [self._table(view, frame) for view in frame.rows]
        return Group(*tables, Text(_summary(frame)))

    def _table(self, view: str, frame: Frame) -> Table:
        now = Counter(frame.rows[view])
        before = self._before.get(view, now)
        self._before[view] = now
        title = Text(f"{view}, {now.total()} rows", style="bold")
        grid = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, min_width=60)
        for name in frame.columns[view]:
            grid.add_column(Text(visible(name)))
        # New rows first, in green, so that changes are visible however long the table is.
        shown = sorted(now.elements(), key=lambda row: row in before)[:MOST_SHOWN]
        for row in shown:
            grid.add_row(*(Text(visible(str(value))) for value in row), style="" if row in before else "green")
        # Always the same height: a table that grows and shrinks is hard to watch.
        for _ in range(MOST_SHOWN - len(shown)):
            grid.add_row("")
        return grid


def _summary(frame: Frame) -> str:
    views = ", ".join(f"{view} {len(rows)} rows" for view, rows in frame.rows.items())
    commits = ", ".join(f"{source} {count}" for source, count in frame.committed.items())
    what = "changing" if frame.following else "sources idle"
    return f"{frame.elapsed:4.0f} s  {what}; commits: {commits}; {views}"
