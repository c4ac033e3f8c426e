"""Columns whose text is a name are not read: a renaming elsewhere would change rows that nobody touched."""

from __future__ import annotations

import pytest

from dyda.errors import UnsupportedSql
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view
from dyda.model.types import PgType
from vm import compile_view

COLUMNS = (
    Column("kind", PgType("regclass", "regclass"), 1),
    Column("pair", PgType("regrole", "public.pair", builtin=False), 2),
    Column("id", PgType("integer", "integer"), 3),
)
RELATION = Relation(RelationName("crm", "public", "t"), 1, COLUMNS)


def compiled(text: str) -> object:
    definition = parse_view("v", text, lambda source, schema, table: RELATION)
    return compile_view(definition, lambda step, block: ["text"] * len(block.items), "decimal(38,18)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT kind FROM crm.t",
        "SELECT * FROM crm.t",
        "SELECT CAST(kind AS STRING) AS k FROM crm.t",
        "SELECT id FROM crm.t WHERE CAST(pair AS STRING) = 'x'",
        "SELECT id FROM crm.t WHERE EXISTS (SELECT 1 FROM crm.t u WHERE CAST(u.kind AS STRING) = 'x' AND u.id = t.id)",
        "SELECT id, count(CAST(kind AS STRING)) AS n FROM crm.t GROUP BY id",
        "SELECT id FROM crm.t UNION ALL SELECT CAST(CAST(kind AS STRING) AS INT) FROM crm.t",
    ],
)
def test_a_view_that_reads_a_name_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(
        UnsupportedSql, match="its text is a name, which can change although the row does not"
    ) as refusal:
        compiled(text)
    assert "::oid) STORED" in refusal.value.remedy


@pytest.mark.parametrize(
    "text", ["SELECT id FROM crm.t", "SELECT 1 AS one FROM crm.t", "SELECT count(*) AS n FROM crm.t"]
)
def test_a_name_that_no_view_reads_is_no_obstacle(text: str) -> None:
    compiled(text)
