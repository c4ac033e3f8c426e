"""Commands about the running warehouse: daemon, status, stop."""

from __future__ import annotations

import datetime
import sys

import click

from dyda.cli.options import CommonCommand, common
from dyda.cli.output import log, say, show_json, table
from dyda.passwords import hidden

__all__ = ["daemon_command", "status_command", "stop_command", "view_columns"]

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

    One daemon works on a project. A second one waits, says who works, and takes over within seconds when that one ends
    or dies. SIGTERM finishes or abandons the running unit; nothing is lost. With --until-idle it ends with 0 when
    nothing that can run is pending, and with 1 when a source or the warehouse stays out of reach. It keeps the settings
    it started with: restart it when dyda.toml changes.
    """
    from dyda import commands

    def write(text: str) -> None:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        log(f"{now} {hidden(text)}")

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
    where = f" on {daemon['host']}" if daemon.get("host") else ""
    state = f"running, pid {daemon['pid']}{where}{since}" if daemon["running"] else "not running"
    waiting = daemon.get("waiting")
    say(
        f"daemon: {state}" + (f"; {waiting} more {'waits' if waiting == 1 else 'wait'} to take over" if waiting else "")
    )
    if daemon.get("error"):
        say(f"problem: {daemon['error']}")
    say("")
    columns = ["reachable", "capture", "order", "pending", "lag_seconds", "error"]
    headings = [("name", "SOURCE")] + [(c, c.replace("_seconds", " (s)").upper()) for c in columns]
    table(headings, answer["sources"], "No sources: add [sources.NAME] to dyda.toml.")
    unpolled = [source["name"] for source in answer["sources"] if source["reachable"] is None]
    if unpolled:
        say(f"not polled yet: {', '.join(unpolled)} (no view reads it; `dyda sources` asks it now)")
    say("")
    table(view_columns, answer["views"], "No views: add views/NAME.sql and run dyda apply.")
    if (aborts := answer.get("aborts")) and aborts["units"]:
        say(f"\nunits voided by schema changes so far: {aborts['units']}, after {aborts['seconds']:.1f} s of work")
    if (units := answer.get("units")) and units["counted"]:
        parts = ", ".join(f"{name} {seconds * 1000:.0f}" for name, seconds in units["phases"].items())
        say(f"\na unit of rows takes {units['seconds'] * 1000:.0f} ms (of the last {units['counted']}): {parts}")
    if blockers := answer.get("blocked_by"):
        say("\nan installation waits for these sessions at the warehouse:")
        columns = ["pid", "user", "application", "since", "query"]
        rows = [{**blocker, "query": " ".join((blocker["query"] or "").split())} for blocker in blockers]
        table([(name, name.upper()) for name in columns], rows, "")


@click.command("stop", cls=CommonCommand)
def stop_command() -> None:
    """Stop the daemon and the embedded servers of this project."""
    from dyda import commands

    answer = commands.stop(common().folder)
    if common().json:
        show_json(answer)
        return
    say("daemon stopped" if answer["daemon"] else "no daemon was running")
    if answer.get("waiting"):
        say(f"daemons stopped that waited: {answer['waiting']}")
    for name in answer["servers"]:
        say(f"server {name} stopped")
