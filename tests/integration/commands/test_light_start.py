"""Commands that only read start at once: what takes long to import is imported by the commands that need it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from dyda.warehouse.catalog import upgrade
from tests.town import Town
from tests.unit.test_light_packages import HEAVY

CHILD = f"""
import json, sys
from dyda.cli import main
try:
    main()
finally:
    print("loaded", json.dumps([name for name in {HEAVY} if name in sys.modules]), file=sys.stderr)
"""


def _loaded(*arguments: str) -> list[str]:
    """What a command had imported when it was done."""
    done = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if line.startswith("loaded "))
    return list(json.loads(line.removeprefix("loaded ")))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["status", "--help"], ["daemon", "--help"]])
def test_help_imports_nothing(arguments: list[str]) -> None:
    assert _loaded(*arguments) == []


def test_commands_that_only_read(town: Town) -> None:
    town.source("shop", "CREATE TABLE item (id int PRIMARY KEY, name text)", "INSERT INTO item VALUES (1, 'a')")
    town.view("items", "SELECT i.name FROM shop.item i")
    town.apply()
    for command in (
        ["status"],
        ["status", "--json"],
        ["events", "--since", "1h"],
        ["pending"],
        ["views"],
        ["views", "history", "items"],
        ["sources"],
        ["stop"],
    ):
        assert _loaded("-C", str(town.folder), *command) == [], command


def test_the_newest_migration_is_the_one_that_alembic_finds() -> None:
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(upgrade.__file__).parent / "migrations"))
    assert upgrade.newest() == ScriptDirectory.from_config(configuration).get_current_head()
