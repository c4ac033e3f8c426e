"""The audit of dependencies: what is found ends it, what cannot be asked is said."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.audit import verdict

SOUND = {"name": "click", "version": "8.1", "vulns": []}
UNKNOWN = {"name": "ours", "skip_reason": "Dependency not found on PyPI"}
ADVISORY = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["2.0"]}


def test_a_known_vulnerability_ends_the_check() -> None:
    code, lines = verdict([SOUND, {"name": "old", "version": "1.0", "vulns": [ADVISORY]}])
    assert code == 1
    assert "old 1.0: PYSEC-1, mended in 2.0" in lines


def test_what_could_not_be_asked_is_said() -> None:
    assert verdict([SOUND]) == (0, ["1 dependencies audited, 0 known vulnerabilities"])
    assert verdict([SOUND, UNKNOWN])[1][-1] == "not audited: ours"
    assert verdict([UNKNOWN])[1] == ["dependencies not audited: the index has no advisories, or cannot be reached"]


def test_an_index_out_of_reach_is_said_and_stops_nobody(tmp_path: Path) -> None:
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.audit"], env=os.environ | nowhere, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("dependencies not audited: ")


def test_make_check_audits() -> None:
    steps = subprocess.run(["make", "-n", "check"], capture_output=True, text=True, check=True).stdout
    assert "-m tests.audit" in steps
