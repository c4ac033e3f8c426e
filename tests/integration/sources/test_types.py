"""All scalar types: log, lookup, scan and PostgreSQL's own output agree to the letter, whatever the writer's session.

The values are drawn as SQL literals; the oracle is PostgreSQL's output functions, asked by a plain session (rule C1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.sources.reading.copy import read_partition
from tests.integration.sources.conftest import Ground, bag

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12)
NASTY = st.sampled_from(["", '"', '\\', '\\\\', '""', ',', '(', ')', '(,)', '\n', '\r\n', '\t', ' ', '\\.', "'", 'NULL',
                         'null', '{}', '\\N', 'a"b\\c,d\ne', '\u2028', '\ufeff', '😀'])  # fmt: skip
STRINGS = TEXT | NASTY


def quoted(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def literal(kind: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.just("NULL") | values.map(lambda text: f"{quoted(text)}::{kind}")


def _array(items: list[str | None]) -> str:
    return f"ARRAY[{', '.join('NULL' if item is None else quoted(item) for item in items)}]::text[]"


def _jsonish(value: object) -> str:
    """A JSON value as an SQL expression: json null and SQL NULL are not the same."""
    if value is None:
        return "'null'::jsonb"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"'{value}'::numeric"
    if isinstance(value, list):
        return f"jsonb_build_array({', '.join(_jsonish(item) for item in value)})"
    return f"{quoted(str(value))}::text"


def _float(value: float) -> str:
    return repr(value).replace("inf", "Infinity").replace("nan", "NaN")


FLOATS = st.floats().map(_float)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**30), max_value=10**30).map(str)
DATES = st.dates().map(str) | st.sampled_from(
    ["infinity", "-infinity", "4713-01-01 BC", "0044-03-15 BC", "5874897-12-31"]
)
STAMPS = st.datetimes().map(str) | st.sampled_from(
    ["infinity", "-infinity", "0044-03-15 12:00:00 BC", "294276-12-31 23:59:59.999999"]
)
ZONED = st.datetimes().map("{}+00".format) | st.sampled_from(
    [
        "infinity",
        "-infinity",
        "0044-03-15 12:00:00+00 BC",
        "294276-12-31 23:59:59.999999+00",
        "2024-03-31 02:30:00+05:45",
    ]
)
INTERVALS = st.tuples(st.integers(-500, 500), st.integers(-9999, 9999), st.integers(-(10**12), 10**12)).map(
    # PostgreSQL 14 reads no number of microseconds that is larger than an int.
    lambda parts: f"{parts[0]} months {parts[1]} days {parts[2] // 10**6} seconds {parts[2] % 10**6} microseconds"
)
ZONES = st.sampled_from(["UTC", "Asia/Kathmandu", "America/St_Johns", "+13:45"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | STRINGS.map(lambda s: s.replace("\ufeff", "")),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=4,
)

TYPES: dict[str, st.SearchStrategy[str]] = {
    "smallint": literal("smallint", st.integers(-(2**15), 2**15 - 1).map(str)),
    "integer": literal("integer", st.integers(-(2**31), 2**31 - 1).map(str)),
    "bigint": literal("bigint", st.integers(-(2**63), 2**63 - 1).map(str)),
    "numeric": literal("numeric", DECIMALS | st.sampled_from(["NaN", "1.000", "0.0", "1e100", "-0.00"])),
    "numeric(12,4)": literal("numeric(12,4)", st.decimals(places=4, min_value=-(10**7), max_value=10**7).map(str)),
    "real": literal("real", st.floats(width=32).map(_float)),
    "double precision": literal("double precision", FLOATS),
    "text": literal("text", STRINGS),
    "character varying(40)": literal("varchar(40)", STRINGS),
    "character(5)": literal("char(5)", st.sampled_from(["", "a", "ab   ", "abcde", " x", '"', "\\", ",", "ü"])),
    "name": literal("name", STRINGS),
    '"char"': literal('"char"', st.sampled_from(["", "a", "(", ",", '"', "\\"])),
    "boolean": literal("boolean", st.sampled_from(["t", "f"])),
    "date": literal("date", DATES),
    "timestamp": literal("timestamp", STAMPS),
    "timestamptz": literal("timestamptz", ZONED),
    "time": literal("time", st.times().map(str) | st.just("24:00:00")),
    "timetz": literal("timetz", st.times().map(lambda t: f"{t}+05:45")),
    "interval": literal("interval", INTERVALS),
    "uuid": literal("uuid", st.uuids().map(str)),
    "bytea": st.just("NULL") | st.binary(max_size=9).map(lambda b: f"'\\x{b.hex()}'::bytea"),
    "mood": literal("mood", st.sampled_from(["sad", "very happy", 'o"dd,\\'])),
    "json": st.just("NULL") | JSON.map(lambda value: f"to_json({_jsonish(value)})::json"),
    "jsonb": st.just("NULL") | JSON.map(lambda value: f"to_jsonb({_jsonish(value)})"),
    "integer[]": literal("integer[]", st.sampled_from(["{}", "{1,NULL,3}", "{{1,2},{3,4}}", "[0:2]={7,8,9}"])),
    "text[]": st.just("NULL") | st.lists(st.none() | STRINGS, max_size=3).map(_array),
    "mood[]": literal("mood[]", st.sampled_from(["{}", "{sad,NULL}"])),
    "int4range": literal("int4range", st.sampled_from(["empty", "[1,5)", "(,)", "[3,]"])),
    "tsrange": literal("tsrange", st.sampled_from(["empty", "[2024-01-01 00:00,2024-02-01 00:00)"])),
    "inet": literal("inet", st.ip_addresses().map(str)),
    "macaddr": literal("macaddr", st.just("08:00:2b:01:02:03")),
    "bit(3)": literal("bit(3)", st.sampled_from(["000", "101"])),
    "varbit": literal("varbit", st.sampled_from(["", "1", "10101"])),
    "money": literal("money", st.sampled_from(["12.34", "-0.01"])),
    "point": literal("point", st.sampled_from(["(0.1,-2)", "(1e300,3)"])),
    "tsvector": literal("tsvector", st.sampled_from(["a:1 'b c':2", ""])),
    "regclass": literal("regclass", st.sampled_from(["pg_class", "public.t"])),
    "pair": st.just("NULL") | STRINGS.map(lambda text: f"ROW(1, {quoted(text)})::pair"),
}  # fmt: skip


SESSIONS = st.fixed_dictionaries(
    {
        "extra_float_digits": st.sampled_from(["-15", "0", "3"]),
        "DateStyle": st.sampled_from(["German", "SQL, DMY", "Postgres, MDY", "ISO, DMY"]),
        "IntervalStyle": st.sampled_from(["sql_standard", "iso_8601", "postgres_verbose"]),
        "TimeZone": ZONES,
        "bytea_output": st.sampled_from(["escape", "hex"]),
        "search_path": st.sampled_from(["public, pg_catalog", "pg_catalog"]),
    }
)


OWN = {"mood", "mood[]", "pair"}
COLUMNS = ["id", *(f"c{place}" for place in range(len(TYPES)))]


@pytest.fixture
def places(ground: Ground) -> Ground:
    """One table with a column of each type, for all examples."""
    columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(TYPES))
    ground.run(
        "CREATE TYPE mood AS ENUM ('sad', 'very happy', 'o\"dd,\\')",
        "CREATE TYPE pair AS (x int, y text)",
        f"CREATE TABLE t (id int, {columns})",
    )
    ground.watch("t")
    return ground


@given(
    rows=st.lists(st.tuples(*TYPES.values()), min_size=1, max_size=4),
    session=SESSIONS,
    update=st.booleans(),
)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_type_travels_exactly(
    places: Ground, rows: list[tuple[str, ...]], session: dict[str, str], update: bool
) -> None:
    ground = places
    with ground.open() as snapshot:
        start = snapshot.position
    ground.run(
        "BEGIN",
        "DELETE FROM public.t",
        *(f"SET LOCAL {name} = {_setting(name, value)}" for name, value in session.items()),
    )
    for number, row in enumerate(rows):
        values = ", ".join(
            value.replace("::mood", "::public.mood").replace("::pair", "::public.pair") if kind in OWN else value
            for kind, value in zip(TYPES, row, strict=True)
        )
        ground.run(f"INSERT INTO public.t VALUES ({number}, {values})")
    if update:
        ground.run("UPDATE public.t SET id = id + 100")
    ground.run("COMMIT")
    expected = ground.rows("t", COLUMNS)
    relation = ground.relations["t"]
    ids = pa.table({"id": [row[0] for row in expected]})
    with ground.open() as snapshot:
        changes = bag(snapshot.changes({relation.name: COLUMNS}, start)[relation.name])
        inserted = Counter({row: count for row, count in changes.items() if count > 0})
        assert bag(snapshot.lookup(relation, COLUMNS, ["id"], ids).table) == expected
        scanned: Counter[tuple[str | None, ...]] = Counter()
        for partition in snapshot.scan(relation, COLUMNS):
            scanned.update(zip(*(column.to_pylist() for column in read_partition(partition).columns), strict=True))
        assert scanned == expected
        before = ground.source.acknowledge(snapshot.position)
    assert before > 0
    # Rows that are as they were before cancel out; all others must be printed the same.
    assert inserted == Counter({row: count for row, count in expected.items() if changes[row]})
    assert all(row in expected for row in inserted)


def _setting(name: str, value: str) -> str:
    return value if name == "search_path" else f"'{value}'"


def test_long_values_and_many_rows(ground: Ground) -> None:
    """Rows longer than any buffer, values with every separator, more rows than one chunk of Arrow."""
    ground.run("CREATE TABLE t (a int, b text)")
    (relation,) = ground.watch("t")
    ground.run("INSERT INTO t VALUES (1, repeat(E'x\"\\\\,\\n', 600000)), (2, NULL), (3, '')")
    ground.run("INSERT INTO t SELECT i, E'row\\n' || i FROM generate_series(10, 30000) i")
    expected = ground.rows("t", ["a", "b"])
    with ground.open() as snapshot:
        assert bag(snapshot.changes({relation.name: ["a", "b"]}, None)[relation.name]) == expected
        keys = pa.table({"a": [str(a) for a in range(40000)]})
        assert bag(snapshot.lookup(relation, ["a", "b"], ["a"], keys).table) == expected


def test_images_of_a_table_with_one_column_or_none(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    from dyda.sources.log import row_images

    monkeypatch.setattr(row_images, "CHUNK", 16)  # many pieces
    ground.run("CREATE TABLE one (a text)", "CREATE TABLE none ()")
    one, none = ground.watch("one", "none")
    ground.run("INSERT INTO one VALUES (NULL), (''), ('x'), (NULL), (E'\\n')", "INSERT INTO none DEFAULT VALUES")
    with ground.open() as snapshot:
        changes = snapshot.changes({one.name: ["a"], none.name: []}, None)
    assert bag(changes[one.name]) == Counter({(None,): 2, ("",): 1, ("x",): 1, ("\n",): 1})
    assert changes[none.name].num_rows == 1


def test_keys_of_every_spelling_find_their_rows(database: Callable[..., str], ground: Ground) -> None:
    ground.run("CREATE TABLE t (k text)")
    (relation,) = ground.watch("t")
    odd = ["", '"', "\\", "{}", "NULL", "a,b", "a\nb", " ", "'", "%s", "\\\\", '\\"', "{1,2}"]
    with ground.connect().cursor() as cursor:
        for key in odd:
            cursor.execute("INSERT INTO t VALUES (%s)", (key,))
    with ground.open() as snapshot:
        found = snapshot.lookup(relation, ["k"], ["k"], pa.table({"k": odd}))
    assert bag(found.table) == Counter({(key,): 1 for key in odd})


NAMING = {
    "regclass": "'t'::regclass",
    "regclass[]": "ARRAY['t'::regclass]",
    "regrole": "current_user::regrole",
    "regtype": "'integer'::regtype",
    "aclitem[]": "ARRAY[makeaclitem(10, 10, 'SELECT', false)]",
    "table_name": "'t'::regclass",  # a domain
    "table_name[]": "ARRAY['t'::regclass]::table_name[]",
    "named": "ROW(1, 't'::regclass)",
    "named[]": "ARRAY[ROW(1, 't'::regclass)]::named[]",
    "outer_named": "ROW(ROW(1, 't'::regclass))",
    "tables": "tables('t'::regclass, NULL)",  # a range
    "multitables": "tables('t'::regclass, NULL)::multitables",
}


def test_types_that_print_names_are_known_and_harm_no_column_beside_them(ground: Ground) -> None:
    """The text of such a value moves when what it names is renamed: nobody may go by it (C1)."""
    ground.run(
        "CREATE DOMAIN table_name AS regclass",
        "CREATE TYPE named AS (n int, t table_name)",
        "CREATE TYPE outer_named AS (inside named)",
        "CREATE TYPE tables AS RANGE"
        " (subtype = regclass, subtype_opclass = oid_ops, multirange_type_name = multitables)",
        "CREATE TYPE plain AS (n int, d date)",
        "CREATE TABLE t (a int)",
    )
    columns = ", ".join(f"c{number} {type_}" for number, type_ in enumerate(NAMING))
    ground.run(f"CREATE TABLE names (a int, b plain, e text[], {columns})")
    (relation,) = ground.watch("names")
    named = {column.name for column in relation.columns if column.type.prints_names}
    assert named == {f"c{number}" for number in range(len(NAMING))}
    ground.run(
        f"INSERT INTO names VALUES (1, '(1,2024-01-01)', '{{x}}', {', '.join(NAMING.values())})",
        'ALTER TABLE t RENAME TO "renamed, and odd"',
        "UPDATE names SET a = 2",
        "INSERT INTO names SELECT * FROM names",
        "DELETE FROM names WHERE a = 1",
    )
    assert ground.logged("names", ["a", "b", "e"]) == ground.rows("names", ["a", "b", "e"])
    ground.run("ALTER TYPE plain ADD ATTRIBUTE t regclass")
    (found,) = ground.source.describe([("public", "names")]).values()
    assert found.column("b").type.prints_names
