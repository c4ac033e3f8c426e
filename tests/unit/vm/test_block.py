"""Blocks: how columns travel, and expressions over frame names."""

from __future__ import annotations

import pytest

from dyda.errors import UnknownColumn
from dyda.model.algebra import ColumnRef, Expression, Join, OutputColumn, Project, Scan, Select, ViewDefinition
from dyda.model.parse import parse_view
from tests.unit.vm.hand import relation, view
from vm.block import JoinBlock, flatten

R = relation("s.r", {"i": "integer", "n": "numeric(10,2)", "m": "MOOD", "t": "text", "unused": "text"})


def carried(items: dict[str, str], conditions: tuple[str, ...] = ()) -> dict[str, tuple[bool, bool]]:
    """Per column: whether its text and its value travel."""
    (occurrence,) = flatten(view("v", {"r": R}, conditions, items)).occurrences
    return {one.column.name: (one.text is not None, one.value is not None) for one in occurrence.carried}


def test_a_column_that_is_only_passed_on_travels_as_text() -> None:
    assert carried({"i": "r.i", "n": "r.n", "m": "r.m"}) == {"i": (True, False), "n": (True, False), "m": (True, False)}


def test_a_column_that_is_computed_with_travels_as_a_value() -> None:
    assert carried({"i": "r.i + 1", "m": "CAST(r.m AS STRING)"}) == {"i": (False, True), "m": (False, True)}


def test_both_travel_where_the_value_does_not_print_as_the_text() -> None:
    assert carried({"i": "r.i", "n": "r.n", "t": "r.t"}, ("r.i > 0", "r.n > 0", "r.t > ''")) == {
        "i": (False, True),
        "n": (True, True),
        "t": (False, True),
    }


def test_a_side_of_a_cross_join_that_nobody_reads_still_carries_a_column() -> None:
    block = flatten(view("v", {"r": R, "s": R}, [], {"i": "r.i"}))
    assert block.by_alias["s"].columns == ("i",)
    assert block.wanted == {R.name: ("i",)}


def test_conditions_of_joins_and_selections_are_gathered_wherever_they_stand() -> None:
    def condition(alias: str) -> Expression:
        ref = ColumnRef(alias, "i")
        return Expression(f"{ref} > 0", frozenset({ref}))

    tree = Join(Select(Scan("a", R), condition("a")), Join(Scan("b", R), Scan("c", R), condition("c")), condition("b"))
    item = OutputColumn("o", Expression("`a`.`i`", frozenset({ColumnRef("a", "i")}), ColumnRef("a", "i")))
    block = flatten(ViewDefinition("v", "", Project(tree, (item,))))
    assert [occurrence.alias for occurrence in block.occurrences] == ["a", "b", "c"]
    assert {conjunct.sql for conjunct in block.conjuncts} == {"`a`.`i` > 0", "`b`.`i` > 0", "`c`.`i` > 0"}


ODD = relation("s.r", {"a`b": "integer", "x y": "text"})


def parsed(item: str) -> JoinBlock:
    return flatten(parse_view("v", f"SELECT {item} AS o FROM s.r `al``ias`", lambda source, schema, table: ODD))


def test_rendering_replaces_references_and_nothing_else() -> None:
    reference = "`al``ias`.`x y`"
    block = parsed(rf"""concat('{reference}', "it's {reference}", '\'', r'\', {reference})""")
    rendered = block.render(block.items[0].expression)
    assert rendered == rf"""concat('{reference}', "it's {reference}", '\'', r'\', v0_0)"""


def test_a_lambda_variable_cannot_capture_a_column() -> None:
    block = parsed("transform(array(`al``ias`.`a``b`), v0_0 -> v0_0 + `al``ias`.`a``b`)")
    assert block.render(block.items[0].expression) == "transform(array(_v0_0), v0_0 -> v0_0 + _v0_0)"


def test_a_column_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(UnknownColumn, match="it has: i, n, m, t, unused"):
        flatten(view("v", {"r": R}, [], {"o": "r.missing"}))
