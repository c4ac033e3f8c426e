"""dyda.toml and knowledge.toml: every value of every wrong kind is an error that names its place, and nothing else."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyda.errors import ConfigurationError, DydaError, UnknownRelation
from dyda.model.knowledge.file import parse_knowledge, referenced_relations, render_knowledge
from dyda.model.relation import Column, Relation, RelationName
from dyda.model.types import PgType
from dyda.project import Project
from dyda.settings import Settings
from tests.properties.fuzzing import FIXTURES, ODD_TEXT, answer_or_refusal, mutated, profile

SETTINGS: dict[str, tuple[str, ...]] = {
    "warehouse": ("url", "schema"),
    "sources.crm": ("url", "schema", "log_limit"),
    "spark": ("master", "timezone", "numeric", "small_scan", "config"),
    "maintenance": (
        "consistency",
        "detection",
        "schema_changes",
        "batch_rows",
        "max_aborts",
        "lock_limit",
        "lanes",
        "lane_size",
        "poll_min",
        "poll_max",
        "lock_timeout",
        "statement_timeout",
        "stale_after",
    ),
    "preferences": ("extent", "new_columns", "dispensable", "replaceable"),
    "daemon": ("metrics",),
}

PLAUSIBLE = [
    "postgresql://ann:s3cret@host/db",
    "postgres://h?sslmode=require&sslmode=disable",
    "postgresql://[::1/db",
    "postgresql://h:99999/d",
    "postgresql://h/d\x00b",
    "postgresql://%zz@h/d",
    "postgresql://",
    "embedded",
    "public",
    "dyda",
    "10GB",
    "1e9GB",
    "-1GB",
    "9" * 400 + "TB",
    "decimal(38,18)",
    "decimal(39,1)",
    "decimal(²,1)",
    "decimal(" + "9" * 5000 + ",1)",
    "strong",
    "complete",
    "any",
    "append",
    "127.0.0.1:9464",
    ":1",
    "h:²",
    "[::1]:70000",
    "a:" + "9" * 5000,
    "${HOME}",
    "${}",
    "${",
    "${A}${B}",
    "${NOT SET}",
    "${a\x00b}",
]

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63, -(2**63) - 1, 10**400]),
    st.floats(),
    st.sampled_from([1e-320, 1e308]),
    st.sampled_from(PLAUSIBLE),
    ODD_TEXT.filter(lambda text: text.isprintable()),
    st.sampled_from(["1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "9" * 5000, "0x" + "f" * 5000]).map(
        lambda text: ("raw", text)
    ),
)
VALUES: st.SearchStrategy[Any] = SCALARS | st.lists(SCALARS, max_size=2) | st.fixed_dictionaries({"a": SCALARS})


def toml(value: Any) -> str:
    """The value as TOML writes it."""
    match value:
        case None:
            return "[]"
        case ("raw", str(text)):
            return text
        case bool():
            return str(value).lower()
        case float():
            return (
                ("nan" if math.isnan(value) else "inf" if value > 0 else "-inf")
                if not math.isfinite(value)
                else repr(value)
            )
        case int():
            return str(value)
        case str():
            return json.dumps(value)
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
        case _:
            return "{" + ", ".join(f"{json.dumps(name)} = {toml(inner)}" for name, inner in value.items()) + "}"


@st.composite
def settings_files(draw: st.DrawFn) -> str:
    """A dyda.toml whose places are right and whose values are anything."""
    lines = []
    for place, names in SETTINGS.items():
        if place != "warehouse" and draw(st.booleans()):
            continue
        lines.append(f"[{place}]")
        chosen = draw(st.lists(st.sampled_from(names), unique=True, max_size=4))
        if place in ("warehouse", "sources.crm") and draw(st.integers(0, 9)):
            lines.append(f'url = "postgresql://{place}/x"')
            chosen = [name for name in chosen if name != "url"]
        lines += [f"{name} = {toml(draw(VALUES))}" for name in chosen]
        if draw(st.integers(0, 30)) == 0:
            stranger = draw(st.sampled_from(["mastr", "url", "x", '"a b"', "''"]))
            lines.append(f"{stranger} = {toml(draw(VALUES))}")
    return "\n".join(lines)


def read_settings(text: str) -> Settings | DydaError:
    found = answer_or_refusal(lambda: Settings.parse(text, {"HOME": "/home", "A": "a", "B": "b\x00"}))
    if isinstance(found, DydaError):
        assert "s3cret" not in str(found), "a password in an error"
    else:
        maintenance = found.maintenance
        for seconds in (maintenance.lock_timeout, maintenance.statement_timeout, maintenance.lock_limit):
            assert 0 < int(seconds * 1000) < 2**31, "PostgreSQL takes milliseconds in 32 bits"
        assert all("\x00" not in text for text in _texts(found)), "nothing outside takes a NUL"
    return found


def _texts(settings: Settings) -> list[str]:
    found = [settings.warehouse.url, settings.warehouse.schema, settings.spark.master, settings.spark.timezone]
    for entry in settings.sources.values():
        found += [entry.name, entry.url, entry.schema]
    return found + [part for pair in settings.spark.config.items() for part in pair]


@profile(500)
@given(settings_files())
def test_settings_of_any_kind(text: str) -> None:
    read_settings(text)


@profile(200)
@given(
    mutated(
        [(FIXTURES / "travel" / "dyda.toml").read_text(), "[warehouse]\nurl = 'embedded'\n[sources.a]\nurl = 'x'"],
        PLAUSIBLE,
    )
)
def test_settings_after_accidents(text: str) -> None:
    read_settings(text)


# --- knowledge.toml

COLUMNS = ("name", "age", "participant", "tour_name", "id")


def resolve(source: str, schema: str | None, table: str) -> Relation:
    if source not in ("crm", "booking", "tours", "people") or table not in (
        "customer",
        "flight_res",
        "tour",
        "participant",
    ):
        raise UnknownRelation(f"source {source[:80]!r} has no relation {table[:80]!r}")
    kinds = ["text", "integer", "text", "jsonb", "bigint"]
    columns = tuple(Column(n, PgType(k, k), i) for i, (n, k) in enumerate(zip(COLUMNS, kinds, strict=True), 1))
    return Relation(RelationName(source, schema or "public", table), 1, columns)


NAMES = st.sampled_from(
    [
        "crm.customer",
        "booking.flight_res",
        "tours.tour",
        "people.public.participant",
        "`crm`.`customer`",
        "crm.customer(name)",
        "tours.tour(name, age)",
        "people.participant(id, participant)",
        "crm.customer(name, name)",
        "crm.customer()",
        "tours.tour.age",
        "booking.flight_res.age",
        "crm.public.customer.name",
        "a.b.c.d.e",
        "crm..customer",
        "customer",
        "",
        " ",
    ]
)
CONDITIONS = st.sampled_from(
    [
        "customer.name = tour.tour_name",
        "flight_res.name = participant.participant AND flight_res.age > 3",
        "customer.age = flight_res.age OR true",
        "tours.tour.age + 1",
        "count(*)",
        "EXISTS (SELECT 1 FROM crm.customer)",
        "1",
        "*",
        "name",
        "(" * 400 + "customer.age = 1" + ")" * 400,
        "customer.name = 'x' GROUP BY 1",
        "customer.name = 1 UNION SELECT 1",
        "customer.name /* dispensable */ = tour.name -- x",
    ]
)
IS = st.sampled_from(["subset", "superset", "equivalent", "SUBSET", ""])


def entry(fields: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    strange = {
        name: strategy | mutated(["crm.customer(name)", "tour.age = customer.age"]) | VALUES
        for name, strategy in fields.items()
    }
    return st.fixed_dictionaries({}, optional=strange) | st.fixed_dictionaries(fields)


KNOWLEDGE = st.fixed_dictionaries(
    {},
    optional={
        "join": st.lists(entry({"between": st.lists(NAMES, min_size=2, max_size=2), "on": CONDITIONS}), max_size=2),
        "containment": st.lists(entry({"of": NAMES, "is": IS, "in": NAMES}), max_size=2)
        | st.lists(
            entry({"of": NAMES, "is": IS, "in": NAMES, "of_where": CONDITIONS, "in_where": CONDITIONS}), max_size=2
        ),
        "function": st.lists(entry({"attribute": NAMES, "equals": CONDITIONS | NAMES}), max_size=2),
        "other": VALUES,
    },
)


def read_knowledge(document: dict[str, Any]) -> None:
    answer_or_refusal(lambda: referenced_relations(document))
    found = answer_or_refusal(lambda: parse_knowledge(document, resolve))
    if not isinstance(found, DydaError):
        assert parse_knowledge(render_knowledge(found), resolve) == found


@profile(500)
@given(KNOWLEDGE)
def test_knowledge_of_any_kind(document: dict[str, Any]) -> None:
    read_knowledge(document)


@profile(200)
@given(text=mutated([(FIXTURES / "travel" / "knowledge.toml").read_text()], PLAUSIBLE))
def test_a_knowledge_file_after_accidents(text: str) -> None:
    project = Project(Path(), Settings.parse("[warehouse]\nurl = 'embedded'", {}), {}, text)
    document = answer_or_refusal(project.knowledge_document)
    if not isinstance(document, DydaError):
        read_knowledge(document)


NESTED = "a = " + "[" * 3000 + "]" * 3000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NESTED, "nested too deeply"),
        ("a = " + "9" * 5000, "cannot be read"),
        ("a = 1\na = 2", "not valid TOML"),
        ("[a]\n[a]", "not valid TOML"),
        ("a = 'x", "not valid TOML"),
        ("\x00", "not valid TOML"),
        ('a = "\\ud800"', "not valid TOML"),
    ],
    ids=["nested", "digits", "key twice", "table twice", "open quote", "NUL", "surrogate"],
)
def test_a_file_that_is_no_toml(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        Settings.parse(text, {})
    project = Project(Path(), Settings.parse("[warehouse]\nurl = 'embedded'", {}), {}, text)
    with pytest.raises(ConfigurationError, match=f"knowledge.toml.*{said}"):
        project.knowledge_document()


@pytest.mark.parametrize(
    "text",
    [
        "[maintenance]\nlock_timeout = 1e-9",  # 0 ms: PostgreSQL would wait for ever
        "[maintenance]\nstatement_timeout = 1e300",
        "[maintenance]\npoll_max = " + "9" * 400,
        "[maintenance]\nlock_limit = nan",
        "[maintenance]\nbatch_rows = " + "9" * 400,
        "[sources.a]\nurl = 'embedded'\nlog_limit = '" + "9" * 400 + "TB'",
        "[sources.a]\nurl = 'embedded'\nlog_limit = '9999999PB'",
        "[sources.a]\nurl = 'embedded'\nlog_limit = " + str(2**63),
        "[sources.'']\nurl = 'postgresql://h/d'",
        "[sources.\"a\\u0000\"]\nurl = 'postgresql://h/d'",
        "[sources.a]\nurl = 'postgresql://h/d'\nschema = '" + "ä" * 40 + "'",
        "[sources.a]\nurl = 'postgresql://h/${NUL}'",
        "[sources.a]\nurl = 'postgresql://h/${BYTES}'",
        "[daemon]\nmetrics = 'h:" + "9" * 5000 + "'",
        "[daemon]\nmetrics = 'h:²'",
        "[spark]\nnumeric = 'decimal(" + "9" * 5000 + ",1)'",
        "[spark]\nconfig = { a = [] }",
    ],
)
def test_values_that_mean_nothing_outside(text: str) -> None:
    environment = {"NUL": "a\x00", "BYTES": "\udcff"}
    found = answer_or_refusal(lambda: Settings.parse("[warehouse]\nurl = 'embedded'\n" + text, environment))
    assert isinstance(found, ConfigurationError)


def test_what_is_in_the_wrong_place_is_not_shown() -> None:
    """A URL under another setting, and what the environment gives."""
    for wrong in ("consistency = 'postgresql://ann:s3cret@h/d'", "detection = '${PW}'"):
        with pytest.raises(ConfigurationError) as refused:
            Settings.parse(f"[warehouse]\nurl = 'embedded'\n[maintenance]\n{wrong}", {"PW": "s3cret"})
        assert "s3cret" not in str(refused.value)
