"""Transactions that can be recognised in the warehouse: each leaves its number in a row of its own client.

    pgbench, client 1 ──n = 7, and its other rows──▶ source ──▶ dyda daemon ──▶ warehouse ──▶ Reader: client 1 is at 7
        log: client 1's 7th ended at 12.30 s                                                  at 12.71 s: it took 0.41 s

A unit installs all views in one transaction: who sees the number sees everything else that the transaction did.
The commit is when pgbench had the answer to it, the reading when the reader had its rows: one machine, one clock.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from tests.torture.load import CLIENTS, SOURCES, Pgbench, schema

__all__ = ["VIEW", "Client", "Marked", "Reader", "created", "freshness"]

Client = tuple[str, int]
"""A source and the number of one of its clients."""

VIEW = " UNION ALL ".join(f"SELECT '{source}' AS source, m.client, m.n FROM {source}.mark AS m" for source in SOURCES)

SCRIPT = """
\\set id random(1, {rows})
\\set other random(1, {rows})
\\set amount random(1, 1000000)
\\set kind random(1, 10)
\\set n :n + 1
\\if :kind <= 6
WITH marked AS (UPDATE mark SET n = :n WHERE client = :client_id)
UPDATE {table} SET amount = :amount / 100.0 WHERE id = :id;
\\elif :kind <= 8
WITH marked AS (UPDATE mark SET n = :n WHERE client = :client_id)
UPDATE {table} SET quantity = 1 + :amount % {cold}, other = :other WHERE id BETWEEN :id AND :id + 2;
\\else
BEGIN;
UPDATE mark SET n = :n WHERE client = :client_id;
INSERT INTO {table} VALUES (nextval('{table}_number'), :other, :amount / 100.0, 1 + :amount % {cold}, 'new');
DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE id > {rows} ORDER BY id LIMIT 1);
COMMIT;
\\endif
"""
"""What `tests.torture.load` has its clients do, with a mark on it."""


def created(source: str) -> list[str]:
    return [
        *schema(source),
        "CREATE TABLE mark (client int PRIMARY KEY, n bigint NOT NULL) WITH (fillfactor = 10)",
        f"INSERT INTO mark SELECT i, 0 FROM generate_series(0, {CLIENTS - 1}) AS i",
    ]


class Marked:
    """pgbench at every source at a fixed rate together; `commits` once it has ended."""

    def __init__(self, urls: Mapping[str, str], rate: float, seconds: float, seed: int, folder: Path) -> None:
        folder.mkdir()
        self.urls, self.folder = urls, folder
        # Numbers go on from load to load: the marks of an earlier one are never taken for this one's.
        self.start = max(n for url in urls.values() for n in _numbers(url).values())
        for url in urls.values():
            with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
                cursor.execute("UPDATE mark SET n = %s", (self.start,))
        self.writers = {
            source: Pgbench(
                url,
                SOURCES[source][0],
                rate / len(urls),
                seconds,
                seed + place,
                folder,
                SCRIPT,
                ("--log", f"--log-prefix={folder / source}", f"--define=n={self.start}"),
            )
            for place, (source, url) in enumerate(urls.items())
        }

    def finish(self) -> None:
        for writer in self.writers.values():
            writer.finish()

    def stop(self) -> None:
        for writer in self.writers.values():
            writer.stop()

    def commits(self) -> dict[Client, list[tuple[int, float]]]:
        """By client, the numbers of its transactions and when each had been committed."""
        found: dict[Client, list[tuple[int, float]]] = {}
        for source, url in self.urls.items():
            (log,) = self.folder.glob(f"{source}.*[0-9]")
            for line in log.read_text().splitlines():
                number, _, _, _, seconds, microseconds = line.split()[:6]
                ended = found.setdefault((source, int(number)), [])
                ended.append((self.start + len(ended) + 1, int(seconds) + int(microseconds) / 1e6))
            for client, n in _numbers(url).items():
                ended = found.get((source, client), [])
                if n != self.start + len(ended):
                    raise AssertionError(f"{source}: client {client} is at {n}, its log says {len(ended)} more")
        return found


def _numbers(url: str) -> dict[int, int]:
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT client, n FROM mark")
        return dict(cursor.fetchall())


@dataclass(frozen=True)
class Seen:
    """What one reading was the first to show of a client."""

    n: int
    at: float


class Reader(threading.Thread):
    """Reads the marks again and again, `pause` after each reading, and notes when a number was seen first."""

    def __init__(self, warehouse: str, pause: float = 0.01) -> None:
        super().__init__(name="reader", daemon=True)
        self.warehouse, self.pause = warehouse, pause
        self.seen: dict[Client, list[Seen]] = {}
        self.readings = 0
        self.error: BaseException | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            with closing(psycopg2.connect(self.warehouse)) as connection, connection.cursor() as cursor:
                connection.autocommit = True
                while not self._ended.wait(self.pause):
                    cursor.execute("SELECT source, client, n FROM public.marks")
                    rows = cursor.fetchall()
                    self._note(rows, time.time())
        except BaseException as error:
            self.error = error

    def _note(self, rows: Iterable[tuple[str, int, int]], at: float) -> None:
        self.readings += 1
        for source, client, n in rows:
            noted = self.seen.setdefault((source, client), [])
            if not noted or n > noted[-1].n:
                noted.append(Seen(n, at))

    def shows(self, commits: Mapping[Client, list[tuple[int, float]]]) -> bool:
        """Whether the last transaction of each client has been seen."""
        if self.error is not None:
            raise self.error
        return all(self.seen.get(client, [Seen(0, 0)])[-1].n >= ended[-1][0] for client, ended in commits.items())

    def end(self) -> None:
        self._ended.set()
        self.join(30)
        if self.error is not None:
            raise self.error


def freshness(
    commits: Mapping[Client, list[tuple[int, float]]], seen: Mapping[Client, list[Seen]]
) -> list[tuple[float, float]]:
    """For every transaction, when it was committed and how many seconds later a reading showed it; in that order."""
    found = []
    for client, ended in commits.items():
        numbers = [one.n for one in seen[client]]
        for n, committed in ended:
            place = bisect.bisect_left(numbers, n)  # the first reading that shows at least this number
            found.append((committed, seen[client][place].at - committed))
    return sorted(found)
