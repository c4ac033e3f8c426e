"""View files: whatever stands in one, it is read or refused by name; nothing else comes out."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dyda.commands.view_files import read_as_rendered, rehearsed
from dyda.errors import DydaError, UnknownRelation
from dyda.model.algebra.nodes import ViewDefinition
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.sql.parse import parse_view, referenced_tables, referenced_views
from dyda.model.types import PgType
from dyda.project import Project
from tests.properties.fuzzing import ODD_TEXT, answer_or_refusal, mutated, profile, view_texts
from vm import compile_view
from vm.join_block import JoinBlock

TYPES = ("integer", "text", "numeric", "double precision", "date", "boolean", "jsonb", "timestamp with time zone")
TEXTS = view_texts()


def catalog_of(text: str) -> Callable[[str, str | None, str], Relation]:
    """A catalog in which each relation has each word of the text as a column: what is drawn goes far before it is
    refused. Of some the type has no counterpart on Spark, and some names are not there at all."""
    words = list(dict.fromkeys(word.lower() for word in re.findall(r"[A-Za-z_]\w*", text)))[:200]
    columns = tuple(
        Column(word, PgType(TYPES[len(word) % len(TYPES)], TYPES[len(word) % len(TYPES)]), number)
        for number, word in enumerate(words or ["k"], 1)
    )

    def resolve(source: str, schema: str | None, table: str) -> Relation:
        if table.startswith("no"):
            raise UnknownRelation(f"source {source[:80]!r} has no relation {table[:80]!r}")
        return Relation(RelationName(source, schema or "public", table), abs(hash(table)) % 10_000 + 1, columns)

    return resolve


def read(text: str) -> ViewDefinition | DydaError:
    """All that happens to a view's text before Spark is asked, and what must hold of the outcome."""
    resolve = catalog_of(text)

    def types_of(_: int, block: JoinBlock) -> list[str]:
        return ["integer"] * len(block.items)

    def as_apply_reads_it() -> ViewDefinition:
        with rehearsed("v"):
            definition = parse_view("v", text, resolve)
            compile_view(definition, types_of, "decimal(38,18)")
            read_as_rendered(definition, "decimal(38,18)")
            return definition

    for outline in (referenced_tables, referenced_views):
        answer_or_refusal(partial(outline, "v", text))
    found = answer_or_refusal(as_apply_reads_it)
    if isinstance(found, ViewDefinition):
        # What was accepted is read again and again, and what evolves is rendered first.
        compile_view(parse_view("v", text, resolve), types_of, "decimal(38,18)")
        read_as_rendered(found, "decimal(38,18)")
    return found


@profile(300)
@given(st.text(max_size=200) | st.lists(ODD_TEXT, max_size=30).map("".join))
def test_random_text(text: str) -> None:
    read(text)


@profile(600)
@given(mutated(TEXTS))
def test_views_after_accidents(text: str) -> None:
    read(text)


# --- any SQL, also what no view can have

