"""Commands about the queue: pending, show, plan, graph, and what an operator decides about one message."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import click

from dyda.cli.options import CommonGroup, common
from dyda.cli.output import facts, log, say, show_json, table
from dyda.errors import DydaError

__all__ = ["pending_group"]

FORMATS = ("text", "dot", "svg", "png")
MANY = 12


@click.group("pending", cls=CommonGroup, invoke_without_command=True)
@click.pass_context
def pending_group(context: click.Context) -> None:
    """List what is received and not yet installed; order, draw and decide about it."""
    from dyda import commands

    if context.invoked_subcommand is not None:
        return
    answer = commands.pending(common().folder)
    if common().json:
        show_json(answer)
        return
    columns = ["id", "unit", "source", "kind", "relations", "rows", "state", "depends_on", "received_at", "reason"]
    rows = [{**message, "depends_on": _numbers(message["depends_on"])} for message in answer]
    table([(name, name.replace("_", " ").upper()) for name in columns], rows, "Nothing is pending.")


@pending_group.command("show")
@click.argument("identifier", metavar="ID", type=int)
def pending_show(identifier: int) -> None:
    """Show one message with its rows or DDL."""
    from dyda import commands

    answer = commands.pending_show(common().folder, identifier)
    if common().json:
        show_json(answer)
        return
    hidden = ("cause", "changes", "samples", "truncated", "unreadable", "plan")
    facts([(name.replace("_", " "), value) for name, value in answer.items() if name not in hidden])
    say("")
    columns = ["relation", "kind", "inserted", "deleted", "steps", "ddl"]
    table([(name, name.upper()) for name in columns], answer.get("changes", []), "No changes.")
    _show_plan(answer.get("plan"))
    samples: list[dict[str, Any]] = answer.get("samples", [])
    if samples:
        say("")
        rows = [{**s, "values": {k: "NULL" if v is None else v for k, v in s["values"].items()}} for s in samples]
        table([("relation", "RELATION"), ("op", "OP"), ("values", "ROW")], rows, "")
    if answer.get("truncated"):
        log("There are more rows than are shown here.")
    if answer.get("unreadable"):
        log(f"Its rows cannot be read now: {answer['unreadable']}")


def _show_plan(plan: list[dict[str, Any]] | None) -> None:
    """What a schema change does to the views."""
    if plan is None:
        return
    say("")
    columns = ["name", "effect", "extent", "cost", "reason"]
    table([(name, "VIEW" if name == "name" else name.upper()) for name in columns], plan, "It changes no view.")
    for view in plan:
        if view["definition"] is not None:
            say(f"\n{view['name']} would be:")
            for line in view["definition"].rstrip("\n").splitlines():
                say(f"    {line}")


@pending_group.command("plan")
def pending_plan() -> None:
    """Show the order of processing: which messages together, which merged, what waits, and why.

    Of the next unit it also shows how each view that it changes will follow.
    """
    from dyda import commands

    answer = commands.pending_plan(common().folder)
    if common().json:
        show_json(answer)
        return
    columns = ["unit", "kind", "messages", "reason"]
    nothing = "Nothing can be processed now." if answer["waiting"] else "Nothing is pending."
    table([(name, name.upper()) for name in columns], _alike_units(answer["units"]), nothing)
    views = [view for unit in answer["units"] for view in unit.get("views") or ()]
    if views:
        say("\nunit 1, by view:")
        columns = ["name", "plan", "effect", "extent", "cost", "reason"]
        table([(name, "VIEW" if name == "name" else name.upper()) for name in columns], views, "")
    if answer["waiting"]:
        say("\nnot processed now:")
        waiting = _alike_waiting(answer["waiting"])
        table([("id", "ID"), ("messages", "MESSAGES"), ("state", "STATE"), ("reason", "REASON")], waiting, "")
        if len(waiting) < len(answer["waiting"]):
            log("`dyda pending show ID` tells more about one message; --json lists each with its reason.")
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
    return str(alike[0]["reason"]) + ("; the others likewise" if len(alike) > 1 else "")


@pending_group.command("graph")
@click.option("--format", "chosen", type=click.Choice(FORMATS), help="Default: by the ending of FILE, else text.")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write it there.")
@click.option("--limit", type=click.IntRange(min=1), default=200, show_default=True, help="Messages in an svg or png.")
def pending_graph(chosen: str | None, output: Path | None, limit: int) -> None:
    """Draw the dependency graph.

    Nodes are messages; semantic and concurrency edges are drawn apart, merged messages share a box. In an svg or png
    each source has a lane, and the order of processing runs from top to bottom.
    """
    from dyda import commands

    chosen = chosen or _by_ending(output)
    if output is None and common().json:
        show_json(commands.pending_graph(common().folder))
        return
    if output is None and chosen == "png" and sys.stdout.isatty():
        raise click.UsageError("a png is not for the terminal: name a file with --output FILE")
    picture = commands.pending_picture(common().folder, chosen, limit)
    if output is None:
        click.echo(picture, nl=False)
        return
    try:
        output.write_bytes(picture)
    except OSError as error:
        raise DydaError(f"{output} cannot be written: {error.strerror}", "Name another file with --output.") from None
    if common().json:
        show_json({"output": str(output), "format": chosen})
    else:
        say(str(output))


@pending_group.command("hold")
@click.argument("identifier", metavar="ID", type=int)
def pending_hold(identifier: int) -> None:
    """Keep a message from being processed, and with it what depends on it, but nothing else."""
    from dyda import commands

    _decided(commands.pending_hold(common().folder, identifier))


@pending_group.command("release")
@click.argument("identifier", metavar="ID", type=int)
def pending_release(identifier: int) -> None:
    """Let a held message go."""
    from dyda import commands

    _decided(commands.pending_release(common().folder, identifier))


@pending_group.command("approve")
@click.argument("identifier", metavar="ID", type=int)
def pending_approve(identifier: int) -> None:
    """Let a schema change run that waits for approval; `pending show` tells what it would do."""
    from dyda import commands

    _decided(commands.pending_approve(common().folder, identifier), "rewritten or broken as planned")


@pending_group.command("reject")
@click.argument("identifier", metavar="ID", type=int)
def pending_reject(identifier: int) -> None:
    """Let the views break that a schema change would rewrite or break; the others go on.

    They keep their last correct rows until their file changes and `dyda apply` runs.
    """
    from dyda import commands

    _decided(commands.pending_reject(common().folder, identifier), "broken")


@pending_group.command("retry")
@click.argument("identifier", metavar="ID", type=int)
def pending_retry(identifier: int) -> None:
    """Try a quarantined message again, and maintain the views again that were held for it."""
    from dyda import commands

    _decided(commands.pending_retry(common().folder, identifier), "maintained again")


@pending_group.command("skip")
@click.argument("identifier", metavar="ID", type=int)
@click.option("--reason", required=True, metavar="TEXT", help="Why, for those who find it later.")
def pending_skip(identifier: int, reason: str) -> None:
    """Never process a message; the views that it touches are rebuilt from their sources instead."""
    from dyda import commands

    _decided(commands.pending_skip(common().folder, identifier, reason), "to be rebuilt")


def _decided(answer: dict[str, Any], views: str = "") -> None:
    if common().json:
        show_json(answer)
        return
    say(f"message {answer['id']}: {answer['state']}")
    for view in answer["views"]:
        say(f"view {view}: {views}")


def _numbers(numbers: list[int]) -> str:
    """As ranges, the first dozen of them, and how many more numbers there are; `--json` has them all."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    shown = ", ".join("-".join(map(str, found)) for found in ranges[:MANY])
    left = sum(found[-1] - found[0] + 1 for found in ranges[MANY:])
    return f"{shown} and {left} more" if left else shown


def _by_ending(output: Path | None) -> str:
    if output is None:
        return "text"
    endings = {"": "text", ".txt": "text", ".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png"}
    found = endings.get(output.suffix.lower())
    if found is None:
        raise click.UsageError(f"what {output.name} should be is not clear: add --format {'|'.join(FORMATS)}")
    return found
