"""docs/guarantees.md names tests; each of them is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path("docs/guarantees.md").read_text()
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_the_test_that_holds_a_promise_up_exists(path: str, name: str) -> None:
    text = Path(path).read_text()
    assert f"def {name}(" in text if name else "def test_" in text


def test_every_promise_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| promise", "| ---"))]
    assert len(rows) > 30
    assert all("`tests/" in row for row in rows)
