"""`dyda impact`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dyda.cli.options import CommonCommand, common
from dyda.cli.output import answered, log, say, table

__all__ = ["impact_command", "show_effects"]


@click.command("impact", cls=CommonCommand)
@click.argument("statements", metavar="[DDL]...", nargs=-1)
@click.option("-f", "--file", "files", multiple=True, metavar="PATH", help="A file, a folder of .sql files, or -.")
@click.option("--source", metavar="NAME", help="The source of tables whose names do not say it.")
def impact_command(statements: tuple[str, ...], files: tuple[str, ...], source: str | None) -> None:
    """Show what some DDL would do to every view, without doing it.

    DDL is one or more PostgreSQL statements; - reads them from standard input. Write tables as source.table or
    source.schema.table, or as the source itself does and add --source. In a folder all .sql files are read: in
    Flyway's order if they have Flyway's names, otherwise by name, 2_x before 10_x. All statements count as one
    transaction. The answer comes from the catalog; no source is touched. DDL that cannot be read exactly is refused.
    Exit code 3: a view would break.
    """
    from dyda import commands

    if not statements and not files:
        raise click.UsageError("give the DDL as an argument, with -f PATH, or with - on standard input")
    paths = [Path(name) for name in files if name != "-"]
    texts = [*statements, *(name for name in files if name == "-")]
    ddl = "\n;\n".join(sys.stdin.read() if text == "-" else text for text in texts)
    answer = commands.impact(common().folder, ddl, source, files=paths)
    if not answered(answer):
        show_effects(answer["views"], "No views.")
        for note in answer["notes"]:
            log(note)
    if any(view["effect"] == "broken" for view in answer["views"]):
        sys.exit(3)


def show_effects(views: list[dict[str, Any]], none: str) -> None:
    """What DDL would do to views, and the definitions that would change."""
    table([("name", "VIEW"), "effect", "extent", "cost", "reason"], views, none)
    for view in views:
        if view["effect"] in ("renamed", "rewritten", "adapted"):
            say(f"\n{view['name']} would be:")
            for line in view["definition"].rstrip("\n").splitlines():
                say(f"    {line}")
