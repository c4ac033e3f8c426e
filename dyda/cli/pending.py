"""Commands about the queue: pending, show, plan, graph, and an operator's decision about one message."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import click

from dyda.cli.impact import show_effects
from dyda.cli.options import CommonGroup, common
from dyda.cli.output import Column, answered, facts, log, say, show_json, table
from dyda.errors import DydaError

__all__ = ["pending_group"]

FORMATS = ("text", "dot", "svg", "png")
MANY = 12


@click.group("pending", cls=CommonGroup, invoke_without_command=True)
@click.pass_context
def pending_group(context: click.Context) -> None:
    """List pending messages; show their order, decide about them."""
    from dyda import commands

    if context.invoked_subcommand is not None:
        return
    answer = commands.pending(common().folder)
    if answered(answer):
        return
    columns: list[Column] = [
        "id",
        "unit",
        "source",
        "kind",
        "relations",
        "rows",
        "state",
        "depends_on",
        "received_at",
        "reason",
    ]
    if any(message["views"] for message in answer):
        columns.append(("views", "WAITED FOR BY"))
    rows = [{**message, "depends_on": _numbers(message["depends_on"])} for message in answer]
    table(columns, rows, "Nothing is pending.")


@pending_group.command("show")
@click.argument("identifier", metavar="ID", type=int)
def pending_show(identifier: int) -> None:
    """Show one message with its rows or DDL."""
    from dyda import commands

    answer = commands.pending_show(common().folder, identifier)
    if answered(answer):
        return
    hidden = ("cause", "changes", "samples", "truncated", "unreadable", "plan")
    facts([(name.replace("_", " "), value) for name, value in answer.items() if name not in hidden])
    say("")
    table(["relation", "kind", "inserted", "deleted", "steps", "ddl"], answer.get("changes", []), "No changes.")
    if answer.get("plan") is not None:
        say("")
        show_effects(answer["plan"], "It changes no view.")
    samples: list[dict[str, Any]] = answer.get("samples", [])
    if samples:
        say("")
        rows = [{**s, "values": {k: "NULL" if v is None else v for k, v in s["values"].items()}} for s in samples]
        table(["relation", "op", ("values", "ROW")], rows)
    if answer.get("truncated"):
        log("There are more rows than shown here.")
    if answer.get("unreadable"):
        log(f"Its rows cannot be read now: {answer['unreadable']}")


@pending_group.command("plan")
def pending_plan() -> None:
    """Show the order of processing, and why.

    Lists which messages are processed together, which are merged, and which have to wait. Of the next unit it also
    shows how each view that it changes will follow.
    """
    from dyda import commands

    answer = commands.pending_plan(common().folder)
    if answered(answer):
        return
    nothing = "Nothing can be processed now." if answer["waiting"] else "Nothing is pending."
    table(["unit", "kind", "messages", "reason"], _alike_units(answer["units"]), nothing)
    views = [view for unit in answer["units"] for view in unit.get("views") or ()]
    if views:
        say("\nunit 1, by view:")
        table([("name", "VIEW"), "plan", "effect", "extent", "cost", "reason"], views, "")
    if answer["waiting"]:
        say("\nnot processed now:")
        waiting = _alike_waiting(answer["waiting"])
        table(["id", "messages", "state", "reason"], waiting)
        if len(waiting) < len(answer["waiting"]):
            log("`dyda pending show ID` shows one message; --json lists each one with its reason.")
    for note in answer["notes"]:
        log(note)


def _alike_units(units: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Units in a row that are processed for the same reason, the messages' numbers aside, are one line."""
    shown = []
    for _, alike in itertools.groupby(units, lambda unit: (unit["kind"], _without_numbers(unit["reason"]))):
        together = list(alike)
        numbers = [number for unit in together for number in unit["messages"]]
        unit = together[0]["unit"] if len(together) == 1 else _numbers([unit["unit"] for unit in together])
        shown.append({**together[0], "unit": unit, "messages": _numbers(numbers), "reason": _first_reason(together)})
    return shown


