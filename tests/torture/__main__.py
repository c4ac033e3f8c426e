"""Random changes, readers and every kind of fault at once, judged by PostgreSQL.

    python -m tests.torture --seconds 600 --seed 1

Ends with one table. Exit code 3: the checker found a violation; 1: DyDa did not go on, or did not say what is wrong.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from tests.torture.daemon import TortureFailed
from tests.torture.faults import KINDS
from tests.torture.report import markdown, table
from tests.torture.schedule import Torture


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600, help="each kind of fault strikes once in any case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", help=f"none, or only these, separated by commas: {', '.join(KINDS)}")
    parser.add_argument("--consistency", choices=["strong", "complete"], default="strong")
    parser.add_argument("--no-lanes", action="store_true", help="whatever is built is built in turn, not in lanes")
    parser.add_argument("--no-decisions", action="store_true", help="nothing waits for approval, nothing is held")
    parser.add_argument("--schema-changes", type=float, default=0.04, help="which part of the transactions they are")
    parser.add_argument("--report", type=Path, help="write the numbers to this file, as Markdown")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and mounts are cleared away
    kinds = [kind.strip() for kind in chosen.faults.split(",")] if chosen.faults else []
    if unknown := sorted(set(kinds) - set(KINDS) - ({"none"} if len(kinds) == 1 else set())):
        parser.error(f"no such fault: {', '.join(unknown)}; there are: {', '.join(KINDS)}")
    command = f"python -m tests.torture --seconds {chosen.seconds:g} --seed {chosen.seed}"
    command += f" --consistency {chosen.consistency}" if chosen.consistency != "strong" else ""
    command += " --no-lanes" if chosen.no_lanes else ""
    command += " --no-decisions" if chosen.no_decisions else ""
    command += f" --schema-changes {chosen.schema_changes:g}" if chosen.schema_changes != 0.04 else ""
    command += f' --faults "{chosen.faults}"' if chosen.faults else ""
    torture = Torture(
        chosen.seed,
        kinds,
        lambda text: print(text, flush=True),
        consistency=chosen.consistency,
        command=command,
        schema_changes=chosen.schema_changes,
        lanes=not chosen.no_lanes,
        decisions=not chosen.no_decisions,
    )
    failure = None
    try:
        torture.run(chosen.seconds)
    except TortureFailed as error:
        failure = error
    summary = torture.summary
    print()
    print(table(summary))
    if failure is not None:
        print(f"\nended early: {failure}", file=sys.stderr)
        return 1
    if chosen.report is not None:
        chosen.report.write_text(markdown(summary, command))
    return 3 if summary.violations else 0


if __name__ == "__main__":
    sys.exit(main())
