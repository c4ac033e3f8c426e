"""Three passwords through a whole life, then a look everywhere: output, logs, files, dumps, process arguments."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from dyda.embedded import binaries
from tests.integration.security.gate import Gate

pytestmark = pytest.mark.long

CORE = "h7Kq2VwXz9"
"""In all three; alone it survives any quoting and encoding."""
PASSWORDS = {"dw": f"{CORE}@dw/%", "crm": f"{CORE} '\\crm", "shop": f"{CORE}:shop"}

TOML = """
[warehouse]
url = "postgresql://dw:${DW_PASSWORD}@127.0.0.1:PORT/warehouse"
[sources.crm]
url = "postgresql://crm@127.0.0.1:PORT/crm"
password_file = "crm.password"
[sources.shop]
url = "postgresql://shop@127.0.0.1:PORT/shop"
[spark]
master = "local[2]"
[spark.config]
"spark.eventLog.enabled" = true
"spark.eventLog.dir" = "EVENTS"
"spark.local.dir" = "LOCAL"
"spark.hadoop.fs.s3a.secret.key" = "${DW_PASSWORD}"
"""


class Life:
    """A server that wants passwords, a project that has them, and everything that was said."""

    def __init__(self, server: Any, folder: Path) -> None:
        self.server = server
        self.folder = folder / "project"
        for name, password in PASSWORDS.items():
            self.administer(
                "postgres",
                "SET log_statement = none",  # the administrator's own word is no fault of ours
                f"CREATE ROLE {name} LOGIN PASSWORD '{password.replace(chr(39), chr(39) * 2)}'",
            )
            database = "warehouse" if name == "dw" else name
            self.administer("postgres", f"CREATE DATABASE {database} OWNER {name}")
        self.administer("crm", "SET ROLE crm", "CREATE TABLE customer (id int, name text)", *INSERTS["crm"])
        self.administer("shop", "SET ROLE shop", "CREATE TABLE sale (customer int, amount text)", *INSERTS["shop"])
        rules = "local all postgres trust\nlocal all all scram-sha-256\n"
        (server.folder / "data" / "pg_hba.conf").write_text(rules)
        self.administer("postgres", "SELECT pg_reload_conf()")
        self.gate = Gate(server.folder / ".s.PGSQL.5432")
        (self.folder / "views").mkdir(parents=True)
        for name in ("events", "local"):
            (folder / name).mkdir()
        self.write("crm.password", PASSWORDS["crm"] + "\n", 0o600)
        self.passfile = folder / "passfile"
        self.passfile.write_text("*:*:shop:shop:" + PASSWORDS["shop"].replace(":", "\\:") + "\n")
        self.passfile.chmod(0o600)
        text = TOML.replace("EVENTS", str(folder / "events")).replace("LOCAL", str(folder / "local"))
        self.write("dyda.toml", text.replace("PORT", str(self.gate.port)), 0o644)
        self.write(
            "views/sales.sql", "SELECT c.name, s.amount FROM crm.customer c JOIN shop.sale s ON s.customer = c.id"
        )
        self.write("views/amounts.sql", "SELECT s.customer, CAST(s.amount AS INT) AS amount FROM shop.sale s")
        self.said: list[str] = []

    def write(self, name: str, text: str, mode: int = 0o644) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(mode)

    def administer(self, database: str, *statements: str) -> None:
        connection = psycopg2.connect(self.server.url(database))
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.close()

    def command(self, *arguments: str) -> dict[str, Any]:
        environment = {
            **os.environ,
            "DW_PASSWORD": PASSWORDS["dw"],
            "PGPASSFILE": str(self.passfile),
            "DYDA_DEBUG": "1",
        }
        return {"args": [sys.executable, *arguments], "env": environment, "text": True}

    def run(self, *arguments: str, code: int | None = 0, program: tuple[str, ...] = ("-m", "dyda")) -> str:
        command = self.command(*program, "-C", str(self.folder), *arguments)
        done = subprocess.run(**command, capture_output=True, timeout=180, check=False)
        said: str = done.stdout + done.stderr
        self.said.append(said)
        assert code is None or done.returncode == code, (arguments, done.stdout, done.stderr)
        return said

    @contextlib.contextmanager
    def daemon(self) -> Iterator[Path]:
        log = self.folder.parent / "daemon.log"
        with log.open("wb") as output:
            command = self.command("-m", "dyda", "-C", str(self.folder), "daemon")
            process = subprocess.Popen(**command, stdout=output, stderr=output)
            try:
                yield log
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(90)
        self.said.append(log.read_text())

    def read(self, query: str) -> str:
        connection = psycopg2.connect(self.server.url("warehouse"))
        try:
            with connection.cursor() as cursor:
                cursor.execute(query)
                return repr(cursor.fetchall())
        finally:
            connection.close()

    def look_everywhere(self) -> None:
        """In what was said, in all files but those that are meant to hold it, in dumps of all databases."""
        assert self.said
        for text in self.said:
            assert CORE not in text, text
        meant = {self.folder / "crm.password", self.passfile}
        looked = 0
        for folder in (self.folder.parent, self.server.folder / "log"):
            for file in [folder, *folder.rglob("*")]:
                if file.is_file() and file not in meant:
                    assert CORE.encode() not in file.read_bytes(), file
                    looked += file.stat().st_size
        assert looked > 100_000, "event logs and the server's log are among them"
        assert any((self.folder.parent / "events").rglob("*"))
        for database in ("warehouse", "crm", "shop"):
            call = [binaries() / "pg_dump", "--dbname", self.server.url(database)]
            dump = subprocess.run(call, capture_output=True, text=True, check=True).stdout
            assert re.search(r"CREATE TABLE dyda\.", dump), "DyDa's own tables are in it"
            assert CORE not in dump


INSERTS = {
    "crm": ["INSERT INTO customer SELECT i, 'name ' || i FROM generate_series(1, 50) i"],
    "shop": ["INSERT INTO sale SELECT i, i FROM generate_series(1, 50) i"],
}


@pytest.fixture
def life(new_server: Callable[..., Any], tmp_path: Path) -> Iterator[Life]:
    server = new_server(fsync="off", log_statement="all", log_connections="on", log_min_messages="info")
    found = Life(server, tmp_path)
    yield found
    found.gate.close()


@contextlib.contextmanager
def watched_processes() -> Iterator[set[str]]:
    """The command lines of all processes, as long as the block lasts: those of them that hold a password."""
    seen: set[str] = set()
    told, done = set(), threading.Event()

    def look() -> None:
        while not done.wait(0.2):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    line = file.read_text(errors="replace")
                    seen.add(line)
                    if CORE in line:
                        told.add(line)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield told
    finally:
        done.set()
        thread.join()
    assert any("SparkSubmit" in line for line in seen), "the JVM was looked at"


def wait_for(condition: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def test_a_password_is_found_nowhere(life: Life) -> None:
    with watched_processes() as told:
        assert "created" in life.run("apply", "--yes")
        with life.daemon() as log:
            life.administer("shop", "SET ROLE shop", "INSERT INTO sale VALUES (1, '99')")
            wait_for(lambda: "99" in life.read("SELECT max(amount) FROM amounts"), log)
            # A row that no cast can take, and a schema change: the daemon has something to complain about.
            life.administer("shop", "SET ROLE shop", "INSERT INTO sale VALUES (2, 'poison')")
            life.administer("crm", "SET ROLE crm", "ALTER TABLE customer DROP COLUMN name")
            wait_for(lambda: "poison" in log.read_text(), log)
            for arguments in (["status"], ["status", "--json"], ["sources", "--json"], ["pending", "--json"]):
                life.run(*arguments)
            life.run("impact", "ALTER TABLE shop.sale DROP COLUMN amount", "--json", code=None)
        life.run("verify", "--json", code=None)
        # What goes wrong: the wrong password, no such server, a url that libpq misreads, a fault of our own.
        text = (life.folder / "dyda.toml").read_text()
        for wrong, said in (
            (text.replace("shop@127", f"shop:{CORE}wrong@127"), "password authentication failed"),
            (text.replace(f":{life.gate.port}/shop", ":1/shop"), "cannot be reached"),
            (text.replace("crm@127", f"crm%zz{CORE}@127"), "not valid for PostgreSQL's libpq"),
            (text.replace("//dw:${DW_PASSWORD}@", f"//dw:{CORE}@x@"), "not valid for PostgreSQL's libpq"),
            (text.replace("//dw:${DW_PASSWORD}@", f"//dw:{CORE}@"), "password authentication failed"),
        ):
            life.write("dyda.toml", wrong, 0o600)
            assert said in life.run("sources", "check", code=1)
        life.run("apply", "--yes", code=1)
        life.write("dyda.toml", text)
        assert "unexpected RuntimeError: postgresql://dw:***@" in life.run("status", code=1, program=("-c", FAULT))
        assert "Traceback" in life.said[-1]
    assert told == set()
    life.look_everywhere()


FAULT = """
import dyda.commands, dyda.open_project
from dyda.cli.main import main

def status(folder):
    with dyda.open_project.OpenProject.open(folder) as opened:
        raise RuntimeError(opened.warehouse.url)

dyda.commands.status = status
main()
"""