COLUMNS = st.sampled_from(
    [
        "a.k",
        "b.name",
        "k",
        "a.`x y`",
        "c.d.e",
        "count(*)",
        "sum(a.k)",
        "max(DISTINCT k)",
        "1",
        "'x'",
        "NULL",
        "*",
        "a.*",
    ]
)
EXPRESSIONS: st.SearchStrategy[str] = st.recursive(
    COLUMNS,
    lambda inner: st.one_of(
        st.tuples(
            inner,
            st.sampled_from(
                ["+", "/", "=", "<=>", "<>", "AND", "OR", "||", "->", "::", "IS NOT", "LIKE", "BETWEEN", "%", "^", ":"]
            ),
            inner,
        ).map(" ".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"NOT {text}"),
        inner.map(lambda text: f"CAST({text} AS INT)"),
        inner.map(lambda text: f"CASE WHEN {text} THEN {text} ELSE 1 END"),
        st.tuples(
            st.sampled_from(["coalesce", "sum", "explode", "rand", "row_number", "transform", "`f g`", "if"]), inner
        ).map(lambda pair: f"{pair[0]}({pair[1]})"),
        inner.map(lambda text: f"sum({text}) FILTER (WHERE {text})"),
        inner.map(lambda text: f"{text} OVER (PARTITION BY {text})"),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]} IN ({pair[1]}, 2)"),
        inner.map(lambda text: f"x -> {text}"),
        inner.map(lambda text: f"INTERVAL {text} DAY"),
        inner.map(lambda text: f"EXISTS (SELECT {text} FROM one.b WHERE {text})"),
        inner.map(lambda text: f"(SELECT {text} FROM one.b)"),
        inner.map(lambda text: f"k NOT IN (SELECT {text} FROM one.b)"),
    ),
    max_leaves=6,
)
TABLES = st.sampled_from(
    [
        "one.a",
        "one.a AS a",
        "one.public.b b",
        "a",
        "`one`.`b` b",
        "range(10)",
        "(one.a)",
        "LATERAL VIEW explode(k)",
        "one.a TABLESAMPLE (1 ROWS)",
        "VALUES (1)",
    ]
)
JOINS = st.sampled_from(
    [
        ",",
        "JOIN",
        "LEFT JOIN",
        "FULL OUTER JOIN",
        "LEFT ANTI JOIN",
        "SEMI JOIN",
        "CROSS JOIN",
        "NATURAL JOIN",
        "RIGHT JOIN",
        "JOIN LATERAL",
    ]
)


@st.composite
def queries(draw: st.DrawFn, depth: int = 0) -> str:
    """A query over the grammar of Spark SQL, roughly: most of what is drawn is refused, each for its own reason."""
    items = ", ".join(
        draw(EXPRESSIONS) + draw(st.sampled_from(["", f" AS c{number}", " /* dispensable */", " `é`"]))
        for number in range(draw(st.integers(1, 3)))
    )
    table = draw(TABLES) if depth > 1 or draw(st.integers(0, 2)) else f"({draw(queries(depth + 1))}) q"
    text = f"SELECT {draw(st.sampled_from(['', 'DISTINCT ', 'ALL ']))}{items} FROM {table}"
    for _ in range(draw(st.integers(0, 2))):
        condition = draw(st.sampled_from(["", "USING (k)", "ON a.k = b.k", "ON true"]))
        text += f" {draw(JOINS)} {draw(TABLES)} {condition}"
    for clause in ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "CLUSTER BY", "QUALIFY"):
        if draw(st.integers(0, 5)) == 0:
            text += f" {clause} {draw(EXPRESSIONS)}"
    if depth < 2 and draw(st.integers(0, 3)) == 0:
        operation = draw(st.sampled_from(["UNION", "UNION ALL", "EXCEPT", "INTERSECT ALL", "MINUS"]))
        text += f" {operation} {draw(queries(depth + 1))}"
    if depth < 2 and draw(st.integers(0, 5)) == 0:
        text = (
            f"WITH {draw(st.sampled_from(['w', 'RECURSIVE w', 'a', 'w (c1)']))} AS ({draw(queries(depth + 1))}) {text}"
        )
    return text


@profile(200)
@given(queries())
def test_any_sql(text: str) -> None:
    read(text)


COMMENTS = st.sampled_from(
    [
        "/* dispensable */",
        "/* replaceable, dispensable */",
        "/* dispensible */",
        "-- dyda: extent = any\n",
        "-- dyda:\n",
        "--replaceable\n",
        "/*+ hint */",
        "/* a /* b */ */",
        "-- x\\\n",
        "/* dyda: new_columns = append */",
    ]
)


@profile(100)
@given(queries(), st.lists(st.tuples(st.integers(0, 400), COMMENTS), max_size=4))
def test_preferences_anywhere(text: str, comments: list[tuple[int, str]]) -> None:
    for place, comment in comments:
        text = text[:place] + comment + text[place:]
    read(text)


