"""`dyda psql`: the right database, the exit code of psql, and no password among the arguments."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from psycopg2.extensions import parse_dsn

from dyda import commands
from dyda.errors import DydaError
from tests.town import Town


@pytest.fixture
def crm(new_town: Callable[..., Town]) -> Town:
    town = new_town()
    town.source("crm", "CREATE TABLE only_here (a int)", "INSERT INTO only_here VALUES (41), (42)")
    return town


def test_it_opens_the_database_and_passes_its_arguments_on(crm: Town) -> None:
    done = crm.run("psql", "crm", "--", "-At", "-c", "SELECT max(a) FROM only_here")
    assert done.stdout == "42\n"
    failed = crm.run("psql", "warehouse", "--", "-v", "ON_ERROR_STOP=1", "-c", "SELECT 1 FROM only_here", check=False)
    assert failed.returncode == 1
    assert "only_here" in failed.stderr
    with pytest.raises(DydaError, match="there is no source 'crn'; this project has: warehouse, crm"):
        commands.psql(crm.folder, "crn")


def test_the_warehouse_is_the_warehouse_whatever_a_source_is_called(new_town: Callable[..., Town]) -> None:
    town = new_town()
    town.source("warehouse", "CREATE TABLE only_here (a int)")
    (_, dsn) = commands.psql(town.folder, "warehouse").arguments
    assert parse_dsn(dsn)["dbname"] == parse_dsn(town.warehouse)["dbname"]


def test_a_password_is_no_argument(crm: Town) -> None:
    url = crm.sources["crm"].replace("postgresql://postgres@", "postgresql://postgres:s3cret%20word@")
    crm.source_url("crm", url)
    call = commands.psql(crm.folder, "crm", ["-c", "SELECT 1"])
    assert call.secrets == (("PGPASSWORD", "s3cret word"),)
    assert "s3cret" not in json.dumps(call.arguments)
    assert call.arguments[2:] == ("-c", "SELECT 1")
    assert crm.run("psql", "crm", "--", "-Atc", "SELECT 1").stdout == "1\n"


def test_without_one_of_the_machines_the_embedded_servers_have_one(crm: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    call = commands.psql(crm.folder, "crm", ["-Atc", "SELECT max(a) FROM only_here"])
    assert Path(call.program).is_file()
    bare = {"PATH": "/nothing/here"}
    done = subprocess.run(
        call.arguments, executable=call.program, env=bare, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("42\n", 0), done.stderr
