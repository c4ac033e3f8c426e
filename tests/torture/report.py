"""What a run has to say at its end: one table, on the terminal or as Markdown."""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from dyda import embedded
from dyda.engine.java import find_java_home

if TYPE_CHECKING:
    from tests.torture.schedule import Summary

__all__ = ["machine", "markdown", "table"]


def rows(summary: Summary) -> list[tuple[str, str]]:
    found = [
        ("seed", str(summary.seed)),
        ("seconds", f"{summary.seconds:.0f}"),
        ("transactions", str(summary.transactions)),
        ("  refused or lost at the source", str(summary.refused)),
        ("schema changes", str(summary.schema_changes)),
        ("decisions of an operator", str(sum(summary.decisions.values()))),
        *((f"  {verb}", str(count)) for verb, count in sorted(summary.decisions.items())),
        ("faults", str(sum(summary.faults.values()))),
    ]
    found += [(f"  {kind}", str(count)) for kind, count in sorted(summary.faults.items())]
    found += [(f"  {kind}", f"not possible here: {why}") for kind, why in sorted(summary.impossible.items())]
    found += [
        ("warehouse states checked", str(summary.commits)),
        ("  view states in them", str(summary.states)),
        ("reads checked", str(summary.reads)),
        ("violations", str(len(summary.violations))),
    ]
    return found + [(name, value) for name, value in machine().items()]


def table(summary: Summary) -> str:
    """One aligned table."""
    found = rows(summary)
    width = max(len(name) for name, _ in found)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in found)


PAGE = """# Results of the torture test

This is what `{command}` printed at its end, on {date:%Y-%m-%d}.
[Develop DyDa](how-to/develop.md#torture) says what it does. A warehouse state is one commit. Each view in it must equal
its definition over the source states that its positions name, as PostgreSQL recomputes it. Positions must only move
forward and agree. At rest nothing may be missing or doubled. A read is a statement of a concurrent reader: it must have
seen one such state, and so must a transaction from REPEATABLE READ up.

| what | number |
| --- | --- |
"""


def markdown(summary: Summary, command: str) -> str:
    """A page for docs/: the table with the command, the date and the machine."""
    lines = [PAGE.format(command=command, date=datetime.datetime.now(datetime.UTC)).rstrip()]
    for name, value in rows(summary):
        lines.append(f"| {'— ' if name.startswith(' ') else ''}{name.strip()} | {value} |")
    return "\n".join(lines) + "\n"


def machine() -> dict[str, str]:
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "PostgreSQL": _said([str(embedded.binaries() / "postgres"), "--version"], r"\d+(\.\d+)+"),
        "Spark": pyspark.__version__,
        "Java": _said([str(Path(find_java_home()) / "bin" / "java"), "-version"], r'version "([^"]+)"'),
    }


def _memory() -> str:
    total = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return f"{int(total[1]) / 2**20:.0f} GB" if total else "unknown"


def _said(command: list[str], pattern: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1 if found.re.groups == 1 and "version" in pattern else 0] if found else "unknown"
