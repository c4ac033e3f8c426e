"""What planning costs in real units: `python -m benchmarks.units [MESSAGES]`.

Two measurements on real databases, with the time that every unit records about its phases. In peace: data updates
alone, under both kinds of detection, side by side in one run; finding the next unit may take 1 % of a unit's time at
the most. And a drain: MESSAGES transactions wait (2,000 unless told otherwise), one in a hundred a schema change that
the view must follow, so that the queue is planned again and again; planning may take 10 % at the most.
"""

from __future__ import annotations

import sys
import tempfile
import time
import urllib.parse
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg2

from dyda.engine import Engine
from dyda.maintenance import Outcome
from dyda.settings import SparkSettings
from dyda.warehouse import UnitRecord
from tests.conftest import Server, _administer
from tests.town import Town

__all__ = ["main"]

VIEW = "SELECT c.name, c.city, f.no FROM crm.customer c JOIN booking.flight f ON c.name = f.name"
WARM = 5
"""Units before the first one that counts."""


@contextmanager
def databases() -> Iterator[Callable[[str], str]]:
    server = Server({"fsync": "off", "wal_level": "logical"}).start()

    def database(hint: str) -> str:
        name = f"{hint}_{uuid.uuid4().hex[:12]}"
        _administer(server.url(), "CREATE DATABASE {}", name)
        return urllib.parse.urlunsplit(urllib.parse.urlsplit(server.url())._replace(path="/" + name))

    try:
        yield database
    finally:
        server.remove()


def travel(town: Town) -> Town:
    town.source("crm", "CREATE TABLE customer (name text, city text)")
    town.execute("crm", "INSERT INTO customer SELECT 'n' || i, 'c' || i FROM generate_series(1, 1000) i")
    town.source("booking", "CREATE TABLE flight (name text, no int)", "CREATE INDEX ON flight (name)")
    town.execute("booking", "INSERT INTO flight SELECT 'n' || i % 1000, i FROM generate_series(1, 10000) i")
    town.view("joined", VIEW)
    town.apply()
    return town


def peace(town: Town, units: int) -> dict[str, float]:
    """Seconds by phase, over `units` units of one transaction each."""
    with town.maintainer() as maintainer:
        for number in range(WARM + units):
            town.execute("crm", f"INSERT INTO customer VALUES ('n{number}', 'here')")
            while maintainer.cycle() is not Outcome.IDLE:
                pass
        return spent(maintainer.house.warehouse.units(units))


def drain(town: Town, messages: int) -> tuple[dict[str, float], float, Counter[str]]:
    """Seconds by phase and in all, and the kinds of units, from a full queue to an empty one."""
    connection = psycopg2.connect(town.sources["crm"])
    connection.autocommit = True
    with connection.cursor() as cursor:
        for number in range(messages):
            if number % 100 == 50:
                old, new = ("city", "town") if number % 200 < 100 else ("town", "city")
                cursor.execute(f"ALTER TABLE customer RENAME COLUMN {old} TO {new}")
            else:
                cursor.execute(f"INSERT INTO customer VALUES ('n{number % 1000}', 'there')")
    connection.close()
    with town.maintainer() as maintainer:
        before = len(maintainer.house.warehouse.units(1_000_000))
        begun = time.perf_counter()
        while maintainer.cycle() is not Outcome.IDLE:
            pass
        seconds = time.perf_counter() - begun
        records = maintainer.house.warehouse.units(1_000_000)[:-before]
    return spent(records), seconds, Counter(record.kind for record in records)


def spent(records: Sequence[UnitRecord]) -> dict[str, float]:
    found: dict[str, float] = {}
    for record in records:
        for phase, seconds in record.phases.items():
            found[phase] = found.get(phase, 0.0) + seconds
    return found


def shown(phases: dict[str, float]) -> str:
    return ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in sorted(phases.items()))


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    units = 40
    spark = SparkSettings(master="local[2]")
    with Engine(spark) as engine, databases() as database, tempfile.TemporaryDirectory() as folder:
        for detection in ("pessimistic", "optimistic"):
            town = travel(Town(Path(folder) / detection, database, engine, f'detection = "{detection}"'))
            phases = {name: seconds / units for name, seconds in peace(town, units).items()}
            total = sum(phases.values())
            print(
                f"{detection}: {total * 1000:.1f} ms per unit, planning {phases['plan'] * 1000:.2f} ms, "
                f"{phases['plan'] / total:.2%} (at most 1 %); ms by phase: {shown(phases)}"
            )
        town = travel(Town(Path(folder) / "drain", database, engine))
        phases, seconds, kinds = drain(town, messages)
        print(
            f"draining {messages:,} messages: {seconds:.1f} s, {sum(kinds.values())} units {dict(kinds)}, "
            f"planning {phases['plan']:.2f} s, {phases['plan'] / seconds:.1%} (at most 10 %); "
            f"ms by phase: {shown(phases)}"
        )


if __name__ == "__main__":
    main()
