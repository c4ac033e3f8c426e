"""What only a daemon says, from a daemon of its own: its log as JSON, the catalog, and a webhook."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import psycopg2
import pytest

from dyda import commands
from tests.integration.maintenance.test_daemons import (
    Daemon,
    start,
    terminate_the_workers_session,
    until,
)
from tests.town import Town
from tests.webhook import Webhook, webhook

__all__ = ["start"]

pytestmark = pytest.mark.long


def _said(daemon: Daemon) -> list[dict[str, Any]]:
    return [json.loads(line) for line in daemon.log.splitlines(keepends=True) if line.endswith("\n")]


def _wait_for(town: Town, hook: Webhook, daemon: Daemon, kind: str, **parts: Any) -> dict[str, Any]:
    """The event, once the log and the catalog have it, and the webhook was told of it."""
    found: list[dict[str, Any]] = []

    def seen() -> bool:
        found[:] = [line for line in _said(daemon) if line.get("kind") == kind and parts.items() <= line.items()]
        return bool(found)

    until(seen, f"{kind} {parts} in\n{daemon.log}")
    until(lambda: [payload for payload in hook.received if payload["id"] == found[0]["id"]], f"{kind} at the webhook")
    stored = [event for event in commands.events(town.folder) if event["id"] == found[0]["id"]]
    assert [event["kind"] for event in stored] == [kind]
    return stored[0]


def _reachable(town: Town, source: str, allowed: bool) -> None:
    """Nobody can connect to the source's database any more, or everybody again."""
    name = town.sources[source].rpartition("/")[2].partition("?")[0]
    with contextlib.closing(psycopg2.connect(town.warehouse)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_database()")
        connection.commit()
        connection.autocommit = True
        cursor.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS {"true" if allowed else "false"}')
        if not allowed:
            cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as running:
        yield running


@pytest.fixture
def town(new_town: Callable[..., Town], hook: Webhook) -> Town:
    town = new_town("stale_after = 3")
    town.source("crm", "CREATE TABLE customer (id int, name text)", "INSERT INTO customer VALUES (1, 'Ann')")
    town.source("shop", "CREATE TABLE orders (id int, amount int)", "INSERT INTO orders VALUES (1, 10)")
    town.view("names", "SELECT c.name FROM crm.customer c")
    town.view("amounts", "SELECT o.amount FROM shop.orders o")
    town.apply()
    file = town.folder / "dyda.toml"
    file.write_text(f'{file.read_text()}\n[[notify]]\nwebhook = "{hook.url}"\nevents = ["*"]\n')
    return town


def test_the_life_of_daemons(town: Town, hook: Webhook, start: Callable[..., Daemon]) -> None:
    first = start("--log-format", "json")
    started = _wait_for(town, hook, first, "daemon.started")
    assert started["details"] == {
        "pid": first.pid,
        "host": started["details"]["host"],
        "views": 2,
        "consistency": "strong",
    }
    _reachable(town, "shop", allowed=False)
    _wait_for(town, hook, first, "source.lost", source="shop")
    assert "amounts" in _wait_for(town, hook, first, "daemon.blocked")["text"]
    stale = _wait_for(town, hook, first, "view.stale", view="amounts")
    assert stale["next"] == "See what it waits for: dyda status"
    assert stale["details"]["limit_seconds"] == 3
    town.execute("crm", "INSERT INTO customer VALUES (2, 'Bob')")
    _wait_for(town, hook, first, "unit.installed")
    _reachable(town, "shop", allowed=True)
    _wait_for(town, hook, first, "source.back", source="shop")
    _wait_for(town, hook, first, "daemon.unblocked")
    _wait_for(town, hook, first, "view.fresh", view="amounts")

    town.view("wrong", "SELECT c.nme FROM crm.customer c")
    assert town.run("apply", "--yes", check=False).returncode == 1
    refused = _wait_for(town, hook, first, "configuration.refused")
    assert "nme" in refused["text"]
    (town.folder / "views" / "wrong.sql").unlink()

    terminate_the_workers_session(town)
    _wait_for(town, hook, first, "warehouse.back")

    second = start("--log-format", "json")
    second.says("standing by to take over when it ends")
    first.process.kill()
    _wait_for(town, hook, second, "daemon.took_over")
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait(60) == 0
    stopped = _wait_for(town, hook, second, "daemon.stopped")
    assert stopped["details"]["pid"] == second.pid
    assert stopped["next"].endswith("dyda daemon")
