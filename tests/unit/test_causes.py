"""Causes: every kind is written down and read again as it was, and has its words."""

from __future__ import annotations

import json
import typing
from dataclasses import fields
from pathlib import Path

import pytest

from dyda.errors import EvaluationFailed, InvariantViolated, NotInstallable, SourceUnreachable, StoodOn, ValueDoesNotFit
from dyda.maintenance.error_causes import cause_of, uncomputable
from dyda.model import cause as causes
from dyda.model.cause import (
    KINDS,
    Behind,
    BuildReason,
    Cause,
    Clause,
    CommittedChange,
    DeclaredIndexLost,
    DeclaredKeyRepeated,
    DependentObjects,
    Detached,
    Effect,
    Followed,
    Following,
    HandmadeIndexLost,
    HeldByOperator,
    InstallRefused,
    LayoutChanged,
    MessageSkipped,
    MessagesPending,
    NeedsApproval,
    NegativeCount,
    NotBuilt,
    NotMaintained,
    NotPolled,
    Obstacle,
    Quarantined,
    Rejected,
    RelationDrift,
    RelationDrifted,
    RightsMissing,
    RowsInTheWay,
    SchemaChanged,
    Several,
    Skipped,
    SourceAway,
    SourceDrift,
    SourceDrifted,
    Text,
    ToBeBuilt,
    Uncomputable,
    Unforeseen,
    Unshown,
    WaitsBehind,
    WaitsWith,
)
from dyda.model.layout import LayoutChange, LayoutEvent
from dyda.model.message import MessageState
from dyda.model.view_state import ViewState
from dyda.warehouse.catalog.cause_codec import cause_from_json, cause_to_json
from dyda.wording import message_sentence, sentence, what_happened

