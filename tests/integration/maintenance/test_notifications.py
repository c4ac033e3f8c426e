"""Whoever is to be told is told, in order and at least once; and no unit waits for that."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from psycopg2.extensions import make_dsn

from dyda import commands
from dyda.commands.daemon_lookout import Lookout
from dyda.commands.daemon_notify import Notifier
from dyda.model.event import SourceBack, SourceLost, UnitAborted, ViewDropped
from dyda.settings import NotifyEntry
from dyda.warehouse import Warehouse
from dyda.warehouse.writer import Writer
from tests.town import Town
from tests.webhook import Webhook, webhook

PATIENCE = 60.0


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as running:
        yield running


@pytest.fixture
def warehouse(database: Callable[..., str]) -> Iterator[Warehouse]:
    with Warehouse.connect(database("warehouse"), "public") as opened:
        opened.upgrade()
        yield opened


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        threading.Event().wait(0.02)


class Desk:
    """A writer whose events a notifier passes on."""

    def __init__(self, warehouse: Warehouse, writer: Writer, folder: Path, *entries: NotifyEntry) -> None:
        self.said: list[str] = []
        self.writer = writer
        self.notifier = Notifier(entries, warehouse, writer, folder, "town", self.said.append)
        writer.outlet = self.notifier.happened

    def close(self) -> None:
        self.notifier.close()


def texts(hook: Webhook) -> list[tuple[str, str | None]]:
    return [(event["kind"], event["view"] or event["source"]) for event in hook.received]


def test_filters_by_kind_and_by_view(warehouse: Warehouse, hook: Webhook, tmp_path: Path) -> None:
    entry = NotifyEntry(webhook=hook.url, events=("view.*", "source.lost"), views=("asia_*",))
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, tmp_path, entry)):
        writer.tell(ViewDropped("asia_1"), ViewDropped("europe"), SourceLost("crm", "no"), SourceBack("crm"))
        writer.tell(UnitAborted((1,), "no", 1.0), ViewDropped("asia_2"))
    assert texts(hook) == [("view.dropped", "asia_1"), ("source.lost", "crm"), ("view.dropped", "asia_2")]


def test_without_kinds_it_is_what_matters(warehouse: Warehouse, hook: Webhook, tmp_path: Path) -> None:
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, tmp_path, NotifyEntry(webhook=hook.url))):
        writer.tell(SourceLost("crm", "no"), SourceBack("crm"), ViewDropped("v"))
    assert texts(hook) == [("source.lost", "crm")]


def test_what_is_refused_is_tried_again_and_holds_nothing_up(
    warehouse: Warehouse, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dyda.commands.daemon_notify.SHORTEST", 0.02)
    hook.answers = [500, 302, 404]
    hook.open.clear()
    entry = NotifyEntry(webhook=hook.url, headers={"Authorization": "Bearer s3cr3t"}, events=("view.*",))
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, tmp_path, entry)) as desk:
        for number in range(3):
            writer.tell(ViewDropped(f"v{number}"))  # returns although nobody answers
        assert hook.received == []
        hook.open.set()
        until(lambda: len(hook.received) == 3, "all three")
    assert [view for _, view in texts(hook)] == ["v0", "v1", "v2"]
    assert hook.refused == 3
    assert hook.headers[0]["Authorization"] == "Bearer s3cr3t"
    assert hook.headers[0]["Content-Type"] == "application/json"
    assert desk.said == [
        "a notification to webhook 127.0.0.1 did not arrive: it answered 500; it is tried again",
        "notifications to webhook 127.0.0.1 arrive again",
    ]
    assert not [line for line in desk.said if "s3cr3t" in line]


def test_what_one_daemon_could_not_say_the_next_one_says(
    warehouse: Warehouse, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dyda.commands.daemon_notify.LAST_WORDS", 0.5)
    entry = NotifyEntry(webhook=hook.url, events=("view.*",))
    hook.answers = [500] * 1000
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, tmp_path, entry)):
        writer.tell(ViewDropped("first"))
        until(lambda: hook.refused, "one attempt")
    hook.answers = []
    with warehouse.lock() as writer:
        writer.tell(ViewDropped("meanwhile"))  # a command without a daemon
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, tmp_path, entry)):
        until(lambda: len(hook.received) == 2, "both")
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, tmp_path, entry)):
        writer.tell(ViewDropped("last"))
    assert [view for _, view in texts(hook)] == ["first", "meanwhile", "last"], "each once"


def test_a_command_gets_the_event_and_nothing_of_it_is_executed(warehouse: Warehouse, tmp_path: Path) -> None:
    entry = NotifyEntry(command='cat > "got-$DYDA_SOURCE"; printf %s "$DYDA_TEXT" > text', events=("source.lost",))
    name = "crm; touch evil"
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, tmp_path, entry)):
        writer.tell(SourceLost(name, "`touch evil` $(touch evil)"))
    payload = json.loads((tmp_path / f"got-{name}").read_text())
    assert (payload["kind"], payload["source"], payload["version"]) == ("source.lost", name, 1)
    assert (tmp_path / "text").read_text() == payload["text"]
    assert not (tmp_path / "evil").exists()


def test_one_target_does_not_wait_for_another(warehouse: Warehouse, hook: Webhook, tmp_path: Path) -> None:
    slow = NotifyEntry(webhook=hook.url, events=("view.*",))
    hook.open.clear()
    with warehouse.lock() as writer:
        desk = Desk(warehouse, writer, tmp_path, slow, NotifyEntry(command="cat > got", events=("view.*",)))
        with closing(desk):
            writer.tell(ViewDropped("v"))
            until(lambda: (tmp_path / "got").exists(), "the command")
            assert hook.received == []
            hook.open.set()


def test_the_test(new_town: Callable[..., Town], hook: Webhook, monkeypatch: pytest.MonkeyPatch) -> None:
    town = new_town()
    town.source("crm", "CREATE TABLE t (a int)")
    assert commands.notify_test(town.folder) == []
    file = town.folder / "dyda.toml"
    monkeypatch.setenv("HOOK", hook.url)
    file.write_text(
        file.read_text()
        + '\n[[notify]]\nwebhook = "${HOOK}"\nheaders = { X-Token = "${HOOK}" }\nviews = ["nothing"]\n'
        + '\n[[notify]]\ncommand = "exit 3"\nevents = ["view.broken"]\n'
    )
    done = town.run("notify", "test", "--json", check=False)
    assert done.returncode == 1
    first, second = json.loads(done.stdout)
    assert (first["target"], first["delivered"], first["error"]) == ("webhook 127.0.0.1", True, None)
    assert "view.broken" in first["events"]
    assert "unit.installed" not in first["events"]
    assert second == {
        "target": "command exit",
        "delivered": False,
        "error": "it ended with 3",
        "events": ["view.broken"],
    }
    assert [event["kind"] for event in hook.received] == ["notify.test"]
    assert "s3cr3t" not in done.stdout + done.stderr


@contextmanager
def no_sessions_but_of(writer: Writer, url: str) -> Iterator[None]:
    """The warehouse takes no new session, and of those that there are it keeps the writer's."""
    with writer.reading() as cursor:
        cursor.execute("SELECT current_database()")
        (name,) = cursor.fetchone()
    allow(url, name, False)
    try:
        with writer.reading() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        yield
    finally:
        allow(url, name, True)


