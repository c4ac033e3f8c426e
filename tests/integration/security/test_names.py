"""Sources, schemas, tables, columns, types, labels, roles, views and values that are called like attacks."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from collections import Counter
from collections.abc import Callable

from dyda import commands
from tests.integration.sources.conftest import as_role
from tests.recompute_oracle import printed
from tests.town import Town

ATTACKS = [
    '"; DROP TABLE victim; --',
    "'; DROP TABLE victim; --",
    "\\'; DROP TABLE victim; --",
    "$$; DROP TABLE victim; $$",
    "%s",
    "%(a)s",
    "%",
    "{0}",
    "{name!r}",
    "${HOME}",
    "$1",
    "$body$",
    ":name",
    "?",
    "\\",
    "\\n",
    "`",
    "``; DROP TABLE victim; --",
    "line\nbreak\ttab",
    "/* comment",
    "*/",
    "-- dyda: extent = any",
    "<script>alert(1)</script>&amp;]]>",
    "select",
    "from",
    "x" * 63,
    "ü" * 31 + "x",
    "admin",
    "аdmin",  # its first letter is Cyrillic
    "Admin",
    " ",
    "a.b",
    "t",
    "k0",
    "c1",
    "n",
    "f",
    "o",
    "count",
    "hash",
    "dyda new",
    "dyda row",
    "__dyda_op",
]
CARRIAGE = "a\r\nb\x01\x7f\u202e"
FEW = [ATTACKS[i] for i in (0, 2, 4, 5, 7, 9, 11, 16, 18, 22, 25, 40)]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def ticked(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def row(*values: str) -> str:
    return f"({', '.join(literal(value) for value in values)})"


GOING = ATTACKS[1]
"""The column that is dropped."""
SOURCE, SCHEMA, TABLE, TYPE = ATTACKS[0], ATTACKS[2], ATTACKS[18], ATTACKS[4]
VIEW = "\"'; DROP TABLE victim; -- %s {0} $$ ` \\ \n <b>"
WIDE = f"SELECT {', '.join(map(quoted, ATTACKS))} FROM {quoted(SCHEMA)}.{quoted(TABLE)}"
UNION = " UNION ALL ".join(f"SELECT {quoted(name)} FROM {quoted(name)}" for name in FEW)
GROUPS = f"SELECT {quoted(ATTACKS[5])}, count(*) FROM {quoted(SCHEMA)}.labels GROUP BY 1"


def test_names_and_values_that_are_attacks(new_town: Callable[..., Town]) -> None:
    town = new_town('schema_changes = "approve"')
    labels = ", ".join(map(literal, ATTACKS))
    role = "owner " + ATTACKS[0]
    place = f"{quoted(SCHEMA)}.{quoted(TABLE)}"
    town.source(
        SOURCE,
        "CREATE TABLE victim (a int)",
        f"CREATE SCHEMA {quoted(SCHEMA)}",
        f"CREATE TYPE {quoted(SCHEMA)}.{quoted(TYPE)} AS ENUM ({labels})",
        f"CREATE TABLE {place} ({', '.join(f'{quoted(name)} text' for name in ATTACKS)})",
        f"INSERT INTO {place} VALUES {row(*ATTACKS)}",
        *(f"CREATE TABLE {quoted(name)} ({quoted(name)} text)" for name in FEW),
        *(f"INSERT INTO {quoted(name)} VALUES {row(name)}" for name in FEW),
        f"CREATE TABLE {quoted(SCHEMA)}.labels ({quoted(ATTACKS[5])} {quoted(SCHEMA)}.{quoted(TYPE)})",
        f"INSERT INTO {quoted(SCHEMA)}.labels SELECT unnest(enum_range(NULL::{quoted(SCHEMA)}.{quoted(TYPE)}))",
        f"CREATE ROLE {quoted(role)} LOGIN",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {quoted(SCHEMA)} TO {quoted(role)}",
        f"GRANT USAGE ON SCHEMA {quoted(SCHEMA)} TO {quoted(role)}",
    )
    try:
        life(town, place, role)
    finally:
        town.execute(SOURCE, f"DROP OWNED BY {quoted(role)}", f"DROP ROLE {quoted(role)}")


def life(town: Town, place: str, role: str) -> None:
    columns = ", ".join(f"t.{ticked(name)}{' /* dispensable */' if name == GOING else ''}" for name in ATTACKS)
    here = f"{ticked(SOURCE)}.{ticked(SCHEMA)}"
    town.view(VIEW, f"SELECT {columns} FROM {here}.{ticked(TABLE)} t WHERE t.{ticked(ATTACKS[4])} <> 'hidden'")
    town.view(
        "tables", " UNION ALL ".join(f"SELECT a.{ticked(n)} AS v FROM {ticked(SOURCE)}.{ticked(n)} a" for n in FEW)
    )
    label = f"CAST(l.{ticked(ATTACKS[5])} AS STRING)"
    town.view("labels", f"SELECT {label} AS label, count(*) AS many FROM {here}.labels l GROUP BY {label}")
    town.apply()
    judge(town)
    assert [column["name"] for column in town.state(VIEW)["columns"]] == ATTACKS

    # Rows, as a user whose name is an attack writes them.
    url = town.sources[SOURCE]
    town.sources[SOURCE] = as_role(url, role, "x")
    rows = [reversed(ATTACKS), ["hidden"] * len(ATTACKS), [CARRIAGE] * len(ATTACKS)]
    town.execute(SOURCE, f"INSERT INTO {place} VALUES {', '.join(row(*values) for values in rows)}")
    town.execute(SOURCE, f"DELETE FROM {quoted(SCHEMA)}.labels WHERE {quoted(ATTACKS[5])} = {literal(ATTACKS[1])}")
    town.sources[SOURCE] = url
    town.execute(SOURCE, *(f"UPDATE {quoted(n)} SET {quoted(n)} = {quoted(n)} || {literal(n)}" for n in FEW))
    town.settle()
    judge(town)

    # Renamed to attacks, and dropped: foreseen, followed, shown, drawn, approved.
    new = "'\"; DROP TABLE victim; -- %(b)s {1} $2 \\ ` <i>"
    ddl = f"ALTER TABLE {place} RENAME COLUMN {quoted(ATTACKS[4])} TO {quoted(new)}"
    foreseen = commands.impact(town.folder, ddl, SOURCE)
    effects = {view["name"]: view["effect"] for view in foreseen["views"]}
    assert effects == {VIEW: "renamed", "tables": "none", "labels": "none"}
    town.execute(SOURCE, ddl)
    town.settle()
    assert ticked(new) in town.state(VIEW)["definition"]
    town.execute(SOURCE, f"ALTER TABLE {place} DROP COLUMN {quoted(GOING)}")
    town.settle()
    (waiting,) = commands.pending(town.folder)
    shown = json.dumps(commands.pending_show(town.folder, waiting["id"]), ensure_ascii=False)
    assert json.dumps(GOING, ensure_ascii=False)[1:-1] in shown
    commands.pending_plan(town.folder)
    commands.pending_graph(town.folder)
    drawn(town)
    commands.pending_approve(town.folder, waiting["id"])
    town.settle()
    swap = WIDE.replace(f"{quoted(GOING)}, ", "").replace(quoted(ATTACKS[4]), quoted(new))
    assert town.extent(VIEW) == printed(url, f"{swap} WHERE {quoted(new)} <> 'hidden'")
    town.execute(SOURCE, f"INSERT INTO {place} VALUES {row(*ATTACKS[1:])}")
    town.settle()
    assert town.extent(VIEW) == printed(url, f"{swap} WHERE {quoted(new)} <> 'hidden'")

    assert {answer["result"] for answer in commands.verify(town.folder, [], engine=town.engine)} == {"equal"}
    assert not [finding for finding in commands.sources_check(town.folder) if finding["level"] == "error"]
    commands.views_history(town.folder, VIEW)
    commands.views_explain(town.folder, VIEW)
    commands.sources_detach(town.folder, SOURCE)
    assert printed(url, "SELECT count(*) FROM victim") == Counter({"0": 1})


def judge(town: Town) -> None:
    url = town.sources[SOURCE]
    assert town.extent(VIEW) == printed(url, f"{WIDE} WHERE {quoted(ATTACKS[4])} <> 'hidden'")
    assert town.extent("tables") == printed(url, UNION)
    assert town.extent("labels") == printed(url, GROUPS)


def drawn(town: Town) -> None:
    """Pictures are data: what a name says is text in them, and nothing else."""
    svg = commands.pending_picture(town.folder, "svg").decode()
    assert "<script" not in svg
    texts = "".join(xml.etree.ElementTree.fromstring(svg).itertext())
    assert "DROP TABLE" in texts
    dot = commands.pending_picture(town.folder, "dot").decode()
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", dot)
    assert '"' not in outside
    assert "DROP" not in outside
    assert commands.pending_picture(town.folder, "png").startswith(b"\x89PNG")
    assert b"DROP TABLE" in commands.pending_picture(town.folder, "text")
