"""`dyda impact`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dyda.cli.options import CommonCommand, common
from dyda.cli.output import log, say, show_json, table

__all__ = ["impact_command"]


@click.command("impact", cls=CommonCommand)
@click.argument("statements", metavar="[DDL]...", nargs=-1)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="PATH",
    help="A file, or a folder of .sql files; - is standard input.",
)
@click.option("--source", metavar="NAME", help="Whose DDL it is, where its table names say no source.")
def impact_command(statements: tuple[str, ...], files: tuple[str, ...], source: str | None) -> None:
    """Tell what some DDL would do to every view, without doing it.

    DDL is one or several statements of PostgreSQL; - reads them from standard input. Table names are source.table or
    source.schema.table, or as the source itself writes them with --source. Of a folder, all .sql files are read: in
    Flyway's order if they have Flyway's names, otherwise 2_x before 10_x. The answer comes from the catalog: no source
    is touched. All statements count as one transaction. What cannot be read exactly is refused. Exit code 3: a view
    would break.
    """
    from dyda import commands

    if not statements and not files:
        raise click.UsageError("write the DDL as an argument, or name it with -f PATH, or - for standard input")
    paths = [Path(name) for name in files if name != "-"]
    texts = [*statements, *(name for name in files if name == "-")]
    ddl = "\n;\n".join(sys.stdin.read() if text == "-" else text for text in texts)
    answer = commands.impact(common().folder, ddl, source, files=paths)
    if common().json:
        show_json(answer)
    else:
        columns = ["name", "effect", "extent", "cost", "reason"]
        table([(name, "VIEW" if name == "name" else name.upper()) for name in columns], answer["views"], "No views.")
        for view in answer["views"]:
            if view["effect"] in ("renamed", "rewritten", "adapted"):
                say(f"\n{view['name']} would be:")
                for line in view["definition"].rstrip("\n").splitlines():
                    say(f"    {line}")
        for note in answer["notes"]:
            log(note)
    if any(view["effect"] == "broken" for view in answer["views"]):
        sys.exit(3)
