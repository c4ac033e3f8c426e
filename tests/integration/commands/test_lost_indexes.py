"""A declared key that does not hold and lost indexes: logged once, and shown as long as it is so."""

from __future__ import annotations

import json

import pytest

from dyda import commands
from dyda.maintenance.cycle import Outcome
from tests.town import Town

VIEW = """-- dyda: key = (name), index = (note, id)
SELECT c.id, c.name, c.note /* dispensable */ FROM crm.customer c
"""


@pytest.fixture
def crm(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (id int, name text, note text)")
    town.execute("crm", "INSERT INTO customer VALUES (1, 'Ann', 'x'), (2, 'Bob', 'y')")
    town.view("v", VIEW)
    town.apply()
    return town


def settle(town: Town) -> list[str]:
    """Until nothing is left to do; what the log says beside that units were installed."""
    said: list[str] = []
    with town.maintainer() as maintainer:
        maintainer.log = said.append
        while maintainer.cycle() is not Outcome.IDLE:
            pass
    return [line for line in said if not line.startswith("unit ")]


def shown(town: Town) -> list[tuple[str, str]]:
    """The kinds and the sentences; `status`, `views` and `views show` have the same."""
    (status,) = commands.status(town.folder)["views"]
    (listed,) = commands.views(town.folder)
    assert status["lost"] == listed["lost"] == commands.views_show(town.folder, "v")["lost"]
    return [(lost["cause"]["kind"], lost["reason"]) for lost in status["lost"]]


def test_a_declared_key_that_rows_break(crm: Town) -> None:
    assert shown(crm) == []
    crm.execute("crm", "INSERT INTO customer VALUES (3, 'Ann', 'z')")
    (line,) = settle(crm)
    ((kind, reason),) = shown(crm)
    assert (kind, line) == ("declared_key_repeated", f"view v: {reason}")
    assert "the declared key (name) does not hold" in reason
    assert "run: dyda views resync v;" in reason
    for command in (["status"], ["views"], ["views", "show", "v"]):
        assert line in crm.run(*command).stdout
    (answer,) = json.loads(crm.run("views", "--json").stdout)
    assert answer["lost"][0]["cause"]["columns"] == ["name"]
    crm.check("v")
    crm.execute("crm", "DELETE FROM customer WHERE id = 3")
    assert settle(crm) == []
    assert len(shown(crm)) == 1, "nothing enforces it yet"
    commands.views_resync(crm.folder, "v", engine=crm.engine)
    assert shown(crm) == []
    assert "does not hold" not in crm.run("status").stdout


def test_indexes_that_a_schema_change_takes(crm: Town) -> None:
    (extent,) = {
        index["definition"].split(" ON ")[1].split(" ")[0]
        for index in commands.views_show(crm.folder, "v")["layout"]["indexes"]
    }
    crm.in_warehouse(f"CREATE INDEX mine ON {extent} (note)")
    crm.execute("crm", "ALTER TABLE customer DROP COLUMN note")
    said = settle(crm)
    found = dict(shown(crm))
    assert found.keys() == {"declared_index_lost", "handmade_index_lost"}
    assert [line for line in said if "index" in line] == [f"view v: {reason}" for _, reason in shown(crm)]
    assert "the declared index (note, id) is gone" in found["declared_index_lost"]
    assert "Change the index in views/v.sql and run: dyda apply" in found["declared_index_lost"]
    assert f"(CREATE INDEX mine ON {extent} USING btree (note))" in found["handmade_index_lost"]
    crm.execute("crm", "INSERT INTO customer VALUES (3, 'Cid')")
    settle(crm)
    assert dict(shown(crm)) == found
    crm.view("v", "-- dyda: key = (name)\nSELECT c.id, c.name FROM crm.customer c")
    crm.apply()
    assert shown(crm) == []
