"""The forms of an extent's table: rows found by a proven key, by columns that few share, or by digests. All read like a
plain table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dyda.errors import DydaError, InstallBlocked, InvariantViolated
from dyda.model.layout import Layout
from dyda.warehouse import Installation, ViewChange, ViewVersion, Warehouse
from dyda.warehouse.extents import keyed_extent, plain_extent
from dyda.warehouse.extents.exported_snapshot import hold_extent
from dyda.warehouse.writer import Writer
from tests.integration.warehouse.conftest import START, add, create, entries, version
from tests.older_extents import make_older

Query = Callable[..., list[tuple[Any, ...]]]

COLUMNS = (("id", "integer"), ("name", "text"), ("worth", "numeric"))
KEYED = version(*COLUMNS, layout=Layout(key=("id",)))
BAG = version(*COLUMNS)
INDEXED = version(*COLUMNS, layout=Layout(indexes=(("id",),)))
BY_NAME = version(*COLUMNS, layout=Layout(indexes=(("name", "worth"),)))
ROWS = entries(("1", "Ann", "1.0", 1), ("2", "Bob", "2.00", 1), ("3", None, None, 1))


def install(writer: Writer, **change: Any) -> None:
    writer.install(Installation((ViewChange("v", positions={"crm": (START, START)}, **change),)))


def shown(query: Query) -> Counter[tuple[str | None, ...]]:
    """The view's rows as texts: 1.0 is not 1.00."""
    return Counter(query("SELECT id::text, name, worth::text FROM v"))


def form(query: Query, view: str = "v") -> tuple[str, list[int] | None]:
    ((found, key),) = query(
        "SELECT coalesce(form, 'counted'), key FROM dyda.view v JOIN dyda.view_version w ON w.view = v.name"
        " AND w.version = v.version LEFT JOIN dyda.form ON form.extent = w.extent WHERE v.name = %s",
        (view,),
    )
    return found, key


def stored_columns(query: Query, table: str) -> list[str]:
    found = query(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
        " ORDER BY attnum",
        (table,),
    )
    return [name for (name,) in found]


def indexes(query: Query, table: str) -> list[str]:
    """Without the part that names them."""
    found = query("SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = %s::regclass", (table,))
    return sorted(definition.split(" USING ")[1] for (definition,) in found)


def plan(query: Query, statement: str) -> dict[str, Any]:
    ((found,),) = query(f"EXPLAIN (FORMAT json, COSTS) {statement}")
    return dict((json.loads(found) if isinstance(found, str) else found)[0]["Plan"])


# --- tables that read like tables


def test_a_keyed_extent_is_a_table_with_the_views_columns_and_a_unique_key(writer: Writer, query: Query) -> None:
    create(writer, "v", KEYED, ROWS)
    assert form(query) == ("keyed", [0])
    assert stored_columns(query, "dyda.extent_1") == ["id", "name", "worth"]
    assert indexes(query, "dyda.extent_1") == ["btree (id)"]
    with pytest.raises(psycopg2.errors.UniqueViolation):
        query("INSERT INTO dyda.extent_1 VALUES (1, 'Eve', 0)")
    ((definition,),) = query("SELECT pg_get_viewdef('v'::regclass)")
    assert "generate_series" not in definition
    assert shown(query) == Counter([("1", "Ann", "1.0"), ("2", "Bob", "2.00"), ("3", None, None)])


def test_a_bag_is_a_table_with_the_views_columns_and_one_more(writer: Writer, query: Query) -> None:
    create(writer, "v", BAG, entries(("1", "Ann", "1.0", 3)))
    assert form(query) == ("bag", None)
    assert stored_columns(query, "dyda.extent_1") == ["dyda_row", "id", "name", "worth"]
    assert indexes(query, "dyda.extent_1") == ["btree (dyda_row)"]
    assert shown(query) == Counter({("1", "Ann", "1.0"): 3})


