"""The way of one update through the code stays as short as it is: `make walks` counts it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
CROSSINGS = {"one data update": 31, "a dropped column that is replaced": 40}
"""From package to package, at the most; 39 and 61 when they were first counted, by hand."""


def test_an_update_crosses_no_more_often_from_package_to_package() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.walks"], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False
    )
    assert not done.returncode, done.stdout + done.stderr
    counted = re.findall(r"^(.+): \d+ stops in \d+ modules, (\d+) crossings", done.stdout, re.MULTILINE)
    assert {name for name, _ in counted} == set(CROSSINGS), done.stdout
    assert all(int(crossings) <= CROSSINGS[name] for name, crossings in counted), done.stdout
    in_order = re.findall(r"^  maintenance: (.+)$", done.stdout, re.MULTILINE)
    # Before it observes, the loop asks whether a lane has something to say.
    assert in_order == ["lanes > observe > plan > execute > install"] * len(CROSSINGS), done.stdout
