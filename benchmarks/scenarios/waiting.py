"""Waiting: how fresh other views are while a message waits for approval, compared with when none does.

The load and its marks are those of `freshness`. A further view reads a column of a table that the marks are in; the
column is dropped, so that view waits, and all others go on over the same table. At the end the change is approved.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.harness.measuring import progress
from benchmarks.report.report import Bar, Plot, Report
from benchmarks.scenarios.freshness import Run, Stage, stage
from dyda import commands
from tests.torture.load import SOURCES

__all__ = ["run"]

SOURCE = next(iter(SOURCES))
NOTED = f"-- dyda: extent = any\nSELECT m.client, m.note /* dispensable */ FROM {SOURCE}.mark AS m"
MOST = 1.2
DECIDED = 120.0


@dataclass(frozen=True)
class Scale:
    seconds: float
    """Of each load."""
    rate: int
    pairs: int
    """How often it is measured, alternately."""
    warm_up: float = 5.0


SCALES = {"tiny": Scale(1.0, 20, 1, 0.0), "quick": Scale(15.0, 100, 1), "full": Scale(60.0, 100, 3)}


def run(profile: str) -> Report:
    report = Report("waiting", "freshness of other views while a message waits, milliseconds", [])
    report.columns = ["a message waits", "transactions per second", "p50", "p95", "p99", "worst", "units"]
    scale = SCALES[profile]
    runs: dict[bool, list[Run]] = {False: [], True: []}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        prepared = {SOURCE: "ALTER TABLE mark ADD note text"}
        one, report.ran_on["postgres"] = stack.enter_context(
            stage(folder, 5.0, 'schema_changes = "approve"', {"noted": NOTED}, prepared)
        )
        if scale.warm_up:
            one.load(scale.rate, scale.warm_up, changing=False)
        for number in range(scale.pairs):
            for waits in (False, True):
                progress(f"{scale.rate} transactions per second{', a message waits' if waits else ''}")
                if waits:
                    _begin(one, number)
                runs[waits].append(one.load(scale.rate, scale.seconds, changing=False))
                if waits:
                    _decide(one)
        one.end()
    for waits, found in runs.items():
        for each in found:
            times = [f"{seconds * 1000:,.0f}" for seconds in (each.p50, each.p95, each.p99, each.worst)]
            report.rows.append(["yes" if waits else "no", f"{each.reached:,.1f}", *times, str(each.units)])
    without, waiting = (min(each.p99 for each in runs[waits]) for waits in (False, True))
    report.bars = [Bar("p99 while a message waits ÷ without", waiting / without, most=MOST)]
    report.plots = [_by_share(runs)]
    report.notes = [
        "One view waits for approval of a dropped column; the marks are read from the same table by another view.",
        "All views were right at the end, as PostgreSQL recomputes them.",
    ]
    report.data = {"runs": {str(waits): [asdict(each) for each in found] for waits, found in runs.items()}}
    return report


def _begin(one: Stage, number: int) -> None:
    if number:  # the view lost its column when the last change was approved
        one.town.execute(SOURCE, "ALTER TABLE mark ADD note text")
        one.town.view("noted", f"{NOTED}\nWHERE m.client >= {-number}")
        one.town.apply_somewhere()
    one.town.execute(SOURCE, "ALTER TABLE mark DROP note")
    _until(one, lambda: bool(_undecided(one)))


def _decide(one: Stage) -> None:
    for message in _undecided(one):
        commands.pending_approve(one.town.folder, message)
    _until(one, lambda: not _undecided(one))


def _undecided(one: Stage) -> list[int]:
    return [message["id"] for message in commands.pending(one.town.folder) if message["state"] == "approval"]


def _until(one: Stage, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DECIDED
    while not true():
        if time.monotonic() > deadline or not one.daemon.alive:
            raise AssertionError(f"the daemon does not go on:\n{one.daemon.text()[-4000:]}")
        time.sleep(0.05)


def _by_share(runs: dict[bool, list[Run]]) -> Plot:
    lines: dict[str, list[tuple[float, ...]]] = {
        f"{'a message waits' if waits else 'none waits'}, {number}": [
            (seconds * 1000, share) for seconds, share in each.spread
        ]
        for waits, found in runs.items()
        for number, each in enumerate(found, 1)
    }
    return Plot("how much is seen within", "milliseconds", "% of the transactions", lines, "x")
