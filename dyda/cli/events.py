"""`dyda events`: what happened, and what to do about it."""

from __future__ import annotations

import json
from typing import Any

import click

from dyda.cli.options import CommonCommand, common
from dyda.cli.output import answered, log, say

__all__ = ["events_command"]


@click.command("events", cls=CommonCommand)
@click.option("--follow", is_flag=True, help="Go on, and print each event as it happens. Ctrl-C ends it.")
@click.option("--since", metavar="AGE", help="Begin here: 90s, 15m, 1h, 2d, or a time (default: the last 100 events).")
@click.option("--view", metavar="NAME", help="Only the events of this view.")
def events_command(follow: bool, since: str | None, view: str | None) -> None:
    """Show what happened, oldest first, and what to do about it.

    Views that broke, were rewritten or are too old; messages that wait for a decision; sources that were lost; units
    that were installed; what the daemon did. With --follow and --json, each line is one event.

    Examples: dyda events --since 1h; dyda events --follow --view asia_customer
    """
    from dyda import commands

    folder = common().folder
    if not follow:
        found = commands.events(folder, since, view)
        if answered(found):
            return
        for event in found:
            _show(event)
        if not found:
            log("Nothing has happened.")
        return
    try:
        for event in commands.follow_events(folder, since, view):
            if common().json:
                click.echo(json.dumps(event, default=str))
            else:
                _show(event)
    except KeyboardInterrupt:
        return


def _show(event: dict[str, Any]) -> None:
    say(f"{event['at']} {event['kind']}: {event['text']}")
    if event["next"]:
        say(f"    {event['next']}")
