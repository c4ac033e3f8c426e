"""Rows for the relations of conftest.py: few distinct values, so that joins meet and groups have several rows, and
NULLs everywhere."""

from __future__ import annotations

import random
import re

COLUMNS = {
    "customer": "id, name, age, phone, since, seen, balance, wealth, active, mood, tags, profile, initial",
    "flight_res": "name, age, flight_no, dest",
    "seat": "flight_no, name, row, tags",
}
_SPARK = {"active": "BOOLEAN", "since": "DATE", "balance": "DECIMAL(10,2)", "wealth": "DECIMAL(38,18)"}
_SPARK |= dict.fromkeys(("id", "age", "flight_no"), "INT")


def rows() -> dict[str, list[list[object]]]:
    """By each relation its rows; some are there twice."""
    chance = random.Random(5)
    found = {}
    for table, columns in COLUMNS.items():
        several = [[_value(chance, name) for name in columns.split(", ")] for _ in range(14)]
        found[table] = several + several[:4]
    return found


def spark_tables() -> dict[str, tuple[dict[str, str], list[list[str | None]]]]:
    """By each relation its columns with their Spark types, and its rows as texts."""
    found = {}
    for table, several in rows().items():
        names = COLUMNS[table].split(", ")
        texts = [[_text(name, value) for name, value in zip(names, row, strict=True)] for row in several]
        found[table] = ({name: _SPARK.get(name, "STRING") for name in names}, texts)
    names = COLUMNS["customer"].split(", ")
    places = [names.index(name) for name in ("id", "name", "mood")]
    adults = [
        [row[place] for place in places] for row in found["customer"][1] if int(row[names.index("age")] or 0) > 17
    ]
    return {**found, "adults": ({"id": "INT", "name": "STRING", "mood": "STRING"}, adults)}


def plain(text: str) -> str:
    """A query whose relations have no source and no schema."""
    return re.sub(r"(`?(crm|booking)`?\.)(`public`\.)?", "", text).replace("MINUS", "EXCEPT")


def _value(chance: random.Random, name: str) -> object:
    if chance.random() < 0.2:
        return None
    if name in ("name", "phone", "dest", "row"):
        return chance.choice(["ann", "bob", "cy", "annx"])
    return chance.choice([0, 1]) if name == "active" else chance.randrange(1, 5) * (9 if name == "age" else 1)


def _text(name: str, value: object) -> str | None:
    if value is None:
        return None
    return f"200{value}-01-01" if name == "since" else str(value)
