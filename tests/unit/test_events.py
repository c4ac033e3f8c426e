"""Events as data: every kind has words, is provoked by a test, documented, and survives the way through JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from dyda.event_wording import event_sentence, in_one_line, next_for_view, next_step
from dyda.model import cause as causes
from dyda.model import event as kinds
from dyda.model.cause import Cause
from dyda.model.event import EVENTS, Event, view_moved
from dyda.model.view_state import ViewState
from dyda.warehouse.catalog.cause_codec import parts_of

TOP = Path(__file__).parents[2]
PROVOKED_IN = [
    TOP / "tests" / "integration" / "maintenance" / name for name in ("test_events.py", "test_daemon_events.py")
]


def _some(kind: type[Event]) -> Event:
    """An event of this kind, with values of the right types."""
    values: dict[Any, Any] = {int: 7, float: 1.5, str: "x", tuple[int, ...]: (1, 2), tuple[str, ...]: ("a", "b")}
    values |= {ViewState: ViewState.BROKEN, Cause: causes.Detached("crm")}
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in ("kind", "level")}
    found = {}
    for name, hint in hints.items():
        choices = [hint, *get_args(hint)]
        found[name] = next(
            (values[one] for one in choices if one in values), causes.Detached("crm") if name == "cause" else None
        )
    make: Any = kind
    event: Event = make(**found)
    return event


@pytest.mark.parametrize("kind", EVENTS)
def test_every_kind_has_a_sentence_and_parts(kind: str) -> None:
    event = _some(EVENTS[kind])
    text = event_sentence(event)
    assert text
    assert "None" not in text
    assert parts_of(event)["kind"] == kind
    assert next_step(event) != ""


@pytest.mark.parametrize("kind", EVENTS)
def test_every_kind_is_provoked_and_documented(kind: str) -> None:
    assert any(f'"{kind}"' in file.read_text() for file in PROVOKED_IN)
    assert f"| `{kind}` |" in (TOP / "docs" / "reference" / "events.md").read_text()


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (ViewState.LIVE, ViewState.BROKEN, kinds.ViewBroken),
        (ViewState.LIVE, ViewState.HELD, kinds.ViewHeld),
        (ViewState.LIVE, ViewState.RESYNC, kinds.ViewResync),
        (ViewState.HELD, ViewState.LIVE, kinds.ViewWaiting),
        (ViewState.LIVE, ViewState.BUILDING, kinds.ViewBuilding),
    ],
)
def test_a_view_that_moves(before: ViewState, after: ViewState, kind: type[Event]) -> None:
    cause = causes.Detached("crm")
    assert isinstance(view_moved("v", before, None, after, cause), kind)
    assert view_moved("v", after, cause, after, cause) is None


def test_a_view_that_is_back() -> None:
    assert view_moved("v", ViewState.HELD, causes.Detached("crm"), ViewState.LIVE, None) == kinds.ViewRecovered(
        "v", ViewState.HELD
    )


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (causes.Quarantined((5,), causes.Uncomputable("no")), "dyda pending retry 5"),
        (causes.HeldByOperator(5), "dyda pending release 5"),
        (causes.NeedsApproval(5, ()), "dyda pending approve 5"),
        (causes.WaitsWith(5, 6), "dyda pending approve 6"),
        (causes.WaitsBehind(6, 5), "dyda pending approve 5"),
        (causes.Detached("crm"), "dyda apply"),
        (causes.Rejected(5, "crm", "DROP"), "views/v.sql, then run: dyda apply"),
        (causes.SchemaChanged("a is gone"), "dyda apply"),
        (causes.InstallRefused("no"), "dyda views resync v"),
        (causes.DependentObjects("no", ("a", "b")), "Drop or change a, b"),
        (causes.SourceAway("crm", "no"), "dyda sources check"),
        (causes.Several((causes.HeldByOperator(5), causes.HeldByOperator(6))), "release 6"),
    ],
)
def test_what_to_do(cause: Cause, words: str) -> None:
    step = next_for_view("v", cause, broken=False)
    assert step is not None
    assert words in step


def test_a_line_of_the_log() -> None:
    assert in_one_line("it broke.", "Do this") == "it broke. Do this"
    assert in_one_line("it broke", None) == "it broke"
