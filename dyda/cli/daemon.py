"""Commands about the running warehouse: daemon, status, stop."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import click

from dyda.cli.options import CommonCommand, common
from dyda.cli.output import Column, answered, log, say, table
from dyda.errors import WarehouseUnreachable
from dyda.event_wording import in_one_line

__all__ = ["daemon_command", "say_lost", "status_command", "stop_command", "view_columns"]

PAUSE = 2.0
"""Seconds between two looks of `--watch`."""

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
@click.option("--check", is_flag=True, help="For monitoring: one line for each problem, and an exit code.")
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
def status_command(check: bool, watch: bool) -> None:
    """Show the daemon, the sources and the views at a glance, and what you must decide.

    With --check the exit code says whether all is well. 0: every view is as fresh as it must be ([maintenance]
    stale_after); 3: a view is older than that, broken or held; 4: no daemon works; 1: the warehouse does not answer.
    A role that may only read schema dyda of the warehouse is enough.

    Examples: dyda status --watch; dyda status --check || page-somebody
    """
    if check and watch:
        raise click.UsageError("--check answers once, --watch again and again: choose one of them")
    if check:
        _check()
    elif watch:
        with contextlib.suppress(KeyboardInterrupt):
            _watch()
    else:
        _show_status()


def _check() -> None:
    from dyda import commands

    answer = commands.status_check(common().folder)
    if not answered(answer):
        if not answer["daemon"]:
            say("no daemon works on this project. Start one: dyda daemon")
        for view in answer["problems"]:
            why = f": {view['reason']}" if view["reason"] else ""
            age = f", {view['lag_seconds']:.0f} s old" if view["lag_seconds"] is not None else ""
            say(in_one_line(f"view {view['name']} is {view['state']}{age}{why}", view["next"]))
        if answer["code"] == 0:
            say(f"all {answer['views']} views are fresh")
    sys.exit(answer["code"])


def _watch() -> None:
    """A warehouse that is away for a while is said, and asked again."""
    while True:
        if sys.stdout.isatty() and not common().json:
            click.clear()
        try:
            _show_status()
        except WarehouseUnreachable as error:
            log(error.in_one_line)
        sys.stdout.flush()
        time.sleep(PAUSE)


def _show_status() -> None:
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
    if warehouse := answer.get("warehouse"):
        say(f"warehouse: {warehouse['url']}, schema {warehouse['schema']}")
    say("")
    table(source_columns, answer["sources"], "No sources: add [sources.NAME] to dyda.toml.")
    unpolled = [source["name"] for source in answer["sources"] if source["reachable"] is None]
    if unpolled:
        say(f"not polled yet, as no view reads them: {', '.join(unpolled)} (`dyda sources` checks them now)")
    say("")
    table(view_columns, answer["views"], "No views: add views/NAME.sql and run dyda apply.")
    say_lost(answer["views"])
    for due in answer.get("decide", ()):
        say(f"\nto decide: {due['what']}")
        if due["next"]:
            say(f"    {due['next']}")
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
