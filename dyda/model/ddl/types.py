"""Types as they are written in DDL, called what PostgreSQL's format_type calls them."""

from __future__ import annotations

import re

from dyda.model.types import PgType

__all__ = ["read_type"]

ALIASES = {
    "bool": "boolean",
    "char": "character",
    "dec": "numeric",
    "decimal": "numeric",
    "float": "double precision",
    "float4": "real",
    "float8": "double precision",
    "int": "integer",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "national character": "character",
    "national character varying": "character varying",
    "national char": "character",
    "national char varying": "character varying",
    "nchar": "character",
    "char varying": "character varying",
    "serial2": "smallserial",
    "serial4": "serial",
    "serial8": "bigserial",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
    "timetz": "time with time zone",
    "varbit": "bit varying",
    "varchar": "character varying",
}

BUILTIN = frozenset(
    re.findall(
        r"\w+",
        """
        bigint bigserial bit bit_varying boolean box bytea character character_varying cidr circle date
        datemultirange daterange double_precision inet int4multirange int4range int8multirange int8range
        integer interval json jsonb jsonpath line lseg macaddr macaddr8 money name numeric nummultirange
        numrange oid path pg_lsn pg_snapshot point polygon real regclass regtype serial smallint smallserial
        text time_with_time_zone time_without_time_zone timestamp_with_time_zone timestamp_without_time_zone
        tsmultirange tsquery tsrange tstzmultirange tstzrange tsvector uuid xid8 xml
        """,
    )
)

SHAPE = re.compile(
    r"(?P<name>\"(?:[^\"]|\"\")+\"|[a-z_][\w$. ]*?)\s*(?:\(\s*(?P<arguments>[-\d\s,]+)\))?"
    r"(?P<zone>\s+with(?:out)?\s+time\s+zone)?(?P<array>(?:\s*\[\s*\d*\s*\])+|\s+array(?:\s*\[\s*\d*\s*\])?)?\s*"
)


def read_type(text: str) -> PgType | None:
    """The type that the text names; None if it cannot be read. One that is not PostgreSQL's own is not `builtin`."""
    text = re.sub(r"\s*\.\s*", ".", " ".join(text.split()))
    match = SHAPE.fullmatch(text if '"' in text else text.lower())
    if match is None:
        return None
    name = match["name"].strip().removeprefix("pg_catalog.").strip()
    arguments = [part.strip() for part in (match["arguments"] or "").split(",") if part.strip()]
    if name == "float" and arguments:
        name, arguments = ("real" if int(arguments[0]) <= 24 else "double precision"), []
    if match["zone"]:
        name = f"{name} {' '.join(match['zone'].split())}"
    name = ALIASES.get(name, name)
    if name == "character" and not arguments:
        arguments = ["1"]
    builtin = name.replace(" ", "_") in BUILTIN
    if not builtin and " " in name and not name.startswith('"'):
        return None
    if name == "numeric" and len(arguments) == 1:
        arguments = [arguments[0], "0"]
    declared = _declared(name, arguments)
    suffix = "[]" if match["array"] else ""
    return PgType(name + suffix, declared + suffix, builtin)


def _declared(name: str, arguments: list[str]) -> str:
    if not arguments:
        return name
    modifier = f"({','.join(arguments)})"
    first, zone, rest = name.partition(" with")
    return first + modifier + zone + rest  # timestamp(3) with time zone
