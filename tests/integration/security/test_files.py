"""What others on the machine, and others in the warehouse's database, cannot reach."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg2
import pytest

from dyda.embedded import SOCKET, EmbeddedServer, EmbeddedServerFailed, socket_folder
from dyda.errors import DydaError
from dyda.project import Project
from dyda.warehouse import Warehouse
from tests.integration.security.conftest import Role
from tests.integration.sources.conftest import Ground

NAME = "o'b \"; touch ran; $(touch ran) `touch ran` \\ ; touch ran; # {0} %s"
"""A source may be called anything, and its folder is called like it."""

PROBE = """
import os, socket, sys
os.setgroups([]), os.setgid(54321), os.setuid(54321)
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


@pytest.fixture
def embedded() -> Iterator[Path]:
    # Not below pytest's own folder, which every start of pytest closes to others, the server's account among them.
    project = Path(tempfile.mkdtemp(prefix="dyda-t-", dir="/tmp"))
    folder = Project.create(project).server_folder(NAME)
    try:
        EmbeddedServer.ensure(folder)
        yield folder
    finally:
        EmbeddedServer.stop(folder)
        shutil.rmtree(project)


def test_an_embedded_server_is_its_owners_alone(embedded: Path) -> None:
    """It trusts whoever reaches its socket, so nobody else may: no port, and a folder of mode 700."""
    url = EmbeddedServer.url(embedded)
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('listen_addresses'), current_setting('unix_socket_permissions')")
        assert cursor.fetchone() == ("", "0700")
    connection.close()
    for place in (embedded, embedded / "data", socket_folder(embedded.resolve())):
        assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0, place
    assert not [*embedded.rglob("ran"), *Path("/").glob("ran")], "no shell has read its name"
    if os.geteuid() == 0:  # root can be somebody else for a moment
        for parent in embedded.parents:
            assert parent.stat().st_mode & stat.S_IXOTH, "the way there is open: it is the folder that keeps others out"
        command = [sys.executable, "-c", PROBE, str(socket_folder(embedded.resolve()) / SOCKET)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "PermissionError" in done.stderr


@pytest.mark.parametrize("superuser", [False, True])
def test_a_schema_that_somebody_else_has_prepared_in_the_warehouse_is_not_used(
    ground: Ground, role: Callable[[str], Role], superuser: bool
) -> None:
    stranger, own = role("stranger"), role("own")
    ((database,),) = ground.run("SELECT quote_ident(current_database())")
    ground.run(f"GRANT CREATE ON DATABASE {database} TO {stranger.quoted}, {own.quoted}")
    ground.run("CREATE SCHEMA dyda", "GRANT ALL ON SCHEMA dyda TO PUBLIC", connection=stranger.connect())
    with Warehouse.connect(ground.url if superuser else own.url, "readers") as warehouse:
        with pytest.raises(DydaError, match=f"schema dyda of the warehouse belongs to {stranger.name}"):
            warehouse.upgrade()
        ground.run("DROP SCHEMA dyda")
        warehouse.upgrade()
        warehouse.upgrade()
    assert ground.run("SELECT count(*) > 5 FROM pg_tables WHERE schemaname = 'dyda'") == [(True,)]


def test_a_folder_whose_name_has_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddedServerFailed, match="line break"):
        EmbeddedServer.ensure(tmp_path / "a\nb")