ROW = Uncomputable("crm.t.a: the value 'x' does not fit", "crm.t", "a", "row of crm.t: a = x")
DROP = CommittedChange("crm", "crm.t", "ALTER TABLE", "ALTER TABLE t DROP a", 7, "2026-01-02T03:04:05+00:00")
CASES: list[tuple[Cause, str]] = [
    (Text("as it was"), "as it was"),
    (HeldByOperator(5), "message 5 is held by an operator"),
    (
        NeedsApproval(5, (Effect("v", "broken"), Effect("w", "unknown"))),
        "message 5 waits for approval: it breaks v; its effect on w is unknown",
    ),
    (WaitsWith(5, 6), "message 5 waits with message 6, which changes the same table"),
    (WaitsBehind(6, 5), "message 6 gives a name to another table; views that wait for message 5 need the first"),
    (MessagesPending(2), "2 messages wait to be processed"),
    (NotPolled(), "its sources were not polled lately"),
    (Rejected(5, "crm", "DROP TABLE t"), "rejected by an operator: message 5 of crm: DROP TABLE t"),
    (Skipped("a test row"), "a test row"),
    (MessageSkipped(5, "a test row"), "message 5 was skipped: a test row"),
    (MessageSkipped(5, "no", "row of crm.t: a = x"), "message 5 was skipped: no (row of crm.t: a = x)"),
    (Detached("crm"), "detached"),
    (Uncomputable("division by zero"), "division by zero"),
    (ROW, "crm.t.a: the value 'x' does not fit [row of crm.t: a = x]"),
    (Quarantined((5,), Uncomputable("no")), "message 5 is quarantined: no"),
    (Quarantined((5, 6), Uncomputable("no")), "messages 5, 6 are quarantined: no"),
    (
        RowsInTheWay(ToBeBuilt(BuildReason.REQUESTED), Uncomputable("division by zero.")),
        "resync requested; it cannot be built from the rows that its sources have now: division by zero; correct or"
        " delete the row at the source, and DyDa builds it; or change the view's file and run: dyda apply",
    ),
    (SchemaChanged("a was dropped"), "a was dropped"),
    (
        SchemaChanged("it was dropped", "column a", "mark it dispensable", (DROP, DROP)),
        "column a: it was dropped (crm at 2026-01-02T03:04:05+00:00: ALTER TABLE t DROP a). mark it dispensable",
    ),
    (
        SchemaChanged("column a is gone", "column a", None, (CommittedChange("crm", "crm.t", "DROP TABLE", ""),)),
        "column a is gone (crm: DROP TABLE crm.t)",
    ),
    (
        SchemaChanged("a was dropped", preference=Clause("column", "a", dispensable=False, replaceable=True)),
        "a was dropped",
    ),
    (
        LayoutChanged(
            (LayoutChange(LayoutEvent.KEY_UNPROVEN, ("id", "day")), LayoutChange(LayoutEvent.KEY_PROVEN, ()))
        ),
        "the key (id, day) no longer follows from the keys of its sources;"
        " that it has at most one row follows now from its definition",
    ),
    (
        LayoutChanged((LayoutChange(LayoutEvent.KEY_LOST, ("id",)), LayoutChange(LayoutEvent.INDEX_LOST, ("a", "b")))),
        "the declared key (id) is gone; the index (a, b) is gone",
    ),
    (Followed(("a is b now", "c is d now"), "only names change"), "a is b now; c is d now"),
    (Followed(detail="only names change"), "only names change"),
    (Unforeseen("what it did was not logged in steps"), "what it did was not logged in steps"),
    (NotMaintained(ViewState.HELD), "it is held already"),
    (NotMaintained(ViewState.BROKEN, Detached("crm")), "it is broken already: detached"),
    (NotBuilt(ToBeBuilt(BuildReason.RETURNED, "b is dropped"), "no"), "its relations are back; b is dropped: no"),
    (SourceAway("crm", "source crm cannot be reached"), "source crm cannot be reached"),
    (Behind(), "a schema change was followed; its rows follow when it can be built"),
    (Behind("a is b now", lane=True), "a is b now; its rows are rebuilt beside the other views"),
    (Behind("a is b now", (SourceAway("crm", "gone"),)), "a is b now; gone; its rows follow when it can be built"),
    *(
        (SourceDrifted("crm", drift, unsettled), what_happened(SourceDrifted("crm", drift)) + "; re-reading it")
        for drift in SourceDrift
        for unsettled in (False, True)
    ),
    *(
        (
            RelationDrifted("crm", "crm.t", drift),
            what_happened(RelationDrifted("crm", "crm.t", drift)) + "; re-reading it",
        )
        for drift in RelationDrift
    ),
    (
        RightsMissing("crm", "crm.t", (Obstacle("may not read", "GRANT SELECT;"), Obstacle("it is", "Ask."))),
        "may not read. Run at the source: GRANT SELECT; it is. Ask.",
    ),
    (InstallRefused("view v: no"), "view v: no"),
    (DependentObjects("view v: m stands on public.v", ("m",)), "view v: m stands on public.v"),
    (NegativeCount("view v: 1 row"), "view v: 1 row"),
    (Unshown("v", "public.v", replaced=False), "public.v was dropped; put it back with: dyda views resync v"),
    (Unshown("v", "public.v", replaced=True), "public.v was replaced by something that is not DyDa's; rename or drop"),
    (
        DeclaredKeyRepeated("v", ("id", "day"), "2 rows have (1,)"),
        "the declared key (id, day) does not hold: 2 rows have (1,); the rows are shown, and the key is not enforced."
        " Correct them at the source and run: dyda views resync v; or change the key in views/v.sql and run: dyda",
    ),
    (
        DeclaredIndexLost("v", ("day",), "its columns are gone"),
        "the declared index (day) is gone: its columns are gone. Change the index in views/v.sql and run: dyda apply",
    ),
    (DeclaredIndexLost("v", ("id",), "no", unique=True), "the declared key (id) is gone: no. Change the key in"),
    (
        HandmadeIndexLost("v", "mine", "CREATE INDEX …", "its columns are gone"),
        "the index mine was lost with a new table: its columns are gone (CREATE INDEX …). If you need it, make it",
    ),
    *((ToBeBuilt(reason, "for it"), "for it") for reason in BuildReason),
    (Following(ToBeBuilt(BuildReason.DUE), ("a is b now", "c is new")), "a resync is due; a is b now; c is new"),
    (Several((HeldByOperator(6), HeldByOperator(5))), "message 5 is held by an operator; message 6 is held"),
]


