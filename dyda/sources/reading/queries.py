"""Queries for a source: lookups by key and page ranges of a scan.

Every identifier is quoted and every value bound as a literal; keys travel as text arrays and are cast at the source.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from psycopg2 import sql

from dyda.cursor import Cursor
from dyda.model.relation import Column, Relation
from dyda.sources.log.row_images import joined_bytes, stops

__all__ = ["distinct_keys", "lookup_query", "page_queries", "pieces", "query_text", "selected"]

PAGE = 8192
PAGES = 4096
"""Pages of a table that one scan partition reads: 32 MB."""

FEW_PAGES = 512
"""The same for a task that others must not wait for: a fraction of a second."""

QUESTION = 32 * 2**20
"""Bytes of keys in one lookup. A statement and each of its values are limited to 1 GB, special characters are escaped
twice, and both sides hold the whole statement in memory several times."""

# What a key's text is cast to: the widest type of its family, so that no key is out of range and the source's
# equality is at least as wide as Spark's (R4). Bare `character` would mean character(1).
FAMILY_TYPES = {
    "integer": "bigint",
    "text": "text",
    "character": "bpchar",
    "uuid": "uuid",
    "boolean": "boolean",
    "real": "real",
    "double": "double precision",
    "date": "date",
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "bytea": "bytea",
    "numeric": "numeric",
}


def lookup_query(relation: Relation, columns: Sequence[str], key: Sequence[str], keys: pa.Table) -> sql.Composable:
    """The rows of `relation` whose key columns equal a tuple of `keys` (as `distinct_keys` gives them)."""
    names = [sql.Identifier(f"k{place}") for place in range(len(key))]
    kinds = [sql.SQL(_key_type(relation.column(name))) for name in key]
    casts = [sql.SQL("k.{}::{}").format(name, kind) for name, kind in zip(names, kinds, strict=True)]
    arrays = [sql.SQL("{}::text[]").format(sql.Literal(_array_text(column))) for column in keys.columns]
    return sql.SQL(
        "SELECT {columns} FROM {table} AS t WHERE ({key}) IN (SELECT {casts} FROM unnest({arrays}) AS k ({names}))"
    ).format(
        columns=selected(columns),
        table=sql.Identifier(relation.name.schema, relation.name.table),
        key=sql.SQL(", ").join(_compared(relation.column(name)) for name in key),
        casts=sql.SQL(", ").join(casts),
        arrays=sql.SQL(", ").join(arrays),
        names=sql.SQL(", ").join(names),
    )


def page_queries(
    columns: Sequence[str], schema: str, table: str, method: str, pages: int, size: int, *, few: bool = False
) -> Iterator[tuple[sql.Composable, float]]:
    """One table alone (not its children) in page ranges, each with its share of the table; `few` pages each.

    A table with much TOAST data gets smaller ranges, so that no piece is huge. The last range is open: the file may
    have grown, and rows beyond are not in the snapshot anyway. Only heap tables have page ranges.
    """
    base = sql.SQL("SELECT {} FROM ONLY {} AS t").format(selected(columns), sql.Identifier(schema, table))
    if method != "heap":
        yield base, 1.0
        return
    most = FEW_PAGES if few else PAGES
    step = max(1, min(most, most * pages * PAGE // max(size, 1)))
    for start in range(0, pages, step):
        query = base + sql.SQL(" WHERE t.ctid >= {}::tid").format(sql.Literal(f"({start},0)"))
        if start + step < pages:
            query += sql.SQL(" AND t.ctid < {}::tid").format(sql.Literal(f"({start + step},0)"))
        yield query, min(step, pages) / pages


def selected(columns: Sequence[str]) -> sql.Composable:
    return sql.SQL(", ").join(sql.Identifier("t", name) for name in columns) if columns else sql.SQL("1")


def query_text(cursor: Cursor, query: sql.Composable, columns: Sequence[str], *, few_rights: bool) -> str:
    """The query as text. `few_rights`: with the reader role's rights (sql/reader.sql), each value printed there."""
    if not few_rights:
        return str(query.as_string(cursor))
    names = [sql.Identifier(f"c{place}") for place in range(max(len(columns), 1))]
    printing = sql.SQL("SELECT {} FROM ({}) AS q ({})").format(
        sql.SQL(", ").join(_printed(sql.SQL("q.") + name) for name in names), query, sql.SQL(", ").join(names)
    )
    typed = sql.SQL(", ").join(name + sql.SQL(" text") for name in names)
    call = sql.SQL("SELECT * FROM dyda.read({}) AS r ({})").format(sql.Literal(printing.as_string(cursor)), typed)
    return str(call.as_string(cursor))


def _printed(value: sql.Composable) -> sql.Composable:
    """As its type's output function prints it, NULL as NULL. Not ::text: that may be a user's own cast, and prints an
    inet differently. Not IS NULL: it is true for a row of NULLs, too."""
    return sql.SQL("CASE WHEN num_nulls({0}) = 0 THEN concat({0}) END").format(value)


def _compared(column: Column) -> sql.Composable:
    """The column as it is compared with the key; types that are only transported as text compare as text."""
    name = sql.Identifier("t", column.name)
    return name if column.type.computation() is not None else _printed(name)


def _key_type(column: Column) -> str:
    computation = column.type.computation()
    return "text" if computation is None else FAMILY_TYPES[computation.family]


def distinct_keys(values: pa.Table, key: Sequence[str]) -> pa.Table:
    """The distinct tuples without a NULL, under names that cannot clash."""
    places = [f"k{i}" for i in range(len(key))]
    table = pa.Table.from_arrays([values.column(name) for name in key], names=places)
    table = table.drop_null()
    # Offsets of 64 bits: together the keys may be longer than 2 GB.
    table = table.cast(pa.schema([(place, pa.large_string()) for place in places]))
    return table.group_by(places, use_threads=False).aggregate([]).select(places)


def pieces(keys: pa.Table) -> Iterator[pa.Table]:
    """The tuples in groups of moderate size. They are distinct, so no row matches two of them (W5)."""
    lengths = functools.reduce(pc.add, [pc.cast(pc.binary_length(column), pa.int64()) for column in keys.columns])
    start = 0
    for stop in stops(lengths, QUESTION):
        yield keys.slice(start, stop - start)
        start = stop


def _array_text(column: pa.ChunkedArray) -> str:
    """An array literal of the texts, escaped in Arrow: keys can be many."""
    text = column
    for special in ("\\", '"'):
        text = pc.replace_substring(text, special, "\\" + special)
    quote, comma = pa.scalar('"', pa.large_string()), pa.scalar('",', pa.large_string())
    quoted = pc.binary_join_element_wise(quote, text, comma, pa.scalar("", pa.large_string()))
    pieces = [joined_bytes(chunk).to_pybytes().decode() for chunk in quoted.chunks if len(chunk)]
    return "{" + "".join(pieces)[:-1] + "}"
