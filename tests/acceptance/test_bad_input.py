"""What people get wrong, and what they are told: one message that says what to do, never a traceback."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dyda import commands
from tests.town import Town


@pytest.fixture
def crm(town: Town) -> Town:
    town.source("crm", 'CREATE TABLE customer (name text, "Phone" text)')
    return town


def refused(town: Town, *arguments: str) -> str:
    done = town.run(*arguments, check=False)
    assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr


def test_an_unreachable_source(crm: Town) -> None:
    crm.source_url("crm", "postgresql://nobody@/nothing?host=/nonexistent-folder")
    crm.view("v", "SELECT c.name FROM crm.customer c")
    said = refused(crm, "apply", "--yes")
    assert "source crm cannot be reached" in said
    assert "[sources.crm]" in said


def test_a_wrong_password_is_never_echoed(town: Town, new_server: Callable[..., Any]) -> None:
    server = new_server()
    with psycopg2.connect(server.url()) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE ROLE ann LOGIN PASSWORD 'right'")
    (server.folder / "data" / "pg_hba.conf").write_text("local all postgres trust\nlocal all all scram-sha-256\n")
    server.stop()
    server.start()
    host = urllib.parse.quote(str(server.folder), safe="")
    town.source("crm", url=server.url())
    town.source_url("crm", f"postgresql://ann:s3cr3t-and-wrong@/postgres?host={host}")
    town.view("v", "SELECT c.name FROM crm.customer c")
    for arguments in (["apply", "--yes"], ["sources", "check"], ["sources", "--json"], ["status", "--json"]):
        done = town.run(*arguments, check=False)
        assert "s3cr3t" not in done.stdout + done.stderr, arguments
        assert "Traceback" not in done.stderr
    assert "password authentication failed" in refused(town, "apply", "--yes")


def test_a_missing_table(crm: Town) -> None:
    crm.view("v", "SELECT c.name\nFROM crm.custommer c")
    said = refused(crm, "apply", "--yes")
    assert "custommer" in said
    assert "customer" in said, "a near name is offered"


def test_a_missing_column(crm: Town) -> None:
    crm.view("v", "SELECT c.nam FROM crm.customer c")
    said = refused(crm, "apply", "--yes")
    assert "no column 'nam'" in said
    assert "name, Phone" in said


def test_an_unknown_setting(crm: Town) -> None:
    file = crm.folder / "dyda.toml"
    file.write_text(file.read_text() + "\n[spork]\nmaster = 'x'\n")
    said = refused(crm, "status")
    assert "spork" in said
    assert "spark" in said, "a near name is offered"


def test_a_view_that_does_not_parse(crm: Town) -> None:
    crm.view("v", "SELECT c.name\nFROM crm.customer c\nWHERE (c.name = 'x'")
    said = refused(crm, "apply", "--yes")
    assert "views/v.sql" in said


def test_a_duplicate_output_column(crm: Town) -> None:
    crm.view("v", "SELECT c.name, c.`Phone` AS name FROM crm.customer c")
    said = refused(crm, "apply", "--yes")
    assert "name" in said
    assert "views/v.sql" in said


def test_an_unsupported_construct_is_named_with_its_line(crm: Town) -> None:
    crm.view("v", "SELECT c.name\nFROM crm.customer c\nORDER BY c.name")
    said = refused(crm, "apply", "--yes")
    assert "ORDER BY" in said
    assert "line 3" in said


def test_a_folder_that_is_no_project(tmp_path: Path, town: Town) -> None:
    done = town.run("-C", str(tmp_path), "status", check=False)
    assert done.returncode == 1
    assert "dyda init" in done.stderr


def test_nothing_is_applied_if_one_view_is_refused(crm: Town) -> None:
    crm.view("good", "SELECT c.name FROM crm.customer c")
    crm.view("bad", "SELECT c.nam FROM crm.customer c")
    refused(crm, "apply", "--yes")
    assert crm.run("views", "--json").stdout.strip() == "[]"


def test_a_question_without_a_terminal_is_wrong_usage(crm: Town) -> None:
    crm.view("v", "SELECT c.name FROM crm.customer c")
    done = crm.run("apply", check=False)
    assert done.returncode == 2
    assert "--yes" in done.stderr


def test_unknown_names(crm: Town) -> None:
    assert "nothing" in refused(crm, "views", "show", "nothing")
    assert "99" in refused(crm, "pending", "show", "99")


KNOWLEDGE = """
[[containment]]
of = "crm.customer(name)"
is = "{is_}"
in = "shop.client(name)"
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[join", "not valid TOML"),
        ("[[containment]]\nof = 1", "is is missing"),
        (KNOWLEDGE.format(is_="subset") + "why = 'x'", "why"),
        (KNOWLEDGE.format(is_="subset").replace("client", "clients"), "Did you mean shop.public.client?"),
        (KNOWLEDGE.format(is_="subset") + KNOWLEDGE.format(is_="superset"), "contradicts"),
    ],
)
def test_a_knowledge_file_that_is_wrong(crm: Town, text: str, said: str) -> None:
    crm.source("shop", "CREATE TABLE client (name text)")
    (crm.folder / "knowledge.toml").write_text(text)
    error = refused(crm, "apply", "--yes")
    assert "knowledge.toml" in error
    assert said in error
    assert crm.run("knowledge", "--json").stdout.strip() == "[]", "and other commands do not care"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ALTER TABLE crm.customer DETACH PARTITION p"], "DETACH PARTITION p"),
        (["ALTER TABLE crm.customer DROP 'name"], "cannot be read"),
        (["DROP TABLE customer"], "--source"),
        (["DROP TABLE shop.customer"], "shop"),
        (["DROP TABLE customer", "--source", "shop"], "shop"),
        (["-f", "/nowhere.sql"], "/nowhere.sql"),
        ([" ; "], "no statement"),
    ],
)
def test_ddl_that_cannot_be_judged(crm: Town, arguments: list[str], said: str) -> None:
    assert said in refused(crm, "impact", *arguments)


