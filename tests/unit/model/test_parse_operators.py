"""Every operator of the bag algebra, as the tree that its text becomes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dyda.errors import UnsupportedSql
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.preferences import Preference
from dyda.model.sql.parse import Views, parse_view, referenced_tables, referenced_views
from tests.unit.model.conftest import Resolve
from tests.unit.model.summary import summary

ADULTS = "SELECT c.id, c.name, c.mood FROM crm.customer c WHERE c.age > 17"

FOLDER = Path(__file__).parents[3] / "fixtures" / "trees"


def trees(which: str = "*") -> list[Any]:
    found: list[Any] = []
    for path in sorted(FOLDER.glob(f"{which}.sql")):
        cases = re.findall(r"^([^-\n](?:.|\n)*?);\n--> (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        found += [pytest.param(text, tree, id=f"{path.stem}: {text}") for text, tree in cases]
    assert len(found) > 20
    return found


@pytest.fixture
def views(resolve: Resolve) -> Views:
    def look(name: str) -> ViewDefinition:
        return parse_view(name, {"adults": ADULTS}[name], resolve)

    return look


@pytest.mark.parametrize(("text", "tree"), trees())
def test_the_tree_of_a_text(text: str, tree: str, resolve: Resolve, views: Views) -> None:
    assert summary(parse_view("v", text, resolve, views=views).tree) == tree


def test_a_view_over_a_view_needs_to_know_it(resolve: Resolve, views: Views) -> None:
    with pytest.raises(UnsupportedSql, match="line 2: the relation adults has no source in its name"):
        parse_view("v", "SELECT a.name\nFROM adults a", resolve)
    with pytest.raises(UnsupportedSql, match="adolescents is neither a common table expression here nor another view"):
        parse_view("v", "SELECT a.name FROM adolescents a", resolve, views=views)
    with pytest.raises(UnsupportedSql, match="the view v reads itself"):
        parse_view("v", "SELECT a.name FROM v a", resolve, views=views)


def test_a_lower_view_s_column_keeps_its_type(resolve: Resolve, views: Views) -> None:
    with pytest.raises(Exception, match="has type mood, which Spark cannot compute with exactly"):
        parse_view("v", "SELECT upper(a.mood) AS m FROM adults a", resolve, views=views)


def test_tables_and_views_are_found_without_a_catalog() -> None:
    text = """WITH t AS (SELECT a.x FROM s.a a JOIN lower l ON true)
SELECT * FROM t JOIN s.b USING (x)
WHERE x IN (SELECT x FROM s.c UNION ALL SELECT x FROM other) AND EXISTS (SELECT 1 FROM t)"""
    assert [(table, line) for _, _, table, line in referenced_tables("v", text)] == [("a", 1), ("b", 2), ("c", 3)]
    assert referenced_views("v", text) == [("lower", 1), ("other", 3)]


def test_preferences_inside_subqueries(resolve: Resolve) -> None:
    text = """WITH t AS (
  SELECT c.name /* replaceable */, c.age
  FROM crm.customer c -- replaceable
  WHERE (c.age > 3 AND c.id > 4) /* dispensable */
)
SELECT a.name /* dispensable */, d.n
FROM t a, t b /* dispensable */, (SELECT count(*) AS n /* dispensable */ FROM booking.seat s) d
WHERE a.name = b.name"""
    preferences = parse_view("v", text, resolve).preferences
    dispensable, replaceable = Preference(True), Preference(False, True)
    assert dict(preferences.items) == {
        "name": dispensable,
        "a.name": replaceable,
        "b.name": replaceable,
        "d.n": dispensable,
    }
    assert dict(preferences.relations) == {"c": replaceable, "c_2": replaceable, "b": dispensable}
    assert dict(preferences.conditions) == dict.fromkeys(
        ["`c`.`age` > 3", "`c`.`id` > 4", "`c_2`.`age` > 3", "`c_2`.`id` > 4"], dispensable
    )


def test_a_preference_of_a_grouping_expression_is_refused(resolve: Resolve) -> None:
    with pytest.raises(UnsupportedSql, match="follows no select item"):
        parse_view("v", "SELECT c.name FROM crm.customer c GROUP BY c.name /* dispensable */", resolve)


def test_a_preference_after_exists_or_in_is_about_its_conditions(resolve: Resolve) -> None:
    text = """SELECT c.name FROM crm.customer c
WHERE EXISTS (SELECT 1 FROM booking.seat s /* replaceable */ WHERE s.name = c.name /* replaceable */) -- dispensable
  AND c.age IN (SELECT f.age FROM booking.flight_res f) /* dispensable */
  AND c.id NOT IN (SELECT g.flight_no FROM booking.flight_res g) /* replaceable */"""
    preferences = parse_view("v", text, resolve).preferences
    dispensable, both, replaceable = Preference(True), Preference(True, True), Preference(False, True)
    assert dict(preferences.relations) == {"s": replaceable}
    assert dict(preferences.conditions) == {
        "`s`.`name` = `c`.`name`": both,
        "`c`.`age` = `f`.`age`": dispensable,
        "`c`.`id` NOT IN `g`.`flight_no`": replaceable,
    }
    nothing = "EXISTS (SELECT 1 FROM booking.seat s) /* dispensable */"
    with pytest.raises(UnsupportedSql, match="follows no select item, relation or condition"):
        parse_view("v", f"SELECT c.id FROM crm.customer c WHERE {nothing}", resolve)