@pytest.mark.parametrize("layout", [Layout(key=("dyda_row",)), Layout()])
def test_names_that_the_table_cannot_have(writer: Writer, query: Query, layout: Layout) -> None:
    names = ["dyda_row", "dyda_row_", "ctid", "ctid_", "xmin", "dyda_moving"]
    create(writer, "odd", version(*((name, "text") for name in names), layout=layout), entries(("a",) * 6 + (1,)))
    add(writer, "odd", entries((*"abcdef", 1)) if layout.key is None else entries((*"bbcdef", 1)), START, START)
    assert len(query("SELECT dyda_row, dyda_row_, ctid, ctid_, xmin, dyda_moving FROM odd")) == 2


@pytest.mark.parametrize("defined", [KEYED, BAG])
def test_queries_are_planned_as_those_of_a_table(writer: Writer, query: Query, defined: ViewVersion) -> None:
    """Estimates are right because statistics are there when the rows are; look-ups go through the users' indexes, also
    those from a join."""
    rows = [(str(i), f"name {i % 50}", "1", 1) for i in range(2000)]
    create(writer, "v", defined, entries(*rows))
    assert plan(query, "SELECT * FROM v, v AS w WHERE v.id = w.id")["Plan Rows"] in range(1500, 2500)
    assert plan(query, "SELECT name FROM v GROUP BY name")["Plan Rows"] in range(40, 60)
    query("CREATE INDEX by_hand ON dyda.extent_1 (id)")
    for statement in ("SELECT * FROM v WHERE id = 7", "SELECT * FROM (VALUES (1), (7)) AS s (i) JOIN v ON v.id = s.i"):
        text = json.dumps(plan(query, statement))
        assert "Index" in text, text
        assert "Function Scan" not in text


# --- merging


@pytest.mark.parametrize("defined", [KEYED, INDEXED])
def test_a_row_that_replaces_another_one_is_updated_in_place(
    writer: Writer, query: Query, defined: ViewVersion
) -> None:
    create(writer, "v", defined, entries(*((str(i), "old", "1", 1) for i in range(500))))
    add(writer, "v", entries(("7", "old", "1", -1), ("7", "new", "1", 1)), START, START)
    assert query("SELECT count(*) FROM v WHERE id = 7 AND name = 'new'") == [(1,)]
    assert query("SELECT count(*) FROM v") == [(500,)]
    places = query("SELECT (ctid::text::point)[0] FROM dyda.extent_1 WHERE id BETWEEN 6 AND 8")
    assert len(set(places)) == 1, "in the same page, so that no index has a new entry"


WRONG = [
    pytest.param([("4", "Dan", "1", -1)], id="a row that is not there"),
    pytest.param([("1", "Ann", "1.00", -1)], id="a row with another text"),
    pytest.param([("1", "Ann", "1.00", -1), ("1", "Eve", "1", 1)], id="replacing a row with another text"),
    pytest.param([("1", "Ann", "1.0", -2)], id="a row that is not there twice"),
    pytest.param([("4", "Dan", "1", 2)], id="a row twice"),
    pytest.param([("1", "Eve", "1", 1)], id="another row with the key"),
    pytest.param([("1", "Ann", "1.0", 1)], id="the row again"),
    pytest.param([("4", "Dan", "1", 1), ("4", "Eve", "1", 1)], id="two rows with one key"),
    pytest.param([("1", "Ann", "1.0", -1), ("1", "Dan", "1", 1), ("1", "Eve", "1", 1)], id="two rows for one"),
]


@pytest.mark.parametrize("delta", WRONG)
def test_what_breaks_the_key_is_refused_and_nothing_is_written(
    warehouse: Warehouse, writer: Writer, query: Query, delta: list[tuple[Any, ...]]
) -> None:
    create(writer, "v", KEYED, ROWS)
    before = shown(query)
    with pytest.raises(InvariantViolated, match="view v: this change would"):
        add(writer, "v", entries(("9", "Zoe", "1", 1), *delta), START, START)
    assert shown(query) == before
    assert warehouse.view("v").rows == 3


@pytest.mark.parametrize(
    "rows", [[("1", "a", "1", 1), ("1", "b", "1", 1)], [("1", "a", "1", 2)], [("1", "a", "1", -1)]]
)
def test_a_build_that_breaks_the_key_creates_nothing(
    warehouse: Warehouse, writer: Writer, rows: list[tuple[Any, ...]]
) -> None:
    with pytest.raises(InvariantViolated):
        create(writer, "v", KEYED, entries(*rows))
    assert warehouse.views() == []