def _alike_waiting(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages that wait for the same reason, their numbers aside, are one line."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for message in messages:
        groups.setdefault((message["state"], _without_numbers(message["reason"])), []).append(message)
    return [
        {
            "id": _numbers([message["id"] for message in alike]),
            "messages": len(alike),
            "state": state,
            "reason": _first_reason(alike),
        }
        for (state, _), alike in groups.items()
    ]


def _without_numbers(reason: str) -> str:
    return re.sub(r"\b[0-9]+\b", "#", reason)


def _first_reason(alike: list[dict[str, Any]]) -> str:
    return str(alike[0]["reason"]) + ("; likewise for the others" if len(alike) > 1 else "")


@pending_group.command("graph")
@click.option("--format", "chosen", type=click.Choice(FORMATS), help="Default: by the suffix of FILE, else text.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write to this file.")
@click.option("--limit", type=click.IntRange(min=1), default=200, show_default=True, help="Messages in an svg or png.")
def pending_graph(chosen: str | None, output: Path | None, limit: int) -> None:
    """Draw the dependency graph.

    Nodes are messages; semantic edges are solid, concurrency edges dashed, and merged messages share a box. In an svg
    or png each source has a lane, and the order of processing runs from top to bottom.
    """
    from dyda import commands

    chosen = chosen or _by_ending(output)
    if output is None and common().json:
        show_json(commands.pending_graph(common().folder))
        return
    if output is None and chosen == "png" and sys.stdout.isatty():
        raise click.UsageError("a png cannot be shown on a terminal: name a file with --output FILE")
    picture = commands.pending_picture(common().folder, chosen, limit)
    if output is None:
        click.echo(picture, nl=False)
        return
    try:
        output.write_bytes(picture)
    except OSError as error:
        raise DydaError(f"{output} cannot be written: {error.strerror}", "Name another file with --output.") from None
    if not answered({"output": str(output), "format": chosen}):
        say(str(output))


def _decision(verb: str, text: str, consequence: str = "", *options: click.Option) -> None:
    """The command `pending VERB ID`; `consequence` is what happens to the views in its answer."""

    @pending_group.command(verb, help=text, params=[click.Argument(["message"], metavar="ID", type=int), *options])
    def decide(message: int, **arguments: str) -> None:
        from dyda import commands

        answer = getattr(commands, f"pending_{verb}")(common().folder, message, **arguments)
        if answered(answer):
            return
        say(f"message {answer['id']}: {answer['state']}")
        for view in answer["views"]:
            say(f"view {view}: {consequence}")


_decision("hold", "Hold a message and what depends on it; nothing else waits.")
_decision("release", "Release a held message.")
_decision("approve", "Approve a schema change; see `pending show ID` first.", "rewritten or broken as planned")
_decision(
    "reject",
    "Reject a schema change: the affected views break.\n\nAffected are the views that it would rewrite or break. They "
    "keep their last correct rows until their file changes and `dyda apply` runs. All other views go on.",
    "broken",
)
_decision("retry", "Retry a quarantined message and the views held for it.", "maintained again")
_decision(
    "skip",
    "Never process a message; rebuild the views it touches.",
    "to be rebuilt",
    click.Option(["--reason"], required=True, metavar="TEXT", help="Why; shown with the views."),
)


def _numbers(numbers: list[int]) -> str:
    """As ranges, the first dozen of them, and how many more numbers there are; `--json` lists all."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    shown = ", ".join("-".join(map(str, ends)) for ends in ranges[:MANY])
    left = sum(ends[-1] - ends[0] + 1 for ends in ranges[MANY:])
    return f"{shown} and {left} more" if left else shown


def _by_ending(output: Path | None) -> str:
    if output is None:
        return "text"
    suffixes = {"": "text", ".txt": "text", ".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png"}
    try:
        return suffixes[output.suffix.lower()]
    except KeyError:
        known = "|".join(FORMATS)
        raise click.UsageError(f"the suffix of {output.name} does not say its format: add --format {known}") from None
