"""Types written in a view: those of Spark SQL, and what to write for a type of PostgreSQL."""

from __future__ import annotations

from dyda.model.sql.text import SqlText, TokenType, names

__all__ = ["refuse_type", "type_instead"]

_SPARK = names(
    """
    array bigint binary boolean byte char character date dec decimal double float geography geometry int integer
    interval long map numeric real short smallint string struct time timestamp timestamp_ltz timestamp_ntz tinyint
    varchar variant void
    """
)

_INSTEAD = {
    **dict.fromkeys(("bpchar", "character varying", "citext", "name", "nchar", "nvarchar", "text"), "STRING"),
    **dict.fromkeys(("int2", "smallserial"), "SMALLINT"),
    **dict.fromkeys(("int4", "serial"), "INT"),
    **dict.fromkeys(("int8", "bigserial", "oid"), "BIGINT"),
    **dict.fromkeys(("float8", "double precision"), "DOUBLE"),
    **dict.fromkeys(("timestamptz", "timestamp with time zone"), "TIMESTAMP"),
    "bool": "BOOLEAN",
    "bytea": "BINARY",
    "float4": "FLOAT",
    "money": "DECIMAL(19,2)",
}

_SIZED = frozenset({"char", "character", "varchar"})
"""Types that Spark knows with a length only."""

_KEEP_THE_TEXT = "STRING, which keeps its text"


def type_instead(name: str) -> str | None:
    """What to write for a type that Spark SQL does not have; None if it has it."""
    return None if name in _SPARK else _INSTEAD.get(name, _KEEP_THE_TEXT)


def refuse_type(text: SqlText, index: int) -> None:
    """Refuse the type whose first word this is, if Spark SQL cannot read it."""
    name, after = " ".join(text.shown(index).lower().split()) if index < len(text.words) else "", index + 1
    if not name.replace(" ", "").replace("_", "").isalnum():
        return  # it is refused where the expression is read
    while text.kind(after) is TokenType.DOT and text.is_name(after + 1):  # a type of a schema
        name, after = f"{name}.{text.shown(after + 1)}", after + 2
    following = [text.shown(place).lower() for place in range(after, min(after + 3, len(text.words)))]
    if name == "timestamp" and following == ["with", "time", "zone"]:
        name = "timestamp with time zone"
    instead = type_instead(name)
    if text.kind(after) is TokenType.L_PAREN:
        after = text.counterpart(after) + 1
    if text.kind(after) is TokenType.L_BRACKET and text.kind(after + 1) is TokenType.R_BRACKET:
        element = "STRING" if name in _SIZED else (instead or text.shown(index).upper()).split(",")[0]
        raise text.refusal(index, f"Spark SQL has no type {name}[]", f"Write ARRAY<{element}>.")
    if instead is not None:
        raise text.refusal(index, f"Spark SQL has no type {name}", f"Write {instead}.")
    if name in _SIZED and text.kind(index + 1) is not TokenType.L_PAREN:
        raise text.refusal(index, f"the type {name} needs a length in Spark SQL", "Write STRING.")
