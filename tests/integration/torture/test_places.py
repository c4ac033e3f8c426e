"""What the torture stands on does what it says: a bad network, an old server, a clock that jumps."""

from __future__ import annotations

import datetime
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from dyda import embedded
from tests.conftest import Server
from tests.torture.places import Clock, Place, session
from tests.torture.proxy import Proxy


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    own = Proxy(embedded.socket_folder(server.folder) / embedded.SOCKET)
    yield own
    own.close()


def answer(url: str, size: int) -> int:
    with session(url) as cursor:
        cursor.execute("SELECT length(repeat('x', %s)), repeat('x', %s)", (size, size))
        return int(cursor.fetchone()[0])


def test_a_proxy_passes_on_what_is_said(proxy: Proxy) -> None:
    assert answer(proxy.url(), 1_000_000) == 1_000_000


def test_a_refusing_proxy_refuses_and_ends_what_is_open(proxy: Proxy) -> None:
    with session(proxy.url()) as cursor:
        proxy.refuse()
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("SELECT 1")
    with pytest.raises(psycopg2.OperationalError, match="refused"):
        psycopg2.connect(proxy.url())
    proxy.heal()
    assert answer(proxy.url(), 10) == 10


def test_an_answer_is_cut_in_its_middle(proxy: Proxy) -> None:
    with session(proxy.url()) as cursor:
        proxy.cut(5_000)
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("SELECT repeat('x', 1000000)")
    proxy.heal()
    assert answer(proxy.url(), 1_000_000) == 1_000_000


def test_a_server_grows_old_and_its_clock_jumps() -> None:
    folder = Path(tempfile.mkdtemp(prefix="dyda-clock-", dir="/tmp"))
    folder.chmod(0o755)  # the server runs as another user
    clock = Clock(folder)
    place = Place("old", 1, clock.for_servers)
    try:
        place.grow_old(left=100)
        place.start()
        place.create_database()
        with session(place.url) as cursor:
            cursor.execute("CREATE TABLE r (k int)")
            cursor.execute("DO $$ BEGIN FOR i IN 1..200 LOOP INSERT INTO r VALUES (i); COMMIT; END LOOP; END $$")
            cursor.execute("SELECT count(*), min(xmin::text::bigint), pg_current_xact_id()::text::bigint FROM r")
            rows, smallest, now = cursor.fetchone()
            assert (rows, smallest < 1000, now > 2**32) == (200, True, True), "the counter has wrapped"
            if not clock.why_not:
                cursor.execute("SELECT clock_timestamp()")
                (before,) = cursor.fetchone()
                clock.jump(-3600)
                cursor.execute("SELECT clock_timestamp()")
                assert cursor.fetchone()[0] < before - datetime.timedelta(minutes=50)
    finally:
        place.close()
        shutil.rmtree(folder)