# --- deep, long and large

DEEP = 1000
C = "FROM crm.customer c"


def nested(around: str, inside: str, times: int) -> str:
    before, after = around.split("…")
    return before * times + inside + after * times


DEEPLY = {
    "parentheses": f"SELECT {nested('(…)', 'c.age', DEEP)} AS a {C}",
    "parentheses in WHERE": f"SELECT c.age {C} WHERE {nested('(…)', 'c.age = 1', DEEP)}",
    "open parentheses": "SELECT " + "(" * DEEP,
    "closing parentheses": f"SELECT c.age {C} " + ")" * DEEP,
    "queries in parentheses": nested("(…)", f"SELECT c.age {C}", DEEP),
    "joins in parentheses": f"SELECT c.age FROM {nested('(…)', 'crm.customer c', DEEP)}",
    "derived tables": nested("SELECT a.name FROM (…) a", "SELECT c.name FROM crm.customer c", DEEP),
    "EXISTS": nested("SELECT c.k FROM crm.customer c WHERE EXISTS (…)", f"SELECT 1 {C}", DEEP),
    "NOT": f"SELECT c.age {C} WHERE {'NOT ' * DEEP} c.age = 1",
    "NOT (": f"SELECT c.age {C} WHERE {nested('NOT (…)', 'c.age = 1', DEEP)}",
    "minus": f"SELECT {'- ' * DEEP} c.age AS a {C}",
    "AND": f"SELECT c.age {C} WHERE " + " AND ".join(["c.age = 1"] * DEEP),
    "CASE": f"SELECT {nested('CASE WHEN c.age = 1 THEN … END', '1', DEEP)} AS a {C}",
    "calls": f"SELECT {nested('abs(…)', 'c.age', DEEP)} AS a {C}",
    "UNION": " UNION ".join([f"SELECT c.age {C}"] * DEEP),
    "UNION ALL in parentheses": nested(f"(… UNION ALL SELECT c.age {C})", f"SELECT c.age {C}", DEEP),
    "joins": "SELECT c0.k FROM crm.a c0 " + " ".join(f"LEFT JOIN crm.a c{i} ON c{i}.k = c0.k" for i in range(1, DEEP)),
    "brackets": f"SELECT c.age{nested('[…]', '1', DEEP)} AS a {C}",
    "INTERVAL": f"SELECT {'INTERVAL ' * DEEP} 1 AS a {C}",
    "OR in parentheses": f"SELECT c.age {C} WHERE {nested('(c.age = 1 OR …)', 'c.age = 2', DEEP)}",
    "WITH, each over the one before": "WITH a0 AS (SELECT c.age FROM crm.customer c), "
    + ", ".join(f"a{i} AS (SELECT x.age FROM a{i - 1} x)" for i in range(1, DEEP))
    + f" SELECT x.age FROM a{DEEP - 1} x",
    "WITH, each twice over the one before": "WITH a0 AS (SELECT c.age FROM crm.customer c), "
    + ", ".join(f"a{i} AS (SELECT x.age FROM a{i - 1} x JOIN a{i - 1} y ON x.age = y.age)" for i in range(1, 60))
    + " SELECT x.age FROM a59 x",
    "many words": f"SELECT c.age {C} WHERE c.age IN (" + ", ".join(map(str, range(30_000))) + ")",
    "a long alias": f"SELECT {'a' * 100_000}.age {C}",
    "a long output name": f"SELECT c.age AS {'a' * 100_000} {C}",
    "a long preference": f"SELECT c.age /* {'dispensible ' * 10_000} */ {C}",
    "a long header": f"-- dyda: {'x' * 100_000} = any\nSELECT c.age {C}",
    "open comments": f"SELECT c.age {'/* ' * DEEP}",
}


