"""Views that are accepted: their trees, names, expressions and preferences."""

from __future__ import annotations

import pytest

from dyda.errors import UnknownColumn, UnsupportedSql
from dyda.model.algebra.nodes import ColumnRef, Join, Project, Scan, Select, ViewDefinition, conjuncts, scans
from dyda.model.preferences import Preference
from dyda.model.sql.parse import parse_view, referenced_tables
from tests.projection import projection
from tests.unit.model.conftest import Resolve

ODD = "`Old Stock`.`Größen`.`a``b\"c'd`"


def outputs(view: ViewDefinition) -> dict[str, str]:
    return {item.name: item.expression.sql for item in projection(view).items}


def conditions(view: ViewDefinition) -> list[str]:
    return sorted(expression.sql for expression in conjuncts(view.tree))


def test_the_example_of_the_interface(resolve: Resolve) -> None:
    text = """-- views/asia_customer.sql
-- dyda: extent = any, new_columns = ignore
SELECT c.name /* replaceable */, f.age /* replaceable */, f.flight_no, f.dest
FROM crm.customer c /* replaceable */
JOIN booking.flight_res f ON c.name = f.name /* replaceable */
WHERE f.dest = 'Asia' /* dispensable */
"""
    view = parse_view("asia_customer", text, resolve)
    assert (view.name, view.sql) == ("asia_customer", text)
    assert outputs(view) == {
        "name": "`c`.`name`",
        "age": "`f`.`age`",
        "flight_no": "`f`.`flight_no`",
        "dest": "`f`.`dest`",
    }
    match view.tree:
        case Project(Select(Join(Scan("c", customer), Scan("f", _), on), where), _):
            assert str(customer.name) == "crm.public.customer"
            assert on is not None
            assert on.equality == (ColumnRef("c", "name"), ColumnRef("f", "name"))
            assert where.sql == "`f`.`dest` = 'Asia'"
            assert where.equality is None
        case other:
            pytest.fail(repr(other))
    assert view.preferences.extent == "any"
    assert view.preferences.new_columns == "ignore"
    replaceable = Preference(replaceable=True)
    assert view.preferences.items == (("name", replaceable), ("age", replaceable))
    assert view.preferences.of_relation("c") == replaceable
    assert view.preferences.of_relation("f") is None
    assert view.preferences.of_condition("`c`.`name` = `f`.`name`") == replaceable
    assert view.preferences.of_condition("`f`.`dest` = 'Asia'") == Preference(dispensable=True)


def test_referenced_tables_need_no_catalog_and_know_their_lines() -> None:
    text = f"SELECT *\nFROM CRM.Customer c,\n  (booking.archive.flight_res JOIN {ODD} ON true)\nJOIN `X`.y ON 1 = 1;"
    assert referenced_tables("v", text) == [
        ("crm", None, "customer", 2),
        ("booking", "archive", "flight_res", 3),
        ("Old Stock", "Größen", "a`b\"c'd", 3),
        ("X", None, "y", 4),
    ]


def test_names_fold_to_lower_case_unless_quoted(resolve: Resolve) -> None:
    view = parse_view("v", f"SELECT C.NAME, o.`Name` AS Big, o.name AS `Small` FROM Crm.Customer C, {ODD} O", resolve)
    assert outputs(view) == {"name": "`c`.`name`", "big": "`o`.`Name`", "Small": "`o`.`name`"}


def test_odd_identifiers_everywhere(resolve: Resolve) -> None:
    text = f"""
SELECT o.`First Name`, o.`Größe` * 2 AS `a "b" 'c' ``d`` %s {{}} \\ #`, o.`select` AS `from`, o.`a"b`,
       o.`back``tick`, o.`100%`, größe_ü.`Größe` AS ÄÖÜ
FROM {ODD} AS o JOIN {ODD} größe_ü ON o.`Größe`=größe_ü.`Größe` AND o.`select` = 'from `x`.`y` -- no' """
    view = parse_view("Ansicht ü", text, resolve)
    assert outputs(view) == {
        "First Name": "`o`.`First Name`",
        "a \"b\" 'c' `d` %s {} \\ #": "`o`.`Größe` * 2",
        "from": "`o`.`select`",
        'a"b': '`o`.`a"b`',
        "back`tick": "`o`.`back``tick`",
        "100%": "`o`.`100%`",
        "äöü": "`größe_ü`.`Größe`",
    }
    assert conditions(view) == ["`o`.`Größe`=`größe_ü`.`Größe`", "`o`.`select` = 'from `x`.`y` -- no'"]
    equal = next(expression for expression in conjuncts(view.tree) if expression.equality)
    assert equal.equality == (ColumnRef("o", "Größe"), ColumnRef("größe_ü", "Größe"))
    literal = next(expression for expression in conjuncts(view.tree) if not expression.equality)
    assert literal.rendered(lambda ref: "v1") == "v1 = 'from `x`.`y` -- no'"


