"""Commands about the running warehouse: daemon, status, pending, stop."""

from __future__ import annotations

import datetime
import sys
from typing import Any

import click

from dyda.cli.options import CommonCommand, CommonGroup, common
from dyda.cli.output import facts, log, say, show_json, table

__all__ = ["daemon_command", "pending_group", "status_command", "stop_command", "view_columns"]

view_columns = [
    ("name", "VIEW"),
    ("state", "STATE"),
    ("version", "VERSION"),
    ("rows", "ROWS"),
    ("lag_seconds", "LAG (S)"),
    ("fresh_at", "FRESH AT"),
    ("reason", "REASON"),
]


@click.command("daemon", cls=CommonCommand)
@click.option("--until-idle", is_flag=True, help="End as soon as nothing that can run is pending.")
def daemon_command(until_idle: bool) -> None:
    """Run maintenance until SIGTERM or Ctrl-C.

    SIGTERM finishes or abandons the running unit; nothing is lost. With --until-idle it ends with 0 when nothing
    that can run is pending, and with 1 when a source or the warehouse stays out of reach.
    """
    from dyda import commands

    def write(text: str) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        log(f"{now} {text}")

    sys.exit(commands.run_daemon(common().folder, until_idle, write))


@click.command("status", cls=CommonCommand)
def status_command() -> None:
    """Show the daemon, the sources and the views at a glance."""
    from dyda import commands

    answer = commands.status(common().folder)
    if common().json:
        show_json(answer)
        return
    daemon = answer["daemon"]
    since = f" since {daemon['since']}" if daemon.get("since") else ""
    say(f"daemon: running, pid {daemon['pid']}{since}" if daemon["running"] else "daemon: not running")
    say("")
    columns = ["reachable", "capture", "order", "pending", "lag_seconds", "error"]
    headings = [("name", "SOURCE")] + [(c, c.replace("_seconds", " (s)").upper()) for c in columns]
    table(headings, answer["sources"], "No sources: add [sources.NAME] to dyda.toml.")
    say("")
    table(view_columns, answer["views"], "No views: add views/NAME.sql and run dyda apply.")
    if blockers := answer.get("blocked_by"):
        say("\nan installation waits for these sessions at the warehouse:")
        columns = ["pid", "user", "application", "since", "query"]
        table([(name, name.upper()) for name in columns], blockers, "")


@click.group("pending", cls=CommonGroup, invoke_without_command=True)
@click.pass_context
def pending_group(context: click.Context) -> None:
    """List what is received and not yet installed."""
    from dyda import commands

    if context.invoked_subcommand is not None:
        return
    answer = commands.pending(common().folder)
    if common().json:
        show_json(answer)
        return
    columns = ["id", "source", "kind", "relations", "rows", "state", "received_at", "reason"]
    table([(name, name.replace("_", " ").upper()) for name in columns], answer, "Nothing is pending.")


@pending_group.command("show")
@click.argument("identifier", metavar="ID", type=int)
def pending_show(identifier: int) -> None:
    """Show one message with its rows or DDL."""
    from dyda import commands

    answer = commands.pending_show(common().folder, identifier)
    if common().json:
        show_json(answer)
        return
    hidden = ("changes", "samples", "truncated")
    facts([(name, value) for name, value in answer.items() if name not in hidden])
    say("")
    columns = ["relation", "kind", "inserted", "deleted", "ddl"]
    table([(name, name.upper()) for name in columns], answer.get("changes", []), "No changes.")
    samples: list[dict[str, Any]] = answer.get("samples", [])
    if samples:
        say("")
        rows = [{**s, "values": {k: "NULL" if v is None else v for k, v in s["values"].items()}} for s in samples]
        table([("relation", "RELATION"), ("op", "OP"), ("values", "ROW")], rows, "")
    if answer.get("truncated"):
        log("There are more rows than are shown here.")


@click.command("stop", cls=CommonCommand)
def stop_command() -> None:
    """Stop the daemon and the embedded servers of this project."""
    from dyda import commands

    answer = commands.stop(common().folder)
    if common().json:
        show_json(answer)
        return
    say("daemon stopped" if answer["daemon"] else "no daemon was running")
    for name in answer["servers"]:
        say(f"server {name} stopped")