@pytest.mark.parametrize("text", DEEPLY.values(), ids=DEEPLY.keys())
def test_what_is_too_deep_or_too_large_is_refused(text: str) -> None:
    assert isinstance(read(text), DydaError)


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT {nested('(…)', 'c.age', 12)} AS a {C}",
        f"SELECT {nested('replace(…, 1, 2)', 'c.name', 12)} AS a {C}",
        f"SELECT c.age {C} WHERE " + " AND ".join(f"c.age <> {number}" for number in range(50)),
        f"SELECT c.age {C} WHERE c.age IN (" + ", ".join(map(str, range(2000))) + ")",
        " UNION ALL ".join([f"SELECT c.age {C}"] * 20),
        nested("SELECT a.age FROM (…) a", f"SELECT c.age {C}", 12),
        f"SELECT '{'x' * 100_000}' AS a {C}",
    ],
)
def test_what_people_and_programs_write_is_not(text: str) -> None:
    assert isinstance(read(text), ViewDefinition)


# --- files

SETTINGS = "[warehouse]\nurl = 'embedded'\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "views").mkdir()
    (tmp_path / "dyda.toml").write_text(SETTINGS)
    return tmp_path


@pytest.mark.parametrize("name", ["dyda.toml", "views/v.sql", "knowledge.toml"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfeS\x00", "is not UTF-8"),
        (b"a\x80", "is not UTF-8"),
        (b" " * (2**20 + 1), "1048577 bytes"),
    ],
    ids=["UTF-16", "half a character", "large"],
)
def test_files_that_hold_no_text(folder: Path, name: str, content: bytes, said: str) -> None:
    (folder / name).write_bytes(content)
    found = answer_or_refusal(lambda: Project.load(folder))
    assert isinstance(found, DydaError)
    assert said in str(found)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dyda.toml", "is not a DyDa project"),
        ("views/v.sql", "is not a file"),
        ("knowledge.toml", "is not a file"),
    ],
)
def test_folders_in_the_place_of_files(folder: Path, name: str, said: str) -> None:
    (folder / name).unlink(missing_ok=True)
    (folder / name).mkdir()
    found = answer_or_refusal(lambda: Project.load(folder))
    assert isinstance(found, DydaError)
    assert said in str(found)


def test_a_view_is_never_lost_because_it_cannot_be_read(folder: Path) -> None:
    """`apply` drops a view whose file is gone: a file or folder that cannot be read is not gone."""
    (folder / "views" / "v.sql").symlink_to("nowhere.sql")
    assert "v.sql cannot be read" in str(answer_or_refusal(lambda: Project.load(folder)))
    (folder / "views" / "v.sql").unlink()
    (folder / "views").rmdir()
    (folder / "views").symlink_to("views")
    assert "views cannot be read" in str(answer_or_refusal(lambda: Project.load(folder)))
    (folder / "views").unlink()
    (folder / "views").write_text("")
    assert "views cannot be read" in str(answer_or_refusal(lambda: Project.load(folder)))


@profile(60)
@given(st.binary(min_size=1, max_size=70).filter(lambda name: b"/" not in name and b"\x00" not in name))
@example(b"\xff")
@example("İ".encode() * 31)
@example(b"\x1b[31m")
@example(b"-C")
def test_names_of_view_files(name: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="dyda-t-") as made:
        folder = Path(made)
        (folder / "views").mkdir()
        (folder / "dyda.toml").write_text(SETTINGS)
        (Path(os.fsdecode(os.fsencode(folder / "views") + b"/" + name + b".sql"))).write_text("SELECT 1")
        answer_or_refusal(lambda: Project.load(folder))


@profile(60)
@given(st.binary(max_size=60))
def test_bytes_in_a_view_file(content: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="dyda-t-") as made:
        folder = Path(made)
        (folder / "views").mkdir()
        (folder / "dyda.toml").write_text(SETTINGS)
        (folder / "views" / "v.sql").write_bytes(content)
        found = answer_or_refusal(lambda: Project.load(folder))
        if isinstance(found, Project):
            read(found.view_files["v"])
