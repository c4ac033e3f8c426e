"""What happens is said: each kind of event is provoked once, and seen in the log, in the catalog and by a webhook.

What only a daemon says is in test_daemon_events.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from dyda import commands, faults
from dyda.commands.daemon import _to_both
from dyda.commands.daemon_log import DaemonLog
from dyda.commands.daemon_notify import Notifier
from dyda.commands.pending_decisions import DECISIONS
from dyda.maintenance.cycle import Outcome
from dyda.maintenance.loop import Maintainer
from dyda.model.cause import Obstacle, RelationDrifted, RightsMissing, SchemaChanged, SourceDrifted
from dyda.model.view_state import ViewState
from dyda.settings import NotifyEntry
from tests.recompute_oracle import printed
from tests.town import Town
from tests.webhook import Webhook, webhook


class Told:
    """A project's events, as its log has them, as its catalog has them, and as a webhook is told of them."""

    def __init__(self, town: Town, hook: Webhook) -> None:
        self.town = town
        self.hook = hook
        self.lines: list[dict[str, Any]] = []
        self._log = DaemonLog(lambda line: self.lines.append(json.loads(line)), "json")

    @contextmanager
    def maintainer(self) -> Iterator[Maintainer]:
        entries = (NotifyEntry(webhook=self.hook.url, events=("*",)),)
        with (
            self.town.opened() as opened,
            opened.warehouse.lock() as writer,
            closing(Notifier(entries, opened.warehouse, writer, self.town.folder, "town", self._log)) as notifier,
        ):
            yield Maintainer(opened, writer, self._log, outlet=_to_both(self._log, notifier))

    def settle(self, limit: int = 100) -> None:
        with self.maintainer() as maintainer:
            for _ in range(limit):
                if maintainer.cycle() is Outcome.IDLE:
                    return
        raise AssertionError(f"not idle: {self.lines[-5:]}")

    def decide(self, verb: str, message: int, **more: Any) -> None:
        with self.maintainer() as maintainer:
            DECISIONS[verb](maintainer, {"message": message, **more})

    def stored(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in commands.events(self.town.folder) if event["kind"] == kind]

    def the(self, kind: str, **parts: Any) -> dict[str, Any]:
        """The one event of this kind with these parts, which the log and the catalog have alike."""
        found = [event for event in self.stored(kind) if parts.items() <= event.items()]
        assert len(found) == 1, (kind, parts, commands.events(self.town.folder))
        (event,) = found
        logged = [line for line in self.lines if line.get("id") == event["id"]]
        assert len(logged) == 1, (event, self.lines)
        shown = event["text"] if event["next"] is None else f"{event['text'].rstrip('.')}. {event['next']}"
        assert logged[0] == {**event, "text": logged[0]["text"]}
        assert logged[0]["text"] in (shown, event["text"])
        posted = [payload for payload in self.hook.received if payload["id"] == event["id"]]
        assert posted == [{"version": 1, "project": "town", **event}]
        return event


@pytest.fixture
def town(new_town: Callable[..., Town]) -> Town:
    return _filled(new_town())


def _filled(town: Town) -> Town:
    town.source(
        "crm",
        "CREATE TABLE customer (id int PRIMARY KEY, name text, age int, note text, weight int)",
        "INSERT INTO customer VALUES (1, 'Ann', 30, 'x', 5), (2, 'Bob', 40, 'y', 6)",
    )
    town.source("shop", "CREATE TABLE orders (id int, amount int)", "INSERT INTO orders VALUES (1, 10), (2, 20)")
    town.view("names", "SELECT c.name FROM crm.customer c")
    town.view("ages", "SELECT c.name, c.age FROM crm.customer c")
    town.view("notes", "-- dyda: extent = any\nSELECT c.name, c.note /* dispensable */ FROM crm.customer c")
    town.view("ratio", "SELECT c.id, 100 / c.weight AS share FROM crm.customer c")
    town.view("bought", "SELECT c.name, o.amount FROM crm.customer c JOIN shop.orders o ON o.id = c.id")
    town.apply()
    return town


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as running:
        yield running


@pytest.fixture
def told(town: Town, hook: Webhook) -> Told:
    return Told(town, hook)


def _message(town: Town) -> int:
    return int(commands.pending(town.folder)[0]["id"])


