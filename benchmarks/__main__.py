"""`python -m benchmarks [NAME …] [--profile tiny|quick|full] [--into FOLDER]`: all of them unless some are named."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click
from rich.console import Console

from benchmarks.report.report import machine, save, show

BENCHMARKS = {
    "six": "a join view over six relations on three servers (paper 001, Section 7.1)",
    "messages": "maintenance queries of SWEEP, Nested SWEEP and batches (paper 003, Table 1)",
    "planning": "how long planning a queue takes, and its share of draining it",
    "dyno": "what detection and broken queries cost (paper 001, Section 7)",
    "capture": "what capture costs a source: pgbench with and without it, and how long ALTER TABLE waits for lookups",
    "sales": "totals per customer over 1.8 million rows (paper 004, Section 5.2), and its Table 1",
    "growth": "the same batch while the relations, the view, the number of views, the queue or the join grows",
    "views": "ten changed rows and one view, or a hundred of every kind",
    "tpch": "the 22 views of TPC-H beside PostgreSQL computing them again",
    "freshness": "from a source's commit to a reader who sees it, with and without schema changes",
    "lanes": "freshness of the other views while a large one is rebuilt beside them",
    "start": "what commands cost before they say anything, and a daemon's first unit",
    "reading": "reading views beside plain tables with the same rows and indexes; their size and WAL",
    "waiting": "freshness of other views while a message waits for approval, compared with none",
    "adaptation": "each kind of adaptation compared with rebuilding the view",
}
MODULES = {"six": "six_way_join"}
"""Where the module is not called like its benchmark. Each has `run(profile) -> Report`. Profile `tiny`
measures nothing: it shows that the benchmark runs to its end, and has no bars."""


def _listed() -> str:
    return "\n".join(f"  {name:<12} {what}" for name, what in BENCHMARKS.items())


@click.command(help="Measure, check and compare.\n\n\b\n" + _listed())
@click.argument("names", nargs=-1, type=click.Choice(list(BENCHMARKS)))
@click.option("--profile", type=click.Choice(["tiny", "quick", "full"]), default="quick", show_default=True)
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=Path("benchmarks/results"))
def main(names: tuple[str, ...], profile: str, into: Path) -> None:
    console = Console()
    missed = 0
    for name in names or BENCHMARKS:
        ran_on = machine()
        console.print(f"[bold]{name}[/] ({profile}): {BENCHMARKS[name]}")
        report = importlib.import_module(f"benchmarks.scenarios.{MODULES.get(name, name)}").run(profile)
        if profile == "tiny":
            report.bars = []
        report.ran_on = {**ran_on, "profile": profile, **report.ran_on}
        show(report, console)
        for path in save(report, into):
            console.print(f"  wrote {path}", style="dim")
        missed += sum(not bar.met for bar in report.bars)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
