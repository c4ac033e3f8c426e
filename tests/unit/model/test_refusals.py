"""What a view cannot have is refused by name, with its line and what to write instead.

The cases are data: fixtures/refusals/*.sql. A case is `--# title`, the view, and the whole message after `--> `.
`--: from here on columns decide` parts the cases of a file that need no source from those that do.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dyda.errors import DydaError
from dyda.model.sql.parse import parse_view, referenced_tables
from tests.unit.model.conftest import Resolve

FOLDER = Path(__file__).parents[3] / "fixtures" / "refusals"


def cases() -> list[object]:
    found: list[object] = []
    for path in sorted(FOLDER.glob("*.sql")):
        for case in re.split(r"^--# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title, _, rest = case.partition("\n")
            view = re.split(r"^--> ", rest, maxsplit=1, flags=re.MULTILINE)[0].removesuffix("\n")
            message = "\n".join(re.findall(r"^--> (.*)$", rest, flags=re.MULTILINE))
            found.append(pytest.param(view, message, id=f"{path.stem}: {title}"))
    assert len(found) > 100
    return found


@pytest.mark.parametrize(("view", "message"), cases())
def test_refused_with_construct_line_and_alternative(view: str, message: str, resolve: Resolve) -> None:
    with pytest.raises(DydaError) as refused:
        parse_view("v", view, resolve)
    assert str(refused.value) == message


@pytest.mark.parametrize("name", ["clauses", "joins", "statements"])
def test_the_outline_alone_refuses_constructs_without_asking_a_source(name: str) -> None:
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    text = text.partition("--: from here on columns decide")[0]
    for case in re.split(r"^--# .*\n", text, flags=re.MULTILINE)[1:]:
        view, message = re.split(r"^--> ", case, maxsplit=1, flags=re.MULTILINE)
        with pytest.raises(DydaError) as refused:
            referenced_tables("v", view.removesuffix("\n"))
        assert message.startswith(refused.value.what)


SPARK = [
    "transform(split(c.name, ','), x -> 'a')[0] = 'a'",
    "aggregate(split(c.name, ','), 0, (x, y) -> 1) = 1",
    "~c.age = 1 AND c.age = ~1",
    "c.name ILIKE 'a%' AND c.name RLIKE '^a' AND NOT c.name LIKE ANY ('a', 'b')",
    "c.age != 1 AND c.age <> 2 AND c.age <=> 3",
    "c.age::varchar(3) = '1' AND c.age::STRING = '1' AND CAST(c.name AS char(3)) = 'a'",
    "CAST(c.name AS TIMESTAMP) < CAST(c.name AS timestamp without time zone)",
    "c.since + interval '1 day' > DATE '2020-01-01' AND c.since + INTERVAL 1 DAY > c.since",
    "c.name = X'1F' AND c.name = r'a' AND c.name = 'it''s' AND c.name = \"text\"",
    "isnull(c.name) OR isnotnull(c.name)",
    "extract(year FROM \"2020-01-01\") = 1 AND substring(c.name FROM 1 FOR 2) = 'a'",
    "try_cast(c.name AS array<int>)[0] = 1 AND map('a', 1)['a'] = 1 AND array(1, 2)[0] = 1",
    "c.active = (c.age IN (1, 2)) AND position('a' IN c.name) = 1",
]


@pytest.mark.parametrize("written", SPARK)
def test_what_spark_reads_is_not_taken_for_postgresql(written: str, resolve: Resolve) -> None:
    definition = parse_view("v", f"SELECT c.name FROM crm.customer c WHERE {written}", resolve)
    assert definition.tree is not None


def test_an_aggregate_called_any_is_not_a_comparison_with_a_list(resolve: Resolve) -> None:
    text = "SELECT c.name, any(c.active) AS a FROM crm.customer c GROUP BY c.name HAVING true = any(c.active)"
    assert list(parse_view("v", text, resolve).names) == ["name", "a"]
