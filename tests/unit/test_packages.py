"""The first lines of every package list what is in it: a newcomer reads them first, so they must be true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGES = sorted(
    file.parent
    for top in ("dyda", "scheduler", "vs", "va", "vm", "benchmarks")
    for file in Path(top).rglob("__init__.py")
    if "migrations" not in file.parts
)


@pytest.mark.parametrize("package", PACKAGES, ids=str)
def test_a_package_lists_all_its_modules(package: Path) -> None:
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text()), clean=True)
    assert text, f"{package} does not say what it is"
    listed = re.findall(r"^    (\w+/?)  +\S", text, re.MULTILINE)
    modules = {file.stem for file in package.glob("*.py") if not file.stem.startswith("__")}
    folders = {f"{file.parent.name}/" for file in package.glob("*/__init__.py")}
    assert sorted(listed) == sorted(modules | folders)
