"""Nothing is decided by reading a sentence: with every sentence reworded, whatever is done comes out the same."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dyda import commands, errors, wording
from dyda.errors import DydaError
from dyda.maintenance.cycle import Outcome
from tests.town import Town

MARK = "§"


@pytest.fixture(params=[False, True], ids=["as it is", "reworded"])
def reworded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Every sentence of the wording module, and of every error, says nothing but a mark."""
    if request.param:
        sentences = {name: getattr(wording, name) for name in wording.__all__}
        for module in [module for name, module in sys.modules.items() if name.partition(".")[0] == "dyda"]:
            for name, said in sentences.items():
                if getattr(module, name, None) is said:
                    monkeypatch.setattr(module, name, lambda *told: MARK)
        monkeypatch.setattr(errors, "_shortened", lambda said: MARK if said else "")
    return bool(request.param)


def states(town: Town) -> dict[str, tuple[str, str | None]]:
    """By view, its state and the kind of its cause; a view that follows its sources is `fresh`."""
    found = {}
    for view in commands.views(town.folder):
        shown = "fresh" if view["state"] == "stale" and view["cause"] is None else view["state"]
        found[view["name"]] = (shown, (view["cause"] or {}).get("kind"))
    return found


def queue(town: Town) -> list[dict[str, Any]]:
    return [message for message in commands.pending(town.folder) if message["state"] != "waiting"]


def check_words(town: Town, reworded: bool) -> None:
    """Whatever has a cause has words for it: the marks, if all of them were reworded."""
    told = [entry for entry in [*commands.views(town.folder), *commands.pending(town.folder)] if entry["cause"]]
    assert told
    for entry in told:
        assert (entry["reason"] == MARK) is reworded, entry


@pytest.fixture
def careful(new_town: Callable[..., Town]) -> Town:
    town = new_town('schema_changes = "approve"')
    town.source("one", "CREATE TABLE r (k int, a int, b int)", "INSERT INTO r VALUES (1, 2, 3)")
    town.view("keys", "SELECT r.k FROM one.r")
    town.view("first", "SELECT r.a FROM one.r")
    town.view("second", "SELECT r.b FROM one.r")
    town.apply()
    return town


def test_what_waits_for_approval_is_approved_or_rejected(careful: Town, reworded: bool) -> None:
    careful.execute("one", "ALTER TABLE r RENAME k TO kk")
    careful.execute("one", "ALTER TABLE r DROP a")
    careful.settle()
    with_it, drop = queue(careful)
    assert with_it["cause"] == {"kind": "waits_with", "message": with_it["id"], "other": drop["id"]}
    effects = [{"view": "first", "effect": "broken"}]
    assert drop["cause"] == {"kind": "needs_approval", "message": drop["id"], "effects": effects}
    check_words(careful, reworded)
    for decide in (commands.pending_approve, commands.pending_reject):
        with pytest.raises(DydaError):
            decide(careful.folder, with_it["id"])
    assert queue(careful) == [with_it, drop], "that message is not the one to decide about"
    commands.pending_approve(careful.folder, drop["id"])
    careful.settle()
    assert commands.pending(careful.folder) == []
    assert states(careful) == {
        "keys": ("fresh", None),
        "first": ("broken", "schema_changed"),
        "second": ("fresh", None),
    }

    careful.execute("one", "ALTER TABLE r DROP b")
    careful.settle()
    (message,) = queue(careful)
    answer = commands.pending_reject(careful.folder, message["id"])
    assert answer["cause"] == {
        "kind": "rejected", "message": message["id"], "source": "one", "ddl": "ALTER TABLE r DROP b"
    }  # fmt: skip
    careful.execute("one", "ALTER TABLE r ADD a int DEFAULT 7", "ALTER TABLE r ADD b int DEFAULT 8")
    careful.settle()
    assert states(careful) == {"keys": ("fresh", None), "first": ("fresh", None), "second": ("broken", "rejected")}
    assert careful.extent("first") == Counter({"7": 1}), "it came back by itself"
    assert careful.extent("second") == Counter({"3": 1}), "an operator said no: it waits for its file"
    check_words(careful, reworded)
    assert [view["name"] for view in careful.apply()["recovered"]] == ["second"]
    assert states(careful)["second"] == ("fresh", None)