def test_what_apply_does(told: Told, town: Town) -> None:
    """There is no daemon: the catalog alone has it, and the next daemon tells who is to be told."""
    told.settle()
    kinds = [event["kind"] for event in commands.events(town.folder, view="names")]
    assert kinds == ["view.building", "view.built"]
    (built,) = (event for event in commands.events(town.folder, view="names") if event["kind"] == "view.built")
    assert (built["text"], built["cause"]["kind"]) == ("view names was built: 2 rows (created)", "to_be_built")
    (town.folder / "views" / "names.sql").unlink()
    town.apply()
    assert commands.events(town.folder, view="names")[-1]["kind"] == "view.dropped"
    commands.sources_detach(town.folder, "shop")
    detached = commands.events(town.folder)[-1]
    assert (detached["kind"], detached["source"]) == ("source.detached", "shop")
    assert detached["next"] == "To attach it again, run: dyda apply"
    broken = commands.events(town.folder, view="bought")[-1]
    assert (broken["kind"], broken["cause"]) == ("view.broken", {"kind": "detached", "source": "shop"})
    town.view("late", "SELECT c.id FROM crm.customer c")
    town.apply()
    told.settle()
    later = [event["kind"] for event in told.hook.received if not event["kind"].startswith("unit.")]
    assert later[:4] == ["view.dropped", "view.broken", "source.detached", "view.building"]
    assert sorted(later[4:]) == ["view.built", "view.built", "view.recovered"], "late and bought"


def test_schema_changes(told: Told, town: Town) -> None:
    town.execute("crm", "INSERT INTO customer VALUES (3, 'Eve', 50, 'z', 7)")
    told.settle()
    unit = told.the("unit.installed", text=told.stored("unit.installed")[-1]["text"])
    assert {name: unit["details"][name] for name in ("unit_kind", "messages", "rows", "views")} == {
        "unit_kind": "data",
        "messages": 1,
        "rows": 1,
        "views": 5,
    }
    town.execute("crm", "ALTER TABLE customer RENAME age TO years")
    told.settle()
    assert "column age of crm.public.customer was renamed to years" in told.the("view.adapted", view="ages")["text"]
    town.execute("crm", "ALTER TABLE customer DROP note")
    told.settle()
    rewritten = told.the("view.rewritten", view="notes")
    assert rewritten["next"] == "See what became of it, and the other choices: dyda views history notes"
    assert "note" in rewritten["text"]
    town.execute("crm", "ALTER TABLE customer DROP years")
    told.settle()
    broken = told.the("view.broken", view="ages")
    assert broken["cause"]["kind"] == SchemaChanged.kind
    assert broken["level"] == "error"
    assert "run: dyda apply" in broken["next"]
    town.execute("crm", "ALTER TABLE customer ADD years int")
    told.settle()
    assert told.the("view.recovered", view="ages")["details"] == {"was": "broken"}
    town.execute("crm", "ALTER TABLE customer DROP CONSTRAINT customer_pkey")
    told.settle()
    assert "no longer follows" in told.the("view.relaid", view="ratio")["text"]
    town.check_definitions("names", "bought", "notes")


def test_a_row_that_cannot_be_computed(told: Told, town: Town) -> None:
    town.execute("crm", "INSERT INTO customer VALUES (3, 'Eve', 50, 'z', 0)")
    told.settle()
    number = _message(town)
    quarantined = told.the("message.quarantined", message=number)
    held = told.the("view.held", view="ratio")
    assert held["cause"]["messages"] == [number]
    for event in (quarantined, held):
        assert f"dyda pending retry {number}" in event["next"]
    town.execute("crm", "UPDATE customer SET weight = 1 WHERE id = 3")
    told.decide("retry", number)
    told.the("message.released", message=number)
    assert told.the("view.recovered", view="ratio")["details"] == {"was": "held"}
    told.settle()
    town.execute("crm", "INSERT INTO customer VALUES (4, 'Zoe', 50, 'z', 0)")
    told.settle()
    number = _message(town)
    told.decide("skip", number, reason="a test row")
    assert told.the("message.skipped", message=number)["cause"] == {"kind": "skipped", "note": "a test row"}
    assert told.the("view.resync", view="ratio")["cause"]["kind"] == "message_skipped"


def test_decisions(new_town: Callable[..., Town], hook: Webhook) -> None:
    town = _filled(new_town('schema_changes = "approve"'))
    told = Told(town, hook)
    town.execute("crm", "ALTER TABLE customer DROP age")
    with told.maintainer() as maintainer:
        maintainer.cycle()
    number = _message(town)
    waiting = told.the("message.approval", message=number)
    assert waiting["text"] == f"message {number} waits for approval: it breaks ages (source crm)"
    assert f"dyda pending approve {number}" in waiting["next"]
    told.decide("reject", number)
    assert told.the("message.rejected", message=number)["details"] == {"views": ["ages"]}
    assert told.the("view.broken", view="ages")["cause"]["kind"] == "rejected"
    told.settle()
    town.execute("crm", "ALTER TABLE customer DROP note")
    with told.maintainer() as maintainer:
        maintainer.cycle()
    number = _message(town)
    told.decide("approve", number)
    told.the("message.approved", message=number)
    told.decide("hold", number)
    assert f"dyda pending release {number}" in told.the("message.held", message=number)["next"]
    told.decide("release", number)
    told.the("message.released", message=number)