UNUSABLE = [pytest.param(None, id="NULL"), pytest.param("".join(map(chr, range(0x4E00, 0x5600))), id="long")]


@pytest.mark.parametrize("value", UNUSABLE)
@pytest.mark.parametrize("when", ["built", "merged", "replaced"])
def test_rows_with_a_key_that_no_index_takes_are_found_by_digests(
    warehouse: Warehouse, writer: Writer, query: Query, when: str, value: str | None
) -> None:
    """The key is right, NULLs counted as equal; it is only of no use for finding rows."""
    defined = version(("k", "text"), ("n", "integer"), layout=Layout(key=("k",)))
    rows = [("a", "1", 1), (value, "2", 1)]
    create(writer, "v", defined, entries(*rows[: 2 if when == "built" else 1]))
    if when != "built":
        assert form(query) == ("keyed", [0])
        delta = entries(*rows[1:]) if when == "merged" else entries(*rows)
        install(writer, delta=delta, mode="delta" if when == "merged" else "replace")
    assert (form(query), writer.outdated_extents()) == (("bag", [0]), []), "it is not tried again"
    assert Counter(query("SELECT * FROM v")) == Counter([("a", 1), (value, 2)])
    add(writer, "v", entries((value, "2", -1), (value, "3", 1)), START, START)
    assert Counter(query("SELECT * FROM v")) == Counter([("a", 1), (value, 3)])
    assert warehouse.view("v").rows == 2


def test_a_key_of_many_columns_takes_more_room_than_digests(writer: Writer, query: Query) -> None:
    columns = [(f"c{i}", "integer") for i in range(5)]
    create(writer, "v", version(*columns, layout=Layout(key=tuple(name for name, _ in columns))))
    assert (form(query), writer.outdated_extents()) == (("bag", None), [])


def test_a_view_of_one_row(writer: Writer, query: Query) -> None:
    create(writer, "v", version(*COLUMNS, layout=Layout(key=())), entries(("1", "Ann", "1.0", 1)))
    assert form(query) == ("keyed", [])
    add(writer, "v", entries(("1", "Ann", "1.0", -1), ("2", "Bob", "2", 1)), START, START)
    assert shown(query) == Counter([("2", "Bob", "2")])
    with pytest.raises(InvariantViolated):
        add(writer, "v", entries(("3", "Cid", "3", 1)), START, START)
    add(writer, "v", entries(("2", "Bob", "2", -1)), START, START)
    assert shown(query) == Counter()
    add(writer, "v", entries(("3", "Cid", "3", 1)), START, START)
    assert shown(query) == Counter([("3", "Cid", "3")])


CHANGES = st.tuples(
    st.sampled_from(["1", "2", "3"]),
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, "1.0", "1.00", "NaN"]),
    st.integers(-2, 2),
)
DELTAS = st.lists(st.lists(CHANGES, min_size=1, max_size=8), min_size=1, max_size=6)


@pytest.mark.parametrize("digest", [None, "length({}::text)::bigint"])
@pytest.mark.parametrize("defined", [KEYED, BAG, INDEXED, BY_NAME])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(deltas=DELTAS, whole=st.booleans())
def test_extents_follow_a_counted_bag(
    warehouse: Warehouse,
    writer: Writer,
    query: Query,
    monkeypatch: pytest.MonkeyPatch,
    defined: ViewVersion,
    digest: str | None,
    deltas: list[list[tuple[Any, ...]]],
    whole: bool,
) -> None:
    """Random deltas, or all rows at once: the same bag as a counter has, or the same refusal. With a digest that most
    rows have in common, too."""
    if digest is not None:
        monkeypatch.setattr(plain_extent, "DIGEST_OF", digest)
    for record in warehouse.views():
        writer.drop_view(record.name)
    create(writer, "v", defined)
    model: Counter[tuple[Any, ...]] = Counter()
    for delta in deltas:
        after = Counter() if whole else model.copy()
        for *row, n in delta:
            after[tuple(row)] += n
        rows = pa.concat_tables([entries(*delta)])
        change = {"delta": rows, "mode": "replace" if whole else "delta"}
        if right(after, defined):
            install(writer, **change)
            model = +after
        else:
            with pytest.raises(InvariantViolated):
                install(writer, **change)
        assert shown(query) == model
        assert warehouse.view("v").rows == model.total()
        with warehouse.staging(3) as staging:
            staging.sink()(entries(*((*row, n) for row, n in model.items()), (None, None, None, 0)).to_batches())
            with warehouse.frozen() as frozen:
                assert frozen.compare("v", staging).equal
                assert frozen.shows("v", "public")


