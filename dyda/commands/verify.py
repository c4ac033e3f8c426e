"""Is a view correct? Recompute it at its committed positions, and compare.

    snapshots of the sources ─▶ freeze the warehouse ─▶ recompute, less what is not installed ─▶ compare

The order matters while a daemon works. What is in a snapshot but not in the positions, which are read later, was not
acknowledged when the snapshot was taken: the snapshot's log still shows it, and it can be subtracted. If the daemon has
moved past the snapshots meanwhile, new ones are taken.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from dyda.errors import DydaError
from dyda.model.cause import BuildReason, ToBeBuilt
from dyda.model.position import Position
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject
from dyda.wording import sentence

if TYPE_CHECKING:
    from dyda.maintenance.catalog_state import CatalogState, MaintainedView
    from dyda.maintenance.observe.poll import Poll
    from dyda.warehouse.extents.verification_snapshot import FrozenWarehouse

__all__ = ["verify_view"]

ATTEMPTS = 10


def verify_view(opened: OpenProject, name: str) -> dict[str, Any]:
    """`equal`, `different` (with the differing rows), `unverifiable` (with the reason) or `skipped`."""
    from dyda.maintenance.catalog_state import load

    answer: dict[str, Any] = {
        "name": name,
        "result": "skipped",
        "missing": 0,
        "extra": 0,
        "reason": None,
        "samples": [],
    }
    try:
        for _ in range(ATTEMPTS):
            known = load(opened)
            if name in known.frozen:
                record = known.frozen[name]
                return {**answer, "reason": f"{record.stored_state}: {record.reason}"}
            if name not in known.views:
                return {**answer, "reason": "the view was dropped meanwhile"}
            view = known.views[name]
            if view.record.stored_state == ViewState.RESYNC or view.outdated is not None:
                cause = view.record.cause if view.record.stored_state == ViewState.RESYNC else view.outdated
                why = sentence(cause or ToBeBuilt(BuildReason.DUE))
                return {**answer, "result": "unverifiable", "reason": f"it will be rebuilt: {why}"}
            verdict = _verify_once(opened, known, view)
            if verdict is not None:
                return {**answer, **verdict}
        return {**answer, "result": "unverifiable", "reason": "the view kept changing while it was being verified"}
    except DydaError as error:
        return {**answer, "result": "unverifiable", "reason": error.what}


def _verify_once(opened: OpenProject, known: CatalogState, view: MaintainedView) -> dict[str, Any] | None:
    """None if the view has moved past the snapshots or was redefined: try again."""
    from dyda.maintenance.observe.poll import Poll

    with ExitStack() as stack:
        poll = Poll()
        for source in sorted(view.positions):
            # By oid, as the daemon does: a table that had the name before does not concern the view.
            relations = {
                name: known.relations[name].relation.oid for name in view.definition.relations if name.source == source
            }
            poll.snapshots[source] = stack.enter_context(opened.source(source).open(relations))
        frozen = stack.enter_context(opened.warehouse.frozen())
        positions = frozen.positions(view.name)
        if frozen.version(view.name) != view.record.version or set(positions) != set(poll.snapshots):
            return None
        if not all(snapshot.position.covers(positions[source]) for source, snapshot in poll.snapshots.items()):
            return None
        obstacle = _read_queue(poll, known, view, positions)
        if obstacle is not None:
            return {"result": "unverifiable", "reason": obstacle}
        return _compare(opened, view, poll, frozen, positions)


def _read_queue(poll: Poll, known: CatalogState, view: MaintainedView, positions: dict[str, Position]) -> str | None:
    """Fill the poll's queue with what the view does not have; the reason if that cannot be subtracted exactly."""
    from dyda.maintenance.arrivals import Arrivals
    from scheduler import Queued

    queue: list[Queued] = []
    for source, snapshot in poll.snapshots.items():
        poll.after[source] = positions[source]
        for message in snapshot.messages(positions[source]):
            moved = message.moved_without_rows & view.definition.relations
            if moved:
                return f"a pending change of {', '.join(sorted(map(str, moved)))} has no row images"
            queue.append(Queued(0, message))
        record = known.sources.get(source)
        if record is not None and record.gap != snapshot.gap:
            return f"source {source} has changes that were not captured"
        for relation in view.definition.relations:
            recorded = known.relations[relation].fingerprint
            if relation.source == source and not snapshot.agrees(relation, recorded):
                return f"a pending change of {relation} has no row images"
    poll.arrivals = Arrivals.of(queue)
    return None


def _compare(
    opened: OpenProject, view: MaintainedView, poll: Poll, frozen: FrozenWarehouse, positions: dict[str, Position]
) -> dict[str, Any]:
    """Build the view at the frozen positions and compare it with the frozen extent."""
    from dyda.maintenance.execute.deltas import Refresh

    refresh = Refresh(opened, poll)
    refresh.read_images(view.program.blocks)
    with opened.warehouse.stagings() as stagings:
        (*states, rows), _ = refresh.build(
            view.program, lambda scan: positions.get(scan.relation.name.source), stagings, lambda done, total: None
        )
        poll.compare(view.definition.relations, scanned=True)
        comparison = frozen.compare(view.name, rows)
        for number, state in enumerate(states):
            kept = frozen.compare_state(view.name, number, state)
            if comparison.equal and not kept.equal:
                counts = f"{kept.missing} rows missing, {kept.extra} extra"
                return {"result": "different", "reason": f"the stored state of step {number + 1} is wrong: {counts}"}
    names = [column.name for column in view.record.columns]
    if comparison.forged and not (comparison.missing or comparison.extra):
        reason = f"{comparison.forged} row(s) were edited by hand, so that later changes would miss them"
        return {"result": "different", "reason": reason}
    if comparison.equal and not frozen.shows(view.name, opened.warehouse.schema):
        shown = f"{opened.warehouse.schema}.{view.name}"
        reason = f"its rows are correct, but {shown}, which readers query, is not what DyDa created"
        return {"result": "different", "reason": reason}
    return {
        "result": "equal" if comparison.equal else "different",
        "missing": comparison.missing,
        "extra": comparison.extra,
        "samples": [
            {"row": dict(zip(names, texts, strict=True)), "missing": max(count, 0), "extra": max(-count, 0)}
            for count, texts in comparison.samples
        ],
    }