def test_sources(told: Told, town: Town) -> None:
    url = town.sources["shop"]
    town.source_url("shop", "postgresql://nobody@/nothing?host=/nonexistent-folder")
    for _ in range(2):  # another process knows from the catalog what was said
        with told.maintainer() as maintainer:
            for _ in range(2):
                maintainer.cycle()
    lost = told.the("source.lost", source="shop")
    assert lost["next"].endswith("dyda sources check")
    town.source_url("shop", url)
    told.settle()
    told.the("source.back", source="shop")
    town.execute("crm", "SET LOCAL session_replication_role = replica", "DELETE FROM dyda.log")
    town.execute("crm", "TRUNCATE dyda.log")
    told.settle()
    assert told.the("source.gap", source="crm")["cause"]["kind"] == SourceDrifted.kind
    assert told.the("view.resync", view="names")["cause"]["kind"] == SourceDrifted.kind
    assert told.stored("view.built")[-1]["cause"]["kind"] == SourceDrifted.kind
    town.execute("shop", "SET LOCAL event_triggers = off", "ALTER TABLE orders DISABLE TRIGGER ALL")
    told.settle()
    assert told.the("source.drift", source="shop")["cause"]["kind"] == RelationDrifted.kind


def test_units_that_break_and_units_that_are_merged(told: Told, town: Town) -> None:
    done: list[int] = []
    town.execute("shop", "INSERT INTO orders VALUES (2, 5)")

    def alter() -> None:
        if not done:
            done.append(town.execute("crm", "ALTER TABLE customer RENAME name TO called"))

    with faults.on("sweep.before-hop", alter):
        told.settle()
    aborted = told.stored("unit.aborted")
    assert len(aborted) == 1
    assert aborted[0]["text"].startswith("unit abandoned: ")
    assert told.the("unit.aborted")["details"]["messages"]
    town.execute("crm", "ALTER TABLE customer ALTER id TYPE int USING id + 0")
    town.execute("shop", "ALTER TABLE orders ALTER id TYPE int USING id + 0")
    told.settle()
    merged = told.the("unit.merged")
    assert merged["details"]["messages"] == 2
    town.check_definitions("names", "bought")


def test_indexes_and_rights(told: Told, town: Town) -> None:
    town.view("keyed", "-- dyda: key = (name)\nSELECT c.name, c.id FROM crm.customer c")
    town.apply()
    town.execute("crm", "INSERT INTO customer VALUES (3, 'Ann', 50, 'z', 7)")
    told.settle()
    lost = told.the("view.index_lost", view="keyed")
    assert lost["cause"]["kind"] == "declared_key_repeated"
    cause = RightsMissing("shop", "shop.public.orders", (Obstacle("no right", "GRANT SELECT ON orders TO x;"),))
    with told.maintainer() as maintainer:
        maintainer.writer.set_state("bought", ViewState.LIVE, cause)
    assert "GRANT SELECT ON orders TO x;" in told.the("view.waiting", view="bought")["text"]


def test_an_event_is_there_if_and_only_if_its_change_is(told: Told, town: Town) -> None:
    """Killed before the commit, both are absent; after it, both are there, and nothing is said twice."""
    units = "SELECT count(*) FROM dyda.unit"
    events = "SELECT count(*) FROM dyda.events WHERE kind LIKE 'unit.%'"
    assert printed(town.warehouse, units) == printed(town.warehouse, events)
    for point in ("install.before-commit", "install.committed"):
        town.execute("crm", "ALTER TABLE customer RENAME name TO other", "INSERT INTO customer VALUES (9, 'q')")
        town.execute("crm", "DELETE FROM customer WHERE id = 9", "ALTER TABLE customer RENAME other TO name")
        killed = town.run("daemon", "--until-idle", fault=f"{point}=kill", check=False)
        assert killed.returncode < 0, killed.stderr
        assert printed(town.warehouse, units) == printed(town.warehouse, events)
        told.settle()
        assert printed(town.warehouse, units) == printed(town.warehouse, events)


def test_nothing_is_written_while_nothing_happens(told: Told, town: Town) -> None:
    told.settle()
    before = commands.events(town.folder)
    with told.maintainer() as maintainer:
        for _ in range(5):
            assert maintainer.cycle() is Outcome.IDLE
    assert commands.events(town.folder) == before
