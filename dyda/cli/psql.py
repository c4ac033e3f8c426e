"""`dyda psql`: psql on a source or on the warehouse."""

from __future__ import annotations

import os
import sys

import click

from dyda.cli.options import CommonCommand, common

__all__ = ["psql_command"]


@click.command("psql", cls=CommonCommand)
@click.argument("name", metavar="NAME")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]")
def psql_command(name: str, arguments: tuple[str, ...]) -> None:
    """Open psql on the source NAME, or on the warehouse.

    With the url and the password of dyda.toml; an embedded server is started if necessary. What follows two hyphens is
    for psql. The exit code is psql's.

    Examples: dyda psql warehouse; dyda psql crm -- -c "SELECT count(*) FROM customer"
    """
    from dyda import commands

    call = commands.psql(common().folder, name, arguments)
    sys.stdout.flush()
    os.execve(call.program, call.arguments, {**os.environ, **dict(call.secrets)})