@pytest.mark.parametrize(
    ("written", "alias"),
    [
        ("crm.customer", "customer"),
        ("crm.customer c", "c"),
        ("crm.customer AS `C d`", "C d"),
        ("crm.public.customer", "customer"),
    ],
)
def test_an_occurrence_is_called_by_its_alias_or_its_table(resolve: Resolve, written: str, alias: str) -> None:
    view = parse_view("v", f"SELECT id FROM {written}", resolve)
    assert [scan.alias for scan in scans(view.tree)] == [alias]


@pytest.mark.parametrize("qualifier", ["customer", "crm.customer"])
def test_without_an_alias_the_relation_s_own_name_qualifies(resolve: Resolve, qualifier: str) -> None:
    view = parse_view("v", f"SELECT {qualifier}.name, {qualifier} . age + 1 AS a FROM crm.customer", resolve)
    assert outputs(view) == {"name": "`customer`.`name`", "a": "`customer`.`age` + 1"}


def test_self_join_has_two_occurrences(resolve: Resolve) -> None:
    view = parse_view(
        "v", "SELECT a.id, b.id AS other FROM crm.customer a JOIN crm.customer b ON a.age = b.age", resolve
    )
    assert [scan.alias for scan in scans(view.tree)] == ["a", "b"]
    assert len(view.relations) == 1


def test_an_equality_within_one_occurrence_carries_no_keys(resolve: Resolve) -> None:
    view = parse_view("v", "SELECT a.id FROM crm.customer a WHERE a.age = a.id", resolve)
    assert [expression.equality for expression in conjuncts(view.tree)] == [None]


@pytest.mark.parametrize(
    "written",
    [
        "a.id = b.flight_no",
        "a.id == b.flight_no",
        "(a.id = b.flight_no)",
        "((a.id) = (b.flight_no))",
        "a.id = /* key */ b.flight_no",
    ],
)
def test_equality_is_recognised(resolve: Resolve, written: str) -> None:
    view = parse_view("v", f"SELECT a.id FROM crm.customer a JOIN booking.seat b ON {written}", resolve)
    (on,) = conjuncts(view.tree)
    assert on.equality == (ColumnRef("a", "id"), ColumnRef("b", "flight_no"))


@pytest.mark.parametrize(
    "written",
    [
        "a.id <=> b.flight_no",
        "a.id = b.flight_no + 0",
        "CAST(a.id AS STRING) = b.name",
        "NOT a.id = b.flight_no",
        "a.id = b.flight_no OR a.active",
        "(a.id = b.flight_no) = a.active",
        "a.id IS NOT DISTINCT FROM b.flight_no",
        "a.id >= b.flight_no",
    ],
)
def test_R4_other_conditions_are_not_taken_for_equalities(resolve: Resolve, written: str) -> None:
    view = parse_view("v", f"SELECT a.id FROM crm.customer a JOIN booking.seat b ON {written}", resolve)
    assert [expression.equality for expression in conjuncts(view.tree)] == [None]


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("a = 1 AND b = 2", ["a = 1", "b = 2"]),
        ("(a = 1 AND (b = 2 AND c = 3))", ["a = 1", "b = 2", "c = 3"]),
        ("a = 1 AND b = 2 OR c = 3", ["a = 1 AND b = 2 OR c = 3"]),
        ("(a = 1 OR b = 2) AND c = 3", ["(a = 1 OR b = 2)", "c = 3"]),
        ("a BETWEEN 1 AND 2 AND b NOT BETWEEN c AND 3", ["a BETWEEN 1 AND 2", "b NOT BETWEEN c AND 3"]),
        ("CASE WHEN a = 1 AND b = 2 THEN true END AND c = 3", ["c = 3", "CASE WHEN a = 1 AND b = 2 THEN true END"]),
        ("NOT (a = 1 AND b = 2)", ["NOT (a = 1 AND b = 2)"]),
        ("NOT a = 1 AND b = 2", ["NOT a = 1", "b = 2"]),
        ("(a = 1) AND (b) = (2)", ["(a = 1)", "(b) = (2)"]),
        ("(a = 1) = (b = 2 AND c = 3)", ["(a = 1) = (b = 2 AND c = 3)"]),
        ("exists(array(a), x -> x > 1 AND x < b) AND c = 3", ["c = 3", "exists(array(a), x -> x > 1 AND x < b)"]),
    ],
)  # fmt: skip
def test_conjuncts_are_split_only_where_that_is_the_same(resolve: Resolve, written: str, parts: list[str]) -> None:
    def named(text: str) -> str:
        for short, long in (("a", "age"), ("b", "id"), ("c", "balance")):
            text = " ".join(
                long if word == short else word
                for word in text.replace("(", "( ").replace(")", " )").replace(",", " ,").split()
            )
        return text

    view = parse_view("v", f"SELECT name FROM crm.customer WHERE {named(written)}", resolve)
    shown = sorted(expression.rendered(lambda ref: ref.column) for expression in conjuncts(view.tree))
    assert shown == sorted(named(part) for part in parts)


