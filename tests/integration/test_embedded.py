"""Embedded servers: started once, outlive the process, survive a crash, and live with awkward paths."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dyda.embedded import EmbeddedServer, EmbeddedServerFailed, socket_folder
from tests.conftest import memory


@pytest.fixture
def folder() -> Iterator[Path]:
    top = Path(tempfile.mkdtemp(prefix="dyda-t-", dir=memory()))
    yield top / "pg" / "crm"
    for version in top.rglob("PG_VERSION"):
        if version.parent.name == "data":
            EmbeddedServer.stop(version.parents[1])
    shutil.rmtree(top, ignore_errors=True)


def ask(url: str, text: str) -> Any:
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(text)
            return cursor.fetchone()[0] if cursor.description else None
    finally:
        connection.close()


def test_ensure_starts_once_and_stop_ends_it(folder: Path) -> None:
    assert not EmbeddedServer.running(folder)
    url = EmbeddedServer.ensure(folder)
    ask(url, "CREATE TABLE kept AS SELECT 1 AS a")
    begun = ask(url, "SELECT pg_postmaster_start_time()")
    assert EmbeddedServer.ensure(folder) == url
    assert ask(url, "SELECT pg_postmaster_start_time()") == begun
    assert EmbeddedServer.running(folder)
    assert EmbeddedServer.stop(folder)
    assert not EmbeddedServer.running(folder)
    assert not EmbeddedServer.stop(folder)
    assert ask(EmbeddedServer.ensure(folder), "SELECT a FROM kept") == 1


def test_it_outlives_the_process_that_started_it(folder: Path) -> None:
    call = (
        "import sys, pathlib; from dyda.embedded import EmbeddedServer as E; print(E.ensure(pathlib.Path(sys.argv[1])))"
    )
    command = [sys.executable, "-c", call, str(folder)]
    url = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert ask(url, "SELECT 1") == 1


def test_commands_that_race_get_one_server(folder: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        urls = list(pool.map(EmbeddedServer.ensure, [folder] * 4))
    assert len(set(urls)) == 1
    assert len({ask(url, "SELECT pg_postmaster_start_time()") for url in urls}) == 1


def test_a_killed_server_starts_again(folder: Path) -> None:
    url = EmbeddedServer.ensure(folder)
    ask(url, "CREATE TABLE kept AS SELECT 1 AS a")
    os.kill(int((folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while EmbeddedServer.running(folder):
        assert time.monotonic() < deadline
    assert ask(EmbeddedServer.ensure(folder), "SELECT a FROM kept") == 1


def test_a_reused_pid_does_not_keep_it_from_starting(folder: Path) -> None:
    EmbeddedServer.ensure(folder)
    stale = (folder / "data" / "postmaster.pid").read_text().splitlines()
    EmbeddedServer.stop(folder)
    (folder / "data" / "postmaster.pid").write_text("\n".join([str(os.getpid()), *stale[1:]]) + "\n")
    assert not EmbeddedServer.running(folder)
    assert ask(EmbeddedServer.ensure(folder), "SELECT 1") == 1


def test_long_and_odd_paths(folder: Path) -> None:
    long = folder.parent / "ä 'quoted' & spaced %20" / ("x" * 120) / "crm"
    assert ask(EmbeddedServer.ensure(long), "SELECT 1") == 1
    assert EmbeddedServer.stop(long)
    shutil.rmtree(socket_folder(long))


def test_a_stranger_s_socket_folder_is_refused(folder: Path) -> None:
    long = folder.parent / ("x" * 120)
    home = socket_folder(long.resolve())
    try:
        home.chmod(0o777)
        with pytest.raises(EmbeddedServerFailed, match="belongs to somebody else"):
            EmbeddedServer.ensure(long)
    finally:
        shutil.rmtree(home)


def test_only_our_own_account_can_connect(folder: Path) -> None:
    url = EmbeddedServer.ensure(folder)
    assert folder.stat().st_mode & 0o077 == 0
    assert ask(url, "SHOW listen_addresses") == ""
    assert ask(url, "SHOW track_commit_timestamp") == "on"


def test_data_of_another_version_is_refused(folder: Path) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "PG_VERSION").write_text("12\n")
    with pytest.raises(EmbeddedServerFailed, match="PostgreSQL 12"):
        EmbeddedServer.ensure(folder)


def test_what_went_wrong_is_said(folder: Path) -> None:
    EmbeddedServer.ensure(folder)
    EmbeddedServer.stop(folder)
    with open(folder / "data" / "postgresql.conf", "a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(EmbeddedServerFailed) as failed:
        EmbeddedServer.ensure(folder)
    assert str(folder / "log") in str(failed.value)
