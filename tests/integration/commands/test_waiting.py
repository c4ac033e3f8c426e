"""`apply` behind a transaction that is open at a source: it waits, says for whom, and tells the truth at its end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import pytest

from dyda import commands
from dyda.commands import open_transactions
from dyda.commands.open_transactions import Reminders
from dyda.commands.requests import Requests
from dyda.errors import DydaError, RequestFailed
from dyda.maintenance.loop import Maintainer
from tests.town import Town


@pytest.fixture
def shop(town: Town) -> Town:
    town.source("shop", "CREATE TABLE free (id int)", "CREATE TABLE orders (id int)", "INSERT INTO free VALUES (1)")
    town.view("first", "SELECT f.id FROM shop.free f")
    town.apply()
    town.view("second", "SELECT o.id FROM shop.orders o")
    return town


@contextmanager
def _open_writer(town: Town) -> Iterator[tuple[psycopg2.extensions.connection, int]]:
    connection = psycopg2.connect(town.sources["shop"], application_name="night batch")
    try:
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders VALUES (1)")
        yield connection, connection.info.backend_pid
    finally:
        connection.close()


def _told(error: DydaError, pid: int) -> None:
    """What was not done, which table, who blocks, what to do."""
    for part in (
        "second was not created",
        "shop.public.orders",
        f"pid {pid} (role",
        "application night batch",
        "since",
    ):
        assert part in error.what, error.what
    assert f"pg_terminate_backend({pid})" in error.remedy
    assert "run the command again" in error.remedy
    assert "tried again" not in str(error)


class _Applying(threading.Thread):
    """`dyda apply` beside the test."""

    def __init__(self, town: Town, **options: Any) -> None:
        super().__init__()
        self.town, self.options = town, options
        self.said: list[str] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            commands.apply(
                self.town.folder,
                lambda plan: True,
                lambda text, done, total: self.said.append(text),
                engine=self.town.engine,
                **self.options,
            )
        except BaseException as error:
            self.error = error

    def until(self, done: Callable[[], bool], meanwhile: Callable[[], object] = lambda: time.sleep(0.05)) -> None:
        deadline = time.monotonic() + 60
        while not done():
            assert time.monotonic() < deadline, self.said
            meanwhile()


def _waits_for(said: list[str], pid: int) -> bool:
    return any(line.startswith(f"waiting for pid {pid} (role") and "shop.public.orders" in line for line in said)


def test_apply_waits_as_long_as_it_is_let(shop: Town) -> None:
    with _open_writer(shop) as (writer, pid):
        with pytest.raises(DydaError) as given_up:
            commands.apply(shop.folder, lambda plan: True, engine=shop.engine, timeout=0.3)
        _told(given_up.value, pid)
        assert [view["name"] for view in commands.views(shop.folder)] == ["first"], "nothing half made is left"
        applying = _Applying(shop)
        applying.until(lambda: _waits_for(applying.said, pid) or not applying.is_alive())
        # Nobody queues behind it.
        shop.execute("shop", "SET LOCAL statement_timeout = '5s'", "INSERT INTO orders VALUES (2)")
        assert applying.is_alive()
        writer.commit()
        applying.join(60)
    assert applying.error is None
    shop.settle()
    shop.check("first", "second")


def test_a_prepared_transaction_is_named_too(shop: Town) -> None:
    shop.execute("shop", "INSERT INTO orders VALUES (1)", "PREPARE TRANSACTION 'it''s mine'")
    try:
        with pytest.raises(DydaError, match='prepared transaction "it\'s mine"') as given_up:
            commands.apply(shop.folder, lambda plan: True, engine=shop.engine, timeout=0.1)
        assert "ROLLBACK PREPARED 'it''s mine'" in given_up.value.remedy
    finally:
        connection = psycopg2.connect(shop.sources["shop"])
        connection.autocommit = True
        connection.cursor().execute("ROLLBACK PREPARED 'it''s mine'")
        connection.close()


def test_the_daemon_waits_for_a_request_and_goes_on_meanwhile(shop: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_transactions, "FIRST", 3600.0)
    log: list[str] = []
    with shop.opened() as opened, opened.warehouse.lock(role="daemon") as worker, _open_writer(shop) as (writer, pid):
        maintainer = Maintainer(opened, worker, log.append)
        requests = Requests(shop.folder, maintainer, log.append)

        def work() -> None:
            requests.serve()
            maintainer.cycle()

        late = _Applying(shop, timeout=1)
        late.until(lambda: not late.is_alive(), work)
        assert isinstance(late.error, RequestFailed)
        _told(late.error, pid)
        assert any("has given up" in line and f"pid {pid}" in line for line in log)

        # Taken back: nobody wants it any more.
        number = opened.warehouse.submit("apply", {})
        late.until(lambda: bool(requests._deferred), work)
        opened.warehouse.cancel(number)
        late.until(lambda: not requests._deferred, work)

        log.clear()
        applying = _Applying(shop)
        applying.until(lambda: _waits_for(applying.said, pid), work)
        # The other view goes on, and so do other requests.
        shop.execute("shop", "INSERT INTO free VALUES (2)")
        applying.until(lambda: len(shop.extent("first")) == 2, work)
        answered = threading.Thread(target=commands.views_resync, args=(shop.folder, "first"), kwargs={})
        answered.start()
        applying.until(lambda: not answered.is_alive(), work)
        assert applying.is_alive()
        assert sum(f"waiting for pid {pid}" in line for line in log) == 1, "said once, not at each attempt"
        writer.commit()
        applying.until(lambda: not applying.is_alive(), work)
        assert applying.error is None
    shop.settle()
    shop.check("first", "second")


def test_a_line_that_holds_is_said_again_at_growing_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    said: list[float] = []
    reminders = Reminders(lambda text: said.append(now))
    for second in range(3600):
        now = float(second)
        reminders.say("the warehouse cannot be reached")
    assert said[:4] == [0, 10, 40, 130]
    assert len(said) < 12
    assert reminders.forget()
    assert not reminders.forget()
    reminders.say("the warehouse cannot be reached")
    assert said[-1] == now
