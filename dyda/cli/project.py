"""Commands that set a project up: init, sources, apply."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dyda.cli.options import CommonCommand, CommonGroup, common, timeout_option
from dyda.cli.output import log, progress, say, several_lines, show_json, table
from dyda.errors import DydaError

if TYPE_CHECKING:
    from dyda.commands import ApplyPlan

__all__ = ["NobodyToAsk", "apply_command", "init_command", "sources_group"]


class NobodyToAsk(DydaError):
    """A question is due, there is no terminal, and `--yes` was not given."""

    exit_code = 2


@click.command("init", cls=CommonCommand)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def init_command(directory: Path) -> None:
    """Make a new project folder that runs as it is."""
    from dyda import commands

    folder = common().folder / directory
    answer = commands.init(folder)
    if common().json:
        show_json(answer)
        return
    for path in answer["created"]:
        say(str(path))
    log(f"Next: dyda -C {folder} apply")


@click.group("sources", cls=CommonGroup, invoke_without_command=True)
@click.pass_context
def sources_group(context: click.Context) -> None:
    """List the sources; check them; remove DyDa from one."""
    from dyda import commands

    if context.invoked_subcommand is not None:
        return
    answer = commands.sources(common().folder)
    if common().json:
        show_json(answer)
        return
    columns = ["name", "reachable", "capture", "order", "url", "schema", "relations", "error"]
    table([(name, name.upper()) for name in columns], answer, "No sources: add [sources.NAME] to dyda.toml.")


@sources_group.command("check")
def sources_check() -> None:
    """Test reach, rights and capture, and print the statement that is missing."""
    from dyda import commands

    answer = commands.sources_check(common().folder)
    if common().json:
        show_json(answer)
    else:
        columns = [("source", "SOURCE"), ("level", "LEVEL"), ("what", "WHAT"), ("remedy", "REMEDY")]
        rows = [{**finding, "remedy": several_lines(finding["remedy"])} for finding in answer]
        table(columns, rows, "No sources: add [sources.NAME] to dyda.toml.")
    if any(finding["level"] == "error" for finding in answer):
        sys.exit(1)


@sources_group.command("detach")
@click.argument("name")
def sources_detach(name: str) -> None:
    """Remove everything DyDa put into the source NAME.

    Its views break with the reason "detached" and keep their rows; `dyda apply` attaches and rebuilds again.
    """
    from dyda import commands

    answer = commands.sources_detach(common().folder, name)
    if common().json:
        show_json(answer)
        return
    say(f"detached {answer['source']}")
    for view in answer["views"]:
        say(f"broken {view}: its rows stay as they are")


@click.command("apply", cls=CommonCommand)
@click.option("--yes", is_flag=True, help="Do it without asking.")
@timeout_option
def apply_command(yes: bool, timeout: float | None) -> None:
    """Make the warehouse match views/ and knowledge.toml.

    Checks all new and changed files, shows the plan and asks; then attaches capture at the sources, builds new views,
    adapts changed ones from their old rows where possible, rebuilds broken ones and drops those whose file is gone. If
    a changed file cannot be built, the old version stays live. Capture on a table is released when no view reads it
    and knowledge.toml does not name it any more.

    Capture cannot be attached to a table while a transaction that has written to it is open. apply waits for it, says
    for whom, and lets nobody queue behind it; Ctrl-C or --timeout ends that, and nothing is created then.
    """
    from dyda import commands

    options = common()

    def confirm(plan: ApplyPlan) -> bool:
        if not options.json:
            _show_plan(plan)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise NobodyToAsk("this plan needs your consent, and there is no terminal to ask on", "Add --yes to agree.")
        return click.confirm("Do this?", err=True)

    with progress() as report:
        answer = commands.apply(options.folder, confirm, report, timeout=timeout)
    if options.json:
        show_json(answer)
        return
    if answer.get("cancelled"):
        say("nothing was done")
        return
    _show_done(answer)


PLANNED = (
    ("create", "create"),
    ("change", "adapt, its file changed"),
    ("recover", "rebuild if it can be, it is broken or detached"),
    ("drop", "drop, its file is gone"),
    ("evolved", "leave alone, it has evolved"),
    ("unchanged", "leave alone"),
)

PLANNED_KNOWLEDGE = {
    "create": "read it",
    "change": "read it again, it changed",
    "drop": "forget it, the file is gone",
    "recover": "attach capture to its relations again",
    "evolved": "leave it alone, it has evolved",
    "unchanged": "leave it alone",
}


def _show_plan(plan: ApplyPlan) -> None:
    pairs = [(name, text) for key, text in PLANNED for name in plan.as_dict()[key]]
    table([("view", "VIEW"), ("plan", "PLAN")], [{"view": n, "plan": t} for n, t in pairs], "No views in views/.")
    if plan.knowledge != "none":
        say(f"\nknowledge.toml: {PLANNED_KNOWLEDGE[plan.knowledge]}")


def _show_done(answer: dict[str, Any]) -> None:
    done = []
    for key in ("created", "changed", "recovered", "broken", "dropped", "evolved", "unchanged"):
        for item in answer.get(key, ()):
            record = item if isinstance(item, dict) else {"name": item}
            rows = f"{record['rows']} rows" if "rows" in record else None
            adaptation = record.get("adaptation")
            how = f"{adaptation['kind']}: {adaptation['reason']}" if adaptation else record.get("reason")
            done.append({"view": record["name"], "result": key, "rows": rows, "how": how})
    columns = [("view", "VIEW"), ("result", "RESULT"), ("rows", "ROWS"), ("how", "HOW")]
    table(columns, done, "No views in views/, and none to drop.")
    if answer.get("knowledge"):
        say(f"knowledge.toml: {answer['knowledge']}")
