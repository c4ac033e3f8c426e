"""Refusals of Spark's analysis for the author of a view: in the author's names, with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark.errors import PySparkException

from dyda.engine.task_errors import short_message
from dyda.errors import UnsupportedSql

__all__ = ["refused_by_spark"]

_CHANGES = "Its value changes without any change at a source: put it into the query that reads the view."
_AGGREGATE = "Keep the rows in the view and aggregate when reading: … FROM view GROUP BY …"
_FUNCTIONS = {
    "age": "Write months_between(a, b) or date_diff(a, b).",
    "array_length": "Write size(…).",
    "array_to_string": "Write array_join(…, ',').",
    "btrim": "Write trim(BOTH 'x' FROM …).",
    "format": "Write format_string(…).",
    "generate_series": "Write sequence(a, b), and unfold it when reading the view.",
    "isfinite": "Compare with the values that you mean.",
    "jsonb_build_object": "Write to_json(named_struct('name', value, …)).",
    "jsonb_extract_path_text": "Write get_json_object(CAST(… AS STRING), '$.key').",
    "json_build_object": "Write to_json(named_struct('name', value, …)).",
    "json_extract_path_text": "Write get_json_object(CAST(… AS STRING), '$.key').",
    "quote_ident": "Write concat('`', …, '`').",
    "regexp_match": "Write regexp_extract(…, 'pattern', 0).",
    "regexp_matches": "Write regexp_extract(…, 'pattern', 0).",
    "row": "Write (a, b), or named_struct('a', a, 'b', b).",
    "string_to_array": "Write split(…, ',').",
    "strpos": "Write instr(text, part).",
    "to_jsonb": "Write to_json(…).",
    "unnest": "Keep the whole value in the view and unfold it when reading.",
    **dict.fromkeys(
        [
            "clock_timestamp",
            "currval",
            "gen_random_uuid",
            "lastval",
            "nextval",
            "random_normal",
            "statement_timestamp",
            "timeofday",
            "transaction_timestamp",
            "txid_current",
            "uuid_generate_v4",
            "uuidv4",
            "uuidv7",
        ],
        _CHANGES,
    ),
    **dict.fromkeys(
        ["json_agg", "json_object_agg", "jsonb_agg", "jsonb_object_agg", "range_agg", "xmlagg"], _AGGREGATE
    ),
}
"""Functions of PostgreSQL that Spark does not have."""

_REMEDIES = {
    "PARSE_SYNTAX_ERROR": "Check it against Spark SQL; put unusual names in backticks.",
    "UNSUPPORTED_DATATYPE": "Write a type of Spark SQL: STRING, INT, BIGINT, DOUBLE, DECIMAL(p,s), DATE, TIMESTAMP, …",
    "DATATYPE_MISMATCH": "Cast one of them: CAST(… AS type).",
    "WRONG_NUM_ARGS": "Correct its arguments.",
    "INVALID_TYPED_LITERAL": "Correct the literal.",
}


def refused_by_spark(view: str, error: PySparkException, restore: Callable[[str], str]) -> UnsupportedSql:
    """The refusal of a view. `restore` puts the author's names into what Spark says."""
    condition, parameters = _asked(error.getCondition) or "", _asked(error.getMessageParameters) or {}
    contexts = _asked(error.getQueryContext) or []
    fragment = restore(str(contexts[0].fragment())) if contexts else str(parameters.get("error", "")).strip("'")
    what = restore(short_message(error))
    remedy = next((_REMEDIES[name] for name in _REMEDIES if condition.startswith(name)), "")
    if condition == "UNRESOLVED_ROUTINE":
        name = re.sub(r".*`([^`]+)`$", r"\1", str(parameters.get("routineName", "")))
        what = f"Spark SQL has no function {name}()"
        remedy = _FUNCTIONS.get(name.lower(), "Write one of Spark SQL's functions.")
        fragment = f"{name}("
    refusal = UnsupportedSql(view, what, remedy or "Change it so that Spark SQL accepts it.")
    refusal.fragment = fragment
    return refusal


def _asked(question: Callable[[], object]) -> Any:
    """Errors that were raised in Python have no such answers, and asking a JVM for them may fail."""
    try:
        return question()
    except Exception:
        return None
