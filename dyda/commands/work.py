"""Work on a project: by this process if it gets the lock, otherwise by the daemon that holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dyda.errors import DydaError, MissingRights, SourceBusy, SourceUnreachable
from dyda.house import House
from dyda.maintenance import Maintainer, Outcome, Target
from dyda.model.knowledge_file import referenced_relations
from dyda.model.relation import Relation, RelationName
from dyda.warehouse import Installation, RelationState

__all__ = ["Progress", "attach", "bring_about", "hand_over", "named_relations", "release"]

Progress = Callable[[str, int, int], None]

ATTEMPTS = 20


def hand_over(house: House, verb: str, arguments: Mapping[str, Any], progress: Progress) -> dict[str, Any] | None:
    """Let the running daemon do it and show its progress; None if no daemon runs."""
    daemon = house.warehouse.holder()
    if not daemon.running or daemon.role != "daemon":
        return None
    number = house.warehouse.submit(verb, arguments)
    return dict(house.warehouse.wait(number, lambda news: progress(news["text"], news["done"], news["total"])))


def attach(maintainer: Maintainer, relations: Iterable[Relation], progress: Progress) -> None:
    """Capture first, then everything else (C6). What is attached is known to the catalog before it is polled."""
    house = maintainer.house
    wanted: dict[str, dict[RelationName, Relation]] = {}
    for relation in relations:
        wanted.setdefault(relation.name.source, {})[relation.name] = relation
    for done, (source, mine) in enumerate(wanted.items()):
        progress(f"attaching capture at {source}", done, len(wanted))
        house.source(source).attach(mine.values())
        known = {name for name, record in maintainer.known.relations.items() if record.captured}
        new = [(name.schema, name.table) for name in mine if name not in known]
        # Described again: what changed before capture was in place was not logged.
        described = house.source(source).describe(new) if new else {}
        maintainer.worker.save_relations([RelationState(relation) for relation in described.values()])
    maintainer.reload()


def release(maintainer: Maintainer) -> None:
    """Stop capturing what neither a view reads, broken and held ones included, nor the knowledge names."""
    known = maintainer.known
    read = {name for record in maintainer.house.warehouse.views() for name in record.relations}
    read |= named_relations(maintainer.house, known.knowledge_record.document)
    unused = [record.relation for name, record in known.relations.items() if record.captured and name not in read]
    for source in {relation.name.source for relation in unused} & set(maintainer.house.sources):
        mine = [relation for relation in unused if relation.name.source == source]
        try:
            maintainer.house.source(source).release(mine)
        except (SourceUnreachable, SourceBusy, MissingRights):
            continue  # harmless meanwhile: its messages concern no view
        maintainer.worker.install(Installation(forgotten=tuple(relation.name for relation in mine)))
    maintainer.reload()


def named_relations(house: House, document: Mapping[str, Any]) -> set[RelationName]:
    """The relations that a document of knowledge names, at sources that the project has."""
    names = referenced_relations(document)
    return {house.relation_name(*name) for name in names if name[0] in house.sources}


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
