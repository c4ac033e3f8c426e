"""Commands about views: views, views show, history, diff, explain, resync, verify."""

from __future__ import annotations

import sys
from typing import Any

import click

from dyda.cli.daemon import say_lost, view_columns
from dyda.cli.options import CommonCommand, CommonGroup, common, timeout_option
from dyda.cli.output import answered, facts, log, progress, say, say_lines, table
from dyda.model.printable import visible

__all__ = ["verify_command", "views_group"]


@click.group("views", cls=CommonGroup, invoke_without_command=True)
@click.pass_context
def views_group(context: click.Context) -> None:
    """List the views; show, compare, explain or rebuild one."""
    from dyda import commands

    if context.invoked_subcommand is not None:
        return
    answer = commands.views(common().folder)
    if not answered(answer):
        table(view_columns, answer, "No views: add views/NAME.sql and run dyda apply.")
        say_lost(answer)


@views_group.command("show")
@click.argument("name")
@click.option("--sql", is_flag=True, help="Print the current SQL alone.")
def views_show(name: str, sql: bool) -> None:
    """Show definition, columns, keys and indexes, positions and preferences."""
    from dyda import commands

    answer = commands.views_show(common().folder, name)
    if answered({"sql": answer["sql"]} if sql else answer):
        return
    if sql:
        say_lines((answer["sql"] or "").rstrip("\n"))
        return
    hidden = ("cause", "columns", "sql", "definition", "file", "preferences", "layout", "lost")
    facts([(key.replace("_", " "), value) for key, value in answer.items() if key not in hidden])
    say("")
    table([("name", "COLUMN"), "type"], answer["columns"], "No columns.")
    say("")
    _show_layout(answer["layout"])
    say_lost([answer])
    if answer.get("preferences"):
        say("")
        _show_preferences(answer["preferences"])
    say("")
    say_lines((answer["sql"] or "").rstrip("\n"))


def _show_layout(layout: dict[str, Any]) -> None:
    key, declared = layout["key"], layout["declared_key"]
    pairs = [("key", "none is proven" if key is None else _listed(key) if key else "there is never more than one row")]
    if declared is not None:
        pairs.append(("declared key", _listed(declared) + (", proven" if declared == key else "")))
    facts(pairs)
    if layout["indexes"]:
        say("")
        rows = [
            {**index, "index": _listed(index["columns"]), "size": f"{-(-index['bytes'] // 1024)} kB"}
            for index in layout["indexes"]
        ]
        table([("index", "INDEX"), "origin", "size", ("scans", "READ")], rows)


def _listed(columns: list[str]) -> str:
    return f"({', '.join(columns)})"


def _show_preferences(preferences: dict[str, Any]) -> None:
    facts([("extent", preferences["extent"]), ("new columns", preferences["new_columns"])])
    say("")
    rows = [
        {"kind": kind, "component": component, "preference": ", ".join(words) or "no"}
        for kind, key in (("column", "columns"), ("relation", "relations"), ("condition", "conditions"))
        for component, words in preferences[key].items()
    ]
    table([("kind", "COMPONENT"), ("component", ""), ("preference", "MAY CHANGE")], rows)
    for warning in preferences["warnings"]:
        log(f"warning: {warning}")


@views_group.command("history")
@click.argument("name")
def views_history(name: str) -> None:
    """Show every version of a view and what led to it.

    Lists its cause, the rewriting and its alternatives, and how the rows followed.
    """
    from dyda import commands

    answer = commands.views_history(common().folder, name)
    if answered(answer):
        return
    for number, version in enumerate(answer):
        if number:
            say("")
        _show_version(version)


