"""What Spark is given means what the author wrote.

Each expression is evaluated twice on a real Spark: as written, over columns called what the author calls them, and as
the parser hands it on, over columns that were all given other names. Same type, same values (or the same error class)
or the parser has changed a view. (sqlglot's own printing fails this: it turns 'It''s' into CONCAT('It', 's').)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.functions import AGGREGATES, CHANGING, GENERATORS, WINDOWS
from dyda.model.sql.parse import parse_view
from dyda.model.sql.render import render_view
from dyda.model.types import PgType
from tests.projection import projection
from tests.unit.model.conftest import catalog
from tests.unit.model.rows import plain, spark_tables
from tests.unit.model.test_parse_operators import ADULTS, trees

COLUMNS = {
    "i": ("integer", "INT", ["7", "-7", "0", None]),
    "j": ("bigint", "BIGINT", ["2", "3", "9223372036854775807", None]),
    "f": ("double precision", "DOUBLE", ["2.5", "-0.0", "NaN", None]),
    "n": ("numeric(10,2)", "DECIMAL(10,2)", ["2.50", "-1.25", "99999999.99", None]),
    "s": ("text", "STRING", ["a_b%c", "It's \\ \"q\"", " Zoë,x,y ", None]),
    "u": ("text", "STRING", ["12", "x", "", None]),
    "d": ("date", "DATE", ["2024-02-29", "1900-01-01", "2024-12-31", None]),
    "t": ("timestamp with time zone", "TIMESTAMP", ["2024-03-10 01:30:00Z", "1969-12-31 23:59:59.5Z", None, None]),
    "m": ("timestamp without time zone", "TIMESTAMP_NTZ", ["2024-03-10 01:30:00", "1999-12-31 23:59:59.9", None, None]),
    "b": ("boolean", "BOOLEAN", ["true", "false", "true", None]),
    "x": ("bytea", "BINARY", ["abc", "", "zz", None]),
    "First Name": ("text", "STRING", ["é", "ß", "", None]),
    "day": ("text", "STRING", ["mon", "tue", "", None]),
    "year": ("integer", "INT", ["1", "2", "3", None]),
}  # fmt: skip

EXPRESSIONS = r"""
a.i / a.j
i / 2
i DIV 2
i div j
-i % 3
mod(i, 3)
a.i + a.i * 2 - -year
CAST(n AS INT)
CAST(f AS STRING)
CAST(n AS DECIMAL(12, 4)) * 3
try_cast(u AS INT)
TRY_CAST(s AS DATE)
n::string
i::double / 3
string(i)
int(n)
1L + i
1.5BD * n
2S + 3Y
1e3 * i
1.5F + f
0.1 + 0.2
.5 + i
i == 7
i <=> NULL
NOT i = 7
! (i = 7)
i != 7 OR i <> 0
i IS NOT DISTINCT FROM j
i IS DISTINCT FROM 7
b IS NOT TRUE
b AND i BETWEEN -7 AND 7 AND NOT b
b OR i > 0 AND NOT b
i NOT BETWEEN 1 AND 3
s || '-' || u
'It''s' || s
'It\'s' || s
"double ""quoted"" it's"
'a' 'b' "c"
r'\d+\.'
'tab\tnew\nline\\back\u00e9'
s LIKE 'a\_b%'
s LIKE 'a!_b!%c' ESCAPE '!'
s LIKE '%\\\\%'
s ILIKE 'A%'
s NOT LIKE '%x%'
s LIKE ANY ('a%', '%x%')
s LIKE ALL ('%', '%_%')
s RLIKE '^[a-z]_'
regexp_replace(s, '\\s+', '_')
regexp_extract(s, '([a-z])_', 1)
split(s, ',')[0]
split(s, ',', 2)[size(split(s, ',', 2)) - 1]
element_at(split(s, ','), -1)
split_part(s, ',', 2)
named_struct('day', i, 'v', s).v
map('k', i)['k']
array(i, 1)[1]
array(1, i, year)
transform(split(s, ','), y -> upper(y) || a.u)
transform(array(i, 2), (v, k) -> v + k + year)
aggregate(array(i, 1), 0, (acc, v) -> acc + v, acc -> acc * j)
filter(array(i, 1, 2), v -> v > a.i)
exists(array(i), v -> v > 0)
substring(s FROM 2 FOR 3)
substr(s, -2)
trim(BOTH ' ' FROM s)
trim(s)
position('b' IN s)
overlay(s PLACING '??' FROM 2 FOR 1)
left(s, 2) || right(s, 2)
lpad(u, 5, '0')
concat_ws('/', s, u, day)
format_string('%05d|%s', i, u)
replace(s, 'b', "B")
extract(YEAR FROM d)
extract(day FROM t)
date_part('month', d)
year(d) + year
day(d)
d + INTERVAL 1 DAY
d + INTERVAL '1-2' YEAR TO MONTH
t - INTERVAL '1 02:03:04' DAY TO SECOND
t + INTERVAL 1 hour 30 minutes
d - DATE '2024-01-01'
DATE '2024-02-29'
TIMESTAMP '2024-02-29 12:00:00'
TIMESTAMP_NTZ '2024-02-29 12:00:00'
date_add(d, 1)
date_add(MONTH, 1, d)
dateadd(day, 1, d)
datediff(d, DATE '2024-01-01')
datediff(DAY, d, DATE '2024-03-01')
timestampdiff(HOUR, t, TIMESTAMP '2024-03-11 00:00:00')
timestampadd(MINUTE, i, t)
add_months(d, 1)
months_between(d, DATE '2024-01-15')
date_trunc('MONTH', t)
trunc(d, 'YEAR')
to_date('29/02/2024', 'dd/MM/yyyy')
date_format(t, "yyyy-MM-dd'T'HH:mm")
from_utc_timestamp(t, 'Europe/Berlin')
convert_timezone('UTC', 'Asia/Tokyo', m)
unix_timestamp(t)
CAST(t AS DATE)
CAST(m AS TIMESTAMP)
last_day(d)
CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' ELSE day END
CASE i WHEN 7 THEN 1 WHEN j THEN 2 END
CASE WHEN b AND i > 1 OR NOT b THEN 1 END
if(b, i, j)
nvl(u, 'none')
nvl2(u, i, j)
coalesce(i, j, 0)
nullif(i, 7)
decode(i, 7, 'seven', 0, 'zero', 'other')
greatest(i, j, year)
i IN (7, 0, NULL)
u IN ('12', "x")
i IS NULL
isnull(i)
round(n, 1) + bround(2.5)
ceil(f) + floor(n)
ceil(n, 1)
log(2, j) + ln(j) + log10(j)
abs(i) + i & 3 | 4 + year
~i ^ 3
shiftleft(i, 2)
i << 2
abs(i) + sign(i)
hex(x) || md5(x)
x || X'00FF'
hash(i, s) + xxhash64(s)
concat(x, X'1F')
decode(x, 'UTF-8')
encode(s, 'UTF-8')
get_json_object('{"a": {"b": 3}}', '$.a.b')
from_json('{"a": 3}', 'a INT').a
to_json(named_struct('i', i))
a.`First Name` || `First Name`
a . i /* between */ + -- the line
 a.j % 3
