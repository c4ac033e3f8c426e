"""Commands about the running warehouse: daemon, status, stop."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dyda.cli.options import CommonCommand, common
from dyda.cli.output import Column, answered, log, say, table

__all__ = ["daemon_command", "say_lost", "status_command", "stop_command", "view_columns"]

LAG = ("lag_seconds", "LAG (S)")
view_columns: list[Column] = [("name", "VIEW"), "state", "version", "rows", LAG, "fresh_at", "reason"]
source_columns: list[Column] = [("name", "SOURCE"), "reachable", "capture", "order", "pending", LAG, "error"]


def say_lost(views: list[dict[str, Any]]) -> None:
    """A line for each key or index that a view has lost."""
    for view in views:
        for lost in view.get("lost", ()):
            say(f"\nview {view['name']}: {lost['reason']}")


@click.command("daemon", cls=CommonCommand)
@click.option("--until-idle", is_flag=True, help="Exit when nothing that can run is pending.")
@click.option("--log-format", type=click.Choice(["human", "json"]), default="human", help="How lines are written.")
@click.option(
    "--log-level",
    type=click.Choice(["info", "warning", "error"]),
    default="info",
    help="The least that is written: info has a line for each installed unit.",
)
@click.option(
    "--log-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the log to this file, not to standard error. At 10 MB a new one is begun; five old ones are kept.",
)
def daemon_command(until_idle: bool, log_format: str, log_level: str, log_file: Path | None) -> None:
    """Run maintenance until SIGTERM or Ctrl-C.

    One daemon works on a project. A second one stands by, logs which process works, and takes over within seconds
    when that one ends or dies. SIGTERM finishes or abandons the running unit; nothing is lost. With --until-idle the
    exit code is 0 when nothing that can run is pending, and 1 when a source or the warehouse stays out of reach. A
    daemon keeps the settings it started with: restart it when dyda.toml changes.
    """
    from dyda import commands
    from dyda.commands.daemon_log import DaemonLog, LogFile
    from dyda.model.event import Level

    write = log if log_file is None else LogFile(log_file, log).write
    sys.exit(commands.run_daemon(common().folder, until_idle, DaemonLog(write, log_format, Level(log_level))))


@click.command("status", cls=CommonCommand)
def status_command() -> None:
    """Show the daemon, the sources and the views at a glance."""
    from dyda import commands

    answer = commands.status(common().folder)
    if answered(answer):
        return
    daemon = answer["daemon"]
    since = f" since {daemon['since']}" if daemon.get("since") else ""
    where = f" on {daemon['host']}" if daemon.get("host") else ""
    state = f"running, pid {daemon['pid']}{where}{since}" if daemon["running"] else "not running"
    say(f"daemon: {state}" + (f"; {daemon['waiting']} standing by" if daemon.get("waiting") else ""))
    if daemon.get("error"):
        say(f"problem: {daemon['error']}")
    say("")
    table(source_columns, answer["sources"], "No sources: add [sources.NAME] to dyda.toml.")
    unpolled = [source["name"] for source in answer["sources"] if source["reachable"] is None]
    if unpolled:
        say(f"not polled yet, as no view reads them: {', '.join(unpolled)} (`dyda sources` checks them now)")
    say("")
    table(view_columns, answer["views"], "No views: add views/NAME.sql and run dyda apply.")
    say_lost(answer["views"])
    for lane in answer.get("lanes", ()):
        of = f" {lane['done']} of {lane['total']} parts" if lane["total"] else ""
        left = f", {lane['left']} messages left" if lane["left"] is not None else ""
        written = f", {lane['rows']} rows" if lane["rows"] is not None else ""
        say(f"\nbuilding {lane['view']} since {lane['since']} ({lane['reason']}): {lane['step']}{of}{written}{left}")
    if (aborts := answer.get("aborts")) and aborts["units"]:
        say(f"\nunits voided by schema changes so far: {aborts['units']}, after {aborts['seconds']:.1f} s of work")
    if (units := answer.get("units")) and units["counted"]:
        parts = ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in units["phases"].items())
        say(f"\ndata units take {units['seconds'] * 1000:.0f} ms (median of the last {units['counted']}): {parts}")
    if blockers := answer.get("blocked_by"):
        say("\nan installation is waiting for these warehouse sessions:")
        rows = [{**blocker, "query": " ".join((blocker["query"] or "").split())} for blocker in blockers]
        table(["pid", "user", "application", "since", "query"], rows)


@click.command("stop", cls=CommonCommand)
def stop_command() -> None:
    """Stop the daemon and the embedded servers of this project."""
    from dyda import commands

    answer = commands.stop(common().folder)
    if answered(answer):
        return
    say("daemon stopped" if answer["daemon"] else "no daemon was running")
    if answer.get("waiting"):
        say(f"standby daemons stopped: {answer['waiting']}")
    for name in answer["servers"]:
        say(f"server {name} stopped")
