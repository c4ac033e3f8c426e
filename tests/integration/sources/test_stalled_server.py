"""A server that no longer responds is given up; one that only takes its time is not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import psycopg2
import pytest

from dyda.errors import SourceUnreachable
from dyda.sources import PostgresSource, SourceSettings, stalled_server
from dyda.sources.connection import FRESH
from tests.conftest import Server


@contextlib.contextmanager
def frozen(server: Server) -> Iterator[None]:
    server.freeze()
    try:
        yield
    finally:
        server.thaw()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stalled_server, "QUIET", 0.5)
    monkeypatch.setattr(stalled_server, "SIGN_OF_LIFE", 0.5)


@pytest.mark.usefixtures("impatient")
def test_a_frozen_server_is_given_up_and_found_again(new_server: Callable[..., Server]) -> None:
    server = new_server()
    source = PostgresSource(SourceSettings("crm", server.url()), "project")
    source.state()
    sessions = source._sessions
    words = "crm cannot be reached: the server does not respond: no answer for"
    with (
        pytest.raises(SourceUnreachable, match=words),
        sessions.transaction(FRESH) as cursor,
        frozen(server),
    ):
        cursor.execute("SELECT 1")
    assert source.state().capture == "detached"
    source.close()


@pytest.mark.usefixtures("impatient")
def test_one_session_finds_out_for_all(new_server: Callable[..., Server]) -> None:
    server = new_server()
    source = PostgresSource(SourceSettings("crm", server.url()), "project")
    sessions = source._sessions
    held = [sessions.begin(FRESH) for _ in range(8)]
    for connection in held[1:]:
        sessions.give_back(connection)
    with frozen(server):
        begun = time.monotonic()
        with pytest.raises(SourceUnreachable, match="does not respond"):
            source.state()
        sessions.give_back(held[0])
        assert time.monotonic() - begun < 8, "each of eight would take a second and more"
    source.close()


@pytest.mark.usefixtures("impatient")
def test_a_long_answer_is_waited_for(server: Server) -> None:
    connection = psycopg2.connect(server.url(), connection_factory=stalled_server.PatientConnection)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(4), 1")
        assert cursor.fetchone()[1] == 1
    connection.close()