def test_what_cannot_be_computed_is_retried_or_skipped(town: Town, reworded: bool) -> None:
    for name in ("retried", "skipped"):
        town.source(name, "CREATE TABLE p (k int, t text)", "INSERT INTO p VALUES (1, '1')")
        town.view(name, f"SELECT p.k, CAST(p.t AS INT) AS n FROM {name}.p")
    town.apply()
    for name in ("retried", "skipped"):
        town.execute(name, "INSERT INTO p VALUES (2, 'two')")
    town.settle()
    messages = {message["source"]: message for message in queue(town)}
    for name, message in messages.items():
        assert (message["state"], message["cause"]["kind"]) == ("quarantined", "uncomputable")
        assert message["cause"]["row"] == f"row of {name}.public.p: k = 2, t = two"
        (view,) = [view for view in commands.views(town.folder) if view["name"] == name]
        assert view["cause"] == {"kind": "quarantined", "messages": [message["id"]], "because": message["cause"]}
    assert states(town) == {"retried": ("held", "quarantined"), "skipped": ("held", "quarantined")}
    check_words(town, reworded)

    town.execute("retried", "UPDATE p SET t = '2' WHERE k = 2")
    answer = commands.pending_retry(town.folder, messages["retried"]["id"])
    assert (answer["state"], answer["views"]) == ("waiting", ["retried"])
    answer = commands.pending_skip(town.folder, messages["skipped"]["id"], "a test row")
    assert (answer["state"], answer["views"]) == ("skipped", ["skipped"])
    town.settle()
    assert states(town) == {"retried": ("fresh", None), "skipped": ("broken", "rows_in_the_way")}
    cause = town.state("skipped")["cause"]
    assert cause["to_be_built"] == {
        "kind": "message_skipped",
        "message": messages["skipped"]["id"],
        "note": "a test row",
        "row": "row of skipped.public.p: k = 2, t = two",
    }
    check_words(town, reworded)
    town.execute("skipped", "INSERT INTO p VALUES (3, '3')")
    town.settle()
    assert town.state("skipped")["cause"] == cause, "nothing is added each time"
    town.execute("skipped", "UPDATE p SET t = '2' WHERE k = 2")
    town.settle()
    assert states(town) == {"retried": ("fresh", None), "skipped": ("fresh", None)}
    town.check()


def test_what_is_held_or_gone_comes_back(town: Town, reworded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    town.source("one", "CREATE TABLE r (k int, a int)", "INSERT INTO r VALUES (1, 2)")
    town.source("two", "CREATE TABLE s (k int)", "INSERT INTO s VALUES (1)")
    town.view("keys", "SELECT r.k FROM one.r")
    town.view("gone", "SELECT r.a FROM one.r")
    town.view("other", "SELECT s.k FROM two.s")
    town.apply()

    # A user's view depends on ours, whose column changes its type; a column that another needs is dropped.
    town.in_warehouse("CREATE VIEW public.mine AS SELECT k FROM public.keys")
    town.execute("one", "ALTER TABLE r ALTER COLUMN k TYPE bigint", "ALTER TABLE r DROP COLUMN a")
    town.settle()
    assert states(town) == {
        "keys": ("held", "dependent_objects"),
        "gone": ("broken", "schema_changed"),
        "other": ("fresh", None),
    }
    assert town.state("keys")["cause"]["dependents"] == ["public.mine"]
    (change,) = [one for one in town.state("gone")["cause"]["changes"] if "DROP COLUMN a" in one["ddl"]]
    assert (change["source"], change["relation"]) == ("one", "one.public.r")
    check_words(town, reworded)
    town.in_warehouse("DROP VIEW public.mine")
    town.execute("one", "ALTER TABLE r ADD COLUMN a int DEFAULT 5")
    town.settle()
    assert {state for state, _ in states(town).values()} == {"fresh"}
    town.check()

    # An operator holds a message, and lets it go.
    town.execute("two", "INSERT INTO s VALUES (2)")
    with town.maintainer() as maintainer:
        for verb in ("build", "work"):
            monkeypatch.setattr(maintainer.units, verb, lambda *polled: Outcome.WORKED)
        maintainer.cycle()
    (message,) = commands.pending(town.folder)
    answer = commands.pending_hold(town.folder, message["id"])
    assert answer["cause"] == {"kind": "held_by_operator", "message": message["id"]}
    town.settle()
    assert states(town)["other"] == ("held", "held_by_operator")
    check_words(town, reworded)
    (waiting,) = commands.pending_plan(town.folder)["waiting"]
    assert (waiting["id"], waiting["cause"]) == (message["id"], answer["cause"])
    commands.pending_release(town.folder, message["id"])
    town.settle()
    town.check()

    # A source is detached: its views say so, and come back with `apply`.
    commands.sources_detach(town.folder, "two")
    assert states(town)["other"] == ("broken", "detached")
    assert json.dumps(town.state("other")["cause"]) == '{"kind": "detached", "source": "two"}'
    town.apply()
    assert states(town)["other"] == ("fresh", None)
    town.check()
