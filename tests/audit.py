"""`make check` asks PyPI's advisories about every package of this environment: python -m tests.audit

Advisories that are out of reach, all of them or those of one package, are said and stop nobody; a known vulnerability
ends with 1. Nothing here waits for longer than a few minutes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

ACCEPTED: Mapping[str, str] = {}
"""Advisories that do not concern us, by their number, and why."""

PATIENCE = 180.0


def main() -> int:
    command = [sys.executable, "-m", "pip_audit", "--format", "json", "--progress-spinner", "off", "--skip-editable"]
    try:
        done = subprocess.run(
            [*command, "--timeout", "10"], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return told(0, [f"dependencies not audited: no answer within {PATIENCE:.0f} s"])
    try:
        report = json.loads(done.stdout)
    except ValueError:
        reason = (done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1]
        return told(0, [f"dependencies not audited: {reason[:300]}"])
    return told(*verdict(report["dependencies"]))


def verdict(dependencies: Sequence[Mapping[str, Any]]) -> tuple[int, list[str]]:
    """The exit code and what is said."""
    unasked = [
        found["name"] for found in dependencies if "skip_reason" in found and "editable" not in found["skip_reason"]
    ]
    asked = [found for found in dependencies if "skip_reason" not in found]
    if not asked:
        return 0, ["dependencies not audited: the index has no advisories, or cannot be reached"]
    lines = [
        f"{found['name']} {found['version']}: {advisory['id']}, mended in {', '.join(advisory['fix_versions']) or '-'}"
        for found in asked
        for advisory in found["vulns"]
        if not {advisory["id"], *advisory["aliases"]} & ACCEPTED.keys()
    ]
    code = 1 if lines else 0
    lines.append(f"{len(asked)} dependencies audited, {len(lines)} known vulnerabilities")
    if unasked:
        lines.append(f"not audited: {', '.join(unasked)}")
    return code, lines


def told(code: int, lines: Sequence[str]) -> int:
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main())
