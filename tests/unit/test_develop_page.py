"""docs/how-to/develop.md shows a newcomer where things are: each package is on its map, each place it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path("docs/how-to/develop.md").read_text()


def table(heading: str) -> list[list[str]]:
    """The rows of the table in one section, as cells."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return rows[2:]


MAP = {path for cells in table("Map of the tree") for path in re.findall(r"`([\w/]+)`", cells[0])}
CHANGES = {cells[0]: cells[1:] for cells in table("Where a change goes")}


def test_the_map_shows_every_package() -> None:
    packages = {
        str(file.parent)
        for top in ("dyda", "scheduler", "vs", "va", "vm")
        for file in Path(top).rglob("__init__.py")
        if "migrations" not in file.parts
    }
    assert packages - {"dyda"} <= MAP
    assert [path for path in MAP if not Path(path).is_dir()] == []


def test_the_quiz_is_long_enough() -> None:
    assert len(CHANGES) >= 15


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_starts_in_one_or_two_modules_that_exist(change: str) -> None:
    start = re.findall(r"`([\w/.]+)`", CHANGES[change][0])
    assert 1 <= len(start) <= 2
    named = re.findall(r"`([\w/.]+/[\w/.]+)`", " ".join(CHANGES[change]))
    assert [path for path in named if not Path(path).exists()] == []
