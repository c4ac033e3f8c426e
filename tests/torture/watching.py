"""What a run costs while it runs: lag, pending transactions, memory and processor time of every part of the product."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2

__all__ = ["Processes", "Sample", "Watch"]

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

OLDEST = """
SELECT extract(epoch FROM clock_timestamp() - pg_xact_commit_timestamp(l.xid::xid))::float8
FROM dyda.log l
WHERE l.xid >= pg_snapshot_xmin(%(at)s::pg_snapshot) AND NOT pg_visible_in_snapshot(l.xid, %(at)s::pg_snapshot)
ORDER BY l.xid LIMIT 1
"""
WAITING = """
SELECT count(DISTINCT l.xid)
FROM dyda.log l
WHERE l.xid >= pg_snapshot_xmin(%(at)s::pg_snapshot) AND NOT pg_visible_in_snapshot(l.xid, %(at)s::pg_snapshot)
"""
"""By the source's own log, so that neither asks the one who is being watched."""


class Processes:
    """Memory and processor time by part. A daemon's parts share its process group; a server's are its children."""

    def __init__(self, daemon: int, servers: Mapping[str, int]) -> None:
        self.daemon, self.servers = daemon, dict(servers)
        self._last: dict[int, tuple[str, float]] = {}

    def memory(self) -> dict[str, int]:
        """Bytes in memory of the daemon itself, its JVM, and the Python workers of Spark."""
        found = {"daemon": 0, "jvm": 0, "workers": 0}
        for pid, name, _, group, _, pages in _running():
            if group == self.daemon:
                part = "daemon" if pid == self.daemon else "jvm" if name == "java" else "workers"
                found[part] += pages * PAGE
        return found

    def seconds(self) -> dict[str, float]:
        """Processor seconds so far by part; those of processes that have ended since the last look are kept."""
        owners = {pid: name for name, pid in self.servers.items()}
        for pid, name, parent, group, ticks, _ in _running():
            if group == self.daemon:
                part = "daemon" if pid == self.daemon else "jvm" if name == "java" else "workers"
            elif pid in owners or parent in owners:
                part = owners.get(pid) or owners[parent]
            elif name == "pgbench":
                part = "pgbench"
            else:
                continue
            self._last[pid] = (part, ticks / TICKS)
        found: dict[str, float] = {}
        for part, spent in self._last.values():
            found[part] = found.get(part, 0.0) + spent
        return found


def _running() -> list[tuple[int, str, int, int, int, int]]:
    """(pid, name, parent, process group, processor ticks, pages in memory) of every process."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, rest = entry.read_text().rsplit(")", 1)
        except OSError:
            continue
        name, words = head.split("(", 1)[1], rest.split()
        ticks = int(words[11]) + int(words[12])
        found.append((int(entry.parent.name), name, int(words[1]), int(words[2]), ticks, int(words[21])))
    return found


@dataclass(frozen=True)
class Sample:
    """One look. Times in seconds, sizes in bytes; `logs` by source."""

    at: float
    transactions: int
    schema_changes: int
    lag: float
    pending: int
    queue: int
    units: int
    aborts: int
    memory: Mapping[str, int]
    logs: Mapping[str, int]


class Watch:
    """Looks at sources and warehouse from outside, over connections of its own."""

    def __init__(self, sources: Mapping[str, str], warehouse: str, processes: Processes) -> None:
        self.processes = processes
        self._sources = {name: _connect(url) for name, url in sources.items()}
        self._warehouse = _connect(warehouse)

    def close(self) -> None:
        for connection in (*self._sources.values(), self._warehouse):
            connection.close()

    def sample(self, at: float, transactions: int, schema_changes: int) -> Sample:
        queue, units, aborts = self._ask(
            self._warehouse,
            "SELECT (SELECT count(*) FROM dyda.message), (SELECT count(*) FROM dyda.unit),"
            " (SELECT count(*) FROM dyda.abort)",
        )
        lag, pending = self.behind()
        self.processes.seconds()  # of those that end before the next look
        logs = {name: self._ask(one, "SELECT pg_table_size('dyda.log')")[0] for name, one in self._sources.items()}
        return Sample(
            at, transactions, schema_changes, lag, pending, queue, units, aborts, self.processes.memory(), logs
        )

    def behind(self) -> tuple[float, int]:
        """Age of the oldest transaction that some view lacks, and how many there are."""
        lag, pending = 0.0, 0
        with self._warehouse.cursor() as cursor:
            cursor.execute("SELECT DISTINCT source, position FROM dyda.position")
            positions = cursor.fetchall()
        counted: dict[str, int] = {}
        for source, position in positions:
            oldest = self._ask(self._sources[source], OLDEST, {"at": position})
            if oldest is not None and oldest[0] is not None:
                lag = max(lag, oldest[0])
                waiting = self._ask(self._sources[source], WAITING, {"at": position})[0]
                counted[source] = max(counted.get(source, 0), waiting)
        pending = sum(counted.values())
        return lag, pending

    def phases(self) -> list[tuple[str, int, int, float, Any]]:
        """(kind, units, messages, seconds, seconds by phase) of all units installed."""
        with self._warehouse.cursor() as cursor:
            cursor.execute("SELECT kind, messages, phases FROM dyda.unit")
            rows = cursor.fetchall()
        found: dict[str, list[Any]] = {}
        for kind, messages, phases in rows:
            entry = found.setdefault(kind, [kind, 0, 0, 0.0, {}])
            entry[1] += 1
            entry[2] += messages
            entry[3] += sum(phases.values())
            for phase, seconds in phases.items():
                entry[4][phase] = entry[4].get(phase, 0.0) + seconds
        return [tuple(entry) for entry in found.values()]

    def aborts(self) -> list[tuple[str, int]]:
        """Why units were void, and how often."""
        with self._warehouse.cursor() as cursor:
            cursor.execute("SELECT reason, count(*) FROM dyda.abort GROUP BY reason ORDER BY count(*) DESC, reason")
            return [(str(reason), int(count)) for reason, count in cursor.fetchall()]

    @staticmethod
    def _ask(connection: Any, query: str, values: Mapping[str, Any] | None = None) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(query, values)
            return cursor.fetchone()


def _connect(url: str) -> Any:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    return connection
