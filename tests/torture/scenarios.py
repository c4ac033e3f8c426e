"""Scenarios: each makes one rule of CORRECTNESS.md matter, and is judged by its history.

    python -m tests.torture.scenarios [NAME…]

plays them one after the other, in one process. `mutants` plays them against code in which the rule is broken. The last
line is JSON: by scenario, what was violated.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import traceback
import urllib.parse
import uuid
from pathlib import Path

from dyda.engine import Engine
from dyda.settings import SparkSettings
from tests.conftest import Server, _administer
from tests.torture.scenario_bodies import SCENARIOS
from tests.torture.stage import Stage

__all__ = ["SCENARIOS", "main"]


def play(names: list[str], server_url: str, folder: Path) -> dict[str, list[str] | None]:
    """By scenario what was violated, rule by rule; None: it could not be played to its end."""

    def database(hint: str) -> str:
        name = f"{hint[:20]}_{uuid.uuid4().hex[:12]}"
        _administer(server_url, "CREATE DATABASE {}", name)
        return urllib.parse.urlunsplit(urllib.parse.urlsplit(server_url)._replace(path="/" + name))

    found: dict[str, list[str] | None] = {}
    with Engine(SparkSettings(master="local[2]", config={"spark.sql.shuffle.partitions": "2"})) as engine:
        for name in names:
            stage = Stage(name, folder / name, database, engine)
            failed = ""
            try:
                SCENARIOS[name](stage)
            except Exception:
                failed = traceback.format_exc()
            stage.end(at_rest=stage.at_rest and not failed)
            violations = stage.recorded.violations()
            stage.close()
            for violation in violations:
                print(f"{name}: {violation}\n", flush=True)
            if failed:
                print(f"{name}: not played to its end\n{failed}", flush=True)
            found[name] = None if failed and not violations else [violation.rule for violation in violations]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(SCENARIOS)}; all if none is given")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(SCENARIOS)
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are: {', '.join(SCENARIOS)}")
    given = os.environ.get("DYDA_TEST_POSTGRES")
    server = None if given else Server({"fsync": "off", "wal_level": "logical"}).start()
    folder = Path(tempfile.mkdtemp(prefix="dyda-scenarios-"))
    try:
        found = play(chosen.names or list(SCENARIOS), given or server.url(), folder)  # type: ignore[union-attr]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if server is not None:
            server.remove()
    print(json.dumps(found))
    sys.exit(0 if all(rules == [] for rules in found.values()) else 1)


if __name__ == "__main__":
    main()
