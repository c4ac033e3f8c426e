"""The adapter interface is what the code above really calls: no more, and mypy says no less."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from dyda.sources.adapter import CaptureState, Snapshot, Source

ABOVE = [
    Path("dyda/open_project.py"),
    *(file for top in ("cli", "commands", "maintenance") for file in Path("dyda", top).rglob("*.py")),
]


def _used() -> set[str]:
    """Every attribute that the code above the sources takes of anything."""
    trees = [ast.parse(file.read_text()) for file in ABOVE]
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


@pytest.mark.parametrize("interface", [CaptureState, Snapshot, Source])
def test_the_interface_has_no_member_that_nobody_calls(interface: type) -> None:
    members = {*vars(interface), *interface.__annotations__}
    found = {name for name in members if not name.startswith("_")}
    assert found
    # Read through the words that `capture` and `order` make of them.
    assert found - _used() <= {"inline_schema_changes", "commit_order"}