def test_comments_inside_expressions_vanish_and_never_swallow_anything(resolve: Resolve) -> None:
    text = """SELECT c.age -- years
 + /* plus */ 1 AS older -- at the end
FROM crm.customer c WHERE c.age > -- more
 3 -- last"""
    view = parse_view("v", text, resolve)
    assert outputs(view) == {"older": "`c`.`age` + 1"}
    assert conditions(view) == ["`c`.`age` > 3"]


def test_parts_put_together_are_the_text_and_columns_are_what_it_reads(resolve: Resolve) -> None:
    view = parse_view(
        "v", "SELECT c.age + transform(array(c.id), age -> age + c.age)[0] AS a FROM crm.customer c", resolve
    )
    expression = projection(view).items[0].expression
    assert expression.sql == "`c`.`age` + transform(array(`c`.`id`), age -> age + `c`.`age`)[0]"
    assert expression.columns == {ColumnRef("c", "age"), ColumnRef("c", "id")}
    assert "".join(map(str, expression.parts)) == expression.sql
    assert expression.rendered(lambda ref: "x") == "x + transform(array(x), age -> age + x)[0]"


def test_star_expands_in_catalog_order(resolve: Resolve) -> None:
    view = parse_view("v", "SELECT f.*, s.`row` FROM booking.flight_res f, booking.seat s", resolve)
    assert list(outputs(view)) == ["name", "age", "flight_no", "dest", "row"]
    view = parse_view("v", "SELECT * FROM booking.flight_res", resolve)
    assert list(outputs(view)) == ["name", "age", "flight_no", "dest"]


def test_using_is_an_equality_and_its_columns_appear_once(resolve: Resolve) -> None:
    view = parse_view(
        "v",
        "SELECT *, flight_no + 1 AS next FROM booking.flight_res f JOIN booking.seat s USING (flight_no, name)",
        resolve,
    )
    assert outputs(view) == {
        "flight_no": "`f`.`flight_no`",
        "name": "`f`.`name`",
        "age": "`f`.`age`",
        "dest": "`f`.`dest`",
        "row": "`s`.`row`",
        "tags": "`s`.`tags`",
        "next": "`f`.`flight_no` + 1",
    }
    assert conditions(view) == ["`f`.`flight_no` = `s`.`flight_no`", "`f`.`name` = `s`.`name`"]
    assert all(expression.equality for expression in conjuncts(view.tree))


def test_a_join_without_a_condition_is_the_cross_join(resolve: Resolve) -> None:
    for join in ("CROSS JOIN", "JOIN", "INNER JOIN", ","):
        view = parse_view("v", f"SELECT f.dest FROM booking.flight_res f {join} booking.seat s", resolve)
        match projection(view).input:
            case Join(Scan(), Scan(), None):
                pass
            case other:
                pytest.fail(repr(other))


def test_parenthesised_joins_keep_their_scope(resolve: Resolve) -> None:
    joined = "(booking.flight_res f JOIN booking.seat s ON s.name = f.name)"
    text = f"SELECT c.id FROM crm.customer c JOIN {joined} ON c.name = s.name"
    view = parse_view("v", text, resolve)
    assert conditions(view) == ["`c`.`name` = `s`.`name`", "`s`.`name` = `f`.`name`"]
    top = projection(view).input
    assert isinstance(top, Join)
    assert isinstance(top.right, Join)