def _show_version(version: dict[str, Any]) -> None:
    adaptation, rewriting = version["adaptation"], version["rewriting"]
    title = f"{version['version']}, installed at {version['installed_at']}"
    pairs: list[tuple[str, Any]] = [("version", title), ("cause", version["cause"])]
    pairs += [
        ("schema change", f"{change['source']}: {change['ddl'] or change['command'] + ' ' + change['relation']}")
        for change in version["changes"]
    ]
    pairs += [("followed", what) for what in version["followed"]]
    pairs += [("component", what) for what in version["components"]]
    pairs += [("layout", change["text"]) for change in version["layout"]]
    if rewriting:
        cost = f"{rewriting['cost']} source queries per update"
        pairs += [("rewriting", rewriting["reason"]), ("extent", rewriting["extent"]), ("cost", cost)]
    for other in version["runners_up"]:
        why = f"{other['reason']} (extent {other['extent']}, {other['cost']} source queries per update)"
        pairs.append(("runner-up", f"{why}: {' '.join(other['sql'].split())}"))
    if adaptation:
        took = f"{adaptation['rows']} rows, {adaptation['queries']} source queries, {adaptation['seconds']} s"
        pairs += [("adaptation", f"{adaptation['kind']}: {adaptation['reason']}"), ("it took", took)]
    pairs += [("lost", what) for what in version["lost_indexes"]]
    facts(pairs)
    for line in version["sql"].rstrip("\n").splitlines():
        say(f"    {line}")


@views_group.command("diff")
@click.argument("name")
@click.argument("before", metavar="[FROM]", type=int, required=False)
@click.argument("after", metavar="[TO]", type=int, required=False)
def views_diff(name: str, before: int | None, after: int | None) -> None:
    """Show what changed between two versions (default: the last two)."""
    from dyda import commands

    answer = commands.views_diff(common().folder, name, before, after)
    if answered(answer):
        return
    if not answer["diff"]:
        log(f"Versions {answer['from']} and {answer['to']} of {name} have the same definition.")
    for line in answer["diff"]:
        colour = None if line.startswith(("---", "+++")) else DIFF_COLOURS.get(line[:1])
        click.secho(visible(line, kept="\t"), fg=colour)  # without a terminal, click leaves the colour out


DIFF_COLOURS = {"-": "red", "+": "green", "@": "cyan"}


@views_group.command("explain")
@click.argument("name")
def views_explain(name: str) -> None:
    """Show how a view is maintained, and what an update costs."""
    from dyda import commands

    answer = commands.views_explain(common().folder, name)
    if answered(answer):
        return
    table(["step", "subject", ("how", "HOW IT IS MAINTAINED")], answer["steps"], "It is not maintained now.")
    say("")
    for note in answer["notes"]:
        say(note)


@views_group.command("resync")
@click.argument("name")
@timeout_option
def views_resync(name: str, timeout: float | None) -> None:
    """Rebuild a view from its sources and swap it in.

    Readers keep the old rows meanwhile. Capture is attached again first where it was lost. This works in every state,
    including held and broken.
    """
    from dyda import commands

    with progress() as report:
        answer = commands.views_resync(common().folder, name, report, timeout=timeout)
    if not answered(answer):
        say(f"{answer['name']}: rebuilt, {answer['rows']} rows")


@click.command("verify", cls=CommonCommand)
@click.argument("names", metavar="[NAME]...", nargs=-1)
def verify_command(names: tuple[str, ...]) -> None:
    """Recompute views from their sources and compare.

    The sources are read as they are now, minus what is logged and not yet installed. Exit code 3: a view differs; the
    differing rows are shown. Exit code 1: a view cannot be verified now (a schema change is pending, or a source is
    unavailable). Broken and held views are skipped.
    """
    from dyda import commands

    with progress() as report:
        answer = commands.verify(common().folder, names, report)
    if not answered(answer):
        show_verification(answer)
    results = {view["result"] for view in answer}
    if results & {"different", "unverifiable"}:
        sys.exit(3 if "different" in results else 1)


def show_verification(answer: list[dict[str, Any]]) -> None:
    table(["name", "result", "missing", "extra", "reason"], answer, "No views to verify.")
    for view in answer:
        if samples := view.get("samples"):
            log(f"\n{view['name']}: rows that differ, and how often they are missing or extra")
            rows = [{**s, "row": {k: "NULL" if v is None else v for k, v in s["row"].items()}} for s in samples]
            table(["missing", "extra", "row"], rows)
