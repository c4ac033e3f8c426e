"""The program `dyda`: all commands together, exit codes, and errors as one message."""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn

import click

import dyda
from dyda.cli.demo import demo_command
from dyda.cli.impact import impact_command
from dyda.cli.knowledge import knowledge_group
from dyda.cli.options import CommonGroup
from dyda.cli.pending import pending_group
from dyda.cli.project import apply_command, init_command, sources_group
from dyda.cli.running import daemon_command, status_command, stop_command
from dyda.cli.views import verify_command, views_group
from dyda.errors import DydaError
from dyda.passwords import hidden

__all__ = ["cli", "main"]


@click.group(cls=CommonGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(dyda.__version__, prog_name="dyda", message="%(prog)s %(version)s")
def cli() -> None:
    """DyDa keeps materialized views over several autonomous databases right while these change.

    A project is a folder with dyda.toml and views/*.sql; `dyda init DIR` makes one, `dyda demo` shows it all.

    Exit codes: 0 done; 1 failed; 2 wrong usage, or a question was due and nobody was there to answer it; 3 the
    answer is no.
    """


FRAMES = 4000
"""Python's stack of calls: a parenthesis in a view costs about twenty, and people generate views."""

# In the order in which a user meets them, which is the order of `dyda --help`.
for command in (
    demo_command,
    init_command,
    sources_group,
    apply_command,
    daemon_command,
    status_command,
    pending_group,
    views_group,
    knowledge_group,
    impact_command,
    verify_command,
    stop_command,
):
    cli.add_command(command)


def main() -> NoReturn:
    """Runs the command line and exits."""
    output = sys.stdout
    sys.setrecursionlimit(max(sys.getrecursionlimit(), FRAMES))
    try:
        code = cli.main(prog_name="dyda", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except DydaError as error:
        code = _failed(str(error), error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = _failed("interrupted", 130)
    except BrokenPipeError:
        code = _reader_gone()
    except SystemExit as end:
        # click ends with 1 when it writes to a reader that has gone, and puts a wrapper around the output.
        code = end.code if sys.stdout is output else _reader_gone()
    except Exception as error:
        if os.environ.get("DYDA_DEBUG"):
            click.echo(hidden(traceback.format_exc()), err=True)
        message = hidden(f"unexpected {type(error).__name__}: {error}".strip())
        code = _failed(f"{message}\nThis is a fault in DyDa. With DYDA_DEBUG=1 it shows where it happened.", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _reader_gone() -> int:
    """The reader of our output has gone (`dyda views | head`): nothing is wrong, and nobody is there to be told."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _failed(message: str, code: int) -> int:
    click.echo(click.style("error: ", fg="red", bold=True) + message, err=True)
    return code
