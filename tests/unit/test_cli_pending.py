"""The `pending` commands' skin: what they hand to the commands behind them and how they show the answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dyda import commands
from dyda.cli.main import main

Run = Callable[..., tuple[int, str, str]]

PLAN = {
    "units": [
        {"unit": 1, "kind": "merged", "messages": [1, 3], "idle": [], "reason": "1 and 3 merged, they depend …"},
        {"unit": 2, "kind": "data", "messages": list(range(4, 40)), "idle": [], "reason": "36 messages in one batch"},
    ],
    "waiting": [{"id": 2, "state": "held", "reason": "message 2 is held"}],
    "notes": ["detection is optimistic"],
}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dyda", "pending", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def test_the_plan_is_a_table_with_reasons(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "pending_plan", lambda folder: PLAN)
    code, out, err = run("plan")
    assert code == 0
    heading, merged, batch, *rest = out.splitlines()
    assert heading.split() == ["UNIT", "KIND", "MESSAGES", "REASON"]
    assert merged.split(maxsplit=2)[:2] == ["1", "merged"]
    assert merged.endswith("they depend …")
    assert batch.split()[:3] == ["2", "data", "4-39"]
    assert rest[1] == "not processed now:"
    assert rest[-1].split() == ["2", "1", "held", "message", "2", "is", "held"]
    assert err == "detection is optimistic\n"


def test_the_next_unit_is_shown_view_by_view(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    view = {"name": "v", "plan": "rebuild", "effect": "adapted", "extent": "equivalent", "cost": 2, "reason": "why"}
    first = {"unit": 1, "kind": "schema", "messages": [1], "idle": [], "reason": "next", "views": [view]}
    second = {**first, "unit": 2, "kind": "data", "messages": [2], "views": None}
    monkeypatch.setattr(commands, "pending_plan", lambda folder: {"units": [first, second], "waiting": [], "notes": []})
    code, out, err = run("plan")
    assert (code, err) == (0, "")
    *_, title, heading, line = out.splitlines()
    assert title == "unit 1, by view:"
    assert heading.split() == ["VIEW", "PLAN", "EFFECT", "EXTENT", "COST", "REASON"]
    assert line.split() == ["v", "rebuild", "adapted", "equivalent", "2", "why"]


def test_what_is_alike_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands wait behind one message; what an operator decides about stands out."""
    held = [{"id": 7, "state": "held", "reason": "message 7 is held"}]
    behind = [
        {"id": number, "state": "waiting", "reason": f"{number} came after {number - 1} from source crm"}
        for number in [*range(8, 2000), *range(2001, 2101, 2), 3000]
    ]
    other = [{"id": 9999, "state": "waiting", "reason": "processing 9999 would query crm.public.t1, which 7 drops"}]
    other += [{"id": 10000, "state": "waiting", "reason": "processing 10000 would query crm.public.t2, which 7 drops"}]
    units = [
        {"unit": n, "kind": "data", "messages": [n], "idle": [], "reason": f"message {n} in arrival order"}
        for n in range(1, 7)
    ]
    plan = {"units": units, "waiting": held + behind + other, "notes": []}
    monkeypatch.setattr(commands, "pending_plan", lambda folder: plan)
    code, out, err = run("plan")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert lines[1][:3] == ["1-6", "data", "1-6"]
    assert lines[5] == ["7", "1", "held", "message", "7", "is", "held"]
    assert out.splitlines()[6].startswith("8-1999, 2001, 2003,")
    assert "and 40 more" in out.splitlines()[6]
    assert "2043  waiting  8 came after 7 from source crm; likewise for the others" in " ".join(
        out.splitlines()[6].split(" ")
    )
    assert [line[-4] for line in lines[7:9]] == ["crm.public.t1,", "crm.public.t2,"]
    assert len(lines) == 9
    assert "dyda pending show ID" in err
    assert json.loads(run("plan", "--json")[1]) == plan


def test_the_plan_in_json_is_complete(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "pending_plan", lambda folder: PLAN)
    code, out, err = run("plan", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == PLAN


def test_an_empty_plan_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "pending_plan", lambda folder: {"units": [], "waiting": [], "notes": []})
    assert run("plan") == (0, "", "Nothing is pending.\n")


class TestGraph:
    @pytest.fixture(autouse=True)
    def record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, int | None]] = []

        def picture(folder: Path, format: str, limit: int | None) -> bytes:
            self.asked.append((format, limit))
            return f"a picture as {format}\n".encode()

        monkeypatch.setattr(commands, "pending_picture", picture)
        monkeypatch.setattr(commands, "pending_graph", lambda folder: {"messages": [], "edges": [], "merged": []})

    def test_text_is_what_a_terminal_gets(self, run: Run) -> None:
        assert run("graph") == (0, "a picture as text\n", "")

    @pytest.mark.parametrize(("ending", "format"), [("svg", "svg"), ("PNG", "png"), ("gv", "dot"), ("txt", "text")])
    def test_the_ending_tells_the_format(self, run: Run, tmp_path: Path, ending: str, format: str) -> None:
        file = tmp_path / f"queue.{ending}"
        code, out, err = run("graph", "--output", str(file))
        assert (code, out, err) == (0, f"{file}\n", "")
        assert file.read_text() == f"a picture as {format}\n"

    def test_the_format_may_be_named(self, run: Run, tmp_path: Path) -> None:
        file = tmp_path / "queue.picture"
        assert run("graph", "--output", str(file))[0] == 2
        code, out, _ = run("graph", "--output", str(file), "--format", "svg", "--limit", "7", "--json")
        assert code == 0
        assert json.loads(out) == {"output": str(file), "format": "svg"}
        assert self.asked == [("svg", 7)]

    def test_a_file_that_cannot_be_written_is_one_message(self, run: Run, tmp_path: Path) -> None:
        code, out, err = run("graph", "--output", str(tmp_path / "no" / "folder.svg"))
        assert (code, out) == (1, "")
        assert "cannot be written" in err
        assert "--output" in err

    def test_json_is_the_graph_as_data(self, run: Run) -> None:
        code, out, _ = run("graph", "--json")
        assert code == 0
        assert set(json.loads(out)) == {"messages", "edges", "merged"}

    def test_an_unknown_format_is_wrong_usage(self, run: Run) -> None:
        assert run("graph", "--format", "pdf")[0] == 2


@pytest.mark.parametrize("verb", ["hold", "release", "retry"])
def test_a_decision_is_about_one_message(run: Run, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    asked: list[int] = []

    def decide(folder: Path, message: int) -> dict[str, Any]:
        asked.append(message)
        return {"id": message, "state": "held", "reason": None, "views": ["v"] if verb == "retry" else []}

    monkeypatch.setattr(commands, f"pending_{verb}", decide)
    code, out, _ = run(verb, "7")
    assert code == 0
    assert out.splitlines()[0] == "message 7: held"
    assert out.splitlines()[1:] == (["view v: maintained again"] if verb == "retry" else [])
    assert asked == [7]
    assert run(verb)[0] == 2
    assert run(verb, "seven")[0] == 2


def test_a_skip_needs_a_reason(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def skip(folder: Path, message: int, reason: str) -> dict[str, Any]:
        return {"id": message, "state": "skipped", "reason": reason, "views": ["v", "w"]}

    monkeypatch.setattr(commands, "pending_skip", skip)
    code, _, err = run("skip", "7")
    assert code == 2
    assert "--reason" in err
    code, out, _ = run("skip", "7", "--reason", "it is wrong")
    assert code == 0
    assert out.splitlines() == ["message 7: skipped", "view v: to be rebuilt", "view w: to be rebuilt"]
