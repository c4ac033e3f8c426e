"""Options that several commands share. `-C DIR` and `--json` may stand anywhere on the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

__all__ = ["Common", "CommonCommand", "CommonGroup", "common", "timeout_option"]

timeout_option = click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait for open transactions at a source (default: until they end).",
)


@dataclass
class Common:
    """The values of `-C` and `--json`."""

    folder: Path = field(default_factory=Path)
    json: bool = False


def common() -> Common:
    """The common options of the running command."""
    return click.get_current_context().find_root().ensure_object(Common)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value and not context.resilient_parsing:
        setattr(context.find_root().ensure_object(Common), str(parameter.name), value)


def _parameters() -> list[click.Parameter]:
    where = click.Path(path_type=Path)
    text = "The project folder (default: the current one)."
    return [
        click.Option(["-C", "folder"], type=where, metavar="DIR", help=text, expose_value=False, callback=_remember),
        click.Option(["--json"], is_flag=True, help="Print JSON.", expose_value=False, callback=_remember),
    ]


class CommonCommand(click.Command):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params += _parameters()


class CommonGroup(CommonCommand, click.Group):
    """A group that lists its commands in the order in which a user meets them."""

    command_class = CommonCommand

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


CommonGroup.group_class = CommonGroup
