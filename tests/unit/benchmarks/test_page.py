"""The page about performance says what was measured, and where a bar was not met."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.report.page import page
from benchmarks.report.report import Bar, Plot, Report, save


def test_a_page_holds_tables_plots_bars_and_the_machine(tmp_path: Path) -> None:
    report = Report("six", "milliseconds", ["contender", "100 rows"], [["DyDa 1", "5.0 (4.0–6.0)"], ["a|b", "7"]])
    report.bars = [Bar("refresh ÷ DyDa", 7.25, least=6), Bar("DyDa ÷ the limit", 2.5, most=2)]
    report.plots = [Plot("t", "x", "y", {"DyDa": [(1, 2.0, 1.0, 3.0), (2, 3.0, 2.0, 4.0)]})]
    report.notes = ["postgres_fdw is missing here."]
    report.ran_on = {"date": "2026-11-17", "processor": "2 cores"}
    document, picture = save(report, tmp_path)
    text = page([json.loads(document.read_text())], {"six": [f"performance/{picture.name}"]})
    assert "| refresh ÷ DyDa | ≥ 6 | 7.25 | met | [six](#six) |" in text
    assert "| DyDa ÷ the limit | ≤ 2 | 2.5 | **not met** | [six](#six) |" in text
    assert "| DyDa 1 | 5.0 (4.0–6.0) |\n| a\\|b | 7 |" in text
    assert "- postgres_fdw is missing here.\n\n![six](performance/six.png)" in text
    assert "Ran on: date 2026-11-17, processor 2 cores." in text
    assert picture.read_bytes().startswith(b"\x89PNG")
