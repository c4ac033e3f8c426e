"""`dyda views show`: the definition with its effective preferences, and where the written ones contradict."""

from __future__ import annotations

import json

from dyda import commands
from tests.town import Town

VIEW = """-- dyda: extent = superset
SELECT c.name, c.phone /* dispensable */
FROM crm.customer c /* dispensable, replaceable */
WHERE c.age > 3 /* replaceable */
"""


def test_effective_preferences_and_warnings(town: Town) -> None:
    town.source("crm", "CREATE TABLE customer (name text, age int, phone text)")
    town.view("v", VIEW)
    town.apply()
    found = commands.views_show(town.folder, "v")["preferences"]
    warnings = found.pop("warnings")
    assert found == {
        "extent": "superset",
        "new_columns": "ignore",
        "columns": {"name": [], "phone": ["dispensable"]},
        "relations": {"c": []},
        "conditions": {"`c`.`age` > 3": ["replaceable"]},
    }
    assert len(warnings) == 2
    assert "c is marked dispensable, but column name" in warnings[0]
    done = town.run("views", "show", "v")
    assert ["column", "name", "no"] in [line.split() for line in done.stdout.splitlines()]
    assert "warning: c is marked dispensable" in done.stderr
    assert town.run("views", "show", "v", "--sql").stdout == VIEW
    assert json.loads(town.run("views", "show", "v", "--sql", "--json").stdout) == {"sql": VIEW}


def test_defaults_stand_where_the_file_says_nothing(town: Town) -> None:
    town.source("crm", "CREATE TABLE customer (name text, age int)")
    town.view("v", "SELECT c.name, c.age /* replaceable */ FROM crm.customer c")
    town.apply()
    file = town.folder / "dyda.toml"
    file.write_text(file.read_text() + '\n[preferences]\ndispensable = true\nextent = "any"\nnew_columns = "append"\n')
    found = commands.views_show(town.folder, "v")["preferences"]
    assert (found["extent"], found["new_columns"]) == ("any", "append")
    assert found["columns"] == {"name": ["dispensable"], "age": ["replaceable"]}
    assert found["relations"] == {"c": []}, "age must stay, and it needs c"


def test_a_broken_view_has_none(town: Town) -> None:
    town.source("crm", "CREATE TABLE customer (name text)")
    town.view("v", "SELECT c.name FROM crm.customer c")
    town.apply()
    town.execute("crm", "DROP TABLE customer")
    town.settle()
    shown = commands.views_show(town.folder, "v")
    assert shown["preferences"] is None
    assert shown["state"] == "broken"
    assert "broken" in town.run("views", "show", "v").stdout


def test_keys_and_indexes_with_their_origin(town: Town) -> None:
    town.source("crm", "CREATE TABLE customer (id int PRIMARY KEY, name text, age int)")
    town.view("v", "-- dyda: key = (id), index = (name, age)\nSELECT c.id, c.name, c.age FROM crm.customer c")
    town.view("w", "-- dyda: key = (name)\nSELECT c.id, c.name FROM crm.customer c")
    town.view("bag", "SELECT c.name FROM crm.customer c")
    town.view("one", "SELECT count(*) AS n FROM crm.customer c")
    town.apply()
    shown = {name: commands.views_show(town.folder, name)["layout"] for name in ("v", "w", "bag", "one")}
    origins = {
        name: {(tuple(index["columns"]), index["origin"]) for index in layout["indexes"] if index["origin"] != "rows"}
        for name, layout in shown.items()
    }
    assert (shown["v"]["key"], shown["v"]["declared_key"]) == (["id"], ["id"])
    assert origins["v"] == {(("id",), "derived and declared"), (("name", "age"), "declared")}
    assert (shown["w"]["key"], shown["w"]["declared_key"]) == (["id"], ["name"])
    assert origins["w"] == {(("id",), "derived"), (("name",), "declared")}
    assert (shown["bag"]["key"], shown["one"]["key"]) == (None, [])
    assert all(index["bytes"] > 0 for index in shown["v"]["indexes"])
    lines = [line.split() for line in town.run("views", "show", "v").stdout.splitlines()]
    assert ["key", "(id)"] in [line[:2] for line in lines]
    assert ["(name,", "age)", "declared"] in [line[:3] for line in lines]
    assert "none is proven" in town.run("views", "show", "bag").stdout
    assert "never more than one row" in town.run("views", "show", "one").stdout
