"""A definition written down and read again is the same view."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyda.model.algebra.nodes import Project, conjuncts, scans
from dyda.model.relation import Relation
from dyda.model.sql.parse import parse_view
from dyda.model.sql.render import render_view
from tests.projection import projection

VIEWS = [
    "SELECT c.name FROM crm.customer c",
    "SELECT * FROM booking.seat c WHERE c.flight_no > 3 AND (c.name = 'x' OR c.name = 'it''s')",
    "-- dyda: extent = any, new_columns = append\n"
    "SELECT c.name /* replaceable */ AS who, f.age + 1 AS next /* dispensable */"
    " FROM crm.customer c /* replaceable */ JOIN booking.flight_res f ON c.name = f.name /* replaceable, dispensable */"
    " WHERE f.dest = 'Asia' /* dispensable */",
    "-- dyda: key = (NAME), index = (`Großer Name`, age)\n"
    "-- dyda: new_columns = append, index = (`x``,y(`), index=(age)\n"
    "SELECT c.name, c.age, c.phone AS `Großer Name`, c.id AS `x``,y(` FROM crm.customer c",
    "/* dyda: index = (`two\nlines`) */ SELECT c.name AS `two\nlines` FROM crm.customer c",
    "SELECT a.name, b.name AS other FROM crm.customer a JOIN crm.customer b USING (age)",
    'SELECT o.`First Name`, o.`a"b` AS `x``y` FROM `Old Stock`.`Größen`.`a``b"c\'d` o',
]


@pytest.mark.parametrize("text", VIEWS)
def test_rendered_and_read_again_it_is_the_same(text: str, resolve: Callable[..., Relation]) -> None:
    view = parse_view("v", text, resolve)
    again = parse_view("v", render_view(view.tree, view.preferences), resolve)
    assert not again.star
    assert [item.name for item in projection(again).items] == [item.name for item in projection(view).items]
    assert [item.expression.sql for item in projection(again).items] == [
        item.expression.sql for item in projection(view).items
    ]
    assert list(scans(again.tree)) == list(scans(view.tree))
    assert _conditions(projection(again)) == _conditions(projection(view))
    assert again.preferences.extent == view.preferences.extent
    assert again.preferences.new_columns == view.preferences.new_columns
    assert (again.preferences.key, again.preferences.indexes) == (view.preferences.key, view.preferences.indexes)
    assert set(again.preferences.items) == set(view.preferences.items)
    assert set(again.preferences.relations) == set(view.preferences.relations)
    assert len(again.preferences.conditions) == len(view.preferences.conditions)


@pytest.mark.parametrize("name", ["line\nbreak", "'", '"', "\\", "`\n'"])
def test_lines_within_quotes_are_nobodys_to_indent(name: str, resolve: Callable[..., Relation]) -> None:
    """Indented, a text or a name that goes on over a line would be another one: other rows, or no such column."""
    text = "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "\n.'"
    column = "`" + name.replace("`", "``") + "`"
    inner = f"SELECT c.name AS {column} FROM crm.customer c WHERE c.name <> {text}"
    union = f"SELECT d.{column} FROM ({inner}) d WHERE d.{column} <> {text} UNION ALL {inner} EXCEPT {inner}"
    view = parse_view("v", union, resolve)
    once = render_view(view.tree, view.preferences)
    assert once.count(text) == 4
    assert render_view(parse_view("v", once, resolve).tree, view.preferences).count(text) == 4
    assert parse_view("v", once, resolve).names == view.names == (name,)


def _conditions(tree: Project) -> list[str]:
    return sorted(condition.sql.strip("()") for condition in conjuncts(tree))


OPERATORS = """-- dyda: extent = subset
WITH t AS (
  SELECT c.name /* replaceable */, max(c.age) AS oldest /* dispensable */
  FROM crm.customer c -- replaceable
  WHERE c.age > 3 /* dispensable */
  GROUP BY c.name HAVING count(*) > 1 /* dispensable */
)
SELECT t.name AS who /* dispensable */, s.row
FROM t /* dispensable */ LEFT JOIN booking.seat s /* replaceable */ ON s.name = t.name /* replaceable */
WHERE EXISTS (SELECT 1 FROM booking.flight_res f /* replaceable */ WHERE f.name = t.name /* dispensable */)
  AND t.oldest NOT IN (SELECT g.age FROM booking.flight_res g WHERE g.dest = t.name) /* replaceable */
UNION ALL
SELECT f.name /* replaceable */, f.dest FROM booking.flight_res f"""


def test_preferences_of_every_operator_are_written_down(resolve: Callable[..., Relation]) -> None:
    view = parse_view("v", OPERATORS, resolve)
    again = parse_view("v", render_view(view.tree, view.preferences), resolve)
    ours, theirs = view.preferences, again.preferences
    assert len(ours.items) == 3
    assert len(ours.relations) == 4
    assert len(ours.conditions) == 6
    assert (dict(ours.items), dict(ours.relations)) == (dict(theirs.items), dict(theirs.relations))
    assert (dict(ours.conditions), ours.extent) == (dict(theirs.conditions), theirs.extent)
