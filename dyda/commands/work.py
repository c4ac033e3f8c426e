"""Work on a project: by this process if it gets the lock, otherwise by the daemon that holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dyda.errors import DydaError, SourceBusy, SourceUnreachable
from dyda.house import House
from dyda.maintenance import Maintainer, Outcome, Target
from dyda.model.algebra import ViewDefinition, scans
from dyda.model.relation import Relation, RelationName
from dyda.warehouse import Installation, RelationState

__all__ = ["Progress", "attach", "bring_about", "hand_over", "release"]

Progress = Callable[[str, int, int], None]

ATTEMPTS = 20


def hand_over(house: House, verb: str, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any] | None:
    """Let the running daemon do it and show its progress; None if no daemon runs."""
    daemon = house.warehouse.holder()
    if not daemon.running or daemon.role != "daemon":
        return None
    number = house.warehouse.submit(verb, arguments)
    return dict(house.warehouse.wait(number, lambda news: progress(news["text"], news["done"], news["total"])))


def attach(maintainer: Maintainer, definitions: Iterable[ViewDefinition], progress: Progress) -> None:
    """Capture first, then everything else (C6). What is attached is known to the catalog before it is polled."""
    house = maintainer.house
    wanted: dict[str, dict[RelationName, Relation]] = {}
    for definition in definitions:
        for scan in scans(definition.tree):
            wanted.setdefault(scan.relation.name.source, {})[scan.relation.name] = scan.relation
    for done, (source, relations) in enumerate(wanted.items()):
        progress(f"attaching capture at {source}", done, len(wanted))
        house.source(source).attach(relations.values())
        known = {name for name, record in maintainer.known.relations.items() if record.captured}
        maintainer.worker.save_relations(
            [RelationState(relation) for name, relation in relations.items() if name not in known]
        )
    maintainer.reload()


def release(maintainer: Maintainer) -> None:
    """Stop capturing what no view reads any more, broken and held ones included."""
    known = maintainer.known
    read = {name for record in maintainer.house.warehouse.views() for name in record.relations}
    unused = [record.relation for name, record in known.relations.items() if record.captured and name not in read]
    for source in {relation.name.source for relation in unused} & set(maintainer.house.sources):
        mine = [relation for relation in unused if relation.name.source == source]
        try:
            maintainer.house.source(source).release(mine)
        except (SourceUnreachable, SourceBusy):
            continue  # harmless meanwhile: its messages concern no view
        maintainer.worker.install(Installation(forgotten=tuple(relation.name for relation in mine)))
    maintainer.reload()


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
