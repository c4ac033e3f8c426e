"""Commands that only look work with what there is: a role that may only SELECT, a project that is new, no warehouse."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg2
import pytest

from dyda import commands
from dyda.errors import DydaError
from dyda.warehouse import Warehouse
from tests.integration.sources.conftest import as_role


@pytest.fixture
def run(database: Callable[[str], str]) -> Iterator[Callable[..., None]]:
    """Statements at a database; the roles that a test makes are gone at its end."""
    made: list[tuple[str, str]] = []

    def execute(url: str, *statements: str) -> None:
        connection = psycopg2.connect(url)
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                if statement.startswith("CREATE ROLE"):
                    made.append((url, statement.split()[2]))
        connection.close()

    yield execute
    for url, role in reversed(made):
        execute(url, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def _project(folder: Path, warehouse: str, **sources: str) -> Path:
    (folder / "views").mkdir(parents=True)
    lines = [f"[warehouse]\nurl = {json.dumps(warehouse)}\n"]
    lines += [f"[sources.{name}]\nurl = {json.dumps(url)}\n" for name, url in sources.items()]
    (folder / "dyda.toml").write_text("".join(lines))
    (folder / "dyda.toml").chmod(0o600)
    return folder


def test_status_works_for_a_role_that_may_only_look(
    database: Callable[[str], str], run: Callable[..., None], tmp_path: Path
) -> None:
    url = database("warehouse")
    run(url, "CREATE ROLE looks_owner LOGIN PASSWORD 'x'", "CREATE ROLE looks_only LOGIN PASSWORD 'x'")
    run(url, f'GRANT CREATE ON DATABASE "{url.partition("?")[0].rpartition("/")[2]}" TO looks_owner')
    folder = _project(tmp_path / "p", as_role(url, "looks_only", "x"), shop=database("shop"))
    with Warehouse.connect(as_role(url, "looks_owner", "x")) as warehouse:
        warehouse.upgrade()

    with pytest.raises(DydaError) as refused:
        commands.status(folder)
    assert "looks_only may not read" in refused.value.what
    grants = refused.value.remedy.splitlines()
    assert grants[0] == 'GRANT USAGE ON SCHEMA dyda TO "looks_only";'
    assert len(grants) == 2
    assert "dyda.view" in grants[1]
    run(as_role(url, "looks_owner", "x"), *grants)

    assert commands.status(folder)["views"] == []
    assert commands.views(folder) == []
    assert commands.pending(folder) == []
    assert commands.pending_plan(folder)["units"] == []
    with pytest.raises(DydaError, match="permission denied") as denied:
        commands.apply(folder, lambda plan: True)
    assert "SELECT" in denied.value.remedy, "and who may only look is told so"
    run(url, "UPDATE dyda.migration SET version_num = '0001'")
    with pytest.raises(DydaError, match="not of this program's version") as older:
        commands.status(folder)
    assert "looks_owner" in older.value.remedy


def test_a_new_project_shows_its_sources(
    database: Callable[[str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _project(tmp_path / "p", database("warehouse"), shop=database("shop"))
    (source,) = commands.status(folder)["sources"]
    assert source["name"] == "shop"
    assert source["reachable"] is None
    assert source["capture"] is None


def test_sources_are_checked_without_the_warehouse(database: Callable[[str], str], tmp_path: Path) -> None:
    shop = database("shop")
    folder = _project(tmp_path / "p", "postgresql://nobody@127.0.0.1:1/none", shop=shop)
    connection = psycopg2.connect(shop)
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE sale (id int)")
    connection.close()
    (folder / "views" / "sales.sql").write_text("SELECT s.id FROM shop.sale s")
    (folder / "views" / "lost.sql").write_text("SELECT s.id FROM nowhere.sale s")
    warehouse, lost, *found = commands.sources_check(folder)
    assert warehouse["level"] == "error"
    assert "the warehouse cannot be reached" in warehouse["what"]
    assert "not checked" in warehouse["what"]
    assert "there is no source 'nowhere'" in lost["what"]
    assert {finding["level"] for finding in found} == {"ok"}
    assert any("shop.public.sale: readable" in finding["what"] for finding in found)
