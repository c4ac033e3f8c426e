"""The skin: `-C` and `--json` anywhere, exit codes, one message for an error. The commands behind it are replaced by
functions that only record, because their work is tested where it is done."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dyda import commands
from dyda.cli import output
from dyda.cli.main import main
from dyda.commands import ApplyPlan
from dyda.errors import DydaError

VIEW = {"name": "v", "state": "fresh", "version": 1, "rows": 3, "lag_seconds": 0.5, "fresh_at": "t", "reason": None}

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """`run("views", "--json")` gives the exit code, standard output and standard error."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dyda", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


@pytest.mark.parametrize(
    "words",
    [
        ("-C", "there", "--json", "views", "show", "v"),
        ("views", "-C", "there", "show", "v", "--json"),
        ("views", "--json", "show", "-C", "there", "v"),
        ("views", "show", "--json", "v", "-Cthere"),
    ],
)
def test_common_options_may_stand_anywhere(run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    seen: list[Any] = []

    def show(folder: Path, name: str) -> dict[str, Any]:
        seen.append((folder, name))
        return {"name": name, "sql": "SELECT 1", "columns": []}

    monkeypatch.setattr(commands, "views_show", show)
    code, out, _ = run(*words)
    assert code == 0
    assert json.loads(out)["name"] == "v"
    assert seen == [(Path("there"), "v")]


def test_tables_are_plain_and_uncut_where_there_is_no_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "[bold]" + "x" * 300
    monkeypatch.setattr(commands, "views", lambda folder: [{**VIEW, "name": long}, VIEW])
    code, out, err = run("views")
    assert code == 0
    assert err == ""
    heading, first, second = out.splitlines()
    assert heading.split()[:2] == ["VIEW", "STATE"]
    assert first.startswith(long), "a user's name was cut, or read as markup"
    assert first.index("fresh") == second.index("fresh") == heading.index("STATE")


def test_an_error_is_one_message_on_standard_error(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> list[dict[str, Any]]:
        raise DydaError("the table [x] is away", "Bring it back.")

    monkeypatch.setattr(commands, "views", fail)
    assert run("views") == (1, "", "error: the table [x] is away\nBring it back.\n")


ATTACK = "x\x1b[2J\n2026-01-01T00:00:00Z all is well\x9b31m\u202e\x7f"
SHOWN = r"x\x1b[2J\n2026-01-01T00:00:00Z all is well\x9b31m\u202e\x7f"
"""How a value of a source looks that is meant for the operator's terminal, and how it is shown."""


def test_values_of_the_sources_are_shown_and_never_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sick = {"name": ATTACK, "reachable": False, "error": ATTACK}
    answer = {"daemon": {"running": False, "error": ATTACK}, "sources": [sick], "views": [{**VIEW, "reason": ATTACK}]}
    monkeypatch.setattr(commands, "status", lambda folder: answer)
    code, out, _ = run("status")
    assert code == 0
    assert out.count(SHOWN) == 4
    assert len(out.splitlines()) == 8, "no line more than there are"
    _unsent(out)
    _, out, _ = run("status", "--json")
    assert json.loads(out) == answer
    _unsent(out)

    constraint = {"kind": ATTACK, "constraint": ATTACK, "result": "violated", "violations": 1, "reason": None}
    checked = [{**constraint, "applied": True, "samples": [{ATTACK: ATTACK}]}]
    monkeypatch.setattr(commands, "knowledge_check", lambda folder: checked)
    code, out, err = run("knowledge", "check")
    assert code == 3
    assert out.count(SHOWN) == 3
    assert err == f"\n{SHOWN}: rows that violate it\n"
    _unsent(out)

    index = {"columns": [ATTACK], "origin": "by hand", "unique": False, "definition": ATTACK, "bytes": 1, "scans": 0}
    layout = {"key": [ATTACK], "declared_key": [ATTACK], "indexes": [index]}
    columns = [{"name": ATTACK, "type": ATTACK}]
    shown = {"name": "v", "sql": f"SELECT a,\n\tb -- {ATTACK}\n", "columns": columns, "layout": layout}
    monkeypatch.setattr(commands, "views_show", lambda folder, name: shown)
    _, out, _ = run("views", "show", "v")
    assert "SELECT a,\n\tb -- x\\x1b[2J\n" in out, "lines that are meant stay"
    _unsent(out)
    monkeypatch.setattr(commands, "views_diff", lambda *words: {"from": 1, "to": 2, "diff": [f"+{ATTACK}"]})
    assert run("views", "diff", "v")[1] == f"+{SHOWN}\n"


def test_a_line_of_the_log_is_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def daemon(folder: Path, until_idle: bool, log: Callable[[str], None]) -> int:
        log(f"view v is held: [row of crm.public.t: a = {ATTACK}]")
        return 0

    monkeypatch.setattr(commands, "run_daemon", daemon)
    _, _, err = run("daemon")
    (line,) = err.splitlines()
    assert line.endswith(f"view v is held: [row of crm.public.t: a = {SHOWN}]")


@pytest.mark.parametrize("error", [DydaError(ATTACK, "Bring it back."), ValueError(ATTACK)])
def test_errors_send_nothing_to_the_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(folder: Path) -> list[dict[str, Any]]:
        raise error

    monkeypatch.setattr(commands, "views", fail)
    monkeypatch.setenv("DYDA_DEBUG", "1")
    _, _, err = run("views")
    assert r"x\x1b[2J" in err
    _unsent(err)
    _unsent(run("views", "show", "v", "--\x1b[2J")[2])


def test_statements_to_run_keep_their_lines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {"source": "crm", "level": "warning", "what": ATTACK, "remedy": "GRANT a;\nGRANT \x1b;"}
    monkeypatch.setattr(commands, "sources_check", lambda folder: [finding])
    _, out, _ = run("sources", "check")
    assert [line.split()[-2:] for line in out.splitlines()[1:]] == [["GRANT", "a;"], ["GRANT", "\\x1b;"]]


def _unsent(said: str) -> None:
    assert not set(said) & set("\x1b\x9b\x7f\u202e")


def test_a_fault_of_ours_is_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "views", lambda folder: 1 // 0)
    code, out, err = run("views")
    assert (code, out) == (1, "")
    assert "ZeroDivisionError" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [("nonsense",), ("views", "show"), ("views", "--nonsense"), ("pending", "show", "x")])
def test_wrong_usage_is_2(run: Run, words: tuple[str, ...]) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert "Error" in err


@pytest.mark.parametrize(
    ("results", "code"),
    [
        (["equal", "equal"], 0),
        (["equal", "skipped"], 0),
        (["equal", "unverifiable"], 1),
        (["different", "unverifiable"], 3),
    ],
)
def test_verify_exit_codes(run: Run, monkeypatch: pytest.MonkeyPatch, results: list[str], code: int) -> None:
    def verify(folder: Path, names: Any, progress: Any) -> list[dict[str, Any]]:
        progress("reading", 0, 2)
        return [{"name": f"v{n}", "result": r, "missing": 0, "extra": 0} for n, r in enumerate(results)]

    monkeypatch.setattr(commands, "verify", verify)
    found, out, err = run("verify", "--json")
    assert found == code
    assert [view["result"] for view in json.loads(out)] == results
    assert err == "reading\n"


def test_bars_end_where_the_work_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who shows progress may not hear the last of it: the daemon tells how far it is a few times a second."""

    def shown(*steps: tuple[str, int, int], fails: bool = False) -> dict[str, str]:
        screen = io.StringIO()
        monkeypatch.setattr(screen, "isatty", lambda: True, raising=False)
        monkeypatch.setattr(sys, "stderr", screen)
        monkeypatch.setenv("COLUMNS", "120")
        monkeypatch.setenv("TERM", "xterm")
        with contextlib.suppress(DydaError), output.progress() as report:
            for step in steps:
                report(*step)
            if fails:
                raise DydaError("no")
        lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n").splitlines()
        ended = {line.split("  ")[0].split(" ━")[0].split(" ╸")[0].strip(): line for line in lines if ":" in line}
        return {text: line.split()[-2] for text, line in ended.items()}

    waiting = ("waiting for pid 7", 0, 0)
    assert shown(("attaching", 0, 3), waiting, ("building v", 0, 3), ("building v", 1, 3)) == {
        "attaching": "3/3",
        "waiting for pid 7": "1/1",
        "building v": "3/3",
    }
    assert shown(("attaching", 0, 2), ("building v", 1, 3), fails=True) == {"attaching": "2/2", "building v": "1/3"}


class TestApply:
    @pytest.fixture(autouse=True)
    def record(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def apply(
            folder: Path, confirm: Callable[[ApplyPlan], bool], progress: Any, timeout: float | None = None
        ) -> dict[str, Any]:
            self.timeout = timeout
            if self.plan.empty:
                return {"created": [], "unchanged": list(self.plan.unchanged)}
            return {"created": [{"name": "v", "rows": 3}]} if confirm(self.plan) else {"cancelled": True}

        self.plan = ApplyPlan(create=("v",))
        monkeypatch.setattr(commands, "apply", apply)

    def test_a_question_without_a_terminal_is_2(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        code, out, err = run("apply")
        assert code == 2
        assert "create" in out
        assert "--yes" in err

    def test_how_long_to_wait_is_said_in_seconds(self, run: Run) -> None:
        assert run("apply", "--yes")[0] == 0
        assert self.timeout is None, "as long as it takes"
        assert run("apply", "--yes", "--timeout", "2.5")[0] == 0
        assert self.timeout == 2.5
        assert run("apply", "--timeout", "-1")[0] == 2

    def test_yes_asks_nothing(self, run: Run) -> None:
        code, out, _ = run("apply", "--yes")
        assert code == 0
        assert out.splitlines()[-1].split() == ["v", "created", "3", "rows"]

    def test_an_empty_plan_asks_nothing(self, run: Run) -> None:
        self.plan = ApplyPlan(unchanged=("v",))
        code, out, _ = run("apply")
        assert code == 0
        assert out.splitlines()[-1].split() == ["v", "unchanged"]

    def test_json_is_the_only_output(self, run: Run) -> None:
        _, out, _ = run("apply", "--yes", "--json")
        assert json.loads(out) == {"created": [{"name": "v", "rows": 3}]}


def test_a_reader_that_goes_away_is_no_error() -> None:
    call = "from dyda import commands; commands.views = lambda folder: [{'name': 'x' * 99}] * 9999; import dyda.cli; "
    command = [sys.executable, "-c", call + "dyda.cli.main()", "views"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_python_m_dyda_is_the_same_program() -> None:
    result = subprocess.run([sys.executable, "-m", "dyda", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("dyda ")