upper(a.day) || 'day'
typeof(i / j)
sequence(1, 3)[coalesce(i, 0) * 0]
s COLLATE UTF8_LCASE = 'A_B%C'
equal_null(i, j)
width_bucket(f, 0, 10, 5)
conv(u, 10, 16)
array_contains(array(i, 1), 1)
map_filter(map('k', j), (k, v) -> v > i)['k']
zip_with(array(i), array(j), (p, q) -> p + q % 5)[0]
"""

FAILING = """
CAST(u AS INT)
i / 0
CAST('2024-13-01' AS DATE)
a.j + 1
array(1)[i]
int(u)
u::int
n * 100000000 * 100000000 * 100000000 * 1000000000000 * n
"""
"""These fail on some row: in ANSI mode all readings must fail, and in the same way."""


def expressions(text: str) -> list[str]:
    lines = text.replace("\n a.j", "\f a.j").strip().split("\n")
    return [line.replace("\f", "\n") for line in lines]


def queries_twice() -> list[tuple[str, str]]:
    """Each query of fixtures/trees/nested.sql as it is written, and as it is rendered from its tree."""
    found = []
    for text in [str(case.values[0]) for case in trees("nested")]:
        view = parse_view("v", text, catalog, views=lambda name: parse_view(name, ADULTS, catalog))
        found.append((plain(text), plain(render_view(view.tree, view.preferences))))
    return found


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    relation = Relation(
        RelationName("crm", "public", "t"),
        1,
        tuple(Column(n, PgType(c[0].partition("(")[0], c[0]), i) for i, (n, c) in enumerate(COLUMNS.items(), 1)),
    )
    names = {name: f"c{index}" for index, name in enumerate(COLUMNS)}
    pairs = []
    for text in expressions(EXPRESSIONS) + expressions(FAILING):
        view = parse_view("v", f"SELECT {text} AS result FROM crm.t a", lambda *_: relation)
        expression = projection(view).items[0].expression
        rendered = expression.rendered(lambda ref: f"`other`.`{names[ref.column]}`")
        pairs.append((text, expression.rendered(str), rendered))
        assert expression.rendered(str) == expression.sql
    # A process of its own: its Spark session must not become that of other tests.
    probe = Path(__file__).with_name("spark_probe.py")
    queries = [one for pair in queries_twice() for one in pair]
    question = json.dumps(
        {
            "columns": COLUMNS,
            "names": names,
            "pairs": pairs,
            "failing": expressions(FAILING),
            "tables": spark_tables(),
            "queries": queries,
        }
    )
    answer = subprocess.run([sys.executable, probe], input=question, capture_output=True, text=True, timeout=600)
    assert answer.returncode == 0, answer.stderr[-4000:]
    found: dict[str, dict[str, Any]] = json.loads(answer.stdout.splitlines()[-1])
    return found


def test_expressions_mean_on_spark_what_their_author_wrote(answers: dict[str, dict[str, Any]]) -> None:
    read = {text: answers["readings"][text] for text in expressions(EXPRESSIONS)}
    assert {text: found for text, found in read.items() if not found[0] == found[1] == found[2]} == {}
    assert {text: found for text, found in read.items() if found[0][0] == "error"} == {}


def test_expressions_fail_on_spark_as_their_author_wrote_them(answers: dict[str, dict[str, Any]]) -> None:
    read = {text: answers["readings"][text] for text in expressions(FAILING)}
    assert {text: found for text, found in read.items() if not found[0] == found[1] == found[2]} == {}
    assert {text: found for text, found in read.items() if found[0][0] != "error"} == {}


def test_queries_mean_on_spark_what_their_author_wrote(answers: dict[str, dict[str, Any]]) -> None:
    found = [(answers["queries"][written], answers["queries"][rendered]) for written, rendered in queries_twice()]
    assert [pair for pair in found if pair[0] != pair[1] or pair[0][0] == "error"] == []
    assert len([pair for pair in found if pair[0][2]]) > 25, "most have rows"


def test_every_function_of_spark_that_is_no_plain_function_is_refused(answers: dict[str, dict[str, Any]]) -> None:
    kinds = answers["functions"]
    assert len(kinds) > 500
    refused = AGGREGATES | CHANGING | GENERATORS | WINDOWS
    assert {name: kind for name, kind in kinds.items() if kind != "plain" and name not in refused} == {}
    unknown = refused - set(kinds)
    assert unknown <= {"collations", "python_worker_logs", "range", "sql_keywords"}, unknown
