"""Commands about knowledge.toml: knowledge, knowledge check."""

from __future__ import annotations

import sys

import click

from dyda.cli.options import CommonGroup, common
from dyda.cli.output import answered, log, table

__all__ = ["knowledge_group"]

NONE = "No constraints: write knowledge.toml and run dyda apply."


@click.group("knowledge", cls=CommonGroup, invoke_without_command=True)
@click.pass_context
def knowledge_group(context: click.Context) -> None:
    """List the constraints of knowledge.toml; test them."""
    from dyda import commands

    if context.invoked_subcommand is not None:
        return
    answer = commands.knowledge(common().folder)
    if not answered(answer):
        table(["kind", "constraint", "state", "reason"], answer, NONE)


@knowledge_group.command("check")
def knowledge_check() -> None:
    """Test each constraint against the live data.

    Counts the rows that violate it. A knowledge.toml that is not applied yet is tested as it is; otherwise the
    knowledge is tested as it has evolved. Exit code 3: a constraint is violated. Exit code 1: one cannot be tested now.
    """
    from dyda import commands

    answer = commands.knowledge_check(common().folder)
    if not answered(answer):
        table(["kind", "constraint", "result", "violations", "reason"], answer, NONE)
        for constraint in answer:
            if constraint["samples"]:
                log(f"\n{constraint['constraint']}: rows that violate it")
                table(list(constraint["samples"][0]), constraint["samples"])
        if any(not constraint["applied"] for constraint in answer):
            log("knowledge.toml is not applied yet; to apply it: dyda apply")
    results = {constraint["result"] for constraint in answer}
    if results & {"violated", "untested"}:
        sys.exit(3 if "violated" in results else 1)
