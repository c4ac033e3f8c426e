"""A node over other inputs, with other expressions: whatever it is, nothing else of it changes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dyda.model.algebra.nodes import ColumnRef, Expression, Node, expressions, in_place, rebuild
from dyda.model.algebra.renaming import aliases_of, renamed
from tests.unit.vs.case import TRAVEL, view

VIEWS = [
    "SELECT c.name, upper(c.phone) AS p FROM crm.customer c, booking.flight_res f WHERE c.name = f.name AND f.age > 1",
    "SELECT c.name, f.age FROM crm.customer c FULL JOIN booking.flight_res f ON c.name = f.name AND f.age > 1",
    "SELECT c.name FROM crm.customer c WHERE EXISTS (SELECT 1 FROM booking.flight_res f WHERE f.name = c.name)",
    "SELECT c.name FROM crm.customer c WHERE c.phone NOT IN (SELECT f.dest FROM booking.flight_res f WHERE f.age > 1)",
    "SELECT f.dest, count(*) AS n, sum(DISTINCT f.age) FILTER (WHERE f.age > 1) AS s FROM booking.flight_res f"
    " GROUP BY f.dest HAVING max(f.age) > 2",
    "SELECT DISTINCT d.name FROM (SELECT c.name FROM crm.customer c) d JOIN booking.flight_res f ON d.name = f.name",
    "SELECT c.name FROM crm.customer c EXCEPT ALL SELECT f.name FROM booking.flight_res f",
]


def nodes(node: Node) -> Iterator[Node]:
    yield node
    for below in node.inputs:
        yield from nodes(below)


def exclaimed(expression: Expression) -> Expression:
    return Expression(f"!{expression.sql}", expression.columns, parts=("!", *expression.parts))


@pytest.mark.parametrize("text", VIEWS)
def test_every_expression_and_every_input_is_put_anew_and_nothing_else(text: str) -> None:
    tree = view(text, TRAVEL).tree
    for node in nodes(tree):
        assert rebuild(node, node.inputs) == node
        below = sum(1 for child in node.inputs for _ in expressions(child))
        every = [one.sql for one in expressions(node)]
        own = every[: len(every) - below]
        again = rebuild(node, node.inputs, exclaimed)
        assert type(again) is type(node)
        assert again.inputs == node.inputs
        assert [one.sql for one in expressions(again)][: len(own)] == [f"!{sql}" for sql in own]
        assert again.columns == node.columns


@pytest.mark.parametrize("text", VIEWS)
def test_renamed_there_and_back_is_the_same(text: str) -> None:
    tree = view(text, TRAVEL).tree
    names = {alias: f"{alias}_2" for alias in aliases_of(tree)}
    other = renamed(tree, names)
    assert list(aliases_of(other)) == list(names.values())
    assert {ref.alias for one in expressions(other) for ref in one.columns} <= {*names.values()}
    assert renamed(other, {new: old for old, new in names.items()}) == tree


def test_a_view_below_is_put_in_place() -> None:
    below = view("SELECT c.name FROM crm.customer c", TRAVEL, "people")
    tree = view("SELECT p.name FROM people p", TRAVEL, views={"people": below}).tree
    assert [node.view for node in nodes(tree) if hasattr(node, "view")] == ["people"]
    assert [node.view for node in nodes(in_place(tree)) if hasattr(node, "view")] == [None]
    assert in_place(tree).columns == tree.columns == (ColumnRef("", "name"),)
