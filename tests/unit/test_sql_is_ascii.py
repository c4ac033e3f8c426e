"""What we send to a server is plain ASCII: a source may have an encoding that lacks an arrow in a comment."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGES = ("dyda", "vm", "vs", "va", "scheduler")
STATEMENT = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|COPY|WITH|SET|BEGIN|LOCK)\b .*\b[a-z_]+\b")


def texts_of(file: Path) -> list[str]:
    """The string constants of a module, without its docstrings."""
    tree = ast.parse(file.read_text())
    loose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [str(node.value) for node in found if id(node) not in loose]


def test_sql_is_ascii() -> None:
    files = [file for package in PACKAGES for file in Path(package).rglob("*.sql")]
    assert files
    odd = [str(file) for file in files if not file.read_text().isascii()]
    for file in (file for part in ("sources", "warehouse") for file in Path("dyda", part).rglob("*.py")):
        odd += [f"{file}: {text}" for text in texts_of(file) if STATEMENT.match(text) and not text.isascii()]
    assert not odd, odd
