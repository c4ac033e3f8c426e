"""What Spark's own analysis says of a view at creation."""

from __future__ import annotations

import pytest

from dyda.engine import Engine, OutputType
from dyda.errors import UnsupportedSql
from tests.unit.vm.builders import relation, view

R = relation(
    "s.r",
    {"i": "integer", "n": "numeric", "p": "numeric(20,10)", "t": "text", "d": "date", "b": "bytea", "m": "MOOD"},
)


def outputs(engine: Engine, item: str, conditions: tuple[str, ...] = ()) -> OutputType:
    (output,) = engine.analyse(view("v", {"r": R}, conditions, {"o": item}))
    return output


@pytest.mark.parametrize(
    ("item", "spark_type", "warehouse_type", "passthrough"),
    [
        ("r.i", "int", "integer", True),
        ("r.n", "decimal(38,18)", "numeric", True),
        ("r.p", "decimal(20,10)", "numeric(20,10)", True),
        ("r.m", "string", "text", True),
        ("r.i + 1", "int", "integer", False),
        ("r.n + 1", "decimal(38,18)", "numeric(38,18)", False),
        ("r.i / 2", "double", "double precision", False),
        ("upper(r.t)", "string", "text", False),
        ("CAST(r.m AS STRING)", "string", "text", False),
        ("r.d + INTERVAL 1 DAY", "date", "date", False),
        ("CAST(r.d AS TIMESTAMP)", "timestamp", "timestamp with time zone", False),
        ("r.i > 0", "boolean", "boolean", False),
        ("unhex(r.t)", "binary", "bytea", False),
        ("1", "int", "integer", False),
    ],
)
def test_output_types(engine: Engine, item: str, spark_type: str, warehouse_type: str, passthrough: bool) -> None:
    assert outputs(engine, item) == OutputType("o", spark_type, warehouse_type, passthrough)


@pytest.mark.parametrize(
    ("item", "says"),
    [
        ("no_such_function(r.i)", "no_such_function"),
        ("r.i + r.d + r.t", "r.d"),
        ("array(r.i)", "array<int>, which the warehouse cannot hold"),
        ("NULL", "void, which the warehouse cannot hold"),
        ("make_interval(r.i)", "interval"),
        ("rand() + r.i", "rand gives a different result each time"),
        ("uuid()", "uuid gives a different result each time"),
        ("r.n * r.n * r.p", "36 and 10 digits after the point would be rounded"),
    ],
)
def test_what_cannot_be_maintained_is_refused_with_a_reason(engine: Engine, item: str, says: str) -> None:
    with pytest.raises(UnsupportedSql, match=r"views/v\.sql: ") as caught:
        outputs(engine, item)
    assert says in caught.value.what
    assert "v0_" not in str(caught.value), "frame names are ours, not the user's"


@pytest.mark.parametrize("condition", ["true", "false", "1 = 1", "r.i > 0 AND true", "r.o"])
def test_a_condition_of_one_word_is_no_column_list_of_a_table_called_where(engine: Engine, condition: str) -> None:
    table = relation("s.r", {"i": "integer", "o": "boolean"})
    block = engine.block(view("v", {"r": table, "q": R}, [condition], {"o": "r.i + q.i"}))
    assert engine.types(block) == [OutputType("o", "int", "integer", False)]


def test_null_alone_is_refused_but_has_the_type_of_what_stands_beside_it(engine: Engine) -> None:
    blocks = [engine.block(view("v", {"r": R}, [], {"o": item})) for item in ("NULL", "r.i", "r.i + 1L")]
    assert engine.types(blocks[0]) == [OutputType("o", "void", "text", False)]
    assert engine.types(*blocks[:2]) == [OutputType("o", "int", "integer", False)]
    assert engine.types(*blocks) == [OutputType("o", "bigint", "bigint", False)]
    assert engine.types(blocks[1], blocks[1]) == [OutputType("o", "int", "integer", True)]


def test_a_product_that_keeps_every_digit_is_accepted(engine: Engine) -> None:
    assert outputs(engine, "r.n * r.p").spark_type == "decimal(38,28)"


WIDE = "CAST(r.i AS DECIMAL(38,0))"


@pytest.mark.parametrize(
    "item",
    [
        f"r.n = {WIDE}",
        f"r.n <=> {WIDE}",
        f"r.n > {WIDE}",
        f"coalesce(r.n, {WIDE})",
        f"r.n IN (1, {WIDE})",
        "r.p > 1e30BD",
    ],
)
def test_decimals_that_meet_in_a_type_that_would_round_one_are_refused(engine: Engine, item: str) -> None:
    """1.4 = 1 would hold on Spark, while no source would find the row."""
    with pytest.raises(UnsupportedSql, match=r"digits after the point would be rounded to"):
        outputs(engine, item)


def test_the_terms_of_a_union_are_not_rounded_either(engine: Engine) -> None:
    blocks = [engine.block(view("v", {"r": R}, [], {"o": item})) for item in ("r.n + 0", WIDE)]
    with pytest.raises(UnsupportedSql, match="18 digits after the point would be rounded to 0"):
        engine.types(*blocks)


@pytest.mark.parametrize("item", [f"CAST(r.n AS DECIMAL(38,0)) = {WIDE}", "r.n = r.p", "r.n = r.i", "r.n > 1.25"])
def test_decimals_that_meet_without_loss_are_accepted(engine: Engine, item: str) -> None:
    assert outputs(engine, item).spark_type == "boolean"


def test_a_condition_must_be_one(engine: Engine) -> None:
    with pytest.raises(UnsupportedSql, match=r"BOOLEAN|boolean"):
        outputs(engine, "r.i", ("r.i + 1",))


def test_names_are_case_sensitive_and_may_be_anything(engine: Engine) -> None:
    odd = relation("s.r", {"A": "integer", "a": "text", "`": "integer"})
    definition = view("v", {"x": odd}, ["x.A > 1"], {"A": "x.A", "a": "x.a"})
    assert [output.warehouse_type for output in engine.analyse(definition)] == ["integer", "text"]


def test_plain_numeric_computes_in_the_type_that_the_settings_say(engine: Engine) -> None:
    assert outputs(engine, "r.n + 0").spark_type == "decimal(38,18)"
    assert (
        engine.block(view("v", {"r": R}, [], {"o": "r.n + 0"})).occurrences[0].carried[0].spark_type == "DECIMAL(38,18)"
    )
