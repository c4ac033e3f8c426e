"""Types: how a PostgreSQL value travels to Spark and back without losing a bit.

A column that a view only passes on travels as PostgreSQL's own output text and is cast back in the warehouse, which
is exact for every type. A column that a view computes with must have an exact Spark counterpart; types that have none
(enums, json, arrays, intervals, …) can only be passed on or cast to STRING.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Computation", "PgType", "warehouse_type"]


@dataclass(frozen=True)
class PgType:
    """A type at a source, with domains resolved to their base type.

    `name` is the bare name (`numeric`, `character varying`, `integer[]`), `declared` what format_type prints with the
    modifier (`numeric(10,2)`). `builtin` is false for types that the warehouse does not have: enums and composites. If
    one of those has a part that prints as a name (`prints_names`), `name` is the name of that part.
    """

    name: str
    declared: str
    builtin: bool = True

    def computation(self, plain_numeric: str = "decimal(38,18)") -> Computation | None:
        """How values of this type compute on Spark; None if they only travel as text."""
        if not self.builtin:
            return None
        if self.name == "numeric":
            precision = re.fullmatch(r"numeric\((\d+),(-?\d+)\)", self.declared)
            if precision is None:
                return Computation(plain_numeric.upper(), text_is_exact=False, family="numeric")
            digits, scale = int(precision[1]), int(precision[2])
            if not 0 <= scale <= digits <= 38:
                return None
            return Computation(f"DECIMAL({digits},{scale})", text_is_exact=False, family="numeric")
        return _COMPUTATIONS.get(self.name)

    @property
    def prints_names(self) -> bool:
        """Whether a value prints as the name of a table, a role, …, or contains one: a rename then changes the text of
        rows without touching them."""
        return _NAMES.fullmatch(self.name.removesuffix("[]")) is not None

    def prints_like(self, other: PgType) -> bool:
        """Whether equal values of the two types have equal texts, so that either text may replace the other."""
        computation = self.computation()
        return computation is not None and computation.text_is_exact and computation == other.computation()


@dataclass(frozen=True)
class Computation:
    """The Spark type a column computes in.

    `text_is_exact`: the Spark value prints as PostgreSQL's own text, so the typed column is enough, also for output.
    `family`: types compared in a pushed-down lookup must be of one family, whose equality at the source is at least as
    wide as Spark's (rule R4).
    """

    spark_type: str
    text_is_exact: bool
    family: str


_NAMES = re.compile(
    "aclitem|reg(class|collation|config|database|dictionary|namespace|oper|operator|proc|procedure|role|type)"
)
"""columns.sql has the same list."""

_COMPUTATIONS = {
    "smallint": Computation("SMALLINT", True, "integer"),
    "integer": Computation("INT", True, "integer"),
    "bigint": Computation("BIGINT", True, "integer"),
    "text": Computation("STRING", True, "text"),
    "character varying": Computation("STRING", True, "text"),
    "name": Computation("STRING", True, "text"),
    # char(n) is padded with blanks, as PostgreSQL stores and prints it; its equality at the source ignores them.
    "character": Computation("STRING", True, "character"),
    "uuid": Computation("STRING", True, "uuid"),
    "boolean": Computation("BOOLEAN", False, "boolean"),
    "real": Computation("FLOAT", False, "real"),
    "double precision": Computation("DOUBLE", False, "double"),
    "date": Computation("DATE", False, "date"),
    "timestamp without time zone": Computation("TIMESTAMP_NTZ", False, "timestamp"),
    "timestamp with time zone": Computation("TIMESTAMP", False, "timestamptz"),
    "bytea": Computation("BINARY", False, "bytea"),
}


def warehouse_type(spark_type: str) -> str | None:
    """The warehouse column for a computed Spark value (`decimal(10,2)`, `string`, …); None if there is none."""
    text = spark_type.lower()
    if text.startswith("decimal("):
        return "numeric" + text.removeprefix("decimal")
    return {
        "tinyint": "smallint",
        "smallint": "smallint",
        "int": "integer",
        "bigint": "bigint",
        "float": "real",
        "double": "double precision",
        "string": "text",
        "boolean": "boolean",
        "binary": "bytea",
        "date": "date",
        "timestamp": "timestamp with time zone",
        "timestamp_ntz": "timestamp without time zone",
    }.get(text)
