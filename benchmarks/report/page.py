"""`python -m benchmarks.report.page`: docs/performance.md and its plots, from benchmark results."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.__main__ import BENCHMARKS

__all__ = ["page"]

HEAD = """# Performance

Written by `python -m benchmarks.report.page` from runs of `make bench` ([how to run it](how-to/develop.md#benchmarks)).
Machines are shared and noisy: contenders take turns in one run, numbers are medians with the middle half of the rounds
beside them, and what counts is the ratio. In every benchmark the rows are compared with a recomputation; a fast wrong
answer ends it. [Where the time goes](explanation/where-the-time-goes.md) says what the phases are, and what was tried.

## What had to be met

"""


def page(documents: Sequence[dict[str, Any]], plots: dict[str, list[str]]) -> str:
    """The page's text; `plots` says by benchmark which pictures there are, relative to the page."""
    bars = [
        [bar["what"], _asked(bar), f"{bar['value']:.3g}", "met" if bar["met"] else "**not met**", _anchor(document)]
        for document in documents
        for bar in document["bars"]
    ]
    parts = [HEAD + _table(["measured in one run", "bar", "found", "", "where"], bars)]
    parts += ["\n".join(_section(document, plots.get(document["name"], []))) for document in documents]
    return "\n\n".join(parts) + "\n"


def _section(document: dict[str, Any], plots: Sequence[str]) -> Iterator[str]:
    yield f"## {document['name']}\n"
    yield f"{BENCHMARKS[document['name']].capitalize()}: {document['title']}.\n"
    yield _table(document["columns"], document["rows"])
    if document["notes"]:
        yield ""
        yield from (f"- {note}" for note in document["notes"])
    if plots:
        yield ""
        yield from (f"![{document['name']}]({plot})" for plot in plots)
    yield "\nRan on: " + ", ".join(f"{name} {value}" for name, value in document["ran_on"].items()) + "."


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [columns, ["---"] + ["---:"] * (len(columns) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def _asked(bar: dict[str, Any]) -> str:
    return f"≥ {bar['least']:g}" if bar["least"] is not None else f"≤ {bar['most']:g}"


def _anchor(document: dict[str, Any]) -> str:
    return f"[{document['name']}](#{document['name']})"


@click.command()
@click.option("--results", type=click.Path(exists=True, path_type=Path), default=Path("benchmarks/results"))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("docs"))
def main(results: Path, into: Path) -> None:
    """Write performance.md and the plots beside it."""
    found = [results / f"{name}.json" for name in BENCHMARKS if (results / f"{name}.json").exists()]
    documents = [json.loads(path.read_text()) for path in found]
    pictures = into / "performance"
    pictures.mkdir(parents=True, exist_ok=True)
    plots: dict[str, list[str]] = {}
    for document in documents:
        name = document["name"]
        for plot in sorted([*results.glob(f"{name}.png"), *results.glob(f"{name}-*.png")]):
            shutil.copy(plot, pictures / plot.name)
            plots.setdefault(name, []).append(f"performance/{plot.name}")
    (into / "performance.md").write_text(page(documents, plots))
    click.echo(f"wrote {into / 'performance.md'}: {', '.join(document['name'] for document in documents)}")


if __name__ == "__main__":
    main()
