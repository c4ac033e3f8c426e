"""`dyda apply` reads all files before it asks: everything that is wrong is told at once, with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from dyda import commands
from dyda.commands.requests import Requests
from dyda.errors import RefusedFiles, UnknownColumn, UnknownRelation, UnsupportedSql
from tests.town import Town


@pytest.fixture
def crm(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (id int PRIMARY KEY, name text, born date)")
    town.view("good", "SELECT c.id, c.name FROM crm.customer c")
    return town


def refused(town: Town) -> Any:
    def ask(plan: commands.ApplyPlan) -> bool:
        raise AssertionError("asked before the files were read")

    with pytest.raises((RefusedFiles, UnsupportedSql, UnknownColumn, UnknownRelation)) as error:
        commands.apply(town.folder, ask, engine=town.engine)
    return error.value


WRONG = {
    "a_parse": ("SELECT c.name\nFROM crm.customer c\nFOR UPDATE", "line 3: FOR UPDATE is not supported in a view"),
    "b_name": ("SELECT c.id,\n  c.nmae\nFROM crm.customer c", "line 2: there is no column 'nmae' here"),
    "c_type": ("SELECT c.id::text AS id\nFROM crm.customer c", "line 1: Spark SQL has no type text\nWrite STRING."),
    "d_function": (
        "SELECT c.id,\n  c.name,\n  age(born) AS age\nFROM crm.customer c",
        "line 3: Spark SQL has no function age()\nWrite months_between(a, b) or date_diff(a, b).",
    ),
    "e_types": (
        "SELECT c.id\nFROM crm.customer c\nWHERE c.id = 1\n  AND c.born + true > c.born",
        "\nCast one of them: CAST(… AS type).",
    ),
    "f_source": ("SELECT x.id FROM shop.sale x", "line 1: there is no source 'shop'"),
    "g_above": ("SELECT v.name FROM a_parse v", None),
}


def test_everything_that_is_wrong_is_told_at_once_and_before_the_question(crm: Town) -> None:
    for name, (text, _) in WRONG.items():
        crm.view(name, text)
    (crm.folder / "knowledge.toml").write_text('[[join]]\nbetween = ["crm.customer", "crm.customers"]\non = "x"\n')
    error = refused(crm)
    told = str(error)
    for name, (_, said) in WRONG.items():
        if said is None:
            assert f"views/{name}.sql" not in told, "a view above a wrong one has no error of its own"
            continue
        assert said in told, name
        assert f"views/{name}.sql, line" in told, name
    assert "views/e_types.sql, line 4: " in told
    assert "knowledge.toml" in told
    assert len(error.errors) == 7
    assert told.endswith("7 errors. Nothing was changed.")
    assert commands.views(crm.folder) == []
    with crm.maintainer() as maintainer:  # the same through a daemon, which has a Spark
        number = maintainer.opened.warehouse.submit("check", {})
        assert Requests(crm.folder, maintainer, lambda text: None).serve()
        answer = maintainer.opened.warehouse.request(number)
        assert answer.error is not None
        assert (answer.state, answer.error["what"], answer.error["remedy"]) == ("failed", error.what, error.remedy)
        with pytest.raises(Exception, match="7 errors") as failed:
            maintainer.opened.warehouse.wait(number)
        assert str(failed.value) == told, "however long it is"
    for name in WRONG:
        (crm.folder / "views" / f"{name}.sql").unlink()
    (crm.folder / "knowledge.toml").unlink()
    assert [view["name"] for view in crm.apply()["created"]] == ["good"]


def test_a_stale_file_is_told_which_message_renamed_what_it_names(crm: Town) -> None:
    crm.apply()
    crm.execute("crm", "ALTER TABLE customer RENAME name TO full_name")
    crm.settle()
    crm.view("good", "SELECT c.id,\n  upper(c.name) AS name FROM crm.customer c")
    error = refused(crm)
    assert error.what.startswith("views/good.sql, line 2: there is no column 'name' here")
    number = commands.views_history(crm.folder, "good")[-1]["changes"][0]["message"]
    assert error.remedy.startswith(
        f"name of crm.public.customer was renamed to full_name by message {number} "
        "(ALTER TABLE customer RENAME name TO full_name"
    )
    assert error.remedy.endswith(": write full_name.")
    # Another view's file, a rename that is only received yet, and the table's own.
    crm.execute("crm", "ALTER TABLE customer RENAME full_name TO label")
    crm.settle()
    crm.view("other", "SELECT c.name FROM crm.customer c")
    told = str(refused(crm))
    assert "views/other.sql, line 1" in told
    assert told.count("was renamed to label by message") == 2
    crm.execute("crm", "ALTER TABLE customer RENAME TO client")
    crm.settle()
    told = str(refused(crm))
    assert told.count("crm.public.customer was renamed to crm.public.client by message") == 2
    crm.view("good", "SELECT c.id, c.label FROM crm.client c")
    crm.view("other", "SELECT c.name FROM crm.client c")
    assert "name of crm.public.client was renamed to label by message" in refused(crm).remedy
