"""Commands that set a project up: init, sources, apply."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dyda.cli.options import CommonCommand, CommonGroup, common, timeout_option
from dyda.cli.output import answered, log, progress, say, several_lines, table
from dyda.errors import DydaError

if TYPE_CHECKING:
    from dyda.commands import ApplyPlan

__all__ = ["ConfirmationNeeded", "apply_command", "init_command", "sources_group"]

NO_SOURCES = "No sources: add [sources.NAME] to dyda.toml."


class ConfirmationNeeded(DydaError):
    """Somebody has to agree, there is no terminal, and `--yes` was not given."""

    exit_code = 2


@click.command("init", cls=CommonCommand)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
def init_command(directory: Path) -> None:
    """Create a project folder that runs as it is."""
    from dyda import commands

    folder = common().folder / directory
    answer = commands.init(folder)
    if answered(answer):
        return
    for path in answer["created"]:
        say(str(path))
    log(f"Next: dyda -C {folder} apply")


@click.group("sources", cls=CommonGroup, invoke_without_command=True)
@click.pass_context
def sources_group(context: click.Context) -> None:
    """List the sources; check them, or detach one."""
    from dyda import commands

    if context.invoked_subcommand is not None:
        return
    answer = commands.sources(common().folder)
    if not answered(answer):
        columns = ["name", "reachable", "capture", "order", "url", "schema", "relations", "error"]
        table(columns, answer, NO_SOURCES)


@sources_group.command("check")
def sources_check() -> None:
    """Test connection, rights and capture of every source.

    Prints the statement to run where a right is missing. Exit code 1: something is wrong.
    """
    from dyda import commands

    answer = commands.sources_check(common().folder)
    if not answered(answer):
        rows = [{**finding, "remedy": several_lines(finding["remedy"])} for finding in answer]
        table(["source", "level", "what", "remedy"], rows, NO_SOURCES)
    if any(finding["level"] == "error" for finding in answer):
        sys.exit(1)


@sources_group.command("detach")
@click.argument("name")
def sources_detach(name: str) -> None:
    """Remove everything DyDa installed at the source NAME.

    Its views become broken with the reason "detached" and keep their rows; `dyda apply` attaches and rebuilds them.
    """
    from dyda import commands

    answer = commands.sources_detach(common().folder, name)
    if answered(answer):
        return
    say(f"detached {answer['source']}")
    for view in answer["views"]:
        say(f"broken {view}: keeps its rows")


@click.command("apply", cls=CommonCommand)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@timeout_option
def apply_command(yes: bool, timeout: float | None) -> None:
    """Make the warehouse match views/ and knowledge.toml.

    Checks all new and changed files, shows the plan and asks. Then it attaches capture at the sources, builds new
    views, adapts changed ones from their old rows where possible, rebuilds broken ones and drops those whose file is
    gone. If a changed file cannot be built, the old version stays live. Capture on a table is released when no view
    reads it and knowledge.toml does not name it any more.

    Capture cannot be attached to a table while a transaction that has written to it is open. apply waits for that
    transaction, shows whose it is, and blocks no other writer. Ctrl-C or --timeout ends the wait; nothing is created
    then.
    """
    from dyda import commands

    options = common()

    def confirm(plan: ApplyPlan) -> bool:
        if not options.json:
            _show_plan(plan)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise ConfirmationNeeded("this plan needs confirmation, but there is no terminal", "To agree, add --yes.")
        return click.confirm("Do this?", err=True)

    with progress() as report:
        answer = commands.apply(options.folder, confirm, report, timeout=timeout)
    if answered(answer):
        return
    if answer.get("cancelled"):
        say("nothing was done")
    else:
        _show_done(answer)


PLANNED = (
    ("create", "create"),
    ("change", "adapt (file changed)"),
    ("recover", "rebuild if possible (broken or detached)"),
    ("drop", "drop (file removed)"),
    ("evolved", "leave alone (evolved)"),
    ("unchanged", "leave alone"),
)

PLANNED_KNOWLEDGE = {
    "create": "read",
    "change": "read again (file changed)",
    "drop": "forget (file removed)",
    "recover": "attach capture to its relations again",
    "evolved": "leave alone (evolved)",
    "unchanged": "leave alone",
}


def _show_plan(plan: ApplyPlan) -> None:
    rows = [{"view": name, "plan": text} for key, text in PLANNED for name in getattr(plan, key)]
    table(["view", "plan"], rows, "No views in views/.")
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
    table(["view", "result", "rows", "how"], done, "No views in views/, and none to drop.")
    if answer.get("knowledge"):
        say(f"knowledge.toml: {answer['knowledge']}")
