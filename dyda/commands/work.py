"""Work on a project: by this process if it gets the lock, otherwise by the daemon that holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dyda.errors import DydaError
from dyda.house import House
from dyda.maintenance import Maintainer, Outcome, Target

__all__ = ["Progress", "bring_about", "hand_over"]

Progress = Callable[[str, int, int], None]

ATTEMPTS = 20


def hand_over(house: House, verb: str, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any] | None:
    """Let the running daemon do it and show its progress; None if no daemon runs."""
    daemon = house.warehouse.holder()
    if not daemon.running or daemon.role != "daemon":
        return None
    number = house.warehouse.submit(verb, arguments)
    return dict(house.warehouse.wait(number, lambda news: progress(news["text"], news["done"], news["total"])))


def bring_about(maintainer: Maintainer, targets: Sequence[Target], progress: Progress) -> None:
    """Build the targets; a schema that moves meanwhile voids the attempt, and it is made again."""
    for _ in range(ATTEMPTS):
        match maintainer.cycle(targets, progress):
            case Outcome.WORKED:
                return
            case Outcome.BLOCKED:
                raise maintainer.obstacle or DydaError("a source stays out of reach", "See: dyda status")
            case Outcome.BROKEN | Outcome.IDLE:
                continue
    raise DydaError(
        f"{', '.join(target.name for target in targets)}: the schemas kept changing while they were read",
        "Nothing was changed. Try again when the sources' migrations are done.",
    )
