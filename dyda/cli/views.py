"""Commands about views: views, views show, history, diff, explain, resync, verify."""

from __future__ import annotations

import sys
from typing import Any

import click

from dyda.cli.daemon import view_columns
from dyda.cli.options import CommonCommand, CommonGroup, common, timeout_option
from dyda.cli.output import facts, log, progress, say, say_lines, show_json, table
from dyda.model.printable import visible

__all__ = ["verify_command", "views_group"]


@click.group("views", cls=CommonGroup, invoke_without_command=True)
@click.pass_context
def views_group(context: click.Context) -> None:
    """List the views; show, explain or rebuild one, or tell its history."""
    from dyda import commands

    if context.invoked_subcommand is not None:
        return
    answer = commands.views(common().folder)
    if common().json:
        show_json(answer)
        return
    table(view_columns, answer, "No views: add views/NAME.sql and run dyda apply.")


@views_group.command("show")
@click.argument("name")
@click.option("--sql", is_flag=True, help="The current SQL alone.")
def views_show(name: str, sql: bool) -> None:
    """Show the definition, columns, positions and effective preferences of a view."""
    from dyda import commands

    answer = commands.views_show(common().folder, name)
    if common().json:
        show_json({"sql": answer["sql"]} if sql else answer)
        return
    if sql:
        say_lines((answer["sql"] or "").rstrip("\n"))
        return
    hidden = ("cause", "columns", "sql", "definition", "file", "preferences")
    facts([(key.replace("_", " "), value) for key, value in answer.items() if key not in hidden])
    say("")
    table([("name", "COLUMN"), ("type", "TYPE")], answer["columns"], "No columns.")
    if answer.get("preferences"):
        say("")
        _show_preferences(answer["preferences"])
    say("")
    say_lines((answer["sql"] or "").rstrip("\n"))


def _show_preferences(preferences: dict[str, Any]) -> None:
    facts([("extent", preferences["extent"]), ("new columns", preferences["new_columns"])])
    say("")
    rows = [
        {"kind": kind, "component": component, "preference": ", ".join(words) or "must stay as it is"}
        for kind, key in (("column", "columns"), ("relation", "relations"), ("condition", "conditions"))
        for component, words in preferences[key].items()
    ]
    table([("kind", "COMPONENT"), ("component", ""), ("preference", "MAY BE")], rows, "")
    for warning in preferences["warnings"]:
        log(f"warning: {warning}")


@views_group.command("history")
@click.argument("name")
def views_history(name: str) -> None:
    """Show every version of a view: its cause, the rewriting and what it was chosen over, and how its rows followed."""
    from dyda import commands

    answer = commands.views_history(common().folder, name)
    if common().json:
        show_json(answer)
        return
    for number, version in enumerate(answer):
        if number:
            say("")
        _show_version(version)


def _show_version(version: dict[str, Any]) -> None:
    adaptation, rewriting = version["adaptation"], version["rewriting"]
    pairs: list[tuple[str, Any]] = [
        ("version", f"{version['version']}, installed at {version['installed_at']}"),
        ("cause", version["cause"]),
    ]
    pairs += [
        ("schema change", f"{change['source']}: {change['ddl'] or change['command'] + ' ' + change['relation']}")
        for change in version["changes"]
    ]
    pairs += [("followed", what) for what in version["followed"]]
    pairs += [("component", what) for what in version["components"]]
    if rewriting:
        pairs.append(("rewriting", rewriting["reason"]))
        pairs.append(("extent", rewriting["extent"]))
        pairs.append(("cost", f"{rewriting['cost']} source queries per update"))
    for other in version["runners_up"]:
        told = f"{other['reason']} (extent {other['extent']}, {other['cost']} source queries per update)"
        pairs.append(("runner-up", f"{told}: {' '.join(other['sql'].split())}"))
    if adaptation:
        told = f"{adaptation['kind']}: {adaptation['reason']}"
        pairs.append(("adaptation", told))
        pairs.append(
            ("it took", f"{adaptation['rows']} rows, {adaptation['queries']} source queries, {adaptation['seconds']} s")
        )
    facts(pairs)
    for line in version["sql"].rstrip("\n").splitlines():
        say(f"    {line}")


@views_group.command("diff")
@click.argument("name")
@click.argument("before", metavar="[FROM]", type=int, required=False)
@click.argument("after", metavar="[TO]", type=int, required=False)
def views_diff(name: str, before: int | None, after: int | None) -> None:
    """Show what changed between two versions of a view: by default the last two."""
    from dyda import commands

    answer = commands.views_diff(common().folder, name, before, after)
    if common().json:
        show_json(answer)
        return
    if not answer["diff"]:
        log(f"version {answer['from']} and version {answer['to']} of {name} say the same.")
    for line in answer["diff"]:
        colour = None if line.startswith(("---", "+++")) else DIFF_COLOURS.get(line[:1])
        click.secho(visible(line, kept="\t"), fg=colour)  # which click leaves out where there is no terminal


DIFF_COLOURS = {"-": "red", "+": "green", "@": "cyan"}


@views_group.command("explain")
@click.argument("name")
def views_explain(name: str) -> None:
    """Show how each operator of a view is maintained, and how many questions an update costs."""
    from dyda import commands

    answer = commands.views_explain(common().folder, name)
    if common().json:
        show_json(answer)
        return
    columns = [("step", "STEP"), ("subject", "SUBJECT"), ("how", "HOW IT IS MAINTAINED")]
    table(columns, answer["steps"], "Nothing of it is maintained now.")
    say("")
    for note in answer["notes"]:
        say(note)


@views_group.command("resync")
@click.argument("name")
@timeout_option
def views_resync(name: str, timeout: float | None) -> None:
    """Rebuild a view from its sources and swap it in; readers keep what they see meanwhile.

    Capture is attached again first, where it was lost. This is also the way out for a view that is held.
    """
    from dyda import commands

    with progress() as report:
        answer = commands.views_resync(common().folder, name, report, timeout=timeout)
    if common().json:
        show_json(answer)
        return
    say(f"{answer['name']}: rebuilt, {answer['rows']} rows")


@click.command("verify", cls=CommonCommand)
@click.argument("names", metavar="[NAME]...", nargs=-1)
def verify_command(names: tuple[str, ...]) -> None:
    """Recompute views from their sources and compare.

    The sources are read as they are now, minus what is logged and not yet installed. Exit code 3: a difference was
    found, and the differing rows are shown. Exit code 1: a view cannot be verified now (a schema change is pending,
    a source is away). Broken and held views are skipped.
    """
    from dyda import commands

    with progress() as report:
        answer = commands.verify(common().folder, names, report)
    if common().json:
        show_json(answer)
    else:
        show_verification(answer)
    results = {view["result"] for view in answer}
    if results & {"different", "unverifiable"}:
        sys.exit(3 if "different" in results else 1)


def show_verification(answer: list[dict[str, Any]]) -> None:
    columns = ["name", "result", "missing", "extra", "reason"]
    table([(key, key.upper()) for key in columns], answer, "No views to verify.")
    for view in answer:
        if samples := view.get("samples"):
            log(f"\n{view['name']}: rows whose number of occurrences differs")
            rows = [{**s, "row": {k: "NULL" if v is None else v for k, v in s["row"].items()}} for s in samples]
            table([("missing", "MISSING"), ("extra", "EXTRA"), ("row", "ROW")], rows, "")