def test_types_that_travel_as_text_may_be_passed_on_or_cast_to_string(resolve: Resolve) -> None:
    text = """SELECT c.mood, (c.tags) AS tags, CAST(c.profile AS STRING) AS p, upper(c.mood::string) AS m
FROM crm.customer c WHERE CAST(c.tags AS STRING) LIKE '{%'"""
    view = parse_view("v", text, resolve)
    assert outputs(view)["tags"] == "`c`.`tags`"
    assert outputs(view)["m"] == "upper(`c`.`mood`::string)"


def test_plain_numeric_computes_as_the_setting_says(resolve: Resolve) -> None:
    view = parse_view("v", "SELECT c.wealth * 2 AS w FROM crm.customer c", resolve, plain_numeric="decimal(20,4)")
    assert outputs(view) == {"w": "`c`.`wealth` * 2"}


def test_words_that_are_no_keywords_in_spark_may_name_columns_after_a_dot(resolve: Resolve) -> None:
    view = parse_view("v", "SELECT s.row, s.`row` AS left, left(s.name, 2) AS right FROM booking.seat s", resolve)
    assert list(outputs(view)) == ["row", "left", "right"]


def test_texts_that_look_like_changing_dates_are_texts_beside_texts(resolve: Resolve) -> None:
    view = parse_view("v", "SELECT c.name FROM crm.customer c WHERE c.phone IN ('now', 'today')", resolve)
    assert conditions(view) == ["`c`.`phone` IN ('now', 'today')"]


def test_the_header_says_how_rows_are_stored(resolve: Resolve) -> None:
    text = """-- dyda: key = (Name), index = (`age`, name), extent = any
-- dyda: index = (age)
SELECT c.name, c.age FROM crm.customer c"""
    preferences = parse_view("v", text, resolve).preferences
    assert preferences.key == ("name",)
    assert preferences.indexes == (("age", "name"), ("age",))
    assert preferences.extent == "any"
    silent = parse_view("v", "SELECT c.name FROM crm.customer c", resolve).preferences
    assert (silent.key, silent.indexes) == (None, ())


def test_preferences_reach_their_components(resolve: Resolve) -> None:
    text = """/* an ordinary remark about dispensable things */
/* dyda: new_columns = append */
SELECT c.name, -- dispensable
       c.age + 1 /* replaceable and dispensable */ AS older /* and prose */
     , f.* /* dispensable */
FROM crm.customer /* replaceable */ c
JOIN booking.seat f USING (name) -- replaceable
WHERE (c.id > 1 AND c.id < 9) /* dispensable */
  AND c.active -- replaceable
"""
    with pytest.raises(UnsupportedSql, match="two output columns are called 'name'"):
        parse_view("v", text, resolve)
    preferences = parse_view("v", text.replace("c.name,", "c.phone,"), resolve).preferences
    dispensable, both, replaceable = Preference(True), Preference(True, True), Preference(False, True)
    assert preferences.new_columns == "append"
    assert preferences.extent is None
    assert dict(preferences.items) == {
        "phone": dispensable,
        "older": both,
        **dict.fromkeys(["flight_no", "name", "row", "tags"], dispensable),
    }
    assert dict(preferences.relations) == {"c": replaceable}
    assert dict(preferences.conditions) == {
        "`c`.`name` = `f`.`name`": replaceable,
        "`c`.`id` > 1": dispensable,
        "`c`.`id` < 9": dispensable,
        "`c`.`active`": replaceable,
    }


def test_an_error_at_the_source_keeps_the_place_in_the_file(resolve: Resolve) -> None:
    with pytest.raises(UnknownColumn, match=r"views/größe\.sql, line 3: there is no column 'nope'"):
        parse_view("größe", "SELECT c.id\nFROM crm.customer c\nWHERE\tnope = 1", resolve)


def test_windows_line_ends_and_a_final_semicolon(resolve: Resolve) -> None:
    view = parse_view("v", "SELECT c.id -- key\r\nFROM crm.customer c\r\nWHERE c.age > 1 -- more\r\n;\r\n", resolve)
    assert conditions(view) == ["`c`.`age` > 1"]


@pytest.mark.parametrize(
    "text", ["SELECT c.NULL.tags FROM crm.customer c", "SELECT c.name FROM crm.customer c WHERE c.NULL . tags"]
)
def test_what_sqlglot_cannot_place_is_refused(resolve: Resolve, text: str) -> None:
    with pytest.raises(UnsupportedSql):
        parse_view("v", text, resolve)
