"""`dyda notify`: who is told of events."""

from __future__ import annotations

import sys

import click

from dyda.cli.options import CommonCommand, CommonGroup, common
from dyda.cli.output import answered, table

__all__ = ["notify_group"]


@click.group("notify", cls=CommonGroup)
def notify_group() -> None:
    """Notifications: who is told of events ([[notify]] in dyda.toml)."""


@notify_group.command("test", cls=CommonCommand)
def notify_test() -> None:
    """Send a test event to every webhook and command of dyda.toml.

    Filters do not count here, and no daemon or database is needed. Exit code 1: somebody could not be told.
    """
    from dyda import commands

    answer = commands.notify_test(common().folder)
    if not answered(answer):
        table(["target", "delivered", "error"], answer, "Nobody is told of anything: add [[notify]] to dyda.toml.")
    if not all(entry["delivered"] for entry in answer):
        sys.exit(1)
