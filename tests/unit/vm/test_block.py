"""Blocks: how columns travel, and expressions over frame names."""

from __future__ import annotations

import pytest

from dyda.errors import UnknownColumn
from dyda.model.algebra.nodes import ColumnRef, Expression, Join, OutputColumn, Project, Scan, Select, ViewDefinition
from dyda.model.sql.parse import parse_view
from tests.unit.vm.builders import relation, view
from vm.join_block import JoinBlock, flatten

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
    odd = relation("s.r", {"a`b": "integer", "x y": "text"})
    number, text = ColumnRef("al`ias", "a`b"), ColumnRef("al`ias", "x y")
    parts = ("concat('`al``ias`.`x y`', ", text, ") > CAST(", number, " AS STRING)")
    expression = Expression("".join(map(str, parts)), frozenset({number, text}), parts=parts)
    block = flatten(ViewDefinition("v", "", Project(Scan("al`ias", odd), (OutputColumn("o", expression),))))
    assert block.render(expression) == "concat('`al``ias`.`x y`', v0_1) > CAST(v0_0 AS STRING)"


def test_a_lambda_variable_of_the_view_never_meets_a_frame_name() -> None:
    text = "exists(array(r.i), v0_0 -> v0_0 > 1)"
    definition = view("v", {"r": R}, [], {"o": text})
    block = flatten(ViewDefinition("v", f"SELECT {text} AS o FROM s.r r", definition.tree))
    assert block.render(block.items[0].expression) == "exists(array(_v0_0), v0_0 -> v0_0 > 1)"


def test_a_column_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(UnknownColumn, match="it has: i, n, m, t, unused"):
        flatten(view("v", {"r": R}, [], {"o": "r.missing"}))
