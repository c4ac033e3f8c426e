"""Commands about one view: how it is maintained, whether it is correct, and rebuilding it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dyda.commands.handover import attach, bring_about, hand_over
from dyda.commands.open_transactions import Patience, Progress, given_up
from dyda.commands.status import told
from dyda.commands.verify import verify_view
from dyda.errors import DydaError, NotComputable, RelationRefused, UnknownColumn, UnknownRelation, UnsupportedSql
from dyda.model.algebra.nodes import scans
from dyda.model.cause import BuildReason, ToBeBuilt
from dyda.model.view_state import ViewState
from dyda.open_project import OpenProject

if TYPE_CHECKING:
    from dyda.engine import Engine
    from dyda.maintenance.catalog_state import BuildRequest
    from dyda.maintenance.loop import Maintainer

__all__ = ["begin_resync", "execute_resync", "verify", "views_explain", "views_resync"]


def views_explain(folder: Path, name: str) -> dict[str, Any]:
    """How each operator of the view is maintained, and how many source queries an update costs."""
    from dyda.maintenance.catalog_state import load
    from vm import explain_program

    with OpenProject.open(folder) as opened:
        record = opened.warehouse.view(name)
        view = load(opened).views.get(name)
        if view is None:
            return {"name": name, "steps": [], "queries_per_update": {}, "notes": [f"not maintained: {record.reason}"]}
        rows = explain_program(view.program)
        return {
            "name": name,
            "steps": [{"step": r.step, "subject": r.subject, "how": r.how} for r in rows if r.queries is None],
            "queries_per_update": {r.subject: r.queries for r in rows if r.queries is not None},
            "notes": [f"a change of {r.subject}: {r.how}" for r in rows if r.queries is not None],
        }


def views_resync(
    folder: Path,
    name: str,
    progress: Progress = lambda text, done, total: None,
    engine: Engine | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Rebuild the view from its sources; readers keep the old rows until the new ones are complete."""
    from dyda.maintenance.loop import Maintainer

    with OpenProject.open(folder, engine) as opened:
        opened.warehouse.view(name)
        answer = hand_over(opened, "resync", {"name": name, "timeout": timeout}, progress)
        if answer is not None:
            return answer
        with opened.warehouse.lock(role="resync") as writer:
            return execute_resync(Maintainer(opened, writer), name, progress, Patience(progress, timeout))


def execute_resync(
    maintainer: Maintainer, name: str, progress: Progress, patience: Patience | None = None, *, begun: bool = False
) -> dict[str, Any]:
    """`begun`: `begin_resync` has succeeded."""
    with given_up(f"{name} was not rebuilt"):
        target = _target(maintainer, name, progress, patience or Patience(progress))
        bring_about(maintainer, [target], progress, begun=begun)
    after = maintainer.opened.warehouse.view(name)
    if after.stored_state == ViewState.BROKEN:
        raise DydaError(
            f"view {name} stays broken: {after.reason}", "Correct the view's file or its source, then: dyda apply"
        )
    return {"name": name, "rows": after.rows, "state": after.state, **told(after.cause)}


def begin_resync(maintainer: Maintainer, name: str, progress: Progress, patience: Patience) -> bool:
    """Let a lane begin, without waiting for it; whether the view is being built now, or has been."""
    with given_up(f"{name} was not rebuilt"):
        target = _target(maintainer, name, progress, patience)
        maintainer.built.discard(name)
        maintainer.cycle([target], progress)
    return name in maintainer.built or (maintainer.lanes is not None and maintainer.lanes.busy(name))


def _target(maintainer: Maintainer, name: str, progress: Progress, patience: Patience) -> BuildRequest:
    from dyda.maintenance.catalog_state import BuildRequest
    from dyda.model.sql.parse import parse_view

    opened = maintainer.opened
    record = opened.warehouse.view(name)
    sql = record.sql or ""
    # Capture that was lost at the sources is attached again first. If the text is not valid any more, the build says
    # so, or follows a rename.
    with contextlib.suppress(UnknownRelation, UnknownColumn, UnsupportedSql, NotComputable, RelationRefused):
        definition = parse_view(name, sql, opened.describe, plain_numeric=opened.project.settings.spark.numeric)
        attach(maintainer, [scan.relation for scan in scans(definition.tree)], progress, patience)
    return BuildRequest(name, sql, None, ToBeBuilt(BuildReason.REQUESTED))


def verify(
    folder: Path,
    names: Sequence[str] = (),
    progress: Progress = lambda text, done, total: None,
    engine: Engine | None = None,
) -> list[dict[str, Any]]:
    """Recompute views at their committed positions and compare."""
    with OpenProject.open(folder, engine) as opened:
        chosen = list(names) or [record.name for record in opened.warehouse.views()]
        for name in chosen:
            opened.warehouse.view(name)
        answers = []
        for name in chosen:
            progress(f"verifying {name}", 0, 1)
            answers.append(verify_view(opened, name))
        return answers
