"""docs/how-to/first-project.md, done word by word: its commands, its tables, its view."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from dyda.embedded import EmbeddedServer
from tests.conftest import memory

pytestmark = pytest.mark.long

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "first-project.md").read_text()


@pytest.fixture
def folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="dyda-t-", dir=memory()))
    yield folder
    dyda(folder / "shop", "stop")
    shutil.rmtree(folder, ignore_errors=True)


def dyda(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "dyda", *words]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def ask(url: str, text: str) -> list[tuple[object, ...]]:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall()) if cursor.description else []
    finally:
        connection.close()


def test_the_first_project_works_as_it_is_written(folder: Path) -> None:
    tables, view = re.findall(r"```sql\n(.*?)```", PAGE, re.S)
    assert "    dyda init shop\n" in PAGE
    dyda(folder, "init", "shop")
    shop = folder / "shop"
    [source] = json.loads(dyda(shop, "sources", "--json"))
    assert source["name"] == "example"
    ask(source["url"], tables)
    (shop / "views" / "large_orders.sql").write_text(view)
    dyda(shop, "apply", "--yes")
    warehouse = EmbeddedServer.url(shop / ".dyda" / "pg" / "warehouse")
    query = "SELECT name, gross::text FROM public.large_orders ORDER BY 1"
    assert [(name, float(str(gross))) for name, gross in ask(warehouse, query)] == [("Ann", 300.0)]

    ask(source["url"], "INSERT INTO orders VALUES (3, 2, '2025-03-03', 1000)")
    dyda(shop, "daemon", "--until-idle")
    assert [(name, float(str(gross))) for name, gross in ask(warehouse, query)] == [("Ann", 300.0), ("Ben", 1200.0)]
    assert [view["state"] for view in json.loads(dyda(shop, "status", "--json"))["views"]] == ["fresh"]
    assert "lookup" in dyda(shop, "views", "explain", "large_orders")
