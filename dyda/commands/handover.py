"""Work on a project: done by this process if it gets the lock, otherwise by the daemon that holds it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dyda.commands.open_transactions import Patience, Progress
from dyda.errors import DydaError, SourceNotAvailable
from dyda.model.relation import Relation, RelationName
from dyda.open_project import OpenProject
from dyda.project import Project
from dyda.warehouse import Installation, RelationState

if TYPE_CHECKING:
    from dyda.maintenance.catalog_state import BuildRequest
    from dyda.maintenance.cycle import Outcome
    from dyda.maintenance.loop import Maintainer

__all__ = ["Progress", "attach", "bring_about", "hand_over", "named_relations", "release"]

ATTEMPTS = 20


def hand_over(
    opened: OpenProject, verb: str, arguments: Mapping[str, Any], progress: Progress
) -> dict[str, Any] | None:
    """Let the running daemon do the work and show its progress; None if no daemon runs."""
    daemon = opened.warehouse.holder()
    if not daemon.running or daemon.role != "daemon":
        return None
    number = opened.warehouse.submit(verb, arguments)
    try:
        return dict(opened.warehouse.wait(number, lambda news: progress(news["text"], news["done"], news["total"])))
    except KeyboardInterrupt:
        opened.warehouse.cancel(number)  # a waiting request is dropped; a running one is finished
        raise


def attach(
    maintainer: Maintainer, relations: Iterable[Relation], progress: Progress, patience: Patience | None = None
) -> None:
    """Capture first, then everything else (C6). What is attached is in the catalog before it is polled, so that it can
    be released again if the rest fails. `patience`: how long to wait for open transactions, by default without limit.
    """
    patience = patience or Patience(progress)
    opened = maintainer.opened
    wanted: dict[str, dict[RelationName, Relation]] = {}
    for relation in relations:
        wanted.setdefault(relation.name.source, {})[relation.name] = relation
    known = {name for name, record in maintainer.known.relations.items() if record.captured}
    try:
        for source, mine in wanted.items():
            done = 0

            def attached(relation: Relation) -> None:
                nonlocal done
                if relation.name not in known:
                    # Described again: changes before capture was in place were not logged.
                    now = opened.source(relation.name.source).describe([(relation.name.schema, relation.name.table)])
                    maintainer.writer.save_relations([RelationState(described) for described in now.values()])
                done += 1
                progress(f"attaching capture at {relation.name.source}", done, len(wanted[relation.name.source]))

            progress(f"attaching capture at {source}", 0, len(mine))
            opened.source(source).attach(mine.values(), patience.wait, attached)
    finally:
        maintainer.reload()


def release(maintainer: Maintainer) -> None:
    """Release capture of relations that no view reads, not even a broken or held one, and no constraint names."""
    known = maintainer.known
    read = {name for record in maintainer.opened.warehouse.views(hidden=True) for name in record.relations}
    read |= named_relations(maintainer.opened.project, known.knowledge_record.document)
    unused = [record.relation for name, record in known.relations.items() if record.captured and name not in read]
    for source in {relation.name.source for relation in unused} & set(maintainer.opened.sources):
        mine = [relation for relation in unused if relation.name.source == source]
        try:
            maintainer.opened.source(source).release(mine)
        except SourceNotAvailable:
            continue  # harmless: its messages concern no view
        maintainer.writer.install(Installation(forgotten=tuple(relation.name for relation in mine)))
    maintainer.reload()


def named_relations(project: Project, document: Mapping[str, Any]) -> set[RelationName]:
    """The relations that knowledge names, at sources that the project has."""
    from dyda.model.knowledge.file import referenced_relations

    names = referenced_relations(document)
    return {project.relation_name(*name) for name in names if name[0] in project.settings.sources}


def bring_about(
    maintainer: Maintainer, targets: Sequence[BuildRequest], progress: Progress, *, begun: bool = False
) -> None:
    """Build the targets; a schema change meanwhile voids the attempt, and it is repeated. `begun`: a lane has begun
    with them, and may have shown them already."""
    from dyda.maintenance.cycle import Outcome

    left = {target.name: target for target in targets}
    if not begun:
        maintainer.built -= left.keys()
    elif left.keys() <= maintainer.built:
        return
    attempts = 0
    while attempts < ATTEMPTS:
        outcome = maintainer.cycle(list(left.values()), progress)
        left = {name: target for name, target in left.items() if name not in maintainer.built}
        if not left:
            return
        if outcome is not Outcome.BROKEN and _built_beside(maintainer, left, progress, outcome):
            continue
        if outcome is Outcome.BLOCKED:
            raise maintainer.obstacle or DydaError("a source cannot be reached", "See: dyda status")
        attempts += 1
    raise DydaError(
        f"{', '.join(target.name for target in targets)}: the schemas kept changing while they were read",
        "Nothing was changed. Try again when the sources' migrations are done.",
    )


def _built_beside(maintainer: Maintainer, names: Iterable[str], progress: Progress, outcome: Outcome) -> bool:
    """Whether lanes are building some of these views: say how far they are, and wait a moment if nothing else is to
    do."""
    from dyda.maintenance.cycle import Outcome

    lanes = maintainer.lanes
    waiting = [name for name in names if lanes is not None and lanes.waits(name)]
    if lanes is None or not waiting:
        return False
    if lanes.stopping():
        raise DydaError("the daemon is stopping", "Run the command again when it is back.")
    for name in waiting:
        lane = lanes.running(name)
        if lane is not None:
            progress(f"building {name}", lane.done, max(lane.total, 1))
    maintainer.meanwhile()
    if outcome is not Outcome.WORKED:
        lanes.wait(maintainer.opened.project.settings.maintenance.poll_min)
    return True
