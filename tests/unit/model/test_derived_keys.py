"""Keys of views that follow from the keys of their relations: fixtures/keys, one case a view."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dyda.model.algebra.derived_keys import DerivedKeys, derive_keys
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.sql.parse import parse_view
from tests.unit.vs.case import Schemas

FOLDER = Path(__file__).parents[3] / "fixtures" / "keys"
NAMED = "SELECT c.id, c.name FROM shop.customer c WHERE c.name IS NOT NULL"


def cases() -> list[Any]:
    found: list[Any] = []
    for path in sorted(FOLDER.glob("*.sql")):
        written = re.findall(r"^([^-\n](?:.|\n)*?);\n--> (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        found += [pytest.param(text, keys, id=f"{path.stem}: {text}") for text, keys in written]
    assert len(found) > 80
    return found


TABLES = Schemas({}).execute((FOLDER / "tables.sql").read_text(encoding="utf-8"))


def parsed(text: str, schemas: Schemas = TABLES) -> ViewDefinition:
    def view(name: str) -> ViewDefinition:
        return parse_view(name, {"named": NAMED}[name], schemas.resolve)

    return parse_view("v", text, schemas.resolve, views=view)


def derived(text: str) -> DerivedKeys:
    return derive_keys(parsed(text).tree)


@pytest.mark.parametrize(("text", "keys"), cases())
def test_the_keys_of_a_view(text: str, keys: str) -> None:
    shown = " ".join(f"({', '.join(key)})" for key in derived(text).minimal)
    assert (shown or "none") == keys