@pytest.mark.parametrize(("cause", "words"), CASES)
def test_a_cause_is_written_down_and_read_again_as_it_was(cause: Cause, words: str) -> None:
    entry = json.loads(json.dumps(cause_to_json(cause)))
    assert entry["kind"] == cause.kind
    assert cause_from_json(entry) == cause
    assert sentence(cause_from_json(entry) or Text("")) == sentence(cause)


@pytest.mark.parametrize(("cause", "words"), CASES)
def test_a_cause_in_words(cause: Cause, words: str) -> None:
    assert words in sentence(cause)


def test_every_kind_is_among_the_cases() -> None:
    assert {type(cause) for cause, _ in CASES} == set(KINDS.values()) == set(typing.get_args(Cause))
    assert len(KINDS) == len(typing.get_args(Cause)), "no two kinds have one name"
    assert {kind for kind in vars(causes).values() if hasattr(kind, "kind")} == set(KINDS.values())


def test_every_kind_is_documented_with_its_parts() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text()
    rows = {line.split("`")[1]: line for line in page.partition("## Causes")[2].splitlines() if line.startswith("| `")}
    assert {name for name in rows if name != "kind"} == set(KINDS)
    for name, kind in KINDS.items():
        assert [field.name for field in fields(kind) if f"`{field.name}`" not in rows[name]] == [], name


def test_nothing_is_nothing() -> None:
    assert cause_to_json(None) is None
    assert cause_from_json(None) is None


def test_parts_that_a_cause_does_not_have_are_left_out() -> None:
    assert cause_to_json(Uncomputable("no")) == {"kind": "uncomputable", "detail": "no"}
    assert cause_to_json(Quarantined((5,), ROW)) == {
        "kind": "quarantined",
        "messages": [5],
        "because": {
            "kind": "uncomputable",
            "detail": "crm.t.a: the value 'x' does not fit",
            "relation": "crm.t",
            "column": "a",
            "row": "row of crm.t: a = x",
        },
    }


def test_a_message_is_named_once() -> None:
    assert message_sentence(5, MessageState.HELD, HeldByOperator(5)) == "message 5 is held by an operator"
    assert message_sentence(5, MessageState.HELD, Text("by hand")) == "message 5 is held: by hand"
    assert message_sentence(5, MessageState.SKIPPED, Skipped("a test row")) == "message 5 is skipped: a test row"
    assert message_sentence(5, MessageState.BROKEN, None) == "message 5 is broken"


def test_errors_become_causes_with_their_parts() -> None:
    stood_on = StoodOn("v", "public.v", ["public.mine", "public.other"])
    assert cause_of(stood_on) == DependentObjects(stood_on.what, ("public.mine", "public.other"))
    assert cause_of(NotInstallable("v", "no")) == InstallRefused("view v: no")
    assert cause_of(InvariantViolated("v", "below zero")) == NegativeCount("view v: below zero")
    away = SourceUnreachable("crm", "refused")
    assert cause_of(away) == SourceAway("crm", away.what)
    value = ValueDoesNotFit("crm.t", "a", "x", "int")
    assert cause_of(value) == Uncomputable(value.what, "crm.t", "a")
    assert uncomputable(EvaluationFailed("view v: division by zero"), "the row", "v") == Uncomputable(
        "division by zero", row="the row"
    )
