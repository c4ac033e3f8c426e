"""Mutants: the code is broken on purpose, rule by rule, and the checker must notice.

    python -m tests.torture.mutants [NAME…]        or: make mutants

First every scenario that is needed is played against the code as it is, where its history must be right. Then each
mutant is made in a copy of the tree and its scenario is played there, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import Server
from tests.torture.mutations import MUTANTS, Mutant

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("dyda", "scheduler", "vm", "vs", "va", "tests", "pyproject.toml")
LIMIT = 300.0
"""Seconds that one scenario may take; a busy machine is slow, and what hangs is told as such."""


@dataclass(frozen=True)
class Played:
    """What became of scenarios: by name the rules that were violated, None for one that did not come to its end."""

    rules: dict[str, list[str] | None]
    output: str
    seconds: float


def play(root: Path, scenarios: list[str], server: Server, limit: float) -> Played:
    environment = os.environ | {"PYTHONPATH": str(root), "DYDA_TEST_POSTGRES": server.url()}
    began = time.monotonic()
    command = [sys.executable, "-m", "tests.torture.scenarios", *scenarios]
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
        output = done.stdout + done.stderr
        last = done.stdout.strip().rsplit("\n", 1)[-1]
        rules = json.loads(last) if last.startswith("{") else dict.fromkeys(scenarios)
    except subprocess.TimeoutExpired as error:
        told = error.stdout or b""
        output = f"{told.decode() if isinstance(told, bytes) else told}\nnot done after {limit:.0f} s"
        rules = dict.fromkeys(scenarios)
    return Played(rules, output, time.monotonic() - began)


def copy_tree(target: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=ignored)
        else:
            shutil.copy(source, target / name)


def verdict(mutant: Mutant, played: Played) -> str:
    rules = played.rules.get(mutant.scenario)
    if rules is None:
        return "caught (it stops)" if mutant.stops else "SURVIVED (it stops, and no violation shows)"
    return f"caught ({', '.join(dict.fromkeys(rules))})" if rules else "SURVIVED"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(mutant.name for mutant in MUTANTS))
    parser.add_argument("--verbose", action="store_true", help="print what the scenarios print")
    parser.add_argument("--skip-clean", action="store_true", help="do not play the scenarios against the code as it is")
    chosen = parser.parse_args()
    known = {mutant.name: mutant for mutant in MUTANTS}
    unknown = set(chosen.names) - set(known)
    if unknown:
        parser.error(f"no mutant {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    mutants = [known[name] for name in chosen.names] or list(MUTANTS)
    server = Server({"fsync": "off", "wal_level": "logical"}).start()
    folder = Path(tempfile.mkdtemp(prefix="dyda-mutants-"))
    wrong = 0
    try:
        if not chosen.skip_clean:
            scenarios = list(dict.fromkeys(mutant.scenario for mutant in mutants))
            clean = play(ROOT, scenarios, server, LIMIT + 60 * len(scenarios))
            bad = {name: rules for name, rules in clean.rules.items() if rules != []}
            print(
                f"{len(scenarios)} scenarios against the code as it is: {clean.seconds:.0f} s, violations: {bad or 0}"
            )
            if bad:
                print(clean.output)
                sys.exit(1)
        widths = (39, 17, 18, 24)
        heads = ("mutant", "section", "rule", "scenario")
        print("".join(head.ljust(width) for head, width in zip(heads, widths, strict=True)) + "outcome", flush=True)
        for mutant in mutants:
            root = folder / mutant.name
            copy_tree(root)
            for edit in mutant.edits:
                edit.apply(root)
            played = play(root, [mutant.scenario], server, LIMIT)
            shutil.rmtree(root)
            told = verdict(mutant, played)
            wrong += told.startswith("SURVIVED")
            cells = (mutant.name, mutant.section, mutant.rule, mutant.scenario)
            line = "".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
            print(f"{line}{told}, {played.seconds:.0f} s", flush=True)
            if chosen.verbose or told.startswith("SURVIVED"):
                print(played.output, flush=True)
    finally:
        server.remove()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(mutants) - wrong} of {len(mutants)} mutants caught")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
