"""`dyda views history` and `diff`: every version with what led to it, and what changed between two."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from dyda import commands
from dyda.errors import DydaError, UnknownView
from dyda.model.cause import Text
from dyda.warehouse import Installation, ViewChange, ViewVersion
from tests.town import Town

VIEW = """-- dyda: extent = any
SELECT c.name /* replaceable */, c.age
FROM crm.customer c /* replaceable */
WHERE c.age > 3 /* dispensable */
"""


@pytest.fixture
def crm(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (name text, age int)", "INSERT INTO customer VALUES ('Ann', 7)")
    town.view("v", VIEW)
    town.apply()
    return town


def test_a_followed_rename_and_a_changed_file_are_versions_with_their_causes(crm: Town) -> None:
    crm.execute("crm", "ALTER TABLE customer RENAME age TO years")
    crm.settle()
    crm.view("v", "SELECT c.name FROM crm.customer c")
    crm.apply()
    first, second, third = commands.views_history(crm.folder, "v")
    assert [version["version"] for version in (first, second, third)] == [1, 2, 3]
    assert (first["cause"], first["evolved"], first["sql"]) == ("created", False, VIEW)
    assert second["evolved"]
    assert second["cause"] == "column age of crm.public.customer was renamed to years"
    assert second["followed"] == ["column age of crm.public.customer was renamed to years"]
    (change,) = second["changes"]
    assert (change["source"], change["relation"], change["command"]) == ("crm", "crm.public.customer", "ALTER TABLE")
    assert change["ddl"] == "ALTER TABLE customer RENAME age TO years"
    assert second["adaptation"]["kind"] == "metadata"
    assert [column["name"] for column in second["columns"]] == ["name", "age"], "the view's own names stay"
    assert (third["cause"], third["evolved"]) == ("its file changed", False)
    assert all(version["installed_at"].endswith("Z") for version in (first, second, third))


def test_a_rewriting_is_told_with_its_runners_up(crm: Town) -> None:
    details = {
        "evolved": True,
        "changes": [
            {
                "source": "crm",
                "relation": "crm.public.customer",
                "command": "DROP TABLE",
                "ddl": "",
                "committed_at": None,
            }
        ],
        "components": ["c is people.participant p now"],
        "rewriting": {"reason": "keeps every column", "extent": "superset", "cost": 2},
        "runners_up": [{"sql": "SELECT 1", "reason": "loses age", "extent": "unknown", "cost": 1}],
        "adaptation": {"kind": "delta", "reason": "cheaper", "queries": 3, "rows": 17, "seconds": 0.25},
    }
    with crm.maintainer() as maintainer:
        record = maintainer.known.views["v"].record
        version = ViewVersion(
            "SELECT p.name FROM …", record.columns, record.relations, Text("rewritten"), details=details
        )
        positions = {source: (at, at) for source, at in record.positions.items()}
        maintainer.writer.install(Installation((ViewChange("v", version=version, positions=positions),)))
    told = commands.views_history(crm.folder, "v")[1]
    assert {key: told[key] for key in details} == details
    shown = crm.run("views", "history", "v").stdout
    for text in (
        "crm: DROP TABLE crm.public.customer",
        "c is people.participant p now",
        "keeps every column",
        "superset",
        "loses age (extent unknown, 1 source queries per update): SELECT 1",
        "delta: cheaper",
        "17 rows, 3 source queries, 0.25 s",
    ):
        assert text in shown, shown


def test_diff_shows_what_changed_and_nothing_else(crm: Town) -> None:
    crm.execute("crm", "ALTER TABLE customer RENAME age TO years")
    crm.settle()
    answer = commands.views_diff(crm.folder, "v")
    assert (answer["from"], answer["to"]) == (1, 2)
    assert answer["columns"] == {"added": [], "removed": []}
    changed = [line for line in answer["diff"][2:] if line.startswith(("-", "+"))]
    assert [line for line in changed if "c.age" not in line and "c.years" not in line and "crm." not in line] == []
    crm.view("v", "SELECT c.name FROM crm.customer c")
    crm.apply()
    assert commands.views_diff(crm.folder, "v", 1, 3)["columns"] == {"added": [], "removed": ["age"]}
    assert commands.views_diff(crm.folder, "v", 3, 3)["diff"] == []
    assert commands.views_diff(crm.folder, "v", 3, 1)["columns"] == {"added": ["age"], "removed": []}


def test_a_first_version_has_nothing_before_it(crm: Town) -> None:
    assert commands.views_diff(crm.folder, "v")["diff"] == []
    done = crm.run("views", "diff", "v")
    assert done.stdout == ""
    assert "have the same definition" in done.stderr


def test_what_is_not_there_is_a_clear_error(crm: Town) -> None:
    with pytest.raises(DydaError, match="view v has no version 7; it has: 1"):
        commands.views_diff(crm.folder, "v", 7)
    for command in (commands.views_history, commands.views_diff):
        with pytest.raises(UnknownView, match="there is no view 'w'; this project has: v"):
            command(crm.folder, "w")
    done = crm.run("views", "diff", "v", "one", check=False)
    assert done.returncode == 2


def test_the_diff_is_in_colour_on_a_terminal_only(crm: Town) -> None:
    crm.execute("crm", "ALTER TABLE customer RENAME age TO years")
    crm.settle()
    piped = crm.run("views", "diff", "v").stdout
    assert "\x1b[" not in piped
    assert json.loads(crm.run("views", "diff", "v", "--json").stdout)["diff"] == piped.splitlines()
    assert "\x1b[32m+" in on_a_terminal(crm, "views", "diff", "v")


def on_a_terminal(town: Town, *arguments: str) -> str:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "dyda", "-C", str(town.folder), *arguments]
    with subprocess.Popen(command, stdout=follower, env=os.environ | {"TERM": "xterm"}) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the terminal's other end is closed
                break
            shown += part
        assert process.wait(60) == 0
    os.close(leader)
    return shown.decode()
