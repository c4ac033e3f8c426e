"""The program `dyda`: all commands together, exit codes, and errors as one message."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from typing import NoReturn

import click

import dyda
from dyda.cli.daemon import daemon_command, status_command, stop_command
from dyda.cli.demo import demo_command
from dyda.cli.events import events_command
from dyda.cli.impact import impact_command
from dyda.cli.knowledge import knowledge_group
from dyda.cli.notify import notify_group
from dyda.cli.options import CommonGroup
from dyda.cli.pending import pending_group
from dyda.cli.project import apply_command, init_command, sources_group
from dyda.cli.psql import psql_command
from dyda.cli.views import verify_command, views_group
from dyda.errors import DydaError
from dyda.model.printable import visible
from dyda.passwords import hidden

__all__ = ["cli", "main"]


@click.group(cls=CommonGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(dyda.__version__, prog_name="dyda", message="%(prog)s %(version)s")
def cli() -> None:
    """DyDa keeps materialized views over several autonomous databases correct while rows and schemas change.

    A project is a folder with dyda.toml and views/*.sql. `dyda init DIR` creates one, `dyda demo` shows everything.

    Exit codes: 0 done; 1 failed; 2 usage error, or confirmation needed without a terminal (--yes); 3 the check failed.
    """


FRAMES = 4000
"""The recursion limit: a parenthesis in a view costs about twenty frames, and people generate views."""

UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT)
"""Errors of a standard output that cannot be written to."""

# In the order in which a user meets them, which is the order of `dyda --help`.
for command in (
    demo_command,
    init_command,
    sources_group,
    apply_command,
    daemon_command,
    status_command,
    events_command,
    notify_group,
    pending_group,
    views_group,
    knowledge_group,
    impact_command,
    verify_command,
    psql_command,
    stop_command,
):
    cli.add_command(command)


def main() -> NoReturn:
    """Runs the command line and exits."""
    _prepare_streams()
    output = sys.stdout
    sys.setrecursionlimit(max(sys.getrecursionlimit(), FRAMES))
    try:
        _refuse_unreadable_arguments()
        code = cli.main(prog_name="dyda", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        message = io.StringIO()
        error.show(message)  # it quotes what was typed
        click.echo(visible(message.getvalue(), kept="\n\t"), nl=False, err=True)
        code = error.exit_code
    except DydaError as error:
        code = _failed(str(error), error.exit_code)
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = _failed("interrupted", 130)
    except BrokenPipeError:
        code = _reader_gone()
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            code = _unexpected(error)
        else:
            _reader_gone()
            code = _failed(f"cannot write the output: {error.strerror}\nFree some space, or write it elsewhere.", 1)
    except SystemExit as end:
        # click exits with 1 when the reader of its output has gone, and wraps the output then.
        code = end.code if sys.stdout is output else _reader_gone()
    except Exception as error:
        code = _unexpected(error)
    sys.exit(code if isinstance(code, int) else 0)


def _prepare_streams() -> None:
    """A closed stream discards its output; a character that the terminal cannot show is escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - as long as the program runs
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _refuse_unreadable_arguments() -> None:
    """Bytes that are not text in this locale arrive as lone surrogates, which neither a database nor a file takes."""
    for argument in sys.argv[1:]:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            shown = argument.encode("utf-8", "backslashreplace").decode()
            raise click.UsageError(
                f"the argument {shown[:200]!r} is not valid text in this locale: use UTF-8 (LANG=C.UTF-8)"
            )


def _unexpected(error: Exception) -> int:
    if os.environ.get("DYDA_DEBUG"):
        click.echo(visible(hidden(traceback.format_exc()), kept="\n\t"), err=True)
    message = hidden(f"unexpected {type(error).__name__}: {error}".strip())
    return _failed(f"{message}\nThis is a bug in DyDa. Run it with DYDA_DEBUG=1 to see where.", 1)


def _reader_gone() -> int:
    """The reader of our output has gone (`dyda views | head`): that is no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0


def _failed(message: str, code: int) -> int:
    click.echo(click.style("error: ", fg="red", bold=True) + visible(message, kept="\n\t"), err=True)
    return code
