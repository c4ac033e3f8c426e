"""Evaluates texts on a real Spark; run as a process by test_meaning.py. Reads and writes one JSON document."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from pyspark.sql import SparkSession

from dyda.engine.session import Sessions
from dyda.settings import SparkSettings


def main() -> None:
    question = json.load(sys.stdin)
    spark = Sessions(SparkSettings(master="local[1]")).small
    columns, names = question["columns"], question["names"]
    rows = list(zip(*(values for _, _, values in columns.values()), strict=True))
    raw = spark.createDataFrame(rows, ", ".join(f"{names[name]} STRING" for name in columns)).coalesce(1)
    typed = [f"CAST({names[name]} AS {kind}) AS `{name}`" for name, (_, kind, _) in columns.items()]
    written = raw.selectExpr(*typed).cache()
    written.alias("a").createOrReplaceTempView("a")
    written.toDF(*names.values()).createOrReplaceTempView("other")
    answers: dict[str, list[list[str]]] = {}
    failing = [pair for pair in question["pairs"] if pair[0] in question["failing"]]
    others = [pair for pair in question["pairs"] if pair[0] not in question["failing"]]
    for group in [others, *([pair] for pair in failing)]:
        for reading, table in ((0, "a"), (1, "a"), (2, "other")):
            for pair, answer in zip(group, ask(spark, [pair[reading] for pair in group], table), strict=True):
                answers.setdefault(pair[0], []).append(answer)
    queries = evaluate(spark, question["tables"], question["queries"])
    print(json.dumps({"readings": answers, "functions": functions(spark), "queries": queries}))


def evaluate(
    spark: SparkSession, tables: dict[str, tuple[dict[str, str], list[Any]]], queries: list[str]
) -> dict[str, list[Any]]:
    """By each query its columns, their types and its rows as a sorted list, or its error."""
    for table, (columns, rows) in tables.items():
        raw = spark.createDataFrame(rows, ", ".join(f"`{name}` STRING" for name in columns)).coalesce(1)
        typed = [f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in columns.items()]
        raw.selectExpr(*typed).cache().createOrReplaceTempView(table)
    found: dict[str, list[Any]] = {}
    for query in queries:
        try:
            frame = spark.sql(query)
            rows = sorted(repr(tuple(row)) for row in frame.collect())
            found[query] = [frame.columns, [field.dataType.simpleString() for field in frame.schema.fields], rows]
        except Exception as error:
            found[query] = ["error", str(error)[:300]]
    return found


def functions(spark: SparkSession) -> dict[str, str]:
    """Every builtin function and what it is, by its class on the JVM."""
    expressions = "org.apache.spark.sql.catalyst.expressions."
    jvm: Any = spark._jvm
    load = jvm.java.lang.Class.forName
    bases = {base: load(expressions + base) for base in ("Nondeterministic", "Generator", "WindowFunction")}
    found = {}
    for info in jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos():
        name, class_name = info.getName(), info.getClassName()
        kinds = [base for base, parent in bases.items() if parent.isAssignableFrom(load(class_name))]
        kinds += ["aggregate"] if f"{expressions}aggregate." in class_name else []
        kinds += ["time or session"] if re.match(r"(current|local|now$|session|input_file|user$)", name) else []
        found[name] = kinds[0] if kinds else "plain"
    return found


def ask(spark: SparkSession, texts: list[str], table: str) -> list[list[str]]:
    """For each text its type and its values; all in one query if none fails, else one by one."""
    try:
        items = ",\n".join(f"({text}\n) AS result{index}" for index, text in enumerate(texts))
        frame = spark.sql(f"SELECT {items} FROM {table}")
        columns = zip(*frame.collect(), strict=True)
        types = [field.dataType.simpleString() for field in frame.schema.fields]
        return [[kind, *map(repr, values)] for kind, values in zip(types, columns, strict=True)]
    except Exception as error:
        if len(texts) > 1:
            return [ask(spark, [text], table)[0] for text in texts]
        return [["error", getattr(error, "getCondition", lambda: None)() or type(error).__name__]]


main()
