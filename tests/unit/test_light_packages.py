"""What a short command must not wait for: the packages that its modules leave alone until they are needed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = [
    "pyspark",
    "pandas",
    "numpy",
    "pyarrow",
    "sqlalchemy",
    "alembic",
    "sqlglot",
    "networkx",
    "matplotlib",
    "postgast",
]

LOADED = f"import json, sys; print(json.dumps([name for name in {HEAVY} if name in sys.modules]))"

NO_FUNCTIONS = """
import importlib, json, pkgutil, types
from dyda import commands
for module in pkgutil.walk_packages(commands.__path__, "dyda.commands."):
    importlib.import_module(module.name)
print(json.dumps([name for name in commands.__all__ if isinstance(getattr(commands, name), types.ModuleType)]))
"""


def _printed(program: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["dyda.cli", "dyda.commands", "dyda.open_project", "dyda.sources", "dyda.warehouse"])
def test_importing_a_package_imports_nothing_heavy(module: str) -> None:
    assert _printed(f"import {module}; {LOADED}") == []


def test_no_module_takes_the_place_of_a_command_of_its_name() -> None:
    """Python binds a module to its package when it is imported: `commands.views` must stay the function."""
    assert _printed(NO_FUNCTIONS) == []
