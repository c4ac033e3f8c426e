"""Spark's own analysis of a view, over empty frames: no data, no job. What it refuses is refused at creation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from dyda.engine.refusals import refused_by_spark
from dyda.errors import UnsupportedSql
from dyda.model.algebra.nodes import Expression
from dyda.model.types import warehouse_type
from vm.join_block import JoinBlock, Occurrence

__all__ = ["OutputType", "analyse_blocks", "refuse_untyped"]

MAXIMUM_SCALE = 38

UNTYPED = "void"


@dataclass(frozen=True)
class OutputType:
    """One column of a view: its type on Spark, its type in the warehouse, and whether it is only passed on."""

    name: str
    spark_type: str
    warehouse_type: str
    passthrough: bool


def analyse_blocks(session: SparkSession, blocks: Sequence[JoinBlock]) -> list[OutputType]:
    """The output types of UNION ALL of the blocks, or UnsupportedSql with Spark's reason or the cast to write."""
    block = blocks[0]
    try:
        plan = session.sql(" UNION ALL ".join(_query(one) for one in blocks))
        types = [field.dataType.simpleString() for field in plan.schema.fields]
    except PySparkException as error:
        # Also what constant expressions raise, which are evaluated during analysis: 1 / 0, CAST('x' AS INT).
        raise refused_by_spark(block.view, error, partial(_restore_names, blocks)) from None
    written = session._jvm.org.apache.spark.sql.catalyst.expressions.Cast.USER_SPECIFIED_CAST()  # type: ignore[union-attr]
    _refuse_undefined(block, plan._jdf.queryExecution().analyzed(), written)
    outputs = []
    for place, (item, spark_type) in enumerate(zip(block.items, types, strict=True)):
        passed = {_passed(one, place) for one in blocks}
        declared = passed.pop()
        if not passed and declared is not None:
            outputs.append(OutputType(item.name, spark_type, declared, passthrough=True))
            continue
        target = "text" if spark_type == UNTYPED else warehouse_type(spark_type)
        if target is None:
            raise UnsupportedSql(
                block.view,
                f"column {item.name} has Spark's type {spark_type}, which the warehouse cannot hold",
                f"Write CAST({item.expression.sql} AS STRING) AS `{item.name}`, or another type.",
            )
        outputs.append(OutputType(item.name, spark_type, target, passthrough=False))
    return outputs


def refuse_untyped(view: str, outputs: Sequence[OutputType]) -> None:
    """Refuses a column that is NULL in every block: it has no type."""
    for output in outputs:
        if output.spark_type == UNTYPED:
            raise UnsupportedSql(
                view,
                f"column {output.name} has Spark's type {UNTYPED}, which the warehouse cannot hold",
                f"Write CAST(NULL AS STRING) AS `{output.name}`, or another type.",
            )


def _passed(block: JoinBlock, place: int) -> str | None:
    """The declared type of the column that is passed on there; None if the item is computed."""
    column = block.items[place].expression.column
    if column is None:
        return None
    column_type = block.carried(column).column.type
    return column_type.declared if column_type.builtin else "text"


def _query(block: JoinBlock) -> str:
    items = ", ".join(f"{_item(block, item.expression)} AS c{index + 1}" for index, item in enumerate(block.items))
    # With an alias: without one, Spark reads `(…) WHERE (true)` as a table called `where` with a column called `true`.
    frames = " CROSS JOIN ".join(f"({_empty(one)}) f{place}" for place, one in enumerate(block.occurrences))
    where = " AND ".join(f"({block.render(conjunct)})" for conjunct in block.conjuncts) or "true"
    return f"SELECT {items} FROM {frames} WHERE {where}"


def _item(block: JoinBlock, expression: Expression) -> str:
    # A column that is passed on travels as text; beside computed columns of other blocks it has its own type.
    column = expression.column
    return f"CAST(NULL AS {block.carried(column).spark_type})" if column else block.render(expression)


def _empty(occurrence: Occurrence) -> str:
    columns = [f"CAST(NULL AS {column.spark_type or 'STRING'}) AS {column.name}" for column in occurrence.frame]
    return f"SELECT {', '.join(columns) or 'NULL'} WHERE false"


def _restore_names(blocks: Sequence[JoinBlock], message: str) -> str:
    """Puts the author's column names back into Spark's message, which has those of frames."""
    for occurrence in (occurrence for block in blocks for occurrence in block.occurrences):
        for carried in occurrence.carried:
            for name in (carried.value, carried.text):
                if name is not None:
                    message = message.replace(f"`{name}`", f"`{occurrence.alias}`.`{carried.column.name}`")
                    message = message.replace(name, f"{occurrence.alias}.{carried.column.name}")
    return message


def _refuse_undefined(block: JoinBlock, plan: Any, written: Any) -> None:
    """Refuses what two evaluations need not agree on, and decimals that Spark would round silently."""
    for expression in _expressions(plan):
        _refuse_rounding(block, expression, written)
        if not expression.deterministic() and all(child.deterministic() for child in _items(expression.children())):
            raise UnsupportedSql(
                block.view,
                f"{expression.prettyName()} gives a different result each time",
                "A view may only use functions of its rows; store the value at the source.",
            )
        if expression.getClass().getSimpleName() != "Multiply":
            continue
        scales = [_scale(expression.left().dataType()), _scale(expression.right().dataType())]
        if None not in scales and sum(scale or 0 for scale in scales) > MAXIMUM_SCALE:
            raise UnsupportedSql(
                block.view,
                f"a product of decimals with {scales[0]} and {scales[1]} digits after the point would be rounded",
                "Cast the factors first, for example CAST(x AS DECIMAL(19,4)) * CAST(y AS DECIMAL(19,4)).",
            )


def _refuse_rounding(block: JoinBlock, expression: Any, written: Any) -> None:
    """Two decimals meet in a type that holds the digits before the point of both. Where that leaves too few behind it,
    Spark rounds: 1.4 = 1 would hold there but not at the sources. `written` marks the casts of the view's own text."""
    if expression.getClass().getSimpleName() != "Cast" or expression.getTagValue(written).isDefined():
        return
    before, after = _scale(expression.child().dataType()), _scale(expression.dataType())
    if before is not None and after is not None and after < before:
        raise UnsupportedSql(
            block.view,
            f"a decimal with {before} digits after the point would be rounded to {after} next to a longer one",
            "Cast one of the two, for example CAST(x AS DECIMAL(19,4)).",
        )


def _expressions(plan: Any) -> Iterator[Any]:
    """Every expression of the plan, outermost first."""
    nodes = [plan]
    while nodes:
        node = nodes.pop()
        nodes.extend(_items(node.children()))
        waiting = list(_items(node.expressions()))
        while waiting:
            expression = waiting.pop()
            yield expression
            waiting.extend(_items(expression.children()))


def _items(sequence: Any) -> Iterator[Any]:
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _scale(data_type: Any) -> int | None:
    text = data_type.simpleString()
    return int(text.rstrip(")").split(",")[1]) if text.startswith("decimal(") else None