def allow(url: str, name: str, allowed: bool) -> None:
    """Done in another database: nobody may do it in his own."""
    with closing(psycopg2.connect(make_dsn(url, dbname="postgres"))) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {"true" if allowed else "false"}')


def test_a_moment_without_a_session_ends_no_notifications(
    warehouse: Warehouse, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon may not even notice it: its own session stays, and it does not begin again."""
    monkeypatch.setattr("dyda.commands.daemon_notify.SHORTEST", 0.02)
    entry = NotifyEntry(webhook=hook.url, events=("view.*",))
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, tmp_path, entry)) as desk:
        writer.tell(ViewDropped("first"))
        until(lambda: hook.received, "the first")
        with no_sessions_but_of(writer, warehouse.url):
            writer.tell(ViewDropped("second"))
            until(lambda: desk.said or threads_of("notify") == 0, "an attempt that fails")
        writer.tell(ViewDropped("third"))
        until(lambda: len(hook.received) == 3, "all three")
    assert [view for _, view in texts(hook)] == ["first", "second", "third"]
    assert desk.said[0].startswith("notifications to webhook 127.0.0.1 wait: the ")
    assert desk.said[1:] == ["notifications to webhook 127.0.0.1 go on"]


def threads_of(name: str) -> int:
    return sum(thread.name.startswith(name) for thread in threading.enumerate())


def test_a_moment_without_a_session_ends_no_lookout(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dyda.commands.daemon_lookout.SHORTEST", 0.02)
    said: list[str] = []
    with warehouse.lock() as writer:
        writer.create_view("v")
        with closing(Lookout(warehouse, writer, 0.02, said.append)):
            with no_sessions_but_of(writer, warehouse.url):
                until(lambda: said or threads_of("lookout") == 0, "a look that fails")
            with writer.writing() as cursor:
                cursor.execute("UPDATE dyda.view SET state = 'resync', fresh_at = now() - interval '1 h'")
            until(lambda: [event for event in warehouse.events() if event.kind == "view.stale"], "the next look")
    assert len(said) == 1


def test_a_command_that_cannot_be_run_is_tried_again(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux takes no more than 128 KB as one variable, and nothing where the folder is gone."""
    monkeypatch.setattr("dyda.commands.daemon_notify.SHORTEST", 0.02)
    entry = NotifyEntry(command='printf %s "$DYDA_TEXT" > text; cat > got', events=("source.lost",))
    folder = tmp_path / "project"
    with warehouse.lock() as writer, closing(Desk(warehouse, writer, folder, entry)) as desk:
        writer.tell(SourceLost("crm", "ä" * 200_000))
        until(lambda: desk.said or threads_of("notify") == 0, "an attempt that fails")
        folder.mkdir()
        until(lambda: [line for line in desk.said if line.endswith("arrive again")], "the command")
    payload = json.loads((folder / "got").read_text())
    shown = (folder / "text").read_text()
    assert len(payload["text"]) > 200_000
    assert payload["text"].startswith(shown.removesuffix("…"))
    assert 1000 < len(shown) < 100_000


def test_targets_that_are_one_place_are_still_two(
    warehouse: Warehouse, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one of them got says nothing about the other one: a daemon that ends between them loses nothing."""
    monkeypatch.setattr("dyda.commands.daemon_notify.LAST_WORDS", 0.5)
    lost = NotifyEntry(webhook=hook.url, events=("source.lost",))
    dropped = NotifyEntry(webhook=hook.url, events=("view.dropped",))
    with warehouse.lock() as writer:
        with closing(Desk(warehouse, writer, tmp_path, lost, dropped)):
            hook.answers = [500]
            writer.tell(SourceLost("crm", "no"))
            until(lambda: hook.refused, "an attempt")
            writer.tell(ViewDropped("v"))
            until(lambda: hook.received, "the other one's event")
        assert texts(hook) == [("view.dropped", "v")]
        with closing(Desk(warehouse, writer, tmp_path, lost, dropped)):
            until(lambda: len(hook.received) == 2, "the lost source")
    assert texts(hook) == [("view.dropped", "v"), ("source.lost", "crm")]


def test_the_end_waits_for_all_targets_at_once(
    warehouse: Warehouse, hook: Webhook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dyda.commands.daemon_notify.LAST_WORDS", 1.0)
    hook.open.clear()
    entries = [NotifyEntry(webhook=f"{hook.url}/{number}", events=("view.*",)) for number in range(8)]
    with warehouse.lock() as writer:
        desk = Desk(warehouse, writer, tmp_path, *entries)
        writer.tell(ViewDropped("v"))
        began = time.monotonic()
        desk.close()
        assert time.monotonic() - began < 4
        hook.open.set()


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("./notify.sh --token s3cr3t", "command ./notify.sh"),
        ("TOKEN=s3cr3t ./notify.sh", "command ./notify.sh"),
        ("TOKEN='s3 cr3t' OTHER=s3cr3t curl -d @-", "command curl"),
        ("(TOKEN=s3cr3t curl -d @-)", "command"),
        ("env TOKEN=s3cr3t curl", "command env"),
        ("echo 's3cr3t", "command"),
    ],
)
def test_what_is_shown_of_a_command(command: str, shown: str) -> None:
    assert NotifyEntry(command=command).shown == shown