def test_numbers_that_are_none(crm: Town) -> None:
    for verb in ("approve", "reject"):
        assert "message 99 is not in the queue" in refused(crm, "pending", verb, "99")
        assert crm.run("pending", verb, "x", check=False).returncode == 2
    for verb in ("history", "diff"):
        assert "there is no view 'nothing'" in refused(crm, "views", verb, "nothing")


ODD = 'He said "hi", it\'s 100% Ünïcode #count'


def test_odd_identifiers_everywhere(town: Town) -> None:
    """Quotes, spaces, percent signs and non-ASCII letters in sources, schemas, tables, columns, aliases, view names."""
    quoted, ticked = '"' + ODD.replace('"', '""') + '"', "`" + ODD + "`"
    town.source("crm", f"CREATE TABLE {quoted} ({quoted} text, k int)", f"INSERT INTO {quoted} VALUES ('x', 1)")
    town.source("Ödd sóurce", "CREATE TABLE t (k int, `v w` int)".replace("`", '"'), "INSERT INTO t VALUES (1, 10)")
    town.view(
        'Wörld\'s "best" view',
        f'SELECT a.{ticked}, b.`v w` AS `out, "put"` FROM crm.{ticked} a JOIN `Ödd sóurce`.t b ON a.k = b.k',
    )
    town.apply()
    name = 'Wörld\'s "best" view'
    assert town.extent(name) == {"x\t10": 1}
    town.execute("crm", f"INSERT INTO {quoted} VALUES ('y', 1)")
    town.execute("Ödd sóurce", "INSERT INTO t VALUES (1, 11)")
    town.settle()
    assert town.extent(name) == {"x\t10": 1, "x\t11": 1, "y\t10": 1, "y\t11": 1}
    assert [column["name"] for column in town.state(name)["columns"]] == [ODD, 'out, "put"']
    assert [answer["result"] for answer in commands.verify(town.folder, (name,), engine=town.engine)] == ["equal"]
    assert ODD in town.run("views", "show", name).stdout