def right(rows: Counter[tuple[Any, ...]], defined: ViewVersion) -> bool:
    if min(rows.values()) < 0:
        return False
    keys = Counter(row[0] for row, n in rows.items() for _ in range(n))
    return defined.layout.key is None or max(keys.values(), default=0) <= 1


# --- rows found by columns that few of them share


def numbered(rows: int, *, name: Callable[[int], str] = str, worth: Callable[[int], str | None] = str) -> pa.Table:
    return entries(*((str(i), name(i), worth(i), 1) for i in range(rows)))


def test_a_declared_index_finds_the_rows_of_a_bag(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    """No digest and no second index, and the rows are any rows."""
    create(writer, "v", INDEXED, entries(("1", "Ann", "1.0", 2), ("1", "Ann", "1.00", 1), ("2", None, None, 1)))
    assert form(query) == ("indexed", [0])
    assert stored_columns(query, "dyda.extent_1") == ["id", "name", "worth"]
    assert indexes(query, "dyda.extent_1") == ["btree (id)"]
    assert [(index.purpose, index.columns) for index in warehouse.indexes("v")] == [("declared", ("id",))]
    add(writer, "v", entries(("1", "Ann", "1.0", -1), ("1", "Ann", "1.00", 2), ("1", "Eve", "7", 1)), START, START)
    add(writer, "v", entries(("2", None, None, -1), ("2", "Bob", "1", 1), ("1", "Eve", "7", -1)), START, START)
    assert shown(query) == Counter({("1", "Ann", "1.0"): 1, ("1", "Ann", "1.00"): 3, ("2", "Bob", "1"): 1})
    for wrong in (("1", "Ann", "1.0", -2), ("1", "Ann", "1.000", -1), ("9", "Zoe", "1", -1), (None, "Zoe", "1", -1)):
        with pytest.raises(InvariantViolated, match="negative count"):
            add(writer, "v", entries(wrong, ("5", "Dan", "5", 1)), START, START)
    assert warehouse.view("v").rows == query("SELECT count(*) FROM v")[0][0] == 5


CHOICES = [
    pytest.param(Layout(), numbered(3000), ("bag", None), id="nobody declared a column"),
    pytest.param(Layout(indexes=(("name",),)), numbered(3000), ("indexed", [1]), id="the declared one"),
    pytest.param(
        Layout(indexes=(("name",), ("worth", "name"))),
        numbered(3000, name=lambda i: f"status {i % 3}"),
        ("indexed", [2, 1]),
        id="the first declared one that few rows share",
    ),
    pytest.param(
        Layout(indexes=(("name",),)),
        entries(*(("1", f"status {i % 3}", str(i % 7), 1) for i in range(3000))),
        ("bag", [1]),
        id="many rows share each column",
    ),
    pytest.param(
        Layout(indexes=(("name",),)),
        entries(*(("1", "Ann" if i % 2 == 0 else str(i), None, 1) for i in range(3000))),
        ("bag", [1]),
        id="one value that many rows have",
    ),
    pytest.param(
        Layout(indexes=(("name",),)),
        entries(*((str(i), str(i), None, 100) for i in range(300))),
        ("bag", [1]),
        id="many copies of each row",
    ),
]


@pytest.mark.parametrize(("layout", "rows", "expected"), CHOICES)
def test_which_columns_find_rows(
    writer: Writer, query: Query, layout: Layout, rows: pa.Table, expected: tuple[str, list[int] | None]
) -> None:
    create(writer, "v", version(*COLUMNS, layout=layout), rows)
    assert (form(query), writer.outdated_extents()) == (expected, [])


@pytest.mark.parametrize("type_", ["json", "json[]", "xid"])
def test_a_column_without_an_order_finds_no_rows(writer: Writer, query: Query, type_: str) -> None:
    """It is passed over, and what can be found is."""
    layout = Layout(indexes=(("odd",), ("id",)))
    rows = [(f"{{{i}}}" if type_ == "json[]" else str(i), str(i), 1) for i in range(1200)]
    create(writer, "v", version(("odd", type_), ("id", "integer"), layout=layout), entries(*rows))
    assert form(query) == ("indexed", [1])
    add(writer, "v", entries((*rows[7][:2], -1), (*rows[8][:2], 1)), START, START)
    assert query("SELECT count(*), count(DISTINCT id) FROM v") == [(1200, 1199)]


@pytest.mark.parametrize("mode", ["delta", "replace"])
def test_columns_that_many_rows_have_come_to_share_find_them_no_more(
    warehouse: Warehouse, writer: Writer, query: Query, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    create(writer, "v", INDEXED)
    add(writer, "v", entries(*(("1", f"name {i}", None, 1) for i in range(300))), START, START)
    assert form(query) == ("indexed", [0])
    monkeypatch.setattr(keyed_extent, "FEWEST_EXAMINED", 200)
    delta = [("1", "name 7", None, -1), ("1", "name 8", "1", 1)]
    if mode == "replace":
        delta = [("1", f"name {i}", None, 1) for i in range(300) if i != 7] + delta[1:]
    install(writer, delta=entries(*delta), mode=mode)
    assert (form(query), writer.outdated_extents()) == (("bag", [0]), []), "it is not tried again"
    expected = Counter([("1", f"name {i}", None) for i in range(300) if i != 7] + [("1", "name 8", "1")])
    assert (shown(query), warehouse.view("v").rows) == (expected, 300)
    assert indexes(query, "dyda.extent_2") == ["btree (dyda_row)", "btree (id)"]


def test_a_null_in_the_columns_that_find_rows(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    create(writer, "v", INDEXED, ROWS)
    add(writer, "v", entries((None, "Zoe", "1", 2), ("1", "Ann", "1.0", -1)), START, START)
    assert (form(query), writer.outdated_extents()) == (("bag", [0]), [])
    add(writer, "v", entries((None, "Zoe", "1", -1)), START, START)
    assert shown(query) == Counter([("2", "Bob", "2.00"), ("3", None, None), (None, "Zoe", "1")])
    assert warehouse.view("v").rows == 3


def test_a_declared_key_finds_rows_and_goes(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    """One index finds the rows and keeps the key; when the key is declared no more, rows are still found."""
    create(writer, "v", version(*COLUMNS, layout=Layout(declared_key=("id",))), ROWS)
    assert (form(query), indexes(query, "dyda.extent_1")) == (("indexed", [0]), ["btree (id)"])
    assert [index.purpose for index in warehouse.indexes("v")] == ["declared key"]
    install(writer, version=version(*COLUMNS, file_text="…"))
    assert (form(query), indexes(query, "dyda.extent_1")) == (("indexed", [0]), ["btree (id)"])
    add(writer, "v", entries(("1", "Ann", "1.0", -1), ("2", "Eve", "1", 1)), START, START)
    assert shown(query) == Counter([("2", "Bob", "2.00"), ("3", None, None), ("2", "Eve", "1")])


def test_a_bag_found_by_columns_that_loses_another_one_keeps_its_table(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "v", INDEXED, entries(("1", "Ann", "1", 1), ("1", "Eve", "1", 1), ("2", "Bob", "2", 1)))
    narrow = version(("worth", "numeric"), ("id", "integer"), layout=Layout(indexes=(("id",),)))
    install(writer, projection=(2, 0), mode="replace", version=narrow)
    assert (form(query), stored_columns(query, "dyda.extent_2")) == (("indexed", [1]), ["id", "worth"])
    add(writer, "v", entries(("1", "1", -1), ("2", "2", -1), ("3", "2", 1)), START, START)
    assert query("SELECT to_regclass('dyda.extent_2') IS NOT NULL, count(*) FROM dyda.extent") == [(True, 1)]
    assert sorted(query("SELECT id, worth::text FROM v")) == [(1, "1"), (2, "3")]
    assert warehouse.view("v").rows == 2


@pytest.mark.parametrize("first", [BAG, INDEXED])
def test_a_table_is_renewed_when_there_is_a_better_way_to_find_its_rows(
    writer: Writer, query: Query, first: ViewVersion
) -> None:
    create(writer, "v", first, ROWS)
    install(writer, version=INDEXED if first is BAG else KEYED)
    assert writer.outdated_extents() == ["v"]
    before = shown(query)
    writer.renew_extent("v")
    expected = ("indexed" if first is BAG else "keyed", [0])
    assert (form(query), writer.outdated_extents(), shown(query)) == (expected, [], before)
    assert indexes(query, "dyda.extent_2") == ["btree (id)"]


# --- versions


def test_a_key_that_is_not_proven_any_more_goes_with_the_version_that_says_so(
    url: str, writer: Writer, query: Query
) -> None:
    create(writer, "v", KEYED, ROWS)
    with closing(psycopg2.connect(url)) as older, older.cursor() as cursor:
        older.set_session(isolation_level="REPEATABLE READ")
        cursor.execute("SELECT 1")
        install(writer, delta=entries(("1", "Eve", "9", 1)), version=BAG)
        with pytest.raises(psycopg2.errors.SerializationFailure):  # I2
            cursor.execute("SELECT * FROM v")
    assert form(query) == ("bag", None)
    assert shown(query)[("1", "Eve", "9")] == shown(query)[("1", "Ann", "1.0")] == 1
    add(writer, "v", entries(("1", "Eve", "9", 2)), START, START)
    assert shown(query)[("1", "Eve", "9")] == 3


def test_a_key_that_is_not_proven_any_more_goes_also_without_rows(writer: Writer, query: Query) -> None:
    create(writer, "v", KEYED, ROWS)
    before = shown(query)
    install(writer, version=BAG)
    assert (form(query), shown(query)) == (("bag", None), before)


def test_another_key(warehouse: Warehouse, writer: Writer, query: Query) -> None:
    """The rows from before need not be unique by it, only those from now on."""
    create(writer, "v", KEYED, entries(("1", "Ann", "1", 1), ("2", "Ann", "1", 1)))
    named = version(*COLUMNS, layout=Layout(key=("worth", "name")))
    install(writer, delta=entries(("2", "Ann", "1", -1), ("1", "Bob", "1", 1)), version=named)
    assert form(query) == ("keyed", [2, 1])
    assert shown(query) == Counter([("1", "Ann", "1"), ("1", "Bob", "1")])
    assert warehouse.view("v").rows == 2
    with pytest.raises(InvariantViolated):
        add(writer, "v", entries(("7", "Bob", "1.0", 1)), START, START)


@pytest.mark.parametrize("defined", [KEYED, BAG, INDEXED])
def test_columns_are_renamed_with_the_view(writer: Writer, query: Query, defined: ViewVersion) -> None:
    create(writer, "v", defined, ROWS)
    query("CREATE INDEX by_name ON dyda.extent_1 (name)")
    key = None if defined.layout.key is None else ("name",)
    layout = Layout(key=key, indexes=tuple(("name",) for _ in defined.layout.indexes))
    exchanged = version(("name", "integer"), ("id", "text"), ("dyda_row", "numeric"), layout=layout)
    install(writer, delta=entries(("4", "Dan", "4", 1)), version=exchanged)
    assert set(query("SELECT name, id, dyda_row::text FROM v")) == {
        (1, "Ann", "1.0"),
        (2, "Bob", "2.00"),
        (3, None, None),
        (4, "Dan", "4"),
    }
    assert {"name", "id", "dyda_row"} <= set(stored_columns(query, "dyda.extent_1"))
    assert "btree (id)" in indexes(query, "dyda.extent_1")
    add(writer, "v", entries(("4", "Dan", "4", -1)), START, START)
    assert query("SELECT count(*) FROM v") == [(3,)]


def test_a_keyed_view_that_loses_another_column_keeps_its_table_for_good(
    warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "v", KEYED, ROWS)
    narrow = version(("worth", "numeric"), ("id", "integer"), layout=Layout(key=("id",)))
    install(writer, projection=(2, 0), mode="replace", version=narrow)
    assert (form(query), stored_columns(query, "dyda.extent_2")) == (("keyed", [1]), ["id", "worth"])
    add(writer, "v", entries(("1.0", "1", -1), ("1.00", "1", 1), ("4", "4", 1)), START, START)
    assert query("SELECT to_regclass('dyda.extent_2') IS NOT NULL, count(*) FROM dyda.extent") == [(True, 1)]
    found = query("SELECT id, worth::text FROM v")
    assert Counter(found) == Counter([(1, "1.00"), (2, "2.00"), (3, None), (4, "4")])
    assert warehouse.view("v").rows == 4


def test_a_view_that_loses_its_key_is_a_bag(writer: Writer, query: Query, url: str) -> None:
    create(writer, "v", KEYED, entries(("1", "Ann", "1", 1), ("2", "Ann", "1", 1)))
    install(writer, projection=(1, 2), mode="replace", version=version(*COLUMNS[1:]))
    assert form(query) == ("loose", None)
    assert query("SELECT name, worth::text FROM v") == [("Ann", "1")] * 2
    with hold_extent(url, "v") as held:
        (piece,) = held.pieces([0])
        assert query(piece) == [("Ann",)] * 2
    add(writer, "v", entries(("Ann", "1", -1), ("Bob", "2", 1)), START, START)
    assert form(query) == ("bag", None)
    assert sorted(query("SELECT name, worth::text FROM v")) == [("Ann", "1"), ("Bob", "2")]


# --- statistics


@pytest.mark.parametrize("defined", [KEYED, BAG])
def test_statistics_follow_a_large_merge(writer: Writer, query: Query, defined: ViewVersion) -> None:
    estimated = "SELECT reltuples::int FROM pg_class WHERE oid = 'dyda.extent_1'::regclass"
    create(writer, "v", defined, entries(*((str(i), "a", "1", 1) for i in range(1000))))
    assert query(estimated) == [(1000,)]
    add(writer, "v", entries(*((str(i), "b", "1", 1) for i in range(1000, 1090))), START, START)
    assert query(estimated) == [(1000,)]
    add(writer, "v", entries(*((str(i), "c", "1", 1) for i in range(1090, 1500))), START, START)
    assert query(estimated) == [(1500,)]


# --- tables of older versions


OLDER = entries(("1", "Ann", "1.0", 2), ("2", "Bob", "2.00", 1))


def test_a_table_of_an_older_version_works_until_it_is_renewed(
    url: str, warehouse: Warehouse, writer: Writer, query: Query
) -> None:
    create(writer, "v", BAG, OLDER)
    number = make_older(url, "v")
    assert (form(query), writer.outdated_extents()) == (("counted", None), ["v"])
    add(writer, "v", entries(("1", "Ann", "1.0", -1), ("3", None, None, 2)), START, START)
    with pytest.raises(InvariantViolated):
        add(writer, "v", entries(("1", "Ann", "1.00", -1)), START, START)
    install(writer, version=version(("number", "integer"), *COLUMNS[1:]))
    install(writer, version=BAG)
    rows = Counter({("1", "Ann", "1.0"): 1, ("2", "Bob", "2.00"): 1, ("3", None, None): 2})
    assert (shown(query), form(query)) == (rows, ("counted", None))
    with closing(psycopg2.connect(url)) as older, older.cursor() as cursor:
        older.set_session(isolation_level="REPEATABLE READ")
        cursor.execute("SELECT 1")
        writer.renew_extent("v")
        with pytest.raises(psycopg2.errors.SerializationFailure):  # I2
            cursor.execute("SELECT * FROM v")
    assert (shown(query), form(query), writer.outdated_extents()) == (rows, ("bag", None), [])
    assert query("SELECT to_regclass(%s) IS NULL, count(*) FROM dyda.extent", (f"dyda.extent_{number}",)) == [(True, 1)]
    record = warehouse.view("v")
    assert (record.rows, record.version, record.positions) == (4, 3, {"crm": START})
    add(writer, "v", entries(("3", None, None, -2)), START, START)
    assert shown(query) == Counter([("1", "Ann", "1.0"), ("2", "Bob", "2.00")])


def test_a_narrowed_table_of_an_older_version(url: str, writer: Writer, query: Query) -> None:
    create(writer, "v", BAG, OLDER)
    make_older(url, "v")
    install(writer, projection=(1,), mode="replace", version=version(("name", "text")))
    assert (form(query), query("SELECT places FROM dyda.view_version WHERE version = 2")) == (
        ("counted", None),
        [([1],)],
    )
    assert query("SELECT * FROM v ORDER BY 1") == [("Ann",), ("Ann",), ("Bob",)]
    add(writer, "v", entries(("Ann", -1)), START, START)
    assert (form(query), query("SELECT * FROM v ORDER BY 1")) == (("bag", None), [("Ann",), ("Bob",)])


def test_a_reader_in_the_way_of_a_renewal_is_not_waited_for(url: str, writer: Writer, query: Query) -> None:
    create(writer, "v", BAG, OLDER)
    make_older(url, "v")
    with closing(psycopg2.connect(url)) as reader, reader.cursor() as cursor:
        cursor.execute("SELECT * FROM v")
        with pytest.raises(InstallBlocked):
            writer.renew_extent("v")
    writer.renew_extent("v")
    assert form(query) == ("bag", None)


def test_a_bag_whose_rows_turn_out_to_have_a_key_is_renewed(writer: Writer, query: Query) -> None:
    create(writer, "v", BAG, ROWS)
    install(writer, version=KEYED)
    assert (form(query), writer.outdated_extents()) == (("bag", None), ["v"])
    before = shown(query)
    writer.renew_extent("v")
    assert (form(query), writer.outdated_extents(), shown(query)) == (("keyed", [0]), [], before)


def test_a_broken_key_and_a_column_that_many_rows_share_at_once(writer: Writer, query: Query) -> None:
    """The declared key is no key, and what finds the rows finds too many: both are given up in one installation."""
    columns = tuple((name, "integer") for name in "abcdeg")
    layout = Layout(declared_key=tuple("abcde"), indexes=(("g",),))
    create(writer, "v", version(*columns, layout=layout), entries(("0", "0", "0", "0", "0", "0", 1)))
    install(writer, delta=entries(*((str(i), "0", "0", "0", "0", "7", 1) for i in range(1, 20_101))))
    assert form(query)[0] == "indexed"
    install(writer, delta=entries(("5", "0", "0", "0", "0", "7", -1), ("6", "0", "0", "0", "0", "8", 1)))
    assert form(query)[0] == "bag"
    assert query("SELECT count(*), count(*) FILTER (WHERE a = 5), count(*) FILTER (WHERE a = 6) FROM v") == [
        (20_101, 0, 2)
    ]


@pytest.mark.parametrize("number", [1, 3000], ids=["in the statement", "in a table"])
def test_a_text_that_the_warehouse_cannot_hold_is_the_view_s_own_failure(writer: Writer, number: int) -> None:
    create(writer, "v", version(("id", "integer"), ("name", "text")), entries(("1", "a", 1)))
    with pytest.raises(DydaError):
        install(writer, delta=entries(*((str(i), "a\0b", 1) for i in range(number))))


def test_what_a_lane_has_lost_is_said_of_the_view(warehouse: Warehouse, writer: Writer) -> None:
    columns = (("id", "integer"), ("name", "text"))
    keyed = version(*columns, layout=Layout(declared_key=("id",)))
    create(writer, "v", keyed, entries(("1", "a", 1)))
    create(writer, "v/next", keyed, entries(("1", "a", 1), ("1", "b", 1)))
    writer.show_hidden("v", 1.0)
    assert [lost.kind for lost in warehouse.lost_indexes()["v"]] == ["declared_key_repeated"]
