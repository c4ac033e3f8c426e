"""`dyda impact`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dyda.cli.options import CommonCommand, common
from dyda.cli.output import log, say, show_json, table
from dyda.errors import DydaError

__all__ = ["impact_command"]


@click.command("impact", cls=CommonCommand)
@click.argument("statements", metavar="[DDL]...", nargs=-1)
@click.option("-f", "--file", "file", metavar="FILE", help="Read the statements from FILE; - is standard input.")
@click.option("--source", metavar="NAME", help="Whose DDL it is, where its table names say no source.")
def impact_command(statements: tuple[str, ...], file: str | None, source: str | None) -> None:
    """Tell what some DDL would do to every view, without doing it.

    DDL is one or several statements of PostgreSQL; - reads them from standard input. Table names are source.table or
    source.schema.table, or as the source itself writes them with --source. The answer comes from the catalog: no
    source is touched. All statements count as one transaction. What cannot be read exactly is refused. Exit code 3:
    a view would break.
    """
    from dyda import commands

    if not statements and file is None:
        raise click.UsageError("write the DDL as an argument, or name it with -f FILE, or - for standard input")
    parts = [sys.stdin.read() if text == "-" else text for text in statements]
    parts += [] if file is None else [_from_file(file)]
    answer = commands.impact(common().folder, ";\n".join(parts), source)
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


def _from_file(name: str) -> str:
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DydaError(f"{name} is not UTF-8 (byte {error.start})", "Save the file as UTF-8.") from None
    except OSError as error:
        raise DydaError(f"{name} cannot be read: {error.strerror}", "Name another file with -f.") from None
