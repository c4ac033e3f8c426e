"""`dyda status --check`, what an operator must decide, and who may ask."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dyda import commands
from dyda.commands.attention import verdict
from dyda.model.event import ViewDropped
from dyda.open_project import OpenProject
from tests.integration.maintenance.test_daemons import until
from tests.town import Town


@pytest.fixture
def crm(new_town: Callable[..., Town]) -> Town:
    town = new_town('schema_changes = "approve"')
    town.source("crm", "CREATE TABLE customer (id int, name text, weight int)")
    town.execute("crm", "INSERT INTO customer VALUES (1, 'Ann', 5)")
    town.view("names", "SELECT c.name FROM crm.customer c")
    town.view("ratio", "SELECT c.id, 100 / c.weight AS share FROM crm.customer c")
    town.apply()
    return town


@contextmanager
def daemon_works(town: Town) -> Iterator[None]:
    """Somebody holds the project's lock as a daemon does, and has just polled."""
    with OpenProject.open(town.folder, town.engine) as opened, opened.warehouse.lock(role="daemon") as writer:
        writer.note_source("crm", reachable=True)
        yield


def check(town: Town) -> tuple[int, dict[str, Any], str]:
    done = town.run("status", "--check", "--json", check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == answer["code"]
    plain = town.run("status", "--check", check=False)
    assert plain.returncode == done.returncode
    return done.returncode, answer, plain.stdout


def test_exit_codes(crm: Town) -> None:
    crm.settle()
    code, answer, said = check(crm)
    assert (code, answer["daemon"], answer["problems"]) == (4, False, [])
    assert said == "no daemon works on this project. Start one: dyda daemon\n"
    with daemon_works(crm):
        assert check(crm)[::2] == (0, "all 2 views are fresh\n")
    crm.execute("crm", "INSERT INTO customer VALUES (2, 'Bob', 0)")
    crm.settle()
    with daemon_works(crm):
        code, answer, said = check(crm)
        assert code == 3
        (problem,) = answer["problems"]
        assert (problem["name"], problem["state"]) == ("ratio", "held")
        (number,) = (message["id"] for message in commands.pending(crm.folder))
        assert f"dyda pending retry {number}" in problem["next"]
        assert said.count("\n") == 1
        assert problem["next"] in said


def test_a_view_that_is_too_old(crm: Town) -> None:
    status = commands.status(crm.folder)
    status["daemon"]["running"] = True
    for state, lag, limit, code in (
        ("fresh", 0.1, 60, 0),
        ("stale", 59.0, 60, 0),
        ("stale", 61.0, 60, 3),
        ("resync", 61.0, 60, 3),
        ("building", None, 60, 0),
        ("broken", 0.0, 60, 3),
        ("held", 0.0, 60, 3),
    ):
        views = [{**view, "state": state, "lag_seconds": lag} for view in status["views"]]
        assert verdict({**status, "views": views}, limit)["code"] == code, state


def test_the_printed_command_resolves_what_is_to_be_decided(crm: Town) -> None:
    """Executed as it is printed, and nothing is left to decide."""
    crm.execute("crm", "ALTER TABLE customer DROP weight")
    with crm.maintainer() as maintainer:
        maintainer.cycle()
    (due,) = commands.status(crm.folder)["decide"]
    assert due["what"] == f"message {due['message']} waits for approval: it breaks ratio"
    shown = crm.run("status").stdout
    assert f"to decide: {due['what']}\n    {due['next']}\n" in shown
    (command,) = re.findall(r"dyda (pending approve \d+)", due["next"])
    crm.run(*command.split())
    crm.settle()
    (due,) = commands.status(crm.folder)["decide"]
    assert (due["view"], due["what"]) == ("ratio", "view ratio is broken")
    (file, command) = re.findall(r"(views/\S+\.sql).*run: dyda (\w+)", due["next"])[0]
    (crm.folder / file).write_text("SELECT c.id FROM crm.customer c")
    crm.run(command, "--yes", timeout=600)
    assert commands.status(crm.folder)["decide"] == []
    crm.check("ratio", "names")


def test_the_warehouse_is_shown_without_its_password(crm: Town) -> None:
    (crm.folder / "dyda.toml").chmod(0o600)
    text = (crm.folder / "dyda.toml").read_text()
    url = crm.warehouse.replace("postgresql://postgres@", "postgresql://postgres:x@")
    (crm.folder / "dyda.toml").write_text(text.replace(json.dumps(crm.warehouse), json.dumps(url)))
    done = crm.run("status")
    assert "warehouse: postgresql://postgres@" in done.stdout
    assert ":x@" not in done.stdout


def test_a_role_with_select_on_dyda_alone(crm: Town) -> None:
    role = f"looker_{uuid.uuid4().hex[:8]}"
    crm.in_warehouse(
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA dyda TO {role};"
        f" GRANT SELECT ON ALL TABLES IN SCHEMA dyda TO {role}; REVOKE ALL ON SCHEMA public FROM PUBLIC"
    )
    text = (crm.folder / "dyda.toml").read_text()
    mine = crm.warehouse.replace("postgresql://postgres@", f"postgresql://{role}@")
    try:
        (crm.folder / "dyda.toml").write_text(text.replace(json.dumps(crm.warehouse), json.dumps(mine)))
        with daemon_of(crm, text):
            assert crm.run("status", "--check").stdout == "all 2 views are fresh\n"
        assert [view["name"] for view in json.loads(crm.run("status", "--json").stdout)["views"]] == ["names", "ratio"]
        assert json.loads(crm.run("events", "--json").stdout)
    finally:
        (crm.folder / "dyda.toml").write_text(text)
        crm.in_warehouse(f"DROP OWNED BY {role}; DROP ROLE {role}")


@contextmanager
def daemon_of(town: Town, text: str) -> Iterator[None]:
    """The same, by the role of another dyda.toml."""
    mine = (town.folder / "dyda.toml").read_text()
    (town.folder / "dyda.toml").write_text(text)
    with daemon_works(town):
        (town.folder / "dyda.toml").write_text(mine)
        yield


def test_watching_goes_on_until_it_is_interrupted(crm: Town, tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "dyda", "-C", str(crm.folder), "status", "--watch"],
            stdout=out,
            env=os.environ,
            # As a terminal's own jobs have it, also where these tests run in the background.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    try:
        until(lambda: (tmp_path / "out").read_text().count("daemon: ") >= 2, "shown twice")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait(30)
    assert crm.run("status", "--watch", "--check", check=False).returncode == 2


def test_following_events(crm: Town) -> None:
    """Those since a moment first, then each one as it happens."""
    found: list[dict[str, Any]] = []
    count = 0

    def going_on() -> bool:
        nonlocal count
        count += 1
        if count == 2:
            with crm.maintainer() as maintainer:
                maintainer.writer.tell(ViewDropped("gone"))
        return count < 4

    for event in commands.follow_events(crm.folder, since="1h", going_on=going_on):
        found.append(event)
    kinds = [event["kind"] for event in found]
    assert kinds[:2] == ["view.building", "view.building"]
    assert kinds[-1] == "view.dropped"
    assert [event["id"] for event in found] == sorted({event["id"] for event in found})
    assert commands.events(crm.folder, since="2000-01-01T00:00:00Z", view="gone") == found[-1:]
    for wrong in ("1x", "yesterday", ""):
        done = crm.run("events", "--since", wrong, check=False)
        assert done.returncode == 2, wrong
        assert "Write an age" in done.stderr


def test_a_broken_connection_names_itself(crm: Town) -> None:
    """`--check` never says that all is well because it could not ask."""
    text = (crm.folder / "dyda.toml").read_text()
    wrong = "postgresql://nobody@/nothing?host=/nonexistent-folder"
    (crm.folder / "dyda.toml").write_text(text.replace(json.dumps(crm.warehouse), json.dumps(wrong)))
    with pytest.raises(psycopg2.OperationalError):
        psycopg2.connect(wrong)
    assert crm.run("status", "--check", check=False).returncode == 1
