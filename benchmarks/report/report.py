"""What a benchmark found: a table to read, JSON to compare with, a plot to look at, and the bars it had to meet."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["Bar", "Plot", "Report", "machine", "save", "show"]


@dataclass(frozen=True)
class Bar:
    """A number that must be at least, or at most, so much."""

    what: str
    value: float
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def asked(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"


@dataclass(frozen=True)
class Plot:
    """Lines over one axis: each line is a list of (x, y), or of (x, y, low, high) where there is a spread."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, ...]]]
    logarithmic: str = ""
    """'x', 'y' or 'xy': which axes are logarithmic."""


@dataclass
class Report:
    """One benchmark's outcome. `rows` are what the table shows; `data` is everything that was measured."""

    name: str
    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    plots: list[Plot] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What a reader must know: which yardstick was missing, what the shape of a curve says."""
    data: dict[str, Any] = field(default_factory=dict)
    ran_on: dict[str, str] = field(default_factory=dict)
    """Besides the machine: the servers, their settings."""


def machine() -> dict[str, str]:
    """What all of it ran on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{os.cpu_count()} cores, {platform.machine()}",
        "memory": f"{memory:.0f} GiB",
        "load before": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "spark": version("pyspark"),
        "arrow": version("pyarrow"),
    }


def show(report: Report, console: Console) -> None:
    """The table, the bars, and what to know about them."""
    table = Table(title=report.title, title_justify="left")
    for number, column in enumerate(report.columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in report.rows:
        table.add_row(*row)
    console.print(table)
    for bar in report.bars:
        word = "[green]met[/]" if bar.met else "[red]not met[/]"
        console.print(f"  {bar.what}: {bar.value:.3g} ({bar.asked}) {word}")
    for note in report.notes:
        console.print(f"  {note}", highlight=False)
    console.print("  " + ", ".join(f"{k} {v}" for k, v in report.ran_on.items()), style="dim", highlight=False)


def save(report: Report, folder: Path) -> list[Path]:
    """NAME.json and one PNG per plot."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {
        "name": report.name,
        "title": report.title,
        "ran_on": report.ran_on,
        "columns": list(report.columns),
        "rows": [list(row) for row in report.rows],
        "bars": [{**asdict(bar), "met": bar.met} for bar in report.bars],
        "notes": report.notes,
        "data": report.data,
    }
    saved = [folder / f"{report.name}.json"]
    saved[0].write_text(json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n")
    for number, plot in enumerate(report.plots, start=1):
        suffix = f"-{number}" if len(report.plots) > 1 else ""
        saved.append(folder / f"{report.name}{suffix}.png")
        _draw(plot, saved[-1])
    return saved


def _draw(plot: Plot, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for label, points in plot.lines.items():
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        (line,) = axes.plot(xs, ys, marker="o", markersize=4, label=label)
        if points and len(points[0]) == 4:
            axes.fill_between(xs, [p[2] for p in points], [p[3] for p in points], color=line.get_color(), alpha=0.15)
    if "x" in plot.logarithmic:
        axes.set_xscale("log")
    if "y" in plot.logarithmic:
        axes.set_yscale("log")
    axes.set(title=plot.title, xlabel=plot.x, ylabel=plot.y)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    figure.savefig(path, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
