"""`-C DIR` and `--json` may stand anywhere: every command and group knows both, and they meet in one place."""

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
    help="How long to wait for transactions that are open at a source (default: until they end).",
)


@dataclass
class Common:
    """What `-C` and `--json` said, wherever they stood."""

    folder: Path = field(default_factory=Path)
    json: bool = False


def common() -> Common:
    """The options of the running command."""
    return click.get_current_context().find_root().ensure_object(Common)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value and not context.resilient_parsing:
        setattr(context.find_root().ensure_object(Common), str(parameter.name), value)


def _parameters() -> list[click.Parameter]:
    folder = click.Option(
        ["-C", "folder"],
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The project's folder (default: the current one).",
        expose_value=False,
        callback=_remember,
    )
    as_json = click.Option(
        ["--json", "json"], is_flag=True, help="Answer in JSON.", expose_value=False, callback=_remember
    )
    return [folder, as_json]


class CommonCommand(click.Command):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params += _parameters()


class CommonGroup(click.Group):
    """A group whose commands are listed in the order in which a user meets them."""

    command_class = CommonCommand

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.params += _parameters()

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


CommonGroup.group_class = CommonGroup
